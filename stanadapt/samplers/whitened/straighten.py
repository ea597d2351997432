"""Learn a map that straightens the posterior, and decide by draws kept aside whether to take it.

Whatever is learned on two thirds of the draws is judged on the last third by

    D = mean over draws and coordinates of (w + g_w)^2,

w being the whitened position and g_w the gradient there. D is 0 for a Gaussian, and the same
number for any target: the distance from one that remains, with and without the map.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import triangular_map
from stanadapt.engine.triangular_map import (
    NUMBERS,
    TriangularMap,
    enter_rows,
    make_map,
    no_map,
    with_memory,
)
from stanadapt.samplers.whitened.block import LOG_DENSITY, Window
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, composed_metric
from stanadapt.samplers.whitened.conditionals import (
    ABSENT,
    LARGEST_EXPONENT,
    A,
    B,
    C,
    D,
    Draws,
    E,
    Fits,
    Q,
    W,
    join,
)
from stanadapt.samplers.whitened.fisher_metric import fisher_metric
from stanadapt.samplers.whitened.map_groups import Group, exact_structure
from stanadapt.samplers.whitened.map_search import NONE, in_order, search

# D is taken over the coordinates that a map involves. It must leave less than this share of
# it, and less than D of draws and gradients that have nothing to do with each other; and a new one,
# since a mediocre map costs more than it gains, less than either this much or this share.
LARGEST_REST, UNRELATED = 0.7, 1.0
CLOSE, CLOSE_SHARE = 0.3, 0.2
# draws to learn from and to judge by, each; more would cost time and change nothing
MOST_DRAWS = 300
LEAST_DRAWS = 60
# number of corrections of a metric by which D is measured
REPEATS = 2


class Straightened(NamedTuple):
    """What was learned from a window: the map, its groups, and D without and with it."""

    straightening: TriangularMap
    groups: tuple[Group, ...]
    distance_before: float
    distance: float

    @property
    def map_is_used(self) -> bool:
        """Whether any coordinate is mapped."""
        return len(self.straightening.coordinate) > 0


UNCHANGED = Straightened(no_map(), (), np.inf, np.inf)


def apply_map(
    straightening: TriangularMap, positions: np.ndarray, gradients: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of positions and gradients in y, and the log Jacobian of each, shape (row,)."""
    positions, gradients = np.array(positions, float), np.array(gradients, float)
    log_jacobians = np.zeros(len(positions))
    if len(straightening.coordinate):
        enter_rows(
            with_memory(straightening, positions.shape[1]), positions, gradients, log_jacobians
        )
    return positions, gradients, log_jacobians


def in_coordinates_of(straightening: TriangularMap, window: Window) -> Window:
    """Return a window in y, with the log density of y."""
    if not len(straightening.coordinate):
        return window
    shape = window.positions.shape
    rows = (values.reshape(-1, shape[2]) for values in (window.positions, window.gradients))
    positions, gradients, log_jacobians = apply_map(straightening, *rows)
    numbers = window.numbers.copy()
    numbers[:, :, LOG_DENSITY] += log_jacobians.reshape(shape[:2])
    return window._replace(
        positions=positions.reshape(shape), gradients=gradients.reshape(shape), numbers=numbers
    )


