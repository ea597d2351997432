"""The scales of Kameleon's proposals, and how they are tuned to the acceptance rate."""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit

# s stays within this factor of its start, so that an uninformative past cannot drive it away
LARGEST_CHANGE = 1e3


class Scale(NamedTuple):
    """The scales of the proposal; gamma is tuned until there is a subsample, then s.

    gamma, s
        R = gamma^2 F + s^2 S.
    updates
        Number of updates since tuning started or restarted.
    log_mean, averaged
        Mean of the logarithm of the tuned scale, and the number of updates it is over.

    """

    gamma: float
    s: float
    updates: int
    log_mean: float
    averaged: int


@jit
def fresh_scale(settings, dim):
    """Return the initial scales of proposals in dim dimensions."""
    return Scale(settings.gamma, settings.initial_scale / np.sqrt(dim), 0, 0.0, 0)


@jit
def tuned_scale(settings, scale, tunes_gamma, dim, acceptance_rate, averaging):
    """Move log gamma^2 or log s^2, whichever is being tuned, to bring acceptance to its target."""
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
    """Return the final scales: the tuned one replaced by its mean, if there is one."""
    if scale.averaged == 0:
        return scale
    tuned = np.exp(scale.log_mean)
    if tunes_gamma:
        return Scale(tuned, scale.s, scale.updates, 0.0, 0)
    return Scale(scale.gamma, tuned, scale.updates, 0.0, 0)
