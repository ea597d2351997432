"""The path from a reference to the target, and the densities on it.

At inverse temperature b in [0, 1] the log density is b l(x) + (1 - b) psi(x), with the log density
l of the target and psi of the reference. The reference is a Gaussian or Student t distribution; the
same program with prior-only data; or nothing (psi = 0), the pure power of the pseudo-extended
paper, which is proper for few targets only.

Every position is kept with l, psi and their gradients, so that the density at another temperature
costs no evaluation.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.by_reference import by_reference
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import (
    GRADIENTS,
    VALUES,
    Density,
    gradient_of_program,
    value_of_program,
)
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import ValuePoint
from stanadapt.samplers.tempering import reference_distribution
from stanadapt.samplers.tempering.reference_distribution import CompiledReference

POWER, DISTRIBUTION, PRIOR = 0, 1, 2  # TemperingPath.kind
LARGEST_LOG_RATIO = 1e300
# replaces a log ratio of -inf, which gives NaN when multiplied by the inverse temperature 0
IMPOSSIBLE = -1e300
PRIOR_COUNTERS = 8  # first index, in the target's counters, of those for the prior-only data


class TemperingPath(NamedTuple):
    """The two ends of a path."""

    target: Density  # density of the program with the data
    # the reference distribution; psi is its log density if kind is DISTRIBUTION
    reference: CompiledReference
    kind: int  # Source of psi: POWER (zero), DISTRIBUTION or PRIOR.
    prior_handle: int  # handle of the program's model with prior-only data, if kind is PRIOR


@inline
def is_redrawn(path, temperature):
    """Whether a row is redrawn from the reference: at b = 0, if that is a distribution."""
    return temperature == 0.0 and path.kind == DISTRIBUTION


@jit
def path_of_worker(density, path):
    """Return the same path with a worker's own density of the target and workspace."""
    reference = reference_distribution.reference_of_worker(path.reference)
    return replace(path, target=density, reference=reference)


class Replicas(NamedTuple):
    """Positions with l, psi and their gradients, one row per chain of the path or pseudo-sample."""

    # POSITION, and the gradients of l (SLOPE) and psi (REFERENCE_SLOPE), shape (row, 3, dim)
    vectors: np.ndarray
    logs: np.ndarray  # l (TARGET) and psi (REFERENCE), shape (row, 2)


POSITION, SLOPE, REFERENCE_SLOPE = 0, 1, 2
TARGET, REFERENCE = 0, 1


class Tempered(NamedTuple):
    """The density at one inverse temperature, for moves that take a `Density`."""

    path: TemperingPath
    temperature: float
    dim: int
    # One row with the latest evaluation. Its position is filled in only by `moves.integrate`.
    latest: Replicas


def no_replicas(rows: int, dim: int) -> Replicas:
    return Replicas(np.zeros((rows, 3, dim)), np.full((rows, 2), -np.inf))


@inline
def mix(temperature, log_target, log_reference):
    """Log density b l + (1 - b) psi: -inf if a part with positive weight is."""
    if temperature == 0.0:
        return log_reference
    if temperature == 1.0 or log_target == -np.inf:
        return log_target
    return temperature * log_target + (1.0 - temperature) * log_reference


@inline
def log_density_of(replicas, row, temperature):
    return mix(temperature, replicas.logs[row, TARGET], replicas.logs[row, REFERENCE])


class _Held(NamedTuple):
    prior: Density


@inline
def _prior(path):
    """Density with the prior-only data, and with separate counters."""
    d = path.target
    return Density(
        d.value_address, d.gradient_address, path.prior_handle, d.dim, d.size, d.correlation,
        d.value_propto, d.calls[PRIOR_COUNTERS:], d.failed_position,
    )  # fmt: skip


@inline
def reference_log_density(path, position, gradient):
    """Log density psi; its gradient is written into `gradient`."""
    if path.kind == DISTRIBUTION:
        return reference_distribution.log_density_and_gradient(path.reference, position, gradient)
    if path.kind == PRIOR:
        held = by_reference(_Held(_prior(path)))  # as the target, so that the call is compiled once
        return gradient_of_program(held.prior, position, gradient)
    gradient[:] = 0.0
    return 0.0


@jit
def _reference_value(path, position):
    if path.kind == DISTRIBUTION:
        return reference_distribution.log_density(path.reference, position)
    if path.kind == PRIOR:
        return value_of_program(by_reference(_Held(_prior(path))).prior, position)
    return 0.0


