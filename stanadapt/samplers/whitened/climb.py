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

With many parameters, L-BFGS knows few of the directions, and its quadratic predicts too little:
with 500 collinear predictors, climbs ended thousands below the typical set. So the mass around a
chain, log density plus log of the volume by the diagonal of L-BFGS, must also have stopped growing.
In a neck the log density grows without end, and the mass does not.

At the end of the climb, gradients along the columns of L can be differenced: `curvature_at`.

All of this is Python: a chain climbs a few times in a run, if at all, and compilation would take
longer than the climbs.

References
----------
L-BFGS and its diagonal: `engine/inverse_hessian`. The weak Wolfe conditions: Lewis and
Overton (2013), Mathematical Programming 141; steps are lengthened and shortened faster, by a
factor of 4. The ends of a climb, the logarithm and the spacing of the differences are ours.

"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import inverse_hessian, metric_factor
from stanadapt.engine.density import (
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    Density,
    gradient_of_program,
)
from stanadapt.engine.inverse_hessian import inner_product
from stanadapt.engine.points import GradientPoint, start_at
from stanadapt.samplers.whitened.fisher_metric import MANY

SUFFICIENT, FLATTER, TRIES = 1e-4, 0.9, 30
LONGER, SHORTER, LONGEST = 4.0, 0.25, 1e20
HISTORY = 30
# with more than MANY parameters: steps in which the mass must have stopped growing, and the fewest
LOOKED_BACK, LEAST_STEPS = 30, 9
# below this log density its logarithm is climbed
DEEP = -1e20


class Climb(NamedTuple):
    """The task of a chain before the first iteration of a block, and its findings.

    curvature, force
        -L^T H L from differences, rows with nan if they failed, and L^T g, at the end of the climb;
        shapes (n, n) and (n,), empty if none were made.

    """

    gradients: int  # largest number of gradients; 0 if the chain does not climb
    # position to which it returns before, shape (n,); empty if it climbs from its own
    begin: np.ndarray
    # enough, level: rise, and log density, at which the climb ends; one below a finite level has
    # not arrived
    enough: float
    level: float
    highest: float  # log density that no step may exceed
    newton: bool  # whether the metric contains the curvature, so that the first step is L b
    sides: int  # gradients for a difference at the end, if it arrived: 2 central, 1 forward, 0 none
    curvature: np.ndarray
    force: np.ndarray
    # rise that Newton's method predicts from there, if `travel_stages.learn_climb` has computed it;
    # otherwise inf
    rise: float


def no_climb() -> Climb:
    """Return a Climb of a chain that does not move."""
    return Climb(
        gradients=0, begin=np.empty(0), enough=0.0, level=np.inf, highest=np.inf, newton=False,
        sides=0, curvature=np.empty((0, 0)), force=np.empty(0), rise=np.inf,
    )  # fmt: skip


def climb_if_due(density: Density, state: Any) -> Any:
    """Let a chain climb by its Climb, if that asks for it."""
    plan = state.climb
    if plan.gradients == 0 and not len(plan.begin):
        return state
    point, found = climb(density, state.current, state.leapfrog.factor, plan)
    return state._replace(current=point, climb=found)


def climb(
    density: Density, start: GradientPoint, factor: np.ndarray, plan: Climb
) -> tuple[GradientPoint, Climb]:
    """Climb from a GradientPoint by a Climb; return the end, and the Climb with its results."""
    with np.errstate(all="ignore"):  # a step that is too long may overflow, and is shortened
        if len(plan.begin):
            start = start_at(density, plan.begin)
        metric = metric_factor.products(factor, density.dim)
        end = _ascend(density, start, metric, plan)
        arrived = plan.sides > 0 and (plan.level == np.inf or end.log_density >= plan.level)
        curvature, force = np.empty((0, 0)), np.empty(0)
        if arrived:
            curvature = curvature_at(density, end, metric, plan.sides)
            force = metric.transposed_times(end.gradient)
    return end, plan._replace(gradients=0, begin=np.empty(0), curvature=curvature, force=force)


