"""A climb from a chain's own starting point to the height of the typical set.

A chain that starts far away needs many iterations of NUTS to arrive; L-BFGS needs some fifty
gradients. It moves in the coordinates of the chain's metric, x = x0 + L z, and ends when the rise
that a quadratic still predicts, b' H^-1 b / 2 for the gradient b with respect to z, is n / 2: so
much below the mode are the draws of a Gaussian with n parameters, on average. A chain that went on
to the mode would need as many iterations to come back, and for a hierarchical model the mode may be
infinitely high in a narrow neck.

A step must raise the log density and flatten its slope (the weak Wolfe conditions). If exponentials
of exponentials are still far from their maximum, below DEEP, gradients grow with the density, and
quadratics describe nothing. There -log(-log density) is climbed, which has the same maximum.

At the end of the climb, gradients along the columns of L can be differenced: `curvature_at`.

References
----------
L-BFGS and its diagonal: `engine/compiled/inverse_hessian`. The weak Wolfe conditions: Lewis and
Overton (2013), Mathematical Programming 141; steps are lengthened and shortened faster, by a
factor of 4. The end of the climb, the logarithm and the spacing of the differences are ours.

"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled import inverse_hessian
from stanadapt.engine.compiled.jit import jit, seldom
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.compiled.vectors import copy, inner_product
from stanadapt.engine.density import FAILED_CALLS, value_and_gradient
from stanadapt.engine.points import GradientPoint, gradient_at

SUFFICIENT, FLATTER, TRIES = 1e-4, 0.9, 30
LONGER, SHORTER, LONGEST = 4.0, 0.25, 1e20
HISTORY = 30
# below this log density its logarithm is climbed
DEEP = -1e20


class Climb(NamedTuple):
    """The task of a chain before the first iteration of a block, and its findings.

    gradients
        Largest number of gradients; 0 if the chain does not climb.
    begin
        Position to which it returns before, shape (n,); empty if it climbs from where it is.
    enough, level
        Rise, and log density, at which the climb ends; one below a finite level has not arrived.
    highest
        Log density that no step may exceed.
    newton
        Whether the metric contains the curvature, so that the first step is L b.
    sides
        Gradients for a difference at the end, if it arrived: 2 central, 1 forward, 0 none.
    curvature, force
        -L^T H L from differences, rows with nan if they failed, and L^T g, at the end of the climb;
        shapes (n, n) and (n,), empty if none were made.
    rise
        Rise that Newton's method predicts from there, if `whitened.climb_rounds` has computed it;
        otherwise inf.

    """

    gradients: int
    begin: np.ndarray
    enough: float
    level: float
    highest: float
    newton: bool
    sides: int
    curvature: np.ndarray
    force: np.ndarray
    rise: float


@jit
def no_climb():
    """Return a Climb of a chain that stays where it is."""
    return Climb(
        gradients=0, begin=np.empty(0), enough=0.0, level=np.inf, highest=np.inf, newton=False,
        sides=0, curvature=np.empty((0, 0)), force=np.empty(0), rise=np.inf,
    )  # fmt: skip


def climb_if_due(density: Any, state: Any) -> Any:
    """Let a chain climb by its Climb, if that asks for it."""
    plan = state.climb
    if plan.gradients == 0 and not len(plan.begin):
        return state
    point, found = climb(density, state.current, state.leapfrog.factor, plan)
    return state._replace(current=point, climb=found)


def compile_climb(density: Any, state: Any) -> None:
    """Climb nowhere, without an evaluation of the density."""
    climb(density, state.current, state.leapfrog.factor, no_climb())


@seldom
def climb(density, start, factor, plan):
    """Climb from a GradientPoint by a Climb; return the end, and the Climb with its results."""
    if plan.begin.shape[0] > 0:
        start = gradient_at(density, plan.begin)
    end = _ascend(density, start, factor, plan)
    arrived = plan.sides > 0 and (plan.level == np.inf or end.log_density >= plan.level)
    n = density.dim if arrived else 0
    curvature, force = np.empty((n, n)), np.empty(n)
    if arrived:
        curvature_at(density, end, factor, plan.sides, curvature)
        metric_factor.transposed_times(factor, end.gradient, force)
    return end, replace(plan, gradients=0, begin=np.empty(0), curvature=curvature, force=force)


# --- the climb ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A point of the climb, its gradient g, and the slope b in the coordinates of the metric.

    b is L^T g, divided by minus the log density below DEEP; arrays of shape (n,).
    """

    position: np.ndarray
    gradient: np.ndarray
    slope: np.ndarray


class Ends(NamedTuple):
    """Limits of a search: log densities as in Climb, and the largest number of gradients."""

    level: float
    highest: float
    most: int


class Found(NamedTuple):
    """The end of a search: its log density, step, number of gradients, and whether it is good."""

    log_density: float
    size: float
    tried: int
    good: bool


