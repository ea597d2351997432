"""A triangular map that makes conditional distributions standard normal, and the density behind it.

Some coordinates x_j are, given others, close to normal with a scale or a location that depends on
those others: the members of a hierarchy given its location and scale, the small dimensions of a
funnel given its neck. The map replaces each of them by its standardized residual y_j:

    P0, P1 = own precision, exp(a + b (x_k - c) + s (x_h - t))        precision P = P0 + P1
    loc    = e + w (x_l - f) + q (x_l - f)^2
    x_j    = m + y_j / sqrt(P),   m = (P0 d + P1 loc) / P

k and h are the scale drivers of j, and l its location driver; each may be absent. Every other
coordinate stays as it is: x_i = y_i. A normal prior with scale exp(x_k), or exp(x_k) exp(x_h) as in
a horseshoe, and mean x_l, times a normal likelihood, is of exactly this form: P1 is the prior's
precision, and P0 and d are the likelihood's precision and mean. Without P0 it is a noncentered
parameterization, with P0 far above P1 nearly a centered one. With constant P1 and q it straightens
a curved ridge.

Drivers come before the coordinates that depend on them, so that the Jacobian is triangular: the
density of y is that of x times the product of P^(-1/2). For any numbers this is a change of
variables, so draws are exact even if the numbers fit badly.

If the posterior has an exact Gaussian block (`block_map`), the map of that block stands between
this one and the program: x is then, above, a point in the coordinates of that map.

References
----------
Conditional scales that are learned from scores: Kailas, Vihola and Wallin (2026), arXiv 2604.09832.
Partial noncentering: Papaspiliopoulos, Roberts and Skold (2007), Statistical Science 22. The form
with two precisions and a location is ours.
"""

from typing import NamedTuple

import numpy as np
from numba import carray, types

from stanadapt.engine import block_map
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.compiled.on_demand import ADDRESS, on_demand
from stanadapt.engine.density import (
    GRADIENTS,
    VALUES,
    Density,
    gradient_of_program,
    value_of_program,
)
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import GradientPoint
from stanadapt.engine.wrapped_density import Matrix, Vector

# columns of TriangularMap.rows: a, b, c, P0, d, e, w, q, f, s and t of the formulas above,
A, B, C, P0, D, E, W, Q, F, S, T = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
NUMBERS = 11
# and the numbers of j, k, l and h
COORDINATE, SCALE_DRIVER, LOCATION_DRIVER, SECOND_DRIVER = 11, 12, 13, 14
COLUMNS = 15
# rows of TriangularMap.work: x of the last evaluation; the current point in y, and its gradient;
# and, in the order of the mapped coordinates, what the gradient needs of the last evaluation:
# m, P^(-1/2), P1 / P, and whether the exponent was clipped; and its point between both maps
X, Y, GRADIENT_IN_Y, MEAN, SCALE, SHARE, CLIPPED, BETWEEN = 0, 1, 2, 3, 4, 5, 6, 7
WORK = 8
# an exponent beyond this is cut off: the map stays invertible in floating point
LARGEST_EXPONENT = 60.0
# bounds beyond which the logarithm of a product of scales is taken
SMALLEST_PRODUCT, LARGEST_PRODUCT = 1e-100, 1e100
NONE = -1


NO_BLOCK = np.empty(0)


class TriangularMap(NamedTuple):
    """The mapped coordinates, in an order in which each one follows its drivers."""

    rows: Matrix  # one per mapped coordinate, with the columns above
    work: Matrix  # workspace of a chain, shape (WORK, dim), with the rows above
    block: Vector = NO_BLOCK  # of `block_map.pack`, with workspace of its own; empty without one

    @property
    def is_of_other_layout(self) -> bool:
        """Whether another version of the package has packed the block."""
        return not block_map.is_readable(self.block)

    @property
    def coordinate(self) -> np.ndarray:
        """Numbers of the mapped coordinates."""
        return self.rows[:, COORDINATE].astype(np.int64)

    @property
    def scale_driver(self) -> np.ndarray:
        """Number of the coordinate on which the scale of each depends, or NONE."""
        return self.rows[:, SCALE_DRIVER].astype(np.int64)

    @property
    def second_driver(self) -> np.ndarray:
        """Number of another coordinate on which the scale of each depends, or NONE."""
        return self.rows[:, SECOND_DRIVER].astype(np.int64)

    @property
    def location_driver(self) -> np.ndarray:
        """Number of the coordinate on which the location of each depends, or NONE."""
        return self.rows[:, LOCATION_DRIVER].astype(np.int64)

    @property
    def numbers(self) -> np.ndarray:
        """The constants of the formulas, shape (mapped, NUMBERS)."""
        return self.rows[:, :NUMBERS]


