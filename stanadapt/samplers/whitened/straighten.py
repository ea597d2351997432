"""Learn a map that straightens the posterior, and decide by draws kept aside whether to take it.

Whatever is learned on two thirds of the draws is judged on the last third, by the distance from a
Gaussian (D of `straightened`).
"""

import numpy as np

from stanadapt.engine import triangular_map
from stanadapt.engine.triangular_map import (
    NO_BLOCK,
    NUMBERS,
    TriangularMap,
    make_map,
    no_map,
)
from stanadapt.samplers.whitened import conditionals
from stanadapt.samplers.whitened.conditionals import Draws, Fits, join
from stanadapt.samplers.whitened.fisher_metric import (
    LARGEST_DENSE,
    MANY,
    FisherMetric,
)
from stanadapt.samplers.whitened.map_groups import exact_structure
from stanadapt.samplers.whitened.map_search import Search, in_order, search
from stanadapt.samplers.whitened.priors import LEAST_MEMBERS, Group
from stanadapt.samplers.whitened.straightened import (
    Straightened,
    apply_map,
    distance_of,
    distances,
    parts_of,
)

A, B, S, C, D, E, W, Q = conditionals.COLUMNS
# D is taken over the coordinates that a map involves. It must leave less than this share of
# it, and less than D of draws and gradients that have nothing to do with each other; and a new one,
# since a mediocre map costs more than it gains, less than either this much or this share.
LARGEST_REST, UNRELATED = 0.4, 1.0
CLOSE, CLOSE_SHARE = 0.3, 0.2
# the largest share of D that a map of many parameters may leave over all of them
LARGEST_OF_ALL = 0.9
# draws to learn from and to judge by, each; more would cost time and change nothing
MOST_DRAWS = 300
# draws of more than LARGEST_DENSE parameters, as many as a metric is learned from
MOST_OF_MANY = LARGEST_DENSE // 2
LEAST_DRAWS = 60
# of nested hierarchies
LEVELS = 2
# a map that leaves less is not compared with one in which fits are chosen in another order
SETTLED = 0.01
# no search is made again for a map after which no coordinate has a part in D above this
LARGEST_PART = 0.1
# part of a single hub above which it counts as two that are far from normal: walks of zeros have 3
# to 9, and 10 to 25 of 4,000 trajectories diverged; walks of low counts 1 to 1.5, and none did
SINGLE = 2.0
# distance in the coordinates of a block below which no further map is searched for
LEAST_WITH_BLOCK = 0.3


