"""Recognize the exact structure behind a fitted map: groups of coordinates with the same prior.

A location that is off by delta, or one member of a group that is left as it is, is a wall at scales
near delta: chains cannot enter the neck, and neither R-hat nor ESS shows it. So a free fit is
replaced by an exact one if the draws allow it:

1. Slopes are rounded to a nonzero integer per unit of the driver (-2 for the log of a standard
   deviation, -1 for that of a variance, 1 for that of a precision), locations to the driver itself
   or to 0.
2. Coordinates with the same prior form a group. Its drivers are not mapped themselves, unless by
   drivers of the same group.
3. The prior of a group is offered to every other coordinate, whose gradient then tells whether it
   contains the term of that prior.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened import conditionals
from stanadapt.samplers.whitened import priors as terms
from stanadapt.samplers.whitened.conditionals import NONE, Draws, Fits, divergence, fit
from stanadapt.samplers.whitened.map_search import START, Search, reaches
from stanadapt.samplers.whitened.priors import CLEAR, LEAST_MEMBERS, Group, Prior

COLUMNS = conditionals.COLUMNS
A, B, S, C, D, E, W, Q = COLUMNS
# farthest slope from an integer, and largest one
ROUNDING, LARGEST_SLOPE = 0.4, 4
# an exact fit may have this much more divergence than the free one; and twice that of no map if the
# gradient shows clearly that it is right
ALLOWED_SHARE, ALLOWED, CLEAR_SHARE = 1.1, 0.02, 2.0
# a group may lose its members to a larger one, so that priors are offered more than once
ROUNDS = 3
# coordinates among which a location is sought, since a larger group is found at once; and the least
# coefficient of a term
MOST_CHAINED, LEAST_LINK = 12, 0.2
# largest standard error of the coefficient of a prior's term, which is 1, of a member that is named
LARGEST_ERROR = 0.1
# logs of own precisions, relative to the first guess, from which an exact fit begins
OWN_PRECISIONS = (-0.7, -3.0, 0.5)


class Mapped:
    """The mapped coordinates: their fits, one row each, and the exact priors of some.

    They begin as those of a search, with the draws on which it learned and judged.
    """

    def __init__(self, found: Search, learned: Draws, judged: Draws) -> None:
        self.found, self.learned, self.judged = found, learned, judged
        accepted = found.accepted
        self.fits = {
            int(j): accepted.take(np.array([k])) for k, j in enumerate(accepted.coordinate)
        }
        self.priors: dict[int, Prior] = {}
        self.rest: dict[int, float] = {}
        self.unclear: set[int] = set()

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
        groups = [
            Group(prior, tuple(found), tuple(j for j in found if j in self.unclear))
            for prior, found in members.items()
        ]
        large = [group for group in groups if len(group.members) >= LEAST_MEMBERS]
        return sorted(large, key=lambda group: (-len(group.members), group.prior))

    @property
    def singles(self) -> list[Group]:
        """Priors of one coordinate each that leave nothing, such as a horseshoe's coefficients."""
        grouped = {j for group in self.groups for j in group.members}
        return [
            Group(prior, (j,))
            for j, prior in sorted(self.priors.items())
            if j not in grouped and self.rest[j] <= conditionals.EXACT
        ]


def exact_structure(found: Search, learned: Draws, judged: Draws) -> tuple[Fits, list[Group]]:
    """Return the fits of a search with exact ones in their place, and the groups among them.

    Groups of one member come last.
    """
    mapped = Mapped(found, learned, judged)
    _round(mapped)
    _find_centers(mapped)
    certain: set[int] = set()
    for _ in range(ROUNDS):
        for group in mapped.groups:
            _free_drivers(mapped, group.prior)
        if not _offer(mapped, certain):
            break
    fits = [found.accepted.take(np.empty(0, int)), *(mapped.fits[j] for j in sorted(mapped.fits))]
    return conditionals.join(fits), [*mapped.groups, *mapped.singles]


# --- exact fits -----------------------------------------------------------------------------------