@jit
def _ascend(density, start, factor, plan):
    """Return the GradientPoint at the end of the climb."""
    n, log_density, used, kept, gained = density.dim, start.log_density, 0, 0, 0.0
    steps, slopes = np.empty((HISTORY, n)), np.empty((HISTORY, n))
    curvatures, work, diagonal = np.empty(HISTORY), np.empty(HISTORY), np.ones(n)
    here = Place(start.position.copy(), start.gradient.copy(), np.empty(n))
    there = Place(np.empty(n), np.empty(n), np.empty(n))
    direction, along = np.empty(n), np.empty(n)
    _set_slope(factor, here, log_density, log_density < DEEP)
    if log_density < DEEP or not plan.newton:
        inverse_hessian.start_diagonal(diagonal, here.slope)
    while used < plan.gradients:
        deep = log_density < DEEP
        copy(here.slope, direction)
        inverse_hessian.times(diagonal, steps, slopes, curvatures, kept, direction, work)
        rise = inner_product(here.slope, direction, n)
        # before the first pair, without curvature in the metric, the rise is that of any scales
        known = not deep and (kept > 0 or plan.newton)
        # a step that gained more shows that the slope far out is no measure of what is left
        ended = known and 0.5 * rise <= plan.enough and gained <= plan.enough
        if not rise > 0.0 or ended or log_density >= plan.level:
            break
        metric_factor.times(factor, direction, along)
        ends = Ends(plan.level, plan.highest, min(TRIES, plan.gradients - used))
        found = _search(density, factor, here, there, log_density, direction, along, rise, ends)
        used += found.tried
        if not found.log_density > log_density:
            break
        gained = found.log_density - log_density
        log_density = found.log_density
        if deep and not log_density < DEEP:  # other units from here on
            kept = 0
            _set_slope(factor, there, log_density, False)
            inverse_hessian.start_diagonal(diagonal, there.slope)
        elif found.good:
            row = kept % HISTORY
            for i in range(n):
                steps[row, i] = found.size * direction[i]
                slopes[row, i] = here.slope[i] - there.slope[i]
            if inverse_hessian.learn_diagonal(diagonal, steps[row], slopes[row]):
                curvatures[row] = inner_product(steps[row], slopes[row], n)
                kept += 1
        here, there = there, here
        if not found.good:
            break
    return GradientPoint(here.position, log_density, here.gradient)


@jit
def _set_slope(factor, place, log_density, deep):
    metric_factor.transposed_times(factor, place.gradient, place.slope)
    if deep:
        for i in range(place.slope.shape[0]):
            place.slope[i] /= -log_density


@jit
def _evaluate(density, position, gradient):
    """Return the log density; -inf where it is not finite, which is no failure of a chain.

    A search along a line that has gone too far is shortened, as any search is.
    """
    for i in range(density.dim):
        if not np.abs(position[i]) < np.inf:
            return -np.inf
    log_density = value_and_gradient(density, position, gradient)
    if log_density == -np.inf:
        density.calls[FAILED_CALLS] -= 1
    return log_density


@jit
def _search(density, factor, here, there, log_density, direction, along, rise, ends):
    """Fill `there` with a point along a direction, in coordinates of the metric and in raw ones.

    rise is the slope along the direction.
    """
    n, deep = density.dim, log_density < DEEP
    low, high, size, reached = 0.0, np.inf, 1.0, -np.inf
    for tried in range(1, ends.most + 1):
        for i in range(n):
            there.position[i] = here.position[i] + size * along[i]
        reached = _evaluate(density, there.position, there.gradient)
        _set_slope(factor, there, reached, deep)
        gain = reached - log_density
        if deep and -np.inf < reached < 0.0:
            gain = np.log(-log_density) - np.log(-reached)
        if not gain >= SUFFICIENT * size * rise or reached > ends.highest:
            high = size
        elif reached < ends.level and inner_product(there.slope, direction, n) > FLATTER * rise:
            low = size
        else:
            return Found(reached, size, tried, True)
        if high == np.inf:
            longer = LONGER * low
        elif low > 0.0:
            longer = 0.5 * (low + high)
        else:
            longer = SHORTER * high
        if not longer < LONGEST or tried == ends.most:
            return Found(reached if reached <= ends.highest else -np.inf, size, tried, False)
        size = longer
    return Found(reached, size, 0, False)


# --- the curvature at its end ---------------------------------------------------------------------

# distance of a difference along a column of L
SPACING = 1e-3
# A difference is made again if the change of the log density due to curvature is larger than WIDE,
# or smaller than NARROW; a wide one at a distance at which the change would be GOOD, but at least
# LEAST times the last. Scales from a far region may be wrong by a factor of exp(100).
WIDE, NARROW, GOOD, LEAST, AGAIN = 1e-2, 1e-14, 1e-6, 1e-3, 4


@jit
def curvature_at(density, point, factor, sides, curvature):
    """Write -L^T H L at a GradientPoint, shape (n, n), from differences along the columns of L.

    A row whose differences fail is filled with nan. The result is not symmetrized.
    """
    n = density.dim
    column, position = np.empty(n), np.empty(n)
    forward, backward = np.empty(n), np.empty(n)
    for i in range(n):
        position[:] = 0.0
        position[i] = 1.0
        metric_factor.times(factor, position, column)
        spacing, known = SPACING, False
        for _ in range(AGAIN + 1):
            known = _gradients_beside(
                density, point, column, spacing, sides, position, forward, backward
            )
            for j in range(n):
                forward[j] = (backward[j] - forward[j]) / (sides * spacing)
            metric_factor.transposed_times(factor, forward, curvature[i])
            change = abs(curvature[i, i]) * spacing * spacing
            if not known or not change < np.inf:
                spacing *= LEAST
            elif change > WIDE:
                spacing *= max(LEAST, np.sqrt(GOOD / change))
            elif change < NARROW:
                spacing /= LEAST**0.5
            else:
                break
        if not known:
            curvature[i] = np.nan


@jit
def _gradients_beside(density, point, column, spacing, sides, position, forward, backward):
    """Fill in the gradients at two points along a column of L; False if the density fails there.

    With one side, the backward point is the point itself.
    """
    n = density.dim
    for j in range(n):
        position[j] = point.position[j] + spacing * column[j]
    known = _evaluate(density, position, forward) > -np.inf
    if sides == 1:
        copy(point.gradient, backward)
        return known
    for j in range(n):
        position[j] = point.position[j] - spacing * column[j]
    return known and _evaluate(density, position, backward) > -np.inf
