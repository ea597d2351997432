"""The block of noncentered members that the likelihood multiplies with functions of hubs.

In noncentered programs, the likelihood knows the products of members with scales: the steps of a
walk times one scale, weights of basis functions times a spectral density, which is a function of an
amplitude and a length, or structured and other effects times functions of a scale and a share
(BYM2). Where all members are zero, the gradient by one is its scale times a constant, since its
prior is normal around zero: so gradients there, at a row of values of each hub, show these
functions exactly, whatever they are. Cubic splines of their logs stand for them, as sums over hubs.

If they are products of hubs, `sparse_block` finds the functions in the precision. Otherwise, the
second order of the posterior around one position, and that of the prior where a scale is nearly
zero, are read from gradients there: the precision is that of the prior, and that of the likelihood
times scales. If this is wrong, draws are not closer to a Gaussian in its coordinates, and it is not
taken. All of this is ours.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from stanadapt.engine.block_map import LOWER, WIDTH
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.walk_map import NO_WALK, Walk
from stanadapt.samplers.whitened.block_structure import (
    DEFINITE,
    MOST_COORDINATES,
    POSITIONS,
    GaussianBlock,
    Members,
    Splines,
    assemble,
    definite_share,
)
from stanadapt.samplers.whitened.block_terms import Hints, Rows
from stanadapt.samplers.whitened.sparse_block import (
    LITTLE,
    NOTHING,
    ends,
    moves_of_sets,
    pattern_of,
)
from stanadapt.samplers.whitened.sparse_precision import PLACES

# logs by which a scale falls until what it multiplies has no influence, and the share that may be
NEARLY_ZERO, NO_INFLUENCE = (-20.0, -25.0), 1e-4
# knots of the splines of the logs of scales, and their distance; relative change of a gradient that
# is rounding; error of a log that is one of a factor; and the smallest log
KNOTS, MIDDLE, STEP, NO_CHANGE, POWER, SMALLEST_LOG = 25, 12, 0.1875, 1e-9, 1e-6, -300.0
# relative error of elements of a precision, and the log by which a scale is raised so that even
# what the likelihood hardly knows is above this
PRECISE, RAISED = 1e-7, 8.0


def places_without(x: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """Return two places for each bounded coordinate, whose gradients are due, (row, 2, dim).

    In both, a scale is nearly zero; those without bounds have a distance from zero, and twice this.
    Then follow KNOTS for each, around the median, where all but bounded coordinates are zero.
    """
    rng, dim = np.random.default_rng(len(x)), x.shape[1]
    away = np.sqrt(np.mean(np.square(x), axis=0)) * rng.choice((-1.0, 1.0), dim)
    rows = np.full((len(bounded), 2, 2, dim), np.nan)
    rows[:, 0, 0], rows[:, 1, 0] = away, 2.0 * away
    rows[:, :, 0, bounded] = np.median(x[:, bounded], axis=0)
    for pair, scale, middle in zip(rows, bounded, np.median(x[:, bounded], axis=0), strict=True):
        pair[:, 0, scale] = middle + NEARLY_ZERO
    knots = np.full((len(bounded), KNOTS, 2, dim), np.nan)
    knots[:, :, 0] = 0.0
    knots[:, :, 0, bounded] = np.median(x[:, bounded], axis=0)
    for each, scale in zip(knots, bounded, strict=True):
        each[:, 0, scale] += STEP * (np.arange(KNOTS) - MIDDLE)
    return np.concatenate([rows.reshape(-1, 2, dim), knots.reshape(-1, 2, dim)])


def multiplied(rows: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return which coordinates each scale multiplies, shape (bounded, dim), from these places.

    Without it, only their normal prior with mean zero is left, whose gradient doubles. `bounds` are
    those of `declared_bounds`.
    """
    count = 2 * (len(rows) // (2 + KNOTS))
    once, twice = rows[:count:2, 1], rows[1:count:2, 1]
    with np.errstate(invalid="ignore"):
        found = np.abs(twice - 2.0 * once) < NO_INFLUENCE * np.abs(once)
    return np.asarray(found & np.isfinite(twice) & (bounds[:, -1:] == 0.0))


class Scales(NamedTuple):
    """What the likelihood multiplies members with, as functions of bounded coordinates."""

    splines: Splines
    by: np.ndarray  # whether each bounded coordinate does so as a factor, shape (bounded, dim)
    others: np.ndarray  # bounded coordinates on which it depends in another way
    walk: Walk = NO_WALK  # innovations, in place of which it knows the states of processes

    @property
    def has_process(self) -> bool:
        """Whether states take the place of innovations."""
        return len(self.walk.members) > 0

    @property
    def main(self) -> int:
        """Which bounded coordinate multiplies most members."""
        return int(np.argmax(self.by.sum(axis=1)))

    @property
    def shrunk(self) -> np.ndarray:
        """How coordinates change so that products stay when this one is raised, shape (dim,)."""
        return np.exp(-RAISED * self.by[self.main])

    @property
    def are_factors(self) -> bool:
        """Whether they are products of bounded coordinates, or there are none."""
        return not len(self.splines.hubs)

    def logs(self, x: np.ndarray) -> np.ndarray:
        """Return the logs of the scales at positions, roughly, shape (row, dim)."""
        hubs, (first, step), values = self.splines.hubs, self.splines.grid.T, self.splines.values
        found = np.zeros_like(x)
        for place, each in zip(((x[:, hubs] - first) / step).T, values, strict=True):
            cell = np.clip(place, 0.0, KNOTS - 1.001)
            before, share = cell.astype(int), (cell % 1.0)[:, None]
            found += (1.0 - share) * each[before] + share * each[before + 1]
        return found


def find_scales(rows: np.ndarray, bounds: np.ndarray) -> Scales:
    """Return the scales that gradients at the places of `places_without` show.

    Where all members are zero, the gradient of a member that is multiplied with a scale is this
    scale times a constant, since its prior has mean zero, and that of others is constant.
    """
    by, walk = multiplied(rows, bounds), find_walk(rows, bounds)
    if len(walk.members):
        alone = by.copy()
        alone[:, walk.members] = False
        found = _scales_of(rows, bounds, alone, walk)
        if found.are_factors:
            return found
    return _scales_of(rows, bounds, by, NO_WALK)


def _scales_of(rows: np.ndarray, bounds: np.ndarray, by: np.ndarray, walk: Walk) -> Scales:
    bounded = bounds[:, 0].astype(int)
    count, dim = len(bounded), rows.shape[2]
    knots = rows[2 * count :].reshape(count, KNOTS, 2, dim).copy()
    knots[:, :, 1, walk.members] = 0.0
    slopes, size = knots[:, :, 1], np.abs(knots[:, MIDDLE, 1]).copy()
    size[:, bounded] = 0.0
    with np.errstate(all="ignore"):
        noise = NO_CHANGE * size.max(axis=1, keepdims=True)
        varies = ~(np.abs(slopes - slopes[:, MIDDLE : MIDDLE + 1]).max(axis=1) <= noise)
        logs = np.log(slopes / slopes[:, MIDDLE : MIDDLE + 1])
    varies[:, bounded] = False
    logs = np.maximum(logs, SMALLEST_LOG)  # a scale may become zero, but not negative
    members, all_others = by.any(axis=0), np.setdiff1d(np.arange(dim), [*bounded, *walk.members])
    logs[:, :, ~members] = 0.0
    unclear = members & ~(size.max(axis=0) > NO_CHANGE * size.max())
    straight = STEP * (np.arange(KNOTS) - MIDDLE)[:, None] * by[:, None, :]
    logs[:, :, unclear] = straight[:, :, unclear]
    power = (np.abs(logs - straight) < POWER).all(axis=(1, 2))
    known = np.isfinite(logs).all(axis=(1, 2)) & ~varies[:, ~members].any(axis=1)
    # one that multiplies everything may as well be a parameter of the likelihood
    known &= power | ~by[:, all_others].all(axis=1)
    by = by & known[:, None]
    curved = known & ~power
    chosen = np.flatnonzero(known & (logs != 0.0).any(axis=(1, 2)) & curved.any() & by.any())
    grid = np.column_stack([knots[np.arange(count), 0, 0, bounded], np.full(count, STEP)])
    splines = Splines(bounded[chosen], grid[chosen], logs[chosen])
    return Scales(splines, by, bounded[~known & varies[:, all_others].any(axis=1)], walk)


def influence(rows: np.ndarray, bounded: int) -> np.ndarray:
    """Return on which gradients bounded coordinates have one, shape (bounded, dim)."""
    knots = rows[2 * bounded :].reshape(bounded, KNOTS, 2, -1)[:, :, 1]
    return np.array([~_is_constant(each, np.abs(each).max()) for each in knots])


def find_walk(rows: np.ndarray, bounds: np.ndarray) -> Walk:
    """Return the processes with the innovations that these places show, if any.

    Where all of them are zero, so are the states, so that the gradients g_t by these are constant.
    By an innovation, it is u_t = s g_t + v u_(t+1), whatever the coefficient v is.
    """
    by, bounded = multiplied(rows, bounds), bounds[:, 0].astype(int)
    knots = rows[2 * len(by) :].reshape(len(by), KNOTS, 2, rows.shape[2])
    powers = np.exp(STEP * (np.arange(KNOTS) - MIDDLE))[:, None]
    coefficients = np.flatnonzero((bounds[:, 1 + WIDTH] > 0.0) & (bounds[:, 1 + LOWER] >= -1.0))
    found = []
    for scale, members in ((i, np.flatnonzero(row)) for i, row in enumerate(by) if row.sum() > 2):
        slopes = knots[scale, :, 1][:, members] / powers
        if not _is_constant(slopes, np.abs(slopes).max()).all():
            continue
        for hub in coefficients:
            rate, lower, width = numbers = bounds[hub, 1:]
            v = lower + width / (1.0 + np.exp(-rate * knots[hub, :, 0, bounded[hub]]))[:, None]
            for own, stationary in _processes(knots[hub, :, 1][:, members], v):
                found.append((members[own], bounded[scale], bounded[hub], numbers, stationary))
    if not found:
        return NO_WALK
    ends = np.cumsum([len(own) for own, *_ in found])
    innovations, *others = zip(*found, strict=True)
    return Walk(np.concatenate(innovations), ends, *(np.array(part) for part in others))


def _processes(slopes: np.ndarray, v: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Return which innovations each process has, in order, and whether it is stationary.

    `slopes` are those by innovations, shape (knot, innovation), at values of a coefficient. Several
    processes may follow one another, or their innovations of the same time.
    """
    size, (_, n) = np.abs(slopes).max(), slopes.shape
    varies = np.flatnonzero(~_is_constant(slopes, size))
    if not len(varies) or not np.abs(v).max() < 1.0:
        return []
    root, first = np.sqrt(1.0 - v**2), varies[0]

    def goes_on(own: np.ndarray, after: np.ndarray) -> np.ndarray:
        return np.stack([_is_constant(r * own - v * after, size) for r in (1.0, root)])

    next_one = np.flatnonzero(goes_on(slopes[:, [first]], slopes[:, first + 1 :]).any(axis=0)) + 1
    if not len(next_one):
        return []
    apart = int(next_one[0])
    plain, stationary = goes_on(slopes, np.pad(slopes[:, apart:], ((0, 0), (0, apart))))
    found = []
    for order in (np.arange(k, n, apart) for k in range(apart)):
        for own in np.split(order, np.flatnonzero(~(plain | stationary)[order]) + 1):
            is_whole = len(own) > 2 and plain[own[1:-1]].all() and own[-1] not in varies
            if is_whole and np.isin(own, varies).any():
                found.append((own, int(not plain[own[0]])))
    return found


def _is_constant(values: np.ndarray, size: float) -> np.ndarray:
    """Whether each column is the same in all rows up to rounding, relative to a size."""
    return np.asarray(np.abs(values - values[MIDDLE]).max(axis=0) <= NO_CHANGE * size)


def pairs_with_scales(x: np.ndarray, bounded: np.ndarray, scales: Scales) -> np.ndarray:
    """Return pairs of places, whose gradients are due, for `find_scaled_block`, (row, 2, dim).

    Coordinates move by little from the mean of the draws, in units of the scales, bounded ones do
    not: first where a scale is large, and then where it is nearly zero.
    """
    dim = x.shape[1]
    count = dim + PLACES // 4 if dim <= MOST_COORDINATES else PLACES // 2 + 80
    middle, moves, _ = moves_of_sets(x, bounded, (count, 0, 0))
    others = np.setdiff1d(np.arange(dim), bounded)
    middle[others] = np.mean(x * np.exp(scales.logs(x)), axis=0)[others]
    middle[scales.splines.hubs] = scales.splines.grid @ (1.0, MIDDLE)
    rows = np.full((2, len(moves), 2, 2, len(middle)), np.nan)
    rows[:, :, :, 0] = middle + np.multiply.outer(LITTLE * moves, (1.0, -1.0)).swapaxes(1, 2)
    rows[0, :, :, 0] *= scales.shrunk
    rows[:, :, :, 0, bounded[scales.main]] += np.array([RAISED, NEARLY_ZERO[0]])[:, None, None]
    return rows.reshape(-1, 2, len(middle))


def find_scaled_block(pairs: np.ndarray, hints: Hints, scales: Scales) -> GaussianBlock | None:
    """Return the block of the second order around one position, with scales in the likelihood.

    Parameters
    ----------
    pairs
        Places and their gradients, shape (row, 2, dim), in the order of `pairs_with_scales`.
    hints
        Coordinates that are declared with bounds; see `block_terms`.
    scales
        See `find_scales`.

    """
    dim = pairs.shape[2]
    members = np.setdiff1d(np.arange(dim), np.array(sorted(hints)))
    scaled = np.any(scales.by[:, members], axis=0)
    rows = ends(pairs)
    here, there = np.split(rows[:, :, members], 2)
    if not np.isfinite(rows).all():
        return None
    with one_blas_thread(), np.errstate(all="ignore"):
        found = [_precision(part) for part in (here, there)]
        if found[0] is None or found[1] is None:
            return None
        whole, prior = found[0], found[1] * np.outer(scaled, scaled)
        prior = np.where(np.abs(prior - np.rint(prior)) < PRECISE, np.rint(prior), prior)
        size, data = np.sqrt(np.diag(whole)), whole - prior
        data[np.abs(data) < PRECISE * np.outer(size, size)] = 0.0
        shrunk = scales.shrunk[members]
        shift = shrunk * (here[0, 1] + whole @ here[0, 0])
        data *= np.outer(shrunk, shrunk)
        both = [sparse.csr_array(prior), sparse.csr_array(data)]
        shifts = np.stack([np.zeros(len(members)), shift])
        fitted = Members(members, NOTHING, both, shifts, np.zeros((2, len(members), 0)))
        standardized = Rows.standardize(rows[:, 0], rows[:, 1], hints)
        block = assemble(standardized, [(), ()], fitted, scales.splines)
        if block is None:
            return None
        first, step = scales.splines.grid.T
        far = np.tile(pairs[:1, 0], (POSITIONS, 1))
        share = np.random.default_rng(0).uniform(size=(POSITIONS, len(first)))
        far[:, scales.splines.hubs] = first + share * step * (KNOTS - 1)
        return GaussianBlock(block, [(), ()]) if definite_share(block, far) >= DEFINITE else None


def _precision(rows: np.ndarray) -> np.ndarray | None:
    """Return minus the matrix by which gradients change, if it is sparse or not too large."""
    moves, slopes = rows[1:, 0] - rows[0, 0], rows[0, 1] - rows[1:, 1]
    sd = moves.std(axis=0)
    if rows.shape[2] <= MOST_COORDINATES:
        found = np.linalg.lstsq(moves / sd, slopes, rcond=None)[0] / sd[:, None]
        return (found + found.T) / 2.0
    sparse_one = pattern_of(rows)
    return None if sparse_one is None else sparse_one.toarray() / np.outer(sd, sd)
