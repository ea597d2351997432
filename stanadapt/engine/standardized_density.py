"""A density in standardized coordinates z, as C functions in front of those of another.

A position of the other density is x = m + L z, and the gradient in z is L^T g. The factor L is
stored as in `metric_factor`. The log density is that at x, without log det L, which is constant:
`lp` of a draw does not depend on the coordinates of the sampler. The noise of an estimated density,
in the last entries of a position, is passed on unchanged.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import c_function, inline, jit
from stanadapt.engine.density import (
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    call_value,
)
from stanadapt.engine.wrapped_density import (
    Matrix,
    Program,
    Vector,
    parts_at,
    program_of,
    wrapped,
)


class Standardization(NamedTuple):
    """The density behind, and its coordinates x = m + L z."""

    program: Program
    location: Vector  # m, shape (dim,)
    factor: Matrix  # L, stored as in `metric_factor`
    position: Vector  # workspace, shape (size,), like the next
    slope: Vector


def standardized(density: Density, location: np.ndarray, factor: np.ndarray) -> Density:
    """Return a density of z, with new counters, in front of a density of x = m + L z.

    The model behind the density of x must outlive the result.
    """
    work = np.zeros((2, density.size))
    parts = Standardization(program_of(density), location, factor, *work)
    return wrapped(density, parts, value_of_standardized, gradient_of_standardized)


@jit
def original(location, factor, positions, out):
    """Write x = m + L z, for rows of positions, shape (row, size), into rows of out.

    With the same operations as the density, so that the log density at x is that at z to the bit.
    """
    entries = np.ascontiguousarray(factor)
    for i in range(positions.shape[0]):
        _place(location, entries, positions[i], out[i])


@inline
def _place(location, factor, z, x):
    """Write x = m + L z; noise is copied."""
    dim = location.shape[0]
    if factor.shape[0] == 1:
        for i in range(dim):
            x[i] = location[i] + factor[0, i] * z[i]
    else:
        metric_factor.times(factor, z[:dim], x[:dim])
        for i in range(dim):
            x[i] += location[i]
    for i in range(dim, z.shape[0]):
        x[i] = z[i]


@c_function(VALUE_SIGNATURE)
def value_of_standardized(handle, propto, jacobian, position, value, message):
    """`bs_log_density` at m + L position."""
    parts = parts_at(handle, Standardization)
    program, x = parts.program, parts.position
    _place(parts.location, parts.factor, carray(position, x.shape[0]), x)
    code, log_density = call_value(program.value_address, program.handle, np.int64(propto), x)
    carray(value, 1)[0] = log_density
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_standardized(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` at x = m + L position; the gradient is L^T times that at x."""
    parts = parts_at(handle, Standardization)
    program, factor, x, slope = parts.program, parts.factor, parts.position, parts.slope
    dim, size = parts.location.shape[0], x.shape[0]
    _place(parts.location, factor, carray(position, size), x)
    out = carray(gradient, size)
    if factor.shape[0] == 1:
        code, log_density = call_gradient(program.gradient_address, program.handle, x, out)
        for i in range(dim):
            out[i] *= factor[0, i]
    else:
        code, log_density = call_gradient(program.gradient_address, program.handle, x, slope)
        metric_factor.transposed_times(factor, slope[:dim], out[:dim])
        for i in range(dim, size):
            out[i] = slope[i]
    carray(value, 1)[0] = log_density
    return code