def make_map(
    coordinate: np.ndarray,
    scale: np.ndarray,
    second: np.ndarray,
    location: np.ndarray,
    numbers: np.ndarray,
) -> TriangularMap:
    """Return a map without workspace, which `with_memory` adds.

    Mapped coordinates have two drivers of the scale and one of the location, each NONE if absent;
    `numbers` are the constants of the formulas, shape (mapped, NUMBERS).
    """
    rows = np.zeros((len(coordinate), COLUMNS))
    rows[:, :NUMBERS] = numbers
    rows[:, COORDINATE], rows[:, SCALE_DRIVER] = coordinate, scale
    rows[:, LOCATION_DRIVER], rows[:, SECOND_DRIVER] = location, second
    return TriangularMap(rows, np.empty((WORK, 0)))


class MappedDensity(NamedTuple):
    """The density of y, in front of that of x: its gradient, and for a map that is used its value.

    Without a map, y is x.
    """

    program: Density
    straightening: TriangularMap
    dim: int


def no_map(block: np.ndarray = NO_BLOCK) -> TriangularMap:
    """Return a map that leaves every coordinate as it is, but those of a block."""
    return TriangularMap(np.empty((0, COLUMNS)), np.empty((WORK, 0)), block)


@jit
def is_used(straightening):
    """Whether any coordinate is mapped."""
    return straightening.rows.shape[0] > 0 or straightening.block.shape[0] > 0


def with_memory(straightening: TriangularMap, dim: int) -> TriangularMap:
    """Return a map with separate workspace, for one chain; `dim` is the number of parameters."""
    used = len(straightening.rows) > 0 or len(straightening.block) > 0
    work = np.zeros((WORK, dim if used else 0))
    return straightening._replace(work=work, block=straightening.block.copy())


# what `_apply` does: write x of y, or y of x; replace the gradient in x by that in y, or undo this
TO_X, TO_Y, PULL_BACK, PUSH_FORWARD = 0, 1, 2, 3


@jit
def _apply(straightening, given, out, gradient, task):
    """Do one of these tasks; return the log of |dx/dy| of the first two, else 0."""
    rows, work = straightening.rows, straightening.work
    if rows.shape[0] > 0:
        count, dim, size = rows.shape[0], work.shape[1], gradient.shape[0]
        return _mapped(rows, count, work, dim, given, out, gradient, size, task)
    if task <= TO_Y:
        copy(given, out)
    return 0.0


@on_demand(types.float64(
    ADDRESS, types.intp, ADDRESS, types.intp, ADDRESS, ADDRESS, ADDRESS, types.intp, types.intp
))  # fmt: skip
def _mapped(rows, count, work, dim, given, out, gradient, size, task):
    """Do a task with the rows of a map, for vectors of shape (size,)."""
    numbers, memory = carray(rows, (count, COLUMNS)), carray(work, (WORK, dim))
    one, other = carray(given, size), carray(out, size)
    if task <= TO_Y:
        return _transform(numbers, memory, one, other, task == TO_X)
    _exchange(numbers, memory, one, other, carray(gradient, size), task == PULL_BACK)
    return 0.0


@jit
def place(straightening, y, x):
    """Write x of y, which may be the same array; return the log of the Jacobian |dx/dy|."""
    log_jacobian = _apply(straightening, y, x, x, TO_X)
    if straightening.block.shape[0] > 0:
        copy(x, straightening.work[BETWEEN])
        log_jacobian += block_map.place(straightening.block, x, x)
    return log_jacobian


@jit
def residual(straightening, x, y):
    """Write y of x, another array; return the log of the Jacobian |dx/dy|."""
    if straightening.block.shape[0] == 0:
        return _apply(straightening, x, y, y, TO_Y)
    between = straightening.work[BETWEEN]
    log_jacobian = block_map.residual(straightening.block, x, between)
    return log_jacobian + _apply(straightening, between, y, y, TO_Y)


@inline
def _transform(rows, work, given, out, to_x):
    """Write x of y or y of x, and fill in the workspace; return the log of |dx/dy|.

    A single function: Numba counts references to arrays that are passed to others, row by row.
    """
    copy(given, out)
    x = out if to_x else given
    logs, product = 0.0, 1.0
    for i in range(rows.shape[0]):
        scale, second = int(rows[i, SCALE_DRIVER]), int(rows[i, SECOND_DRIVER])
        j, location = int(rows[i, COORDINATE]), int(rows[i, LOCATION_DRIVER])
        exponent, center = rows[i, A], rows[i, E]
        if scale >= 0:
            exponent += rows[i, B] * (x[scale] - rows[i, C])
        if second >= 0:
            exponent += rows[i, S] * (x[second] - rows[i, T])
        if location >= 0:
            away = x[location] - rows[i, F]
            center += (rows[i, W] + rows[i, Q] * away) * away
        own, learned = rows[i, P0], np.exp(min(LARGEST_EXPONENT, max(-LARGEST_EXPONENT, exponent)))
        root = 1.0 / np.sqrt(own + learned)
        mean = center
        if own != 0.0:
            mean = (own * rows[i, D] + learned * center) * root * root
        work[CLIPPED, i] = 0.0 if abs(exponent) <= LARGEST_EXPONENT else 1.0
        work[MEAN, i], work[SCALE, i], work[SHARE, i] = mean, root, learned * root * root
        out[j] = mean + out[j] * root if to_x else (out[j] - mean) / root
        # one logarithm for many rows
        product *= root
        if not SMALLEST_PRODUCT < product < LARGEST_PRODUCT:
            logs, product = logs + np.log(product), 1.0
    return logs + np.log(product)


