"""Leapfrogs at one inverse temperature, with little beside the target's gradients.

What is done between two gradients of some microseconds is soon a fifth of the time. The
density of a trajectory is wanted at its end alone, and the force of a Gaussian reference without
correlations takes no more than one term in the loop that kicks the momentum: neither that law nor
the mixture is written down at every step.
"""

import numpy as np

from stanadapt._jit import inlined
from stanadapt.density import gradient_of_program
from stanadapt.points import copy
from stanadapt.reference_law import DEGREES, is_diagonal
from stanadapt.tempered_path import (
    LAW,
    POSITION,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    log_density_of,
    refer_to,
)


@inlined
def follow(density, places, row, momentum, scale, step_size, steps):
    """Follow Hamilton's equations from a row, `steps` leapfrogs of `step_size`, as `leapfrog` does.

    density is a Tempered. momentum, shape (dim,), is updated in place, the row is not; the end of
    the trajectory is in density.found. scale has shape (1, dim). Returns the log density there and
    the steps made: -inf, at once, where the density fails on the way.
    """
    path, b, found = density.path, density.temperature, density.found
    end, simple = found.vectors[0], _is_simple(path)
    _kick(density, simple, places.vectors[row], momentum, scale[0], 0.5 * step_size)
    copy(places.vectors[row, POSITION], end[POSITION])
    for k in range(steps):
        _drift(end[POSITION], momentum, scale[0], step_size)
        found.logs[0, TARGET] = gradient_of_program(path.target, end[POSITION], end[SLOPE])
        failed = b > 0.0 and not found.logs[0, TARGET] > -np.inf
        if not simple:
            found.logs[0, REFERENCE] = refer_to(path, end[POSITION], end[REFERENCE_SLOPE])
            failed |= b < 1.0 and not found.logs[0, REFERENCE] > -np.inf
        if failed:
            return -np.inf, k + 1
        size = 0.5 * step_size if k == steps - 1 else step_size
        _kick(density, simple, end, momentum, scale[0], size)
    if simple:
        found.logs[0, REFERENCE] = refer_to(path, end[POSITION], end[REFERENCE_SLOPE])
    return log_density_of(found, 0, b), steps


@inlined
def _is_simple(path):
    """Whether the reference is a Gaussian without correlations."""
    return path.kind == LAW and is_diagonal(path.law) and path.law.numbers[DEGREES] == np.inf


@inlined
def _kick(density, simple, vectors, momentum, scale, size):
    """Add the tempered gradient at a place with these vectors, times size and scale.

    Where b = 1 nothing of the reference is read: it would have to come from afar after a gradient.
    """
    b, hot = density.temperature, 1.0 - density.temperature
    # by names of their own: looked up in a loop, they would keep it from being vectorised
    slope, mean, precision = vectors[SLOPE], density.path.law.mean, density.path.law.precision
    if b == 1.0:
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * slope[i]
    elif simple:
        position = vectors[POSITION]
        for i in range(momentum.shape[0]):
            pull = (mean[i] - position[i]) * precision[i]
            momentum[i] += size * scale[i] * (b * slope[i] + hot * pull)
    else:
        reference_slope = vectors[REFERENCE_SLOPE]
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * (b * slope[i] + hot * reference_slope[i])


@inlined
def _drift(position, momentum, scale, step_size):
    for i in range(position.shape[0]):
        position[i] += step_size * scale[i] * momentum[i]
