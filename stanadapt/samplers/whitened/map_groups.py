"""Recognize the exact structure behind a fitted map: groups of coordinates with the same prior.

A location that is off by delta, or one member of a group that is left as it is, is a wall at scales
near delta: chains cannot enter the neck, and neither R-hat nor ESS shows it. So a free fit is
replaced by an exact one if the draws allow it:

1. Slopes are rounded to a nonzero integer per unit of the driver (-2 for the log of a standard
   deviation, -1 for that of a variance, 1 for that of a precision), locations to the driver itself
   or to 0.
2. Coordinates with the same prior form a group. Its drivers are not mapped themselves, unless by
   drivers of the same group.
3. The prior of a group is offered to every other coordinate. If x_j ~ normal(x_l, exp(x_k)), the
   gradient of x_j contains the term -exp(a + b x_k) (x_j - x_l) with the a of the group, however
   weak the prior is next to the likelihood. Gradients have no noise: in a regression on this term
   its coefficient is 1 for a member, and 0 for any other coordinate.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.conditionals import (
    ABSENT,
    LARGEST_EXPONENT,
    PARAMETERS,
    SMALLEST,
    A,
    B,
    C,
    D,
    Draws,
    E,
    Fits,
    Q,
    S,
    W,
    divergence,
    fit,
    join,
)
from stanadapt.samplers.whitened.map_search import (
    EXACT,
    NONE,
    START,
    Search,
    correlations,
    reaches,
)

# farthest slope from an integer, and largest one
ROUNDING, LARGEST_SLOPE = 0.4, 4
# an exact fit may have this much more divergence than the free one; and twice that of no map if the
# gradient shows clearly that it is right
ALLOWED_SHARE, ALLOWED, CLEAR_SHARE = 1.1, 0.02, 2.0
# a group may lose its members to a larger one, so that priors are offered more than once
LEAST_MEMBERS, ROUNDS = 2, 3
# groups, of many, that are offered to one coordinate
MOST_OFFERED = 12
# coordinates among which a location is sought, since a larger group is found at once; and the least
# coefficient of a term
MOST_CHAINED, LEAST_LINK = 12, 0.2
# logs of own precisions, relative to the first guess, from which an exact fit begins
OWN_PRECISIONS = (-0.7, -3.0, 0.5)
# other terms in the regression of a gradient, and coordinates among which they are chosen
EXPLAINED_BY, MOST_NEAR = 8, 32
# standard errors by which the coefficient of a prior's term must differ from 0, and may differ from
# 1; and the factor by which it may differ from 1 in any case
CLEAR, COMPATIBLE, ALIKE = 4.0, 4.0, 1.5


class Prior(NamedTuple):
    """Drivers of scale and location, and the slopes of the log precision in the former.

    A second driver of the scale, and the slope in it, may be absent.
    """

    scale: int
    location: int
    slope: int
    second: int = NONE
    second_slope: int = 0

    @property
    def drivers(self) -> set[int]:
        """Numbers of its drivers."""
        return {driver for driver in (self.scale, self.second, self.location) if driver >= 0}

    @property
    def scales(self) -> list[tuple[int, int]]:
        """The drivers of the scale, each with its slope."""
        both = (self.scale, self.slope), (self.second, self.second_slope)
        return [(driver, slope) for driver, slope in both if driver >= 0]


class Group(NamedTuple):
    """Coordinates with the same prior, by their numbers."""

    prior: Prior
    members: tuple[int, ...]


class Mapped:
    """The mapped coordinates: their fits, and the exact priors of some.

    Parameters
    ----------
    fits
        By coordinate, one row each.

    """

    def __init__(self, fits: dict[int, Fits]) -> None:
        self.fits = fits
        self.priors: dict[int, Prior] = {}
        self.rest: dict[int, float] = {}

    def set_exact(self, fits: Fits, slopes: np.ndarray, rest: np.ndarray) -> None:
        """Replace the fits of some coordinates by exact ones, with their held-out divergence."""
        for row, j in enumerate(fits.coordinate):
            first, second = (int(slope) for slope in slopes[row])
            prior = Prior(
                int(fits.scale[row]), int(fits.location[row]), first, int(fits.second[row]), second
            )
            self.fits[int(j)], self.priors[int(j)] = fits.take(np.array([row])), prior
            self.rest[int(j)] = float(rest[row])

    def remove(self, j: int) -> None:
        """Leave a coordinate as it is."""
        del self.fits[j]
        self.priors.pop(j, None)

    @property
    def drivers(self) -> dict[int, set[int]]:
        """What each mapped coordinate depends on."""
        return {j: fits.drivers[0] for j, fits in self.fits.items()}

    @property
    def groups(self) -> list[Group]:
        """Those with enough members, the largest first."""
        members: dict[Prior, list[int]] = {}
        for j, prior in sorted(self.priors.items()):
            members.setdefault(prior, []).append(j)
        groups = [Group(prior, tuple(found)) for prior, found in members.items()]
        large = [group for group in groups if len(group.members) >= LEAST_MEMBERS]
        return sorted(large, key=lambda group: (-len(group.members), group.prior))

    @property
    def singles(self) -> list[Group]:
        """Priors of one coordinate each that leave nothing, such as a horseshoe's coefficients."""
        grouped = {j for group in self.groups for j in group.members}
        return [
            Group(prior, (j,))
            for j, prior in sorted(self.priors.items())
            if j not in grouped and self.rest[j] <= EXACT
        ]