@jit
def pull_back(straightening, y, x, gradient):
    """Replace the gradient in x by that in y, of the log density and the log Jacobian.

    The workspace must be that of x.
    """
    between = x
    if straightening.block.shape[0] > 0:
        block_map.pull_back(straightening.block, x, gradient)
        between = straightening.work[BETWEEN]
    _apply(straightening, y, between, gradient, PULL_BACK)


@jit
def push_forward(straightening, y, x, gradient):
    """Undo `pull_back`: replace the gradient in y by that of the log density of x."""
    has_block = straightening.block.shape[0] > 0
    between = straightening.work[BETWEEN] if has_block else x
    _apply(straightening, y, between, gradient, PUSH_FORWARD)
    if has_block:
        block_map.push_forward(straightening.block, x, gradient)


@inline
def _exchange(rows, work, y, x, gradient, to_y):
    """Replace the gradient in x by that in y, or that in y by that in x.

    Each coordinate hands its part on to its drivers, the last one first; or takes it away from
    them, the first one first. Without calls, as `_transform`.
    """
    count, sign = rows.shape[0], 1.0 if to_y else -1.0
    if not to_y:
        for i in range(count):
            gradient[int(rows[i, COORDINATE])] /= work[SCALE, i]
    for step in range(count):
        i = count - 1 - step if to_y else step
        scale, second = int(rows[i, SCALE_DRIVER]), int(rows[i, SECOND_DRIVER])
        j, location = int(rows[i, COORDINATE]), int(rows[i, LOCATION_DRIVER])
        whole, root, share = gradient[j], work[SCALE, i], sign * work[SHARE, i]
        if to_y:
            gradient[j] = whole * root
        center = rows[i, E]
        if location >= 0:
            away, bend = x[location] - rows[i, F], rows[i, Q]
            center += (rows[i, W] + bend * away) * away
            gradient[location] += whole * share * (rows[i, W] + 2.0 * bend * away)
        if work[CLIPPED, i] == 0.0:
            # in the logarithm of P1
            moved = center - work[MEAN, i] - 0.5 * y[j] * root
            slope = share * (whole * moved - 0.5)
            if scale >= 0:
                gradient[scale] += rows[i, B] * slope
            if second >= 0:
                gradient[second] += rows[i, S] * slope


@jit
def value_of_mapped(density, y):
    """`value` of a `MappedDensity`.

    It calls the program's function by name: through `value`, this would be a recursion, and code of
    recursive functions that Numba loads from its cache crashes.
    """
    straightening = density.straightening
    x = straightening.work[X]
    log_jacobian = place(straightening, y, x)
    return value_of_program(density.program, x) + log_jacobian


@jit
def gradient_of_mapped(density, y, gradient):
    """`value_and_gradient` of a `MappedDensity`."""
    straightening = density.straightening
    if not is_used(straightening):
        return gradient_of_program(density.program, y, gradient)
    x = straightening.work[X]
    log_jacobian = place(straightening, y, x)
    log_density = gradient_of_program(density.program, x, gradient)
    if not log_density > -np.inf:
        return -np.inf
    pull_back(straightening, y, x, gradient)
    return log_density + log_jacobian


VALUES.update({MappedDensity: value_of_mapped})  # type: ignore[dict-item]
GRADIENTS.update({MappedDensity: gradient_of_mapped})  # type: ignore[dict-item]


@jit
def enter(straightening, x):
    """Return the point y, in the workspace, of a GradientPoint x; x itself without a map."""
    if not is_used(straightening):
        return x
    y, gradient = straightening.work[Y], straightening.work[GRADIENT_IN_Y]
    log_jacobian = residual(straightening, x.position, y)
    copy(x.gradient, gradient)
    pull_back(straightening, y, x.position, gradient)
    return GradientPoint(y, x.log_density + log_jacobian, gradient)


@jit
def leave(straightening, y):
    """Return the GradientPoint x of a point y, in the arrays of y."""
    if not is_used(straightening):
        return y
    there = straightening.work[X]
    copy(y.position, there)
    log_jacobian = place(straightening, there, y.position)
    push_forward(straightening, there, y.position, y.gradient)
    return GradientPoint(y.position, y.log_density - log_jacobian, y.gradient)


@jit
def enter_rows(straightening, positions, gradients, log_jacobians):
    """Replace rows of positions and gradients in x by those in y, and fill in the log Jacobians."""
    y = np.empty(positions.shape[1])
    for i in range(positions.shape[0]):
        x = positions[i]
        log_jacobians[i] = residual(straightening, x, y)
        pull_back(straightening, y, x, gradients[i])
        copy(y, x)
