"""The path from a reference law p0 to the target, and the densities on it.

At inverse temperature b in [0, 1] the log density is b l(x) + (1 - b) psi(x), with l that of the
target and psi that of the reference: a Gaussian or Student t law; the same program with other,
prior-only data; or nothing (psi = 0), the pure power of the pseudo-extended paper, which is proper
for few targets only.

What is known at a position is kept as l and psi with their gradients, so that it costs nothing to
look at it from another temperature.
"""

from typing import NamedTuple

import numpy as np

from stanadapt import reference_law
from stanadapt._jit import inlined, jit
from stanadapt.density import (
    GRADIENTS,
    VALUES,
    Density,
    gradient_of_program,
    value_of_program,
)
from stanadapt.points import copy
from stanadapt.reference_law import Law

POWER, LAW, PRIOR = 0, 1, 2  # Path.kind
LARGEST_GAIN = 1e300
PRIOR_COUNTERS = 8  # where in the target's counters those of the prior-only data begin


class Path(NamedTuple):
    """From the reference to the target.

    target
        Density of the program with the data.
    law
        The reference law; psi is its density where kind is LAW.
    kind
        Where psi comes from: POWER (zero), LAW or PRIOR.
    prior_handle
        Of the program's model with prior-only data, where kind is PRIOR.

    """

    target: Density
    law: Law
    kind: int
    prior_handle: int


@jit
def path_of_helper(density, path):
    """Return the same path with a helper's own density of the target, and its own work."""
    return Path(density, reference_law.law_of_helper(path.law), path.kind, path.prior_handle)


class Places(NamedTuple):
    """Positions and what is known there: a row a pseudo-sample or a chain of the path.

    vectors
        POSITION, and the gradients of l (SLOPE) and psi (REFERENCE_SLOPE), shape (row, 3, dim).
    logs
        l (TARGET) and psi (REFERENCE), shape (row, 2).

    """

    vectors: np.ndarray
    logs: np.ndarray


POSITION, SLOPE, REFERENCE_SLOPE = 0, 1, 2
TARGET, REFERENCE = 0, 1


class Tempered(NamedTuple):
    """The density at one inverse temperature, for whatever moves on a `Density`.

    found
        Places of one row: what the last evaluation found. Its position stands there only where a
        trajectory of `tempered_trajectory` ended.

    """

    path: Path
    temperature: float
    dim: int
    found: Places


@jit
def no_places(rows, dim):
    """Return Places to be filled."""
    return Places(np.zeros((rows, 3, dim)), np.full((rows, 2), -np.inf))


@inlined
def mixed(temperature, log_target, log_reference):
    """Log density b l + (1 - b) psi: -inf where either is, unless it has no weight."""
    if temperature == 0.0:
        return log_reference
    if temperature == 1.0 or log_target == -np.inf:
        return log_target
    return temperature * log_target + (1.0 - temperature) * log_reference


@inlined
def log_density_of(places, row, temperature):
    """Tempered log density at a row."""
    return mixed(temperature, places.logs[row, TARGET], places.logs[row, REFERENCE])


@inlined
def _prior(path):
    """Density of the prior-only data, with counters of its own."""
    d = path.target
    return Density(
        d.value_address, d.gradient_address, path.prior_handle, d.dim, d.size, d.correlation,
        d.value_propto, d.calls[PRIOR_COUNTERS:], d.failed_position,
    )  # fmt: skip


@inlined
def refer_to(path, position, gradient):
    """Log density psi, its gradient written into `gradient`."""
    if path.kind == LAW:
        return reference_law.log_density_and_gradient(path.law, position, gradient)
    if path.kind == PRIOR:
        return gradient_of_program(_prior(path), position, gradient)
    gradient[:] = 0.0
    return 0.0


@jit
def _reference_value(path, position):
    if path.kind == LAW:
        return reference_law.log_density(path.law, position)
    return value_of_program(_prior(path), position) if path.kind == PRIOR else 0.0