def _exact_prior(fits: Fits, slopes: np.ndarray, draws: Draws) -> Fits:
    """Set the prior of each fit to an exact one, and let its size and the likelihood be fitted.

    In standardized units, b is slope sd_k, and the location x_l or 0 has the units of x_j. The
    slopes have shape (fit, 2).
    """
    j, location = fits.coordinate, fits.location
    exact = conditionals.models(j, (A, C, D), fits.scale, fits.second, location)
    numbers = exact.numbers
    numbers[:, B] = slopes[:, 0] * draws.sd[fits.scale]
    numbers[:, S] = slopes[:, 1] * draws.sd[fits.second]
    center = np.where(location >= 0, draws.mean[location], 0.0)
    numbers[:, E] = (center - draws.mean[j]) / draws.sd[j]
    numbers[:, W] = np.where(location >= 0, draws.sd[location] / draws.sd[j], 0.0)
    return exact


def _fit_exact(fits: Fits, slopes: np.ndarray, draws: Draws) -> Fits:
    """Fit exact priors with and without an own precision, and return the better of each."""
    exact = _exact_prior(fits, slopes, draws)
    start = draws.log_precision[exact.coordinate]
    exact.numbers[:, A] = start - START
    alone = exact.with_numbers(C, conditionals.ABSENT)
    alone = alone._replace(free=alone.free & (np.array(COLUMNS) == A))
    # one without an own precision has fewer numbers: it is taken if it is as good
    own = [exact.with_numbers(C, start + own) for own in OWN_PRECISIONS]
    both, alone = conditionals.fit_best(own, draws), fit(alone, draws)
    limit = (1.0 + 1e-6) * divergence(both, draws) + 1e-12
    fewer = (divergence(alone, draws) <= limit)[:, None]
    return both._replace(
        numbers=np.where(fewer, alone.numbers, both.numbers),
        free=np.where(fewer, alone.free, both.free),
    )


def _round(mapped: Mapped) -> None:
    """Round slopes and locations of the accepted fits if they remain as good."""
    accepted, learned = mapped.found.accepted, mapped.learned
    drivers = np.column_stack([accepted.scale, accepted.second])
    raw = np.where(drivers >= 0, accepted.numbers[:, [B, S]] / learned.sd[drivers], 0.0)
    slopes = np.where(np.rint(raw) == 0.0, np.sign(raw), np.rint(raw)).astype(int)
    whole = (slopes != 0) & (np.abs(raw - slopes) <= ROUNDING) & (np.abs(slopes) <= LARGEST_SLOPE)
    possible = (drivers[:, 0] >= 0) & (accepted.numbers[:, Q] == 0.0)
    possible &= (whole | (drivers < 0)).all(axis=1)
    limit = ALLOWED_SHARE * mapped.found.rest[accepted.coordinate] + ALLOWED
    for at_zero in (True, False):
        rows = np.flatnonzero(possible & (at_zero | (accepted.location >= 0)))
        if not len(rows):
            continue
        models = accepted.take(rows)
        if at_zero:
            models = models._replace(location=np.full(len(rows), NONE))
        exact = _fit_exact(models, slopes[rows], learned)
        rest = divergence(exact, mapped.judged)
        good = np.flatnonzero(rest <= limit[rows])
        mapped.set_exact(exact.take(good), slopes[rows[good]], rest[good])
        possible[rows[good]] = False


class Offer(NamedTuple):
    """A prior that is offered to a coordinate."""

    coordinate: int
    prior: Prior
    clear: bool  # whether its term is clearly in the coordinate's gradient
    known: bool  # whether its coefficient there is also known well enough to state it


# --- groups ---------------------------------------------------------------------------------------