def distances(
    straightening: TriangularMap,
    learned: tuple[np.ndarray, np.ndarray],
    judged: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Return each coordinate's part of D, whose mean is D, on the judged draws.

    The metric is learned from the others; all have rows of shape (dim,).
    """
    with np.errstate(all="ignore"):
        x, g, _ = apply_map(straightening, *learned)
        metric = fisher_metric(x, g, np.ones(x.shape[1]))
        if metric.kind == "dense" and x.shape[1] <= LARGEST_COMPOSED:
            # once more in its coordinates: with the ridge of the first, powers of a calendar year
            # would be far from a Gaussian
            for _ in range(REPEATS):
                metric = composed_metric(metric, x, g)
        center, slope = x.mean(axis=0), g.mean(axis=0)
        x, g, _ = apply_map(straightening, *judged)
        w, b = metric.whiten(x - center, g - slope)
        return np.nan_to_num(np.mean((w + b) ** 2, axis=0), nan=np.inf)


def straighten(
    positions: np.ndarray, gradients: np.ndarray, former: Straightened, least: float
) -> Straightened:
    """Learn a map from draws of all chains and decide between it, the former one, and none.

    Parameters
    ----------
    positions, gradients
        In the coordinates of the program, shape (m, dim), in the order of chains.
    former
        What was learned from earlier draws.
    least
        Without a former map, none is searched for if the distance is below this and no coordinate
        has a part in it above UNRELATED.

    """
    nothing = no_map()
    usable = np.isfinite(positions).all(axis=1) & np.isfinite(gradients).all(axis=1)
    x, g = positions[usable], gradients[usable]
    if len(x) < LEAST_DRAWS or x.shape[1] < 2:
        return Straightened(nothing, (), np.inf, np.inf)
    parts = _thirds(x, g)
    learned = np.concatenate([parts[0][0], parts[1][0]]), np.concatenate([parts[0][1], parts[1][1]])
    judged = parts[2]
    parts_before = distances(nothing, learned, judged)
    before = float(parts_before.mean())
    best = Straightened(nothing, (), before, before)
    near = before < least and parts_before.max() < UNRELATED
    if near and not former.map_is_used:
        return best
    mean, sd = learned[0].mean(axis=0), learned[0].std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    first, second = (
        Draws.standardize(part[0][:MOST_DRAWS], part[1][:MOST_DRAWS], mean, sd)
        for part in parts[:2]
    )
    fits, groups = exact_structure(search(first, second), first, second)
    exact = fits.take(np.flatnonzero(np.isin(fits.coordinate, _members(groups))))
    # given its members, a location may seem to depend on the scale; given their residuals, it may
    # not, or otherwise: exact groups alone come first
    among_rest = _search_rest(_as_map(exact, groups, first), first, second)
    candidates = [
        (_as_map(found, groups, first), tuple(groups))
        for found in (exact, join([exact, among_rest]), fits)
    ]
    if former.map_is_used:
        candidates.append((former.straightening, former.groups))
    for candidate, members in candidates:
        after = distances(candidate, learned, judged)
        near = _is_near(candidate, parts_before, after, new=not former.map_is_used)
        if near and after.mean() < best.distance:
            best = Straightened(candidate, members, before, float(after.mean()))
    return best


def _is_near(
    straightening: TriangularMap, before: np.ndarray, after: np.ndarray, new: bool
) -> bool:
    """Whether a map brings the coordinates that it involves near enough to a Gaussian."""
    drivers = np.concatenate([straightening.scale_driver, straightening.location_driver])
    involved = np.union1d(straightening.coordinate, drivers[drivers >= 0])
    if not len(involved):
        return False
    had, left = before[involved].mean(), after[involved].mean()
    most = min(LARGEST_REST * had, UNRELATED)
    if new:
        most = min(most, max(CLOSE, CLOSE_SHARE * had))
    return bool(left < most)


def _members(groups: list[Group]) -> list[int]:
    return [j for group in groups for j in group.members]


def _search_rest(straightening: TriangularMap, first: Draws, second: Draws) -> Fits:
    """Search for maps of the coordinates that are not mapped yet, given the others' residuals."""
    rest = np.setdiff1d(np.arange(len(first.mean)), straightening.coordinate)
    mean, sd = first.mean, first.sd

    def inside(draws: Draws) -> Draws:
        x, g, _ = apply_map(
            straightening, (mean[:, None] + sd[:, None] * draws.positions).T,
            (draws.gradients / sd[:, None]).T,
        )  # fmt: skip
        return Draws.standardize(x[:, rest], g[:, rest], mean[rest], sd[rest])

    found = search(inside(first), inside(second)).accepted
    scale, location = (
        np.where(driver >= 0, rest[driver], NONE) for driver in (found.scale, found.location)
    )
    return found._replace(coordinate=rest[found.coordinate], scale=scale, location=location)


def _thirds(x: np.ndarray, g: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal the draws into three parts in turn: each has draws of all chains."""
    return [(x[i::3], g[i::3]) for i in range(3)]


def _as_map(fits: Fits, groups: list[Group], draws: Draws) -> TriangularMap:
    """Return fits in standardized units as a map in those of the program."""
    if not len(fits.coordinate):
        return no_map()
    row_of = {int(j): row for row, j in enumerate(fits.coordinate)}
    drivers = {
        j: {int(k) for k in (fits.scale[row], fits.location[row]) if k >= 0}
        for j, row in row_of.items()
    }
    rows = np.array([row_of[j] for j in in_order(drivers)])
    fits = fits.take(rows)
    j, scale, location, numbers = fits.coordinate, fits.scale, fits.location, fits.numbers
    has_scale, has_location = scale >= 0, location >= 0
    mean, sd, out = draws.mean, draws.sd, np.zeros((len(j), NUMBERS))
    own = numbers[:, C] > 0.5 * ABSENT
    out[:, triangular_map.A] = numbers[:, A] - 2.0 * np.log(sd[j])
    out[:, triangular_map.B] = np.where(has_scale, numbers[:, B] / sd[scale], 0.0)
    out[:, triangular_map.C] = np.where(has_scale, mean[scale], 0.0)
    precision = np.exp(np.clip(numbers[:, C], -LARGEST_EXPONENT, LARGEST_EXPONENT)) / sd[j] ** 2
    out[:, triangular_map.P0] = np.where(own, precision, 0.0)
    out[:, triangular_map.D] = mean[j] + sd[j] * numbers[:, D]
    out[:, triangular_map.E] = mean[j] + sd[j] * numbers[:, E]
    out[:, triangular_map.W] = np.where(has_location, sd[j] * numbers[:, W] / sd[location], 0.0)
    out[:, triangular_map.Q] = np.where(
        has_location, sd[j] * numbers[:, Q] / sd[location] ** 2, 0.0
    )
    out[:, triangular_map.F] = np.where(has_location, mean[location], 0.0)
    # the driver of an exact location itself, to the bit
    exact = np.isin(j, _members(groups))
    out[exact, triangular_map.E] = out[exact, triangular_map.F] = 0.0
    out[exact, triangular_map.W] = has_location[exact]
    return make_map(j, scale, location, out)
