"""Leapfrogs at one inverse temperature, with little overhead beside the target's gradients.

Work between two gradients of some microseconds soon takes a fifth of the time. The density of a
trajectory is needed only at its end, and the force of a Gaussian reference without correlations is
one more term in the loop that updates the momentum: neither the reference density nor the tempered
density is computed at every step.
"""

import numpy as np

from stanadapt.engine.compiled.jit import inlined
from stanadapt.engine.compiled.vectors import copy
from stanadapt.engine.density import gradient_of_program
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    log_density_of,
    reference_log_density,
)
from stanadapt.samplers.tempering.reference_distribution import DEGREES, is_diagonal


@inlined
def integrate(density, replicas, row, momentum, scale, step_size, steps):
    """Follow Hamilton's equations from a row for `steps` leapfrogs of `step_size`, as `leapfrog`.

    density is a Tempered. momentum, shape (dim,), is updated in place, the row is not; the end of
    the trajectory is written to density.latest. scale has shape (1, dim). Returns the log density
    there and the number of steps. Where the density fails on the way, it stops there with -inf.
    """
    path, b, latest = density.path, density.temperature, density.latest
    end, gaussian = latest.vectors[0], _has_diagonal_gaussian(path)
    _kick(density, gaussian, replicas.vectors[row], momentum, scale[0], 0.5 * step_size)
    copy(replicas.vectors[row, POSITION], end[POSITION])
    for k in range(steps):
        _drift(end[POSITION], momentum, scale[0], step_size)
        latest.logs[0, TARGET] = gradient_of_program(path.target, end[POSITION], end[SLOPE])
        failed = b > 0.0 and not latest.logs[0, TARGET] > -np.inf
        if not gaussian:
            latest.logs[0, REFERENCE] = reference_log_density(
                path, end[POSITION], end[REFERENCE_SLOPE]
            )
            failed |= b < 1.0 and not latest.logs[0, REFERENCE] > -np.inf
        if failed:
            return -np.inf, k + 1
        size = 0.5 * step_size if k == steps - 1 else step_size
        _kick(density, gaussian, end, momentum, scale[0], size)
    if gaussian:
        latest.logs[0, REFERENCE] = reference_log_density(path, end[POSITION], end[REFERENCE_SLOPE])
    return log_density_of(latest, 0, b), steps


@inlined
def _has_diagonal_gaussian(path):
    """Whether the reference is a Gaussian without correlations."""
    return (
        path.kind == DISTRIBUTION
        and is_diagonal(path.reference)
        and path.reference.numbers[DEGREES] == np.inf
    )


@inlined
def _kick(density, gaussian, vectors, momentum, scale, size):
    """Add the tempered gradient, of a row of Replicas with these vectors, times size and scale.

    At b = 1 nothing of the reference is read: after a gradient it is no longer in the cache.
    """
    b, reference_weight = density.temperature, 1.0 - density.temperature
    # local names: attribute lookups inside the loop would keep it from being vectorised
    slope, mean, precision = (
        vectors[SLOPE],
        density.path.reference.mean,
        density.path.reference.precision,
    )
    if b == 1.0:
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * slope[i]
    elif gaussian:
        position = vectors[POSITION]
        for i in range(momentum.shape[0]):
            pull = (mean[i] - position[i]) * precision[i]
            momentum[i] += size * scale[i] * (b * slope[i] + reference_weight * pull)
    else:
        reference_slope = vectors[REFERENCE_SLOPE]
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * (b * slope[i] + reference_weight * reference_slope[i])


@inlined
def _drift(position, momentum, scale, step_size):
    for i in range(position.shape[0]):
        position[i] += step_size * scale[i] * momentum[i]