def exact_structure(found: Search, learned: Draws, judged: Draws) -> tuple[Fits, list[Group]]:
    """Return the fits of a search with exact ones in their place, and the groups among them.

    Groups of one member come last.
    """
    accepted = found.accepted
    rows = {int(j): accepted.take(np.array([row])) for row, j in enumerate(accepted.coordinate)}
    mapped = Mapped(rows)
    _round(mapped, found, learned, judged)
    _find_centers(mapped, found, learned, judged)
    certain: set[int] = set()
    for _ in range(ROUNDS):
        for group in mapped.groups:
            _free_drivers(mapped, group.prior)
        if not _offer(mapped, certain, found, learned, judged):
            break
    fits = [mapped.fits[j] for j in sorted(mapped.fits)]
    return (join(fits) if fits else accepted.take(np.empty(0, int))), [
        *mapped.groups,
        *mapped.singles,
    ]


# --- exact fits -----------------------------------------------------------------------------------


def _exact_prior(fits: Fits, slopes: np.ndarray, draws: Draws) -> Fits:
    """Set the prior of each fit to an exact one, and let its size and the likelihood be fitted.

    In standardized units, b is slope sd_k, and the location x_l or 0 has the units of x_j. The
    slopes have shape (fit, 2).
    """
    j, location = fits.coordinate, fits.location
    numbers, free = np.zeros((len(j), PARAMETERS)), np.zeros((len(j), PARAMETERS), bool)
    numbers[:, B] = slopes[:, 0] * draws.sd[fits.scale]
    numbers[:, S] = slopes[:, 1] * draws.sd[fits.second]
    center = np.where(location >= 0, draws.mean[location], 0.0)
    numbers[:, E] = (center - draws.mean[j]) / draws.sd[j]
    numbers[:, W] = np.where(location >= 0, draws.sd[location] / draws.sd[j], 0.0)
    free[:, [A, C, D]] = True
    return fits._replace(numbers=numbers, free=free)


def _fit_exact(fits: Fits, slopes: np.ndarray, draws: Draws) -> Fits:
    """Fit exact priors with and without an own precision, and return the better of each."""
    exact = _exact_prior(fits, slopes, draws)
    start = draws.log_precision[exact.coordinate]
    exact.numbers[:, A] = start - START
    tried = [
        fit(exact._replace(numbers=_with(exact.numbers, C, start + own)), draws)
        for own in OWN_PRECISIONS
    ]
    alone = exact.free & (np.arange(PARAMETERS) == A)
    without = exact._replace(numbers=_with(exact.numbers, C, ABSENT), free=alone)
    tried.append(fit(without, draws))
    values = np.stack([divergence(each, draws) for each in tried])
    # the last has fewer numbers: it is taken if it is as good
    values[-1] = (1.0 - 1e-6) * values[-1] - 1e-12
    best, rows = values.argmin(axis=0), np.arange(len(start))
    numbers = np.stack([each.numbers for each in tried])[best, rows]
    free = np.stack([each.free for each in tried])[best, rows]
    return exact._replace(numbers=numbers, free=free)


