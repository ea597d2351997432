"""A density in standardized coordinates z, as C functions in front of those of another.

A position of the other density is x = m + L z, and the gradient in z is L^T g. The factor L is
stored as in `metric_factor`. The log density is that at x, without log det L, which is constant:
`lp` of a draw does not depend on the coordinates of the sampler. The noise of an estimated density,
in the last entries of a position, is passed on unchanged.

The handle is the address of one block of memory, which follows the counters of the Density. The
Density's `calls` is a view of the same memory, which therefore lives as long as the Density. The
caller must keep the other density, and the model behind it, alive.
"""

import numpy as np
from numba import carray

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.jit import c_function, inline, jit
from stanadapt.engine.density import (
    COUNTERS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    call_value,
)

# layout of the block, in numbers of eight bytes, after the counters: integers, then location (dim),
# factor (rows, columns), and workspace for a position and a gradient (size each)
VALUE_ADDRESS, GRADIENT_ADDRESS, HANDLE, DIM, SIZE, ROWS, COLUMNS = 0, 1, 2, 3, 4, 5, 6
INTEGERS = 8


def standardized(density: Density, location: np.ndarray, factor: np.ndarray) -> Density:
    """Return a density of z, with new counters, in front of a density of x = m + L z.

    Parameters
    ----------
    density
        Density of x. Its counters are not used; the model behind it must outlive the result.
    location
        m, shape (dim,).
    factor
        L, stored as in `metric_factor`.

    """
    rows, columns = factor.shape
    size = INTEGERS + density.dim + factor.size + 2 * density.size
    block = np.zeros(COUNTERS + size, np.int64)
    block[COUNTERS : COUNTERS + 7] = (
        density.value_address, density.gradient_address, density.handle, density.dim, density.size,
        rows, columns,
    )  # fmt: skip
    numbers = block[COUNTERS + INTEGERS :].view(np.float64)
    numbers[: density.dim] = location
    numbers[density.dim : density.dim + factor.size] = factor.ravel()
    return density._replace(
        value_address=value_of_standardized.address,
        gradient_address=gradient_of_standardized.address,
        handle=block[COUNTERS:].ctypes.data,
        calls=block[:COUNTERS],
        failed_position=np.full(density.size, np.nan),
    )


@jit
def original(location, factor, positions, out):
    """Write x = m + L z, for rows of positions, shape (row, size), into rows of out.

    With the same operations as the density, so that the log density at x is that at z to the bit.
    """
    for i in range(positions.shape[0]):
        _place(location, factor.ravel(), factor.shape, positions[i], out[i])


@inline
def _place(location, entries, shape, z, x):
    """Write x = m + L z, with L given by its entries and shape; noise is copied."""
    dim = location.shape[0]
    if shape[0] == 1:
        for i in range(dim):
            x[i] = location[i] + entries[i] * z[i]
    else:
        metric_factor.times(entries.reshape(shape), z[:dim], x[:dim])
        for i in range(dim):
            x[i] += location[i]
    for i in range(dim, z.shape[0]):
        x[i] = z[i]


@inline
def _parts(handle):
    """Return the integers, m, L as entries and shape, and the workspace of the block there."""
    integers = carray(handle, INTEGERS, np.int64)
    dim, size, rows, columns = integers[DIM], integers[SIZE], integers[ROWS], integers[COLUMNS]
    start = INTEGERS + dim
    end = start + rows * columns
    numbers = carray(handle, end + 2 * size, np.float64)
    return (
        integers, numbers[INTEGERS:start], numbers[start:end], (rows, columns),
        numbers[end : end + size], numbers[end + size :],
    )  # fmt: skip


@c_function(VALUE_SIGNATURE)
def value_of_standardized(handle, propto, jacobian, position, value, message):
    """`bs_log_density` at m + L position."""
    integers, location, entries, shape, x, _ = _parts(handle)
    _place(location, entries, shape, carray(position, x.shape[0]), x)
    code, log_density = call_value(integers[VALUE_ADDRESS], integers[HANDLE], np.int64(propto), x)
    carray(value, 1)[0] = log_density
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_standardized(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` at x = m + L position; the gradient is L^T times that at x."""
    integers, location, entries, shape, x, slope = _parts(handle)
    dim, size = location.shape[0], x.shape[0]
    _place(location, entries, shape, carray(position, size), x)
    out = carray(gradient, size)
    if shape[0] == 1:
        code, log_density = call_gradient(integers[GRADIENT_ADDRESS], integers[HANDLE], x, out)
        for i in range(dim):
            out[i] *= entries[i]
    else:
        code, log_density = call_gradient(integers[GRADIENT_ADDRESS], integers[HANDLE], x, slope)
        metric_factor.transposed_times(entries.reshape(shape), slope[:dim], out[:dim])
        for i in range(dim, size):
            out[i] = slope[i]
    carray(value, 1)[0] = log_density
    return code
