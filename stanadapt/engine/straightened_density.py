"""A density in the coordinates y of a triangular map, as C functions in front of those of another.

A position of the other density is x, the place of y, and the log density of y is that of x plus the
log of the Jacobian; see `triangular_map`. Samplers that are compiled for a `Density` thus run in
the coordinates of a map too; `MappedDensity` spares the default sampler two calls per gradient.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import (
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    call_value,
)
from stanadapt.engine.triangular_map import (
    TriangularMap,
    place,
    pull_back,
    residual,
    with_memory,
)
from stanadapt.engine.wrapped_density import Program, Vector, parts_at, program_of, wrapped


class Straightening(NamedTuple):
    """The density behind, and its coordinates x of y."""

    program: Program
    map: TriangularMap
    position: Vector  # workspace, shape (size,)


def straightened(density: Density, straightening: TriangularMap) -> Density:
    """Return a density of y, with new counters and a copy of the map, in front of one of x.

    The model behind the density of x must outlive the result.
    """
    own = with_memory(straightening, density.size)
    parts = Straightening(program_of(density), own, np.zeros(density.size))
    return wrapped(density, parts, value_of_straightened, gradient_of_straightened)


@jit
def places(straightening, positions, out, log_jacobians):
    """Write x of y for rows of positions, and the log of the Jacobian |dx/dy| of each."""
    for i in range(positions.shape[0]):
        log_jacobians[i] = place(straightening, positions[i], out[i])


@jit
def residuals(straightening, positions, out):
    """Write y of x for rows of positions."""
    for i in range(positions.shape[0]):
        residual(straightening, positions[i], out[i])


@jit
def slope_at(straightening, y, gradient):
    """Replace the gradient at the place of y by that of the log density of y."""
    x = np.empty(y.shape[0])
    place(straightening, y, x)
    pull_back(straightening, y, x, gradient)


@c_function(VALUE_SIGNATURE)
def value_of_straightened(handle, propto, jacobian, position, value, message):
    """`bs_log_density` of y."""
    parts = parts_at(handle, Straightening)
    program, x = parts.program, parts.position
    log_jacobian = place(parts.map, carray(position, x.shape[0]), x)
    code, log_density = call_value(program.value_address, program.handle, np.int64(propto), x)
    carray(value, 1)[0] = log_density + log_jacobian
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_straightened(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` of y."""
    parts = parts_at(handle, Straightening)
    program, x = parts.program, parts.position
    y, out = carray(position, x.shape[0]), carray(gradient, x.shape[0])
    log_jacobian = place(parts.map, y, x)
    code, log_density = call_gradient(program.gradient_address, program.handle, x, out)
    pull_back(parts.map, y, x, out)
    carray(value, 1)[0] = log_density + log_jacobian
    return code