def straighten(
    positions: np.ndarray,
    gradients: np.ndarray,
    former: Straightened,
    least: float,
    metric: FisherMetric | None = None,
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
    metric
        The metric in use, which was judged by draws kept aside.

    """
    block = former.straightening.block
    if not former.block_is_used:
        return _straighten(positions, gradients, former, least, UNRELATED, metric)
    if len(former.members_aside(positions.shape[1])):
        return _measured(positions, gradients, former)
    # in the coordinates of the block, which stays as it is
    x, g, _ = apply_map(no_map(block), positions, gradients)
    inner = former._replace(straightening=former.straightening._replace(block=NO_BLOCK))
    found = _straighten(x, g, inner, max(least, LEAST_WITH_BLOCK), np.inf, None)
    return found._replace(
        straightening=found.straightening._replace(block=block),
        distance_before=former.distance_before, part=former.part, exact=former.exact,
        distance=found.distance / (1.0 - former.member_count / x.shape[1]),
    )  # fmt: skip


def _measured(x: np.ndarray, g: np.ndarray, former: Straightened) -> Straightened:
    """Measure D outside of a block, without a search for a further map."""
    usable = np.isfinite(x).all(axis=1) & np.isfinite(g).all(axis=1)
    x, g = x[usable], g[usable]
    if len(x) < LEAST_DRAWS:
        return former._replace(distance=np.inf)
    before, part = distance_of(x, g)
    y, slopes, _ = apply_map(no_map(former.straightening.block), x, g)
    others = np.delete(np.arange(x.shape[1]), former.members_aside(x.shape[1]))
    parts = np.sort(parts_of(y[:, others], slopes[:, others]))
    single = float(parts[0]) if parts[0] > SINGLE else 0.0
    return former._replace(
        distance_before=before, part=part, distance=float(parts.mean()),
        second=float(parts[-2]) if len(parts) > 1 else single,
    )  # fmt: skip


def _straighten(
    positions: np.ndarray, gradients: np.ndarray, former: Straightened, least: float, most: float,
    metric: FisherMetric | None,
) -> Straightened:  # fmt: skip
    nothing = no_map()
    usable = np.isfinite(positions).all(axis=1) & np.isfinite(gradients).all(axis=1)
    x, g = (positions, gradients) if usable.all() else (positions[usable], gradients[usable])
    if len(x) < LEAST_DRAWS or x.shape[1] < 2:
        return Straightened(nothing, (), np.inf, np.inf)
    if metric is not None and x.shape[1] > MANY and not former.map_is_used:
        # by the last quarter, which did not learn it, and without the time to learn another one
        last = [values[3 * len(values) // 4 :] - values.mean(axis=0) for values in (x, g)]
        near = np.mean(np.add(*metric.whiten(*last)) ** 2, axis=0)
        if near.mean() < least and near.max() < UNRELATED:
            near_part, distance = float(near.max()), float(near.mean())
            return Straightened(nothing, (), distance, distance, part=near_part)
    if x.shape[1] > LARGEST_DENSE and len(x) > MOST_OF_MANY:  # copies of all take much memory
        taken = np.linspace(0, len(x) - 1, MOST_OF_MANY).astype(int)
        x, g = x[taken], g[taken]
    parts = _thirds(x, g)
    learned = np.concatenate([parts[0][0], parts[1][0]]), np.concatenate([parts[0][1], parts[1][1]])
    judged = parts[2]
    parts_before = distances(nothing, learned, judged)
    before = float(parts_before.mean())
    second, part = np.partition(parts_before, -2)[-2:].tolist()
    best = Straightened(nothing, (), before, before, part=part, second=second)
    new = not former.map_is_used
    if new and before < least and part < most:
        return best
    if not new:
        after = distances(former.straightening, learned, judged)
        seen = former._replace(distance_before=before, distance=float(after.mean()), part=part)
        if _suffices(former, after):
            return seen._replace(confirmed=True)
        if seen.distance < before and _is_near(former.straightening, parts_before, after, new):
            best = seen._replace(confirmed=False)
    mean, sd = learned[0].mean(axis=0), learned[0].std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    first, second = (
        Draws.standardize(part[0][:MOST_DRAWS], part[1][:MOST_DRAWS], mean, sd)
        for part in parts[:2]
    )
    found = search(first, second)
    for candidates_of in (_exact_candidates, _free_candidates):
        for candidate, members in candidates_of(found, first, second):
            after = distances(candidate, learned, judged)
            near = _is_near(candidate, parts_before, after, new)
            if x.shape[1] > MANY:  # chance finds a few coordinates among many
                near &= after.mean() < LARGEST_OF_ALL * before
            if near and after.mean() < best.distance:
                best = Straightened(candidate, members, before, float(after.mean()), part=part)
        if best.distance < SETTLED:
            break
    return best


def _suffices(former: Straightened, parts: np.ndarray) -> bool:
    """Whether new draws show nothing that a map lacks.

    Every coordinate is nearly Gaussian, except scale drivers, which a map leaves unchanged; those
    without an exact prior are closer still, and none of them has a scale that varies: if its
    location is off by a little, the map cuts off the neck of a funnel, which D does not show.
    """
    found = former.straightening
    drivers = np.concatenate([found.scale_driver, found.second_driver])
    free = ~np.isin(found.coordinate, _members(list(former.groups)))
    parts = parts.copy()
    parts[drivers[drivers >= 0]] = 0.0
    return bool(
        not np.any(free & (found.scale_driver >= 0))
        and parts[found.coordinate[free]].max(initial=0.0) < conditionals.EXACT
        and parts.max() < LARGEST_PART
    )


Candidates = list[tuple[TriangularMap, tuple[Group, ...]]]


def _exact_candidates(found: Search, first: Draws, second: Draws) -> Candidates:
    """Return maps in which conditionals that are known exactly come first, each with its groups.

    Given its members, a location may seem to depend on the scale; given their residuals, it may
    not, or otherwise. So exact groups alone come first, and the rest is searched given their
    residuals: in nested hierarchies, it has further groups.
    """
    fits, groups = exact_structure(found, first, second)
    exact = fits.of(_members(groups))
    candidates = [(fits, groups)]
    more = groups
    for _ in range(LEVELS):
        # coordinates with their own prior are the end of a chain: there may be many levels
        if max((len(group.members) for group in more), default=0) < LEAST_MEMBERS:
            break
        candidates.append((exact, groups))
        rest = _Rest(_as_map(exact, groups, first), first, second)
        among_rest, more = rest.exact_structure()
        candidates.append((join([exact, among_rest]), [*groups, *more]))
        exact, groups = join([exact, among_rest.of(_members(more))]), [*groups, *more]
    if len(candidates) > 1:
        candidates.append((exact, groups))
    return [(_as_map(part, found, first), tuple(found)) for part, found in candidates]


def _free_candidates(found: Search, first: Draws, second: Draws) -> Candidates:
    """Return maps in which the conditionals with the largest gain come first, for what remains.

    In a random walk with an unknown scale each step depends on its neighbors, and only the last one
    has an exact conditional.
    """
    fits, groups = exact_structure(found.by_gain(), first, second)
    groups = [group for group in groups if len(group.members) > 1]
    exact = fits.of(_members(groups))
    candidates = [fits]
    if groups:
        among_rest = _Rest(_as_map(exact, groups, first), first, second).fits()
        candidates += [exact, join([exact, among_rest])]
    return [(_as_map(part, groups, first), tuple(groups)) for part in candidates]


def _is_near(
    straightening: TriangularMap, before: np.ndarray, after: np.ndarray, new: bool
) -> bool:
    """Whether a map brings the coordinates that it involves near enough to a Gaussian."""
    drivers = np.concatenate([
        straightening.scale_driver, straightening.second_driver, straightening.location_driver,
    ])  # fmt: skip
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


class _Rest:
    """The coordinates that are not mapped yet, given the residuals of those that are."""

    def __init__(self, straightening: TriangularMap, first: Draws, second: Draws) -> None:
        self.numbers = np.setdiff1d(np.arange(len(first.mean)), straightening.coordinate)
        mean, sd = first.mean, first.sd

        def inside(draws: Draws) -> Draws:
            x, g, _ = apply_map(
                straightening, (mean[:, None] + sd[:, None] * draws.positions).T,
                (draws.gradients / sd[:, None]).T,
            )  # fmt: skip
            kept = self.numbers
            return Draws.standardize(x[:, kept], g[:, kept], mean[kept], sd[kept])

        self.draws = inside(first), inside(second)

    def fits(self) -> Fits:
        """Return fits with the largest gain."""
        return search(*self.draws).by_gain().accepted.renumbered(self.numbers)

    def exact_structure(self) -> tuple[Fits, list[Group]]:
        """Return fits and groups, by their numbers among all coordinates."""
        fits, groups = exact_structure(search(*self.draws), *self.draws)
        return fits.renumbered(self.numbers), [group.renumbered(self.numbers) for group in groups]


def _thirds(x: np.ndarray, g: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Deal the draws into three parts in turn: each has draws of all chains."""
    return [(x[i::3], g[i::3]) for i in range(3)]


def _as_map(fits: Fits, groups: list[Group], draws: Draws) -> TriangularMap:
    """Return fits in standardized units as a map in those of the program."""
    if not len(fits.coordinate):
        return no_map()
    row_of = {int(j): row for row, j in enumerate(fits.coordinate)}
    drivers = dict(zip(row_of, fits.drivers, strict=True))
    rows = np.array([row_of[j] for j in in_order(drivers)])
    fits = fits.take(rows)
    j, scale, second, location = fits.coordinate, fits.scale, fits.second, fits.location
    numbers, has_scale, has_second, has_location = (
        fits.numbers, scale >= 0, second >= 0, location >= 0,
    )  # fmt: skip
    mean, sd, out = draws.mean, draws.sd, np.zeros((len(j), NUMBERS))
    own = numbers[:, C] > 0.5 * conditionals.ABSENT
    out[:, triangular_map.A] = numbers[:, A] - 2.0 * np.log(sd[j])
    out[:, triangular_map.B] = np.where(has_scale, numbers[:, B] / sd[scale], 0.0)
    out[:, triangular_map.C] = np.where(has_scale, mean[scale], 0.0)
    out[:, triangular_map.S] = np.where(has_second, numbers[:, S] / sd[second], 0.0)
    out[:, triangular_map.T] = np.where(has_second, mean[second], 0.0)
    most = conditionals.LARGEST_EXPONENT
    precision = np.exp(np.clip(numbers[:, C], -most, most)) / sd[j] ** 2
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
    return make_map(j, scale, second, location, out)
