"""A triangular map that makes conditional distributions standard normal, and the density behind it.

Some coordinates x_j are, given others, close to normal with a scale or a location that depends on
those others: the members of a hierarchy given its location and scale, the small dimensions of a
funnel given its neck. The map replaces each of them by its standardized residual y_j:

    P0, P1 = own precision, exp(a + b (x_k - c))             precision P = P0 + P1
    loc    = e + w (x_l - f) + q (x_l - f)^2
    x_j    = m + y_j / sqrt(P),   m = (P0 d + P1 loc) / P

k is the scale driver of j, and l its location driver; both may be absent. Every other coordinate
stays as it is: x_i = y_i. A normal prior with scale exp(x_k) and mean x_l, times a normal
likelihood, is of exactly this form: P1 is the prior's precision, and P0 and d are the likelihood's
precision and mean. Without P0 it is a non-centered parameterization, with P0 far above P1 nearly a
centered one. With constant P1 and q it straightens a curved ridge.

Drivers come before the coordinates that depend on them, so that the Jacobian is triangular: the
density of y is that of x times the product of P^(-1/2). For any numbers this is a change of
variables, so draws are exact even if the numbers fit badly.

References
----------
Conditional scales that are learned from scores: Kailas, Vihola and Wallin (2026), arXiv 2604.09832.
Partial non-centering: Papaspiliopoulos, Roberts and Skold (2007), Statistical Science 22. The form
with two precisions and a location is ours.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.vectors import copy
from stanadapt.engine.density import (
    GRADIENTS,
    VALUES,
    Density,
    gradient_of_program,
    value_of_program,
)
from stanadapt.engine.points import GradientPoint

# columns of TriangularMap.numbers: a, b, c, P0, d, e, w, q and f of the formulas above
A, B, C, P0, D, E, W, Q, F = 0, 1, 2, 3, 4, 5, 6, 7, 8
NUMBERS = 9
# columns of TriangularMap.work: m, P^(-1/2), P1 / P, whether the exponent was clipped
MEAN, SCALE, SHARE, CLIPPED = 0, 1, 2, 3
# an exponent beyond this is cut off: the map stays invertible in floating point
LARGEST_EXPONENT = 60.0
NONE = -1


class TriangularMap(NamedTuple):
    """The mapped coordinates, in an order in which each one follows its drivers.

    coordinate, scale_driver, location_driver
        Numbers of coordinates, shape (mapped,); NONE for a driver that is absent.
    numbers
        The constants of the formulas, shape (mapped, NUMBERS).
    position, work
        Workspace: x of the last evaluation, shape (dim,), and what the gradient needs of it, shape
        (mapped, 4).

    """

    coordinate: np.ndarray
    scale_driver: np.ndarray
    location_driver: np.ndarray
    numbers: np.ndarray
    position: np.ndarray
    work: np.ndarray


class MappedDensity(NamedTuple):
    """The density of y, in front of that of x; with an empty map it is the density of x."""

    program: Density
    straightening: TriangularMap
    dim: int


@jit
def no_map():
    """Return a map that leaves every coordinate as it is."""
    none = np.empty(0, np.int64)
    return TriangularMap(none, none, none, np.empty((0, NUMBERS)), np.empty(0), np.empty((0, 4)))


def with_memory(straightening: TriangularMap, dim: int) -> TriangularMap:
    """Return a map with workspace of its own, for one chain; `dim` is the number of parameters."""
    mapped = len(straightening.coordinate)
    return straightening._replace(
        position=np.zeros(dim if mapped else 0), work=np.zeros((mapped, 4))
    )


@jit
def place(straightening, y, x):
    """Write x of y, which may be the same array; return the log of the Jacobian |dx/dy|."""
    coordinate, scale_driver, location_driver, numbers, _, work = straightening
    copy(y, x)
    log_jacobian = 0.0
    for row in range(coordinate.shape[0]):
        j = coordinate[row]
        log_precision = _condition(
            numbers[row], scale_driver[row], location_driver[row], x, work[row]
        )
        x[j] = work[row, MEAN] + x[j] * work[row, SCALE]
        log_jacobian -= 0.5 * log_precision
    return log_jacobian


@jit
def residual(straightening, x, y):
    """Write y of x, another array; return the log of the Jacobian |dx/dy|."""
    coordinate, scale_driver, location_driver, numbers, _, work = straightening
    copy(x, y)
    log_jacobian = 0.0
    for row in range(coordinate.shape[0]):
        j = coordinate[row]
        log_precision = _condition(
            numbers[row], scale_driver[row], location_driver[row], x, work[row]
        )
        y[j] = (x[j] - work[row, MEAN]) / work[row, SCALE]
        log_jacobian -= 0.5 * log_precision
    return log_jacobian


@jit
def _condition(numbers, scale, location, x, work):
    """Fill a row of `work` from the drivers in x; return the log of the precision."""
    exponent = numbers[A]
    if scale >= 0:
        exponent += numbers[B] * (x[scale] - numbers[C])
    clipped = not abs(exponent) <= LARGEST_EXPONENT
    exponent = min(LARGEST_EXPONENT, max(-LARGEST_EXPONENT, exponent))
    center = numbers[E]
    if location >= 0:
        away = x[location] - numbers[F]
        center += (numbers[W] + numbers[Q] * away) * away
    work[CLIPPED] = 1.0 if clipped else 0.0
    own = numbers[P0]
    if own == 0.0:
        work[MEAN], work[SCALE], work[SHARE] = center, np.exp(-0.5 * exponent), 1.0
        return exponent
    learned = np.exp(exponent)
    precision = own + learned
    work[SHARE] = learned / precision
    work[MEAN] = (own * numbers[D] + learned * center) / precision
    work[SCALE] = 1.0 / np.sqrt(precision)
    return np.log(precision)


@jit
def pull_back(straightening, y, x, gradient):
    """Replace the gradient in x by that in y, of the log density and the log Jacobian.

    `work` must be that of x. Each coordinate hands its part on to its drivers, the last one first.
    """
    coordinate, scale_driver, location_driver, numbers, _, work = straightening
    for row in range(coordinate.shape[0] - 1, -1, -1):
        j = coordinate[row]
        whole = gradient[j]
        _hand_on(
            numbers[row],
            work[row],
            scale_driver[row],
            location_driver[row],
            y[j],
            x,
            whole,
            1.0,
            gradient,
        )
        gradient[j] = whole * work[row, SCALE]


@jit
def push_forward(straightening, y, x, gradient):
    """Undo `pull_back`: replace the gradient in y by that of the log density of x."""
    coordinate, scale_driver, location_driver, numbers, _, work = straightening
    for row in range(coordinate.shape[0]):
        gradient[coordinate[row]] /= work[row, SCALE]
    for row in range(coordinate.shape[0]):
        j = coordinate[row]
        _hand_on(
            numbers[row],
            work[row],
            scale_driver[row],
            location_driver[row],
            y[j],
            x,
            gradient[j],
            -1.0,
            gradient,
        )


@jit
def _hand_on(numbers, work, scale, location, y, x, whole, sign, gradient):
    """Add the part that a coordinate hands on to its drivers, or take it away if sign is -1.

    whole is the gradient of the log density with respect to that coordinate itself.
    """
    share = work[SHARE]
    if location >= 0:
        slope = numbers[W] + 2.0 * numbers[Q] * (x[location] - numbers[F])
        gradient[location] += sign * whole * share * slope
    if scale >= 0 and work[CLIPPED] == 0.0:
        center = numbers[E]
        if location >= 0:
            away = x[location] - numbers[F]
            center += (numbers[W] + numbers[Q] * away) * away
        change = numbers[B] * share  # of the log precision
        moved = (center - work[MEAN]) - 0.5 * y * work[SCALE]
        gradient[scale] += sign * change * (whole * moved - 0.5)


@jit
def value_of_mapped(density, y):
    """`value` of a `MappedDensity`.

    It calls the program's function by name: through `value`, this would be a recursion, and code of
    recursive functions that Numba loads from its cache crashes.
    """
    straightening = density.straightening
    if straightening.coordinate.shape[0] == 0:
        return value_of_program(density.program, y)
    log_jacobian = place(straightening, y, straightening.position)
    return value_of_program(density.program, straightening.position) + log_jacobian


@jit
def gradient_of_mapped(density, y, gradient):
    """`value_and_gradient` of a `MappedDensity`."""
    straightening = density.straightening
    if straightening.coordinate.shape[0] == 0:
        return gradient_of_program(density.program, y, gradient)
    x = straightening.position
    log_jacobian = place(straightening, y, x)
    log_density = gradient_of_program(density.program, x, gradient)
    if not log_density > -np.inf:
        return -np.inf
    pull_back(straightening, y, x, gradient)
    return log_density + log_jacobian


VALUES.update({MappedDensity: value_of_mapped})  # type: ignore[dict-item]
GRADIENTS.update({MappedDensity: gradient_of_mapped})  # type: ignore[dict-item]


@jit
def enter(straightening, x, y):
    """Return the point y, in its own arrays, of a GradientPoint x."""
    log_jacobian = residual(straightening, x.position, y.position)
    copy(x.gradient, y.gradient)
    pull_back(straightening, y.position, x.position, y.gradient)
    return GradientPoint(y.position, x.log_density + log_jacobian, y.gradient)


@jit
def leave(straightening, y):
    """Return the GradientPoint x of a point y, in the arrays of y."""
    copy(y.position, straightening.position)
    log_jacobian = place(straightening, y.position, y.position)
    push_forward(straightening, straightening.position, y.position, y.gradient)
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