def _with(numbers: np.ndarray, column: int, value: np.ndarray | float) -> np.ndarray:
    numbers = numbers.copy()
    numbers[:, column] = value
    return numbers


def _round(mapped: Mapped, found: Search, learned: Draws, judged: Draws) -> None:
    """Round slopes and locations of the accepted fits if they remain as good."""
    accepted = found.accepted
    drivers = np.column_stack([accepted.scale, accepted.second])
    raw = np.where(drivers >= 0, accepted.numbers[:, [B, S]] / learned.sd[drivers], 0.0)
    slopes = np.where(np.rint(raw) == 0.0, np.sign(raw), np.rint(raw)).astype(int)
    whole = (slopes != 0) & (np.abs(raw - slopes) <= ROUNDING) & (np.abs(slopes) <= LARGEST_SLOPE)
    possible = (drivers[:, 0] >= 0) & (accepted.numbers[:, Q] == 0.0)
    possible &= (whole | (drivers < 0)).all(axis=1)
    limit = ALLOWED_SHARE * found.rest[accepted.coordinate] + ALLOWED
    for at_zero in (True, False):
        rows = np.flatnonzero(possible & (at_zero | (accepted.location >= 0)))
        if not len(rows):
            continue
        models = accepted.take(rows)
        if at_zero:
            models = models._replace(location=np.full(len(rows), NONE))
        exact = _fit_exact(models, slopes[rows], learned)
        rest = divergence(exact, judged)
        good = np.flatnonzero(rest <= limit[rows])
        mapped.set_exact(exact.take(good), slopes[rows[good]], rest[good])
        possible[rows[good]] = False


# --- groups ---------------------------------------------------------------------------------------


def _find_centers(mapped: Mapped, found: Search, learned: Draws, judged: Draws) -> None:
    """Find the location of a small group among coordinates that form a chain.

    With few members, x_1 around l, l around x_2 and x_3 around l are as good as three members
    around l, as long as nothing is known about l. Of these coordinates, the gradient of the
    location alone contains the terms of all others.
    """
    known: dict[Prior, list[int]] = {}
    for j, prior in mapped.priors.items():
        if prior.location >= 0:
            known.setdefault(prior._replace(location=NONE), []).append(j)
    for prior, members in known.items():
        # some may have been given another prior meanwhile
        chained = [j for j in members if j in mapped.priors]
        if not chained:
            continue
        alike = [
            j
            for j, fits in mapped.fits.items()
            if (fits.scale[0], fits.second[0]) == (prior.scale, prior.second)
        ]
        locations = {int(mapped.fits[j].location[0]) for j in alike} - {NONE}
        nodes = sorted(locations.union(alike))
        # conditionals that are exact already are those of a nested hierarchy, or of a random walk
        known_exactly = all(mapped.rest[j] <= EXACT for j in chained)
        if len(locations) == 1 or len(nodes) > MOST_CHAINED or known_exactly:
            continue
        around = _neighbors(nodes, prior, mapped, chained, learned)
        offered = [
            (j, prior._replace(location=center), True)
            for center, members in _stars(around).items()
            for j in members
        ]
        if offered:
            former = mapped.fits.copy(), mapped.priors.copy()
            for node in nodes:
                if node in mapped.fits:
                    mapped.remove(node)
            if not _join(mapped, offered, found, learned, judged):
                mapped.fits, mapped.priors = former