@jit
def _value(density, position):
    logs = density.latest.logs
    logs[0, TARGET] = value_of_program(density.path.target, position)
    logs[0, REFERENCE] = _reference_value(density.path, position)
    return log_density_of(density.latest, 0, density.temperature)


@inline
def _gradient(density, position, gradient):
    path, b, latest = density.path, density.temperature, density.latest
    slope, reference_slope = latest.vectors[0, SLOPE], latest.vectors[0, REFERENCE_SLOPE]
    latest.logs[0, TARGET] = gradient_of_program(path.target, position, slope)
    latest.logs[0, REFERENCE] = reference_log_density(path, position, reference_slope)
    fill_slope(latest, 0, b, gradient)
    return log_density_of(latest, 0, b)


VALUES[Tempered], GRADIENTS[Tempered] = _value, _gradient


@jit
def recover_target(density, position, log_density, gradient):
    """Recover l and psi from the tempered log density and its gradient at a position, b > 0.

    Fills `latest` as an evaluation would, but without evaluating the target.
    """
    b, latest = density.temperature, density.latest
    slope, reference_slope = latest.vectors[0, SLOPE], latest.vectors[0, REFERENCE_SLOPE]
    latest.logs[0, REFERENCE] = reference_log_density(density.path, position, reference_slope)
    latest.logs[0, TARGET] = (log_density - (1.0 - b) * latest.logs[0, REFERENCE]) / b
    for i in range(density.dim):
        slope[i] = (gradient[i] - (1.0 - b) * reference_slope[i]) / b


@inline
def store(density, position, replicas, row):
    """Write a position and the latest evaluation of a Tempered density there into a row."""
    latest = density.latest
    copy(position, replicas.vectors[row, POSITION])
    copy(latest.vectors[0, SLOPE], replicas.vectors[row, SLOPE])
    copy(latest.vectors[0, REFERENCE_SLOPE], replicas.vectors[row, REFERENCE_SLOPE])
    replicas.logs[row, TARGET] = latest.logs[0, TARGET]
    replicas.logs[row, REFERENCE] = latest.logs[0, REFERENCE]


@jit
def evaluate(path, replicas, row, with_gradient):
    """Fill in l, psi and, if asked, their gradients at the position of a row."""
    position, slope = replicas.vectors[row, POSITION], replicas.vectors[row, SLOPE]
    if with_gradient:
        replicas.logs[row, TARGET] = gradient_of_program(path.target, position, slope)
    else:
        replicas.logs[row, TARGET] = value_of_program(path.target, position)
    evaluate_reference(path, replicas, row, with_gradient)


@jit
def evaluate_reference(path, replicas, row, with_gradient):
    """Fill in psi and, if asked, its gradient at the position of a row."""
    position, slope = replicas.vectors[row, POSITION], replicas.vectors[row, REFERENCE_SLOPE]
    if with_gradient:
        replicas.logs[row, REFERENCE] = reference_log_density(path, position, slope)
    else:
        replicas.logs[row, REFERENCE] = _reference_value(path, position)


@inline
def copy_replica(source, row, target, into):
    for part in range(3):
        copy(source.vectors[row, part], target.vectors[into, part])
    target.logs[into, TARGET] = source.logs[row, TARGET]
    target.logs[into, REFERENCE] = source.logs[row, REFERENCE]


@jit
def point_of(replicas, row, position):
    """Return the point of a row on the target; its position is copied into `position`."""
    copy(replicas.vectors[row, POSITION], position)
    return ValuePoint(position, replicas.logs[row, TARGET])


@inline
def log_ratio(replicas, row):
    """Delta = l - psi, the derivative of the log density along the path; -inf if l is."""
    # the prior-only data may fail at positions valid for the target: a finite bound prevents NaN
    return min(replicas.logs[row, TARGET] - replicas.logs[row, REFERENCE], LARGEST_LOG_RATIO)


@inline
def fill_slope(replicas, row, temperature, out):
    """Write the gradient of the tempered log density of a row into out, shape (dim,)."""
    slope, reference_slope = replicas.vectors[row, SLOPE], replicas.vectors[row, REFERENCE_SLOPE]
    for i in range(out.shape[0]):
        out[i] = temperature * slope[i] + (1.0 - temperature) * reference_slope[i]