@jit
def _value(density, position):
    logs = density.found.logs
    logs[0, TARGET] = value_of_program(density.path.target, position)
    logs[0, REFERENCE] = _reference_value(density.path, position)
    return log_density_of(density.found, 0, density.temperature)


@inlined
def _gradient(density, position, gradient):
    path, b, found = density.path, density.temperature, density.found
    slope, reference_slope = found.vectors[0, SLOPE], found.vectors[0, REFERENCE_SLOPE]
    found.logs[0, TARGET] = gradient_of_program(path.target, position, slope)
    found.logs[0, REFERENCE] = refer_to(path, position, reference_slope)
    fill_slope(found, 0, b, gradient)
    return log_density_of(found, 0, b)


VALUES[Tempered], GRADIENTS[Tempered] = _value, _gradient


@jit
def divide(density, position, log_density, gradient):
    """Find l and psi at a position whose tempered log density and gradient are known, b > 0.

    Costs no evaluation of the target. What an evaluation would have found is written down.
    """
    b, found = density.temperature, density.found
    slope, reference_slope = found.vectors[0, SLOPE], found.vectors[0, REFERENCE_SLOPE]
    found.logs[0, REFERENCE] = refer_to(density.path, position, reference_slope)
    found.logs[0, TARGET] = (log_density - (1.0 - b) * found.logs[0, REFERENCE]) / b
    for i in range(density.dim):
        slope[i] = (gradient[i] - (1.0 - b) * reference_slope[i]) / b


@inlined
def settle(density, position, places, row):
    """Write into a row what the last evaluation of a Tempered density, at position, found."""
    found = density.found
    copy(position, places.vectors[row, POSITION])
    copy(found.vectors[0, SLOPE], places.vectors[row, SLOPE])
    copy(found.vectors[0, REFERENCE_SLOPE], places.vectors[row, REFERENCE_SLOPE])
    places.logs[row, TARGET] = found.logs[0, TARGET]
    places.logs[row, REFERENCE] = found.logs[0, REFERENCE]


@jit
def evaluate(path, places, row, with_gradient):
    """Fill in what is known at the position of a row: by one evaluation of the target."""
    position, slope = places.vectors[row, POSITION], places.vectors[row, SLOPE]
    if with_gradient:
        places.logs[row, TARGET] = gradient_of_program(path.target, position, slope)
    else:
        places.logs[row, TARGET] = value_of_program(path.target, position)
    refer(path, places, row, with_gradient)


@jit
def refer(path, places, row, with_gradient):
    """Fill in psi and its gradient at the position of a row, after a change of the reference."""
    position, slope = places.vectors[row, POSITION], places.vectors[row, REFERENCE_SLOPE]
    if with_gradient:
        places.logs[row, REFERENCE] = refer_to(path, position, slope)
    else:
        places.logs[row, REFERENCE] = _reference_value(path, position)


@inlined
def copy_place(source, row, target, into):
    """Copy one row of Places into a row of others."""
    for part in range(3):
        copy(source.vectors[row, part], target.vectors[into, part])
    target.logs[into, TARGET] = source.logs[row, TARGET]
    target.logs[into, REFERENCE] = source.logs[row, REFERENCE]


@inlined
def gain(places, row):
    """Delta = l - psi, by which the log density grows along the path; -inf where l is."""
    # prior-only data may refuse a place that the target takes: finite, so that no NaN comes of it
    return min(places.logs[row, TARGET] - places.logs[row, REFERENCE], LARGEST_GAIN)


@inlined
def fill_slope(places, row, temperature, out):
    """Write the gradient of the tempered log density at a row into out, shape (dim,)."""
    slope, reference_slope = places.vectors[row, SLOPE], places.vectors[row, REFERENCE_SLOPE]
    for i in range(out.shape[0]):
        out[i] = temperature * slope[i] + (1.0 - temperature) * reference_slope[i]