def _stars(around: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return centers and the members around each, the largest first; no coordinate is in two."""
    stars: dict[int, list[int]] = {}
    left = set(around)
    while left:
        members = {center: [j for j in around[center] if j in left] for center in sorted(left)}
        center = max(members, key=lambda node: len(members[node]))
        if len(members[center]) < LEAST_MEMBERS:
            break
        stars[center] = members[center]
        left -= {center, *members[center]}
    return stars


def _neighbors(
    nodes: list[int], prior: Prior, mapped: Mapped, members: list[int], draws: Draws
) -> dict[int, list[int]]:
    """Return, for each of the nodes, those whose gradient has the term of a prior around it."""
    near = _nearest(draws)
    size = _size(mapped, Group(prior, tuple(members)), draws)
    around: dict[int, list[int]] = {center: [] for center in nodes}
    for j in nodes:
        others = [center for center in nodes if center != j]
        groups = [Group(prior._replace(location=center), ()) for center in others]
        values, errors = _coefficients(j, groups, [size] * len(groups), draws, near[j])
        # the size is that of a link of the chain, which may be twice that of the prior
        for center in np.array(others)[(values > CLEAR * errors) & (values > LEAST_LINK)]:
            around[int(center)].append(j)
    return around


def _free_drivers(mapped: Mapped, prior: Prior) -> None:
    """Leave the drivers of a group as they are, unless they depend on each other alone."""
    for driver in prior.drivers:
        if driver in mapped.fits and not mapped.drivers[driver] <= prior.drivers:
            mapped.remove(driver)


def _offer(mapped: Mapped, certain: set[int], found: Search, learned: Draws, judged: Draws) -> bool:
    """Let every coordinate join the group whose term its gradient contains; True if one did.

    Coordinates for which this is clear are added to `certain`, and not asked again.
    """
    groups = mapped.groups
    if not groups:
        return False
    drivers = set().union(*(group.prior.drivers for group in groups))
    sizes = [_size(mapped, group, learned) for group in groups]
    near = _nearest(learned)
    offered: list[tuple[int, Prior, bool]] = []
    for j in range(len(learned.positions)):
        if j in drivers | certain or j in groups[0].members:
            continue
        asked = _likeliest(j, groups, sizes, learned)
        values, errors = _coefficients(
            j, [groups[i] for i in asked], [sizes[i] for i in asked], learned, near[j]
        )
        number, clear = _choose_group(values, errors)
        if clear:
            certain.add(j)
        if number is not None and mapped.priors.get(j) != groups[asked[number]].prior:
            offered.append((j, groups[asked[number]].prior, clear))
    return bool(offered) and _join(mapped, offered, found, learned, judged)


def _likeliest(j: int, groups: list[Group], sizes: list[float], draws: Draws) -> list[int]:
    """Return the numbers of the groups whose terms are most correlated with the gradient."""
    if len(groups) <= MOST_OFFERED:
        return list(range(len(groups)))
    terms = np.nan_to_num(_prior_terms(j, groups, sizes, draws), posinf=0.0, neginf=0.0)
    scores = correlations(terms, draws.gradients[[j]])[:, 0]
    return sorted(np.argsort(-scores, kind="stable")[:MOST_OFFERED].tolist())


def _join(
    mapped: Mapped,
    offered: list[tuple[int, Prior, bool]],
    found: Search,
    learned: Draws,
    judged: Draws,
) -> bool:
    """Fit priors to the coordinates to which they are offered; True if one is accepted."""
    j = np.array([coordinate for coordinate, _, _ in offered])
    scale, location, slope, second, second_slope = np.array([prior for _, prior, _ in offered]).T
    slopes = np.column_stack([slope, second_slope])
    clear = np.array([is_clear for _, _, is_clear in offered])
    numbers = np.zeros((len(j), PARAMETERS))
    models = Fits(j, scale, second, location, numbers, numbers > 0.0)
    exact = _fit_exact(models, slopes, learned)
    # where the gradient has decided, the likelihood may still keep the conditional from a normal
    own = np.where(np.isin(j, list(mapped.fits)) & ~clear, found.rest[j], found.before[j])
    limit = np.where(clear, CLEAR_SHARE, ALLOWED_SHARE) * own + ALLOWED
    joined = False
    rest = divergence(exact, judged)
    for row in np.flatnonzero(rest <= limit):
        coordinate, prior, _ = offered[row]
        others = {i: needs for i, needs in mapped.drivers.items() if i != coordinate}
        if not reaches(others, prior.drivers, coordinate):
            mapped.set_exact(exact.take(np.array([row])), slopes[[row]], rest[[row]])
            joined = True
    return joined


def _size(mapped: Mapped, group: Group, draws: Draws) -> float:
    """Return the group's a in the program's units: the median of its members."""
    scale, second, found = group.prior.scale, group.prior.second, []
    for j in group.members:
        numbers = mapped.fits[j].numbers[0]
        shift = numbers[B] * draws.mean[scale] / draws.sd[scale]
        shift += numbers[S] * draws.mean[second] / draws.sd[second]
        found.append(numbers[A] - shift - 2.0 * np.log(draws.sd[j]))
    return float(np.median(found))


def _coefficients(
    j: int, groups: list[Group], sizes: list[float], draws: Draws, near: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the groups' terms in the gradient of a coordinate, and their errors.

    The gradient is regressed on the terms of all groups, and on those coordinates near it, and
    their products with the coordinate itself, that explain most of the rest.
    """
    terms = _prior_terms(j, groups, sizes, draws)
    if not np.isfinite(terms).all():
        return np.zeros(len(groups)), np.full(len(groups), np.inf)
    z, g = draws.positions, draws.gradients[j]
    others = z[np.unique([*near, *(d for group in groups for d in group.prior.drivers)])]
    others = np.concatenate([others, z[j] * others])
    others -= others.mean(axis=1, keepdims=True)
    others /= np.maximum(np.linalg.norm(others, axis=1, keepdims=True), SMALLEST)
    norms = np.maximum(np.linalg.norm(terms, axis=1), SMALLEST)
    rows = [np.ones(z.shape[1]), z[j], *(terms / norms[:, None])]
    with one_blas_thread():
        for _ in range(EXPLAINED_BY):
            design = np.stack(rows, axis=1)
            rest = g - design @ np.linalg.lstsq(design, g, rcond=1e-10)[0]
            rows.append(others[np.argmax(np.abs(others @ rest))])
        design = np.stack(rows, axis=1)
        coefficients, _, rank, _ = np.linalg.lstsq(design, g, rcond=1e-10)
        rest = g - design @ coefficients
        variance = rest @ rest / max(len(rest) - int(rank), 1)
        # of a coordinate that never moved, 0 may come out as a negative number
        inverse = np.maximum(np.diag(np.linalg.pinv(design.T @ design)), 0.0)
        errors = np.sqrt(variance * inverse)
    here = slice(2, 2 + len(groups))
    return coefficients[here] / norms, errors[here] / norms


def _nearest(draws: Draws) -> np.ndarray:
    """Return the numbers of the coordinates most correlated with each gradient, one row each."""
    scores = correlations(draws.gradients, draws.positions)
    count = min(MOST_NEAR, len(scores))
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _prior_terms(j: int, groups: list[Group], sizes: list[float], draws: Draws) -> np.ndarray:
    """Return -exp(a + b x_k) (x_j - x_l) in standardized units, shape (group, draw)."""
    positions = draws.mean[:, None] + draws.sd[:, None] * draws.positions
    out = np.empty((len(groups), positions.shape[1]))
    for row, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        scale, location, slope, second, second_slope = group.prior
        center = positions[location] if location >= 0 else 0.0
        exponent = size + slope * positions[scale] + second_slope * positions[second]
        exponent = np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)
        out[row] = -np.exp(exponent) * (positions[j] - center) * draws.sd[j]
    return out


def _choose_group(values: np.ndarray, errors: np.ndarray) -> tuple[int | None, bool]:
    """Choose by coefficients that are 1 for the coordinate's own group and 0 for the others.

    Returns the group's number, if any, and whether its term is clearly there. If the draws cannot
    tell 1 from 0, a single group is taken for the own one: a member that is left out costs more
    than a coordinate too many, for which the term of the prior is small.
    """
    clear = np.flatnonzero(_is_clear(values, errors))
    if len(clear):
        return int(clear[np.argmin(np.abs(values - 1.0)[clear])]), True
    if len(values) == 1 and _may_be_one(values, errors)[0]:
        return 0, False
    return None, False


def _is_clear(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    return _may_be_one(values, errors) & (values > CLEAR * errors)


def _may_be_one(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
    alike = np.abs(np.log(np.maximum(values, SMALLEST))) <= np.log(ALIKE)
    return (np.abs(values - 1.0) <= COMPATIBLE * errors) | alike