def _find_centers(mapped: Mapped) -> None:
    """Find the location of a small group among coordinates that form a chain.

    With few members, x_1 around l, l around x_2 and x_3 around l are as good as three members
    around l, as long as nothing is known about l. Of these coordinates, the gradient of the
    location alone contains the terms of all others.
    """
    located = (prior for prior in mapped.priors.values() if prior.location >= 0)
    for prior in dict.fromkeys(prior._replace(location=NONE) for prior in located):
        # those that have it now: another may have been given to some meanwhile
        chained = [
            j
            for j, own in mapped.priors.items()
            if own.location >= 0 and own._replace(location=NONE) == prior
        ]
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
        known_exactly = all(mapped.rest[j] <= conditionals.EXACT for j in chained)
        if len(locations) == 1 or len(nodes) > MOST_CHAINED or known_exactly:
            continue
        around = _neighbors(nodes, prior, mapped, chained)
        offered = [
            Offer(j, prior._replace(location=center), clear=True, known=True)
            for center, members in _stars(around).items()
            for j in members
        ]
        if offered:
            former = mapped.fits.copy(), mapped.priors.copy()
            for node in nodes:
                if node in mapped.fits:
                    mapped.remove(node)
            if not _join(mapped, offered):
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
    nodes: list[int], prior: Prior, mapped: Mapped, members: list[int]
) -> dict[int, list[int]]:
    """Return, for each of the nodes, those whose gradient has the term of a prior around it."""
    near = terms.nearest(mapped.learned)
    size = terms.size_of(Group(prior, tuple(members)), mapped.fits, mapped.learned)
    around: dict[int, list[int]] = {center: [] for center in nodes}
    for j in nodes:
        others = [center for center in nodes if center != j]
        groups = [Group(prior._replace(location=center), ()) for center in others]
        values, errors = terms.coefficients(
            j, groups, [size] * len(groups), mapped.learned, near[j]
        )
        # the size is that of a link of the chain, which may be twice that of the prior
        for center in np.array(others)[(values > CLEAR * errors) & (values > LEAST_LINK)]:
            around[int(center)].append(j)
    return around


def _free_drivers(mapped: Mapped, prior: Prior) -> None:
    """Leave the drivers of a group as they are, unless they depend on each other alone."""
    for driver in prior.drivers:
        if driver in mapped.fits and not mapped.drivers[driver] <= prior.drivers:
            mapped.remove(driver)


def _offer(mapped: Mapped, certain: set[int]) -> bool:
    """Let every coordinate join the group whose term its gradient contains; True if one did.

    Coordinates for which this is clear are added to `certain`, and not asked again.
    """
    groups, learned = mapped.groups, mapped.learned
    if not groups:
        return False
    drivers = set().union(*(group.prior.drivers for group in groups))
    sizes = [terms.size_of(group, mapped.fits, learned) for group in groups]
    near = terms.nearest(learned)
    offered = []
    for j in range(len(learned.positions)):
        if j in drivers | certain or j in groups[0].members:
            continue
        asked = terms.likeliest(j, groups, sizes, learned)
        values, errors = terms.coefficients(
            j, [groups[i] for i in asked], [sizes[i] for i in asked], learned, near[j]
        )
        number, clear = terms.choose_group(values, errors)
        if clear:
            certain.add(j)
        if number is not None and mapped.priors.get(j) != groups[asked[number]].prior:
            known = clear and errors[number] < LARGEST_ERROR
            offered.append(Offer(j, groups[asked[number]].prior, clear, bool(known)))
    return bool(offered) and _join(mapped, offered)


def _join(mapped: Mapped, offered: list[Offer]) -> bool:
    """Fit priors to the coordinates to which they are offered; True if one is accepted."""
    j = np.array([offer.coordinate for offer in offered])
    scale, location, slope, second, second_slope = np.array([offer.prior for offer in offered]).T
    slopes = np.column_stack([slope, second_slope])
    clear = np.array([offer.clear for offer in offered])
    models, found = conditionals.models(j, (), scale, second, location), mapped.found
    exact = _fit_exact(models, slopes, mapped.learned)
    # where the gradient has decided, the likelihood may still keep the conditional from a normal
    own = np.where(np.isin(j, list(mapped.fits)) & ~clear, found.rest[j], found.before[j])
    limit = np.where(clear, CLEAR_SHARE, ALLOWED_SHARE) * own + ALLOWED
    joined = False
    rest = divergence(exact, mapped.judged)
    for row in np.flatnonzero(rest <= limit):
        coordinate, prior, _, known = offered[row]
        others = {i: needs for i, needs in mapped.drivers.items() if i != coordinate}
        if not reaches(others, prior.drivers, coordinate):
            mapped.set_exact(exact.take(np.array([row])), slopes[[row]], rest[[row]])
            (mapped.unclear.discard if known else mapped.unclear.add)(coordinate)
            joined = True
    return joined
