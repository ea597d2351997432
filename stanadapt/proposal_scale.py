"""How large the proposals of Kameleon are, and how that is learned from the acceptance rate."""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import jit

# s stays within this factor of its start: a past that says nothing cannot drive it away
LARGEST_CHANGE = 1e3


class Scale(NamedTuple):
    """The scales of the proposal, one of which is being learned: gamma until there are points.

    gamma, s
        R = gamma^2 I + s^2 S.
    updates
        Number of updates since learning began or began anew.
    log_mean, averaged
        Mean of the logarithm of the learned one, and over how many updates.

    """

    gamma: float
    s: float
    updates: int
    log_mean: float
    averaged: int


@jit
def fresh_scale(settings, dim):
    """Return the scales that proposals in dim dimensions begin with."""
    return Scale(settings.gamma, settings.initial_scale / np.sqrt(dim), 0, 0.0, 0)


@jit
def tuned_scale(settings, scale, tunes_gamma, dim, acceptance_rate, averaging):
    """Move log gamma^2 or log s^2, whichever is being learned, towards the acceptance rate."""
    updates = scale.updates + 1
    gain = 0.5 / updates**settings.learning_power
    change = np.exp(gain * (acceptance_rate - settings.target_accept))
    start = settings.initial_scale / np.sqrt(dim)
    gamma, s = scale.gamma, scale.s
    if tunes_gamma:
        gamma *= change
    else:
        s = min(max(s * change, start / LARGEST_CHANGE), start * LARGEST_CHANGE)
    averaged = scale.averaged + 1 if averaging else 0
    log_mean = 0.0
    if averaging:
        log_mean = scale.log_mean
        log_mean += (np.log(gamma if tunes_gamma else s) - log_mean) / averaged
    return Scale(gamma, s, updates, log_mean, averaged)


@jit
def averaged_scale(scale, tunes_gamma):
    """Return the scales with the mean of what was learned, if there is one, for good."""
    if scale.averaged == 0:
        return scale
    learned = np.exp(scale.log_mean)
    if tunes_gamma:
        return Scale(learned, scale.s, scale.updates, 0.0, 0)
    return Scale(scale.gamma, learned, scale.updates, 0.0, 0)
