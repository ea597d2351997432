"""A density in the coordinates y of a triangular map, as C functions in front of those of another.

A position of the other density is x, the place of y, and the log density of y is that of x plus the
log of the Jacobian; see `triangular_map`. Samplers that are compiled for a `Density` thus run in
the coordinates of a map too; `MappedDensity` spares the default sampler two calls per gradient.

The handle is the address of one block of memory, as in `standardized_density`, which lives as long
as the Density. The caller must keep the other density, and the model behind it, alive.
"""

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, inline, jit
from stanadapt.engine.density import (
    COUNTERS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    call_value,
)
from stanadapt.engine.triangular_map import (
    COLUMNS,
    WORK,
    TriangularMap,
    place,
    pull_back,
    residual,
)

# layout of the block, in numbers of eight bytes, after the counters: integers, then the rows of the
# map, its workspace, and a position of the other density
VALUE_ADDRESS, GRADIENT_ADDRESS, HANDLE, SIZE, ROWS = 0, 1, 2, 3, 4
INTEGERS = 8


def straightened(density: Density, rows: np.ndarray) -> Density:
    """Return a density of y, with new counters, in front of a density of x.

    Parameters
    ----------
    density
        Density of x. Its counters are not used; the model behind it must outlive the result.
    rows
        Rows of a `TriangularMap`, shape (mapped, COLUMNS).

    """
    size = INTEGERS + rows.size + (WORK + 1) * density.size
    block = np.zeros(COUNTERS + size, np.int64)
    block[COUNTERS : COUNTERS + 5] = (
        density.value_address, density.gradient_address, density.handle, density.size, len(rows),
    )  # fmt: skip
    numbers = block[COUNTERS + INTEGERS :].view(np.float64)
    numbers[: rows.size] = rows.ravel()
    return density._replace(
        value_address=value_of_straightened.address,
        gradient_address=gradient_of_straightened.address,
        handle=block[COUNTERS:].ctypes.data,
        calls=block[:COUNTERS],
        failed_position=np.full(density.size, np.nan),
    )


@jit
def places(rows, positions, out, log_jacobians):
    """Write x of y for rows of positions, and the log of the Jacobian |dx/dy| of each."""
    straightening = TriangularMap(rows, np.empty((WORK, positions.shape[1])))
    for i in range(positions.shape[0]):
        log_jacobians[i] = place(straightening, positions[i], out[i])


@jit
def residuals(rows, positions, out):
    """Write y of x for rows of positions."""
    straightening = TriangularMap(rows, np.empty((WORK, positions.shape[1])))
    for i in range(positions.shape[0]):
        residual(straightening, positions[i], out[i])


@jit
def slope_at(rows, y, gradient):
    """Replace the gradient at the place of y by that of the log density of y."""
    straightening, x = TriangularMap(rows, np.empty((WORK, y.shape[0]))), np.empty(y.shape[0])
    place(straightening, y, x)
    pull_back(straightening, y, x, gradient)


@inline
def _parts(handle):
    """Return the integers, the map, and the position of the block there."""
    integers = carray(handle, INTEGERS, np.int64)
    size, mapped = integers[SIZE], integers[ROWS]
    start = INTEGERS + mapped * COLUMNS
    end = start + WORK * size
    numbers = carray(handle, end + size, np.float64)
    rows = numbers[INTEGERS:start].reshape((mapped, COLUMNS))
    return integers, TriangularMap(rows, numbers[start:end].reshape((WORK, size))), numbers[end:]


@c_function(VALUE_SIGNATURE)
def value_of_straightened(handle, propto, jacobian, position, value, message):
    """`bs_log_density` of y."""
    integers, straightening, x = _parts(handle)
    log_jacobian = place(straightening, carray(position, x.shape[0]), x)
    code, log_density = call_value(integers[VALUE_ADDRESS], integers[HANDLE], np.int64(propto), x)
    carray(value, 1)[0] = log_density + log_jacobian
    return code


@c_function(GRADIENT_SIGNATURE)
def gradient_of_straightened(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` of y."""
    integers, straightening, x = _parts(handle)
    y, out = carray(position, x.shape[0]), carray(gradient, x.shape[0])
    log_jacobian = place(straightening, y, x)
    code, log_density = call_gradient(integers[GRADIENT_ADDRESS], integers[HANDLE], x, out)
    pull_back(straightening, y, x, out)
    carray(value, 1)[0] = log_density + log_jacobian
    return code