# --- the climb ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A point of the climb, its gradient g, and the slope b in the coordinates of the metric.

    b is L^T g, divided by minus the log density below DEEP; arrays of shape (n,).
    """

    position: np.ndarray
    log_density: float
    gradient: np.ndarray
    slope: np.ndarray

    @property
    def deep(self) -> bool:
        """Whether the logarithm of the log density is climbed from here."""
        return self.log_density < DEEP


class Found(NamedTuple):
    """The end of a search: its place, step, number of gradients, and whether it is good."""

    place: Place
    size: float
    tried: int
    good: bool


def _ascend(
    density: Density, start: GradientPoint, metric: metric_factor.Products, plan: Climb
) -> GradientPoint:
    """Return the GradientPoint at the end of the climb."""
    used, kept, gained = 0, 0, 0.0
    masses: list[float] = []
    pairs, diagonal = inverse_hessian.no_pairs(HISTORY, density.dim), np.ones(density.dim)
    deep = start.log_density < DEEP
    here = _place(*start, metric, deep=deep)
    if deep or not plan.newton:
        diagonal = inverse_hessian.first_diagonal(here.slope)
    while used < plan.gradients:
        deep = here.deep
        direction = inverse_hessian.times(diagonal, pairs, kept, here.slope)
        rise = inner_product(here.slope, direction)
        # before the first pair, without curvature in the metric, the rise is that of any scales
        known = not deep and (kept > 0 or plan.newton)
        # a step that gained more shows that the slope far out is no measure of what is left
        ended = known and 0.5 * rise <= plan.enough and gained <= plan.enough
        if not rise > 0.0 or ended or here.log_density >= plan.level:
            break
        most = min(TRIES, plan.gradients - used)
        found = _search(density, metric, here, direction, rise, plan, most)
        there, used = found.place, used + found.tried
        if not there.log_density > here.log_density:
            break
        gained = there.log_density - here.log_density
        if deep and not there.deep:  # other units from here on
            kept = 0
            there = there._replace(slope=metric.transposed_times(there.gradient))
            diagonal = inverse_hessian.first_diagonal(there.slope)
        elif found.good:
            step, fall = found.size * direction, here.slope - there.slope
            learned = inverse_hessian.learned_diagonal(diagonal, step, fall)
            if learned is not None:
                diagonal = learned
                pairs.keep(kept, step, fall)
                kept += 1
        if density.dim > MANY:
            masses.append(there.log_density + 0.5 * float(np.log(diagonal).sum()))
            gained = _gained(masses)
        here = there
        if not found.good:
            break
    return GradientPoint(here.position, float(here.log_density), here.gradient)


def _gained(masses: list[float]) -> float:
    """Return by how much the mass has grown in the last steps; inf if they are too few to tell."""
    recent = masses[-LOOKED_BACK - 1 :]
    return recent[-1] - recent[0] if len(recent) >= LEAST_STEPS else np.inf


def _place(
    position: np.ndarray, log_density: float, gradient: np.ndarray,
    metric: metric_factor.Products, *, deep: bool,
) -> Place:  # fmt: skip
    slope = metric.transposed_times(gradient)
    return Place(position, log_density, gradient, slope / -log_density if deep else slope)


def evaluate(density: Density, position: np.ndarray) -> tuple[float, np.ndarray]:
    """Return log density and gradient; -inf where it is not finite, which is no failure of a chain.

    A search along a line that has gone too far is shortened, as any search is.
    """
    gradient = np.zeros(density.dim)
    if not np.isfinite(position).all():
        return -np.inf, gradient
    in_a_row = density.calls[FAILED_IN_A_ROW]
    log_density = gradient_of_program(density, position, gradient)
    if log_density == -np.inf:
        density.calls[FAILED_CALLS] -= 1
        density.calls[FAILED_IN_A_ROW] = in_a_row
    return log_density, gradient


def _search(
    density: Density, metric: metric_factor.Products, here: Place, direction: np.ndarray,
    rise: float, plan: Climb, most: int,
) -> Found:  # fmt: skip
    """Return a place along a direction, found with at most this many gradients.

    The direction is one of the metric's coordinates; rise is the slope along it.
    """
    along, deep = metric.times(direction), here.deep
    low, high, size = 0.0, np.inf, 1.0
    for tried in range(1, most + 1):
        position = here.position + size * along
        there = _place(position, *evaluate(density, position), metric, deep=deep)
        gain = there.log_density - here.log_density
        if deep and -np.inf < there.log_density < 0.0:
            gain = np.log(-here.log_density) - np.log(-there.log_density)
        too_high = there.log_density > plan.highest
        if not gain >= SUFFICIENT * size * rise or too_high:
            high = size
        elif there.log_density < plan.level and (
            inner_product(there.slope, direction) > FLATTER * rise
        ):
            low = size
        else:
            return Found(there, size, tried, True)
        if high == np.inf:
            longer = LONGER * low
        elif low > 0.0:
            longer = 0.5 * (low + high)
        else:
            longer = SHORTER * high
        if not longer < LONGEST or tried == most:
            return Found(there._replace(log_density=-np.inf) if too_high else there, size, tried,
                         False)  # fmt: skip
        size = longer
    return Found(here, size, 0, False)


# --- the curvature at its end ---------------------------------------------------------------------

# distance of a difference along a column of L
SPACING = 1e-3
# A difference is made again if the change of the log density due to curvature is larger than WIDE,
# or smaller than NARROW; a wide one at a distance at which the change would be GOOD, but at least
# LEAST times the last. Scales from a far region may be wrong by a factor of exp(100).
WIDE, NARROW, GOOD, LEAST, AGAIN = 1e-2, 1e-14, 1e-6, 1e-3, 4


def curvature_at(
    density: Density, point: GradientPoint, metric: metric_factor.Products, sides: int
) -> np.ndarray:
    """Return -L^T H L at a GradientPoint, shape (n, n), from differences along the columns of L.

    A row whose differences fail is filled with nan. The result is not symmetrized.
    """
    n = density.dim
    curvature = np.empty((n, n))
    for i, unit in enumerate(np.eye(n)):
        column, spacing, known = metric.times(unit), SPACING, False
        for _ in range(AGAIN + 1):
            change, known = _change_of_gradient(density, point, spacing * column, sides)
            curvature[i] = metric.transposed_times(change / (sides * spacing))
            size = np.abs(curvature[i, i]) * spacing * spacing
            if not known or not size < np.inf:
                spacing *= LEAST
            elif size > WIDE:
                spacing *= max(LEAST, np.sqrt(GOOD / size))
            elif size < NARROW:
                spacing /= LEAST**0.5
            else:
                break
        if not known:
            curvature[i] = np.nan
    return curvature


def _change_of_gradient(
    density: Density, point: GradientPoint, step: np.ndarray, sides: int
) -> tuple[np.ndarray, bool]:
    """Return how far the gradient falls over a step, and whether the density is finite there.

    With two sides, over one step back and one forward; with one, from the point itself.
    """
    log_density, forward = evaluate(density, point.position + step)
    known = log_density > -np.inf
    if sides == 1:
        return point.gradient - forward, known
    if known:
        log_density, backward = evaluate(density, point.position - step)
        return backward - forward, log_density > -np.inf
    return -forward, False
