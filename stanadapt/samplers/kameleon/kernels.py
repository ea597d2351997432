"""Kernels of a kernel-adaptive proposal, and the scales of the proposal.

The gradient of a kernel k(x, z) that depends only on r = |x - z| points from x to z:
grad_x k(x, z) = weight(r^2) (z - x). A kernel is therefore a function from r^2 to the weight, and a
`bandwidth` in the units of r. The linear kernel k(x, z) = x^T z has gradient z: weight 1, plus a
term x that is the same for every z and is removed by the centering of the proposal. Scales are
tuned to the acceptance rate.

References
----------
That of `kameleon`, sections 2 and 4. The Matern kernels are those of Rasmussen and Williams (2006),
equation 4.17; the one with nu = 1/2 has no gradient at r = 0 and is omitted. The inverse
multiquadric is their rational quadratic kernel, equation 4.19, with alpha = 1/2.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit

# --- kernels --------------------------------------------------------------------------------------


class Kernel(IntEnum):
    """The available kernels."""

    gaussian = 0
    linear = 1
    matern32 = 2
    matern52 = 3
    inverse_multiquadric = 4


@inline
def weight(kernel, bandwidth, squared):
    """Return the weight at r^2; the kernels are, with s = sqrt(3) r / rho or sqrt(5) r / rho,

    exp(-r^2 / (2 sigma^2)), (1 + s) exp(-s), (1 + s + s^2 / 3) exp(-s), (1 + r^2 / c^2)^(-1/2).
    The last falls as r^-3, not exponentially.
    """
    if kernel == Kernel.gaussian:
        return np.exp(-0.5 * squared / bandwidth**2) / bandwidth**2
    if kernel == Kernel.matern32:
        return 3.0 / bandwidth**2 * np.exp(-np.sqrt(3.0 * squared) / bandwidth)
    if kernel == Kernel.matern52:
        s = np.sqrt(5.0 * squared) / bandwidth
        return 5.0 / (3.0 * bandwidth**2) * (1.0 + s) * np.exp(-s)
    if kernel == Kernel.inverse_multiquadric:
        inverse = 1.0 / (1.0 + squared / bandwidth**2)
        return inverse * np.sqrt(inverse) / bandwidth**2
    return 1.0


@jit
def fill_weights(kernel, bandwidth, squared, count, out):
    """Write the weights at squared[:count] into out[:count]."""
    for a in range(count):
        out[a] = weight(kernel, bandwidth, squared[a])


# --- scales ---------------------------------------------------------------------------------------

# s stays within this factor of its start, so that an uninformative past cannot drive it away
LARGEST_CHANGE = 1e3


class Scale(NamedTuple):
    """The scales of the proposal; gamma is tuned before the first subsample, s after it."""

    # gamma, s: R = gamma^2 F + s^2 S
    gamma: float
    s: float
    updates: int  # number of updates since tuning started or restarted
    # log_mean, averaged: mean of the logarithm of the tuned scale, and the number of updates that
    # it averages
    log_mean: float
    averaged: int


@jit
def fresh_scale(settings, dim):
    """Return the initial scales of proposals in dim dimensions."""
    return Scale(settings.gamma, settings.initial_scale / np.sqrt(dim), 0, 0.0, 0)


@jit
def tuned_scale(settings, scale, tunes_gamma, dim, acceptance_rate, averaging):
    """Move log gamma^2, if `tunes_gamma`, or log s^2, to bring acceptance to its target."""
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
    """Return the final scales, with the tuned one replaced by its mean if there is a mean."""
    if scale.averaged == 0:
        return scale
    tuned = np.exp(scale.log_mean)
    if tunes_gamma:
        return Scale(tuned, scale.s, scale.updates, 0.0, 0)
    return Scale(scale.gamma, tuned, scale.updates, 0.0, 0)
