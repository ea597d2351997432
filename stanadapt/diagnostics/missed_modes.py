"""Find modes that a fit missed: regions with draws of another fit, the reference, but none of its.

A draw of the reference counts as missed if no draw of the fit lies in the ball around it that
contains its `_count` nearest draws from other blocks of the reference; equally many draws of both
are used. The draws themselves thus set the unit of distance, in tails, along ridges and in many
dimensions alike. A mode to which the fit gives too little weight is not missed; only a mode with
(almost) none of its draws is. If much seems to be missed, more draws of the fit are used, since a
fit that visits twenty modes has few draws in the only one that the reference visits.

Slowly mixing chains leave gaps between their draws. The same count is therefore made for the fit
itself, each draw against the fit's other blocks: if nothing is missed, the draws of the reference
behave in the same way. The balls are enlarged until nearly all draws of the fit have another one in
theirs, and the share of draws that still have none is subtracted.

Henze (1988), A multivariate two-sample test based on the number of nearest neighbor type
coincidences, Annals of Statistics 16, calibrates nearest neighbors in one sample by those in the
other; the statistic and the calibration used here are new.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import mixing
from stanadapt.diagnostics.screening import worst_columns

DRAWS = 2000  # per fit, evenly thinned: at most a second per pair of fits
# if much seems to be missed: factor by which more draws of the fit are used, and how many of these
# must lie in a ball
MORE, ENOUGH = 10, 3
# columns up to which all are used. A mode of one column in thousands is lost in their distances
MOST_COLUMNS = 100
THINNED = 250  # draws of a fit by which columns are selected
BLOCKS = 8  # parts of a fit in order of time, treated as independent repetitions
FEWEST = 8 * BLOCKS
COVERED = 0.995  # share of draws of the fit with another in their ball, in the median block
# a miss is clear if the share exceeds SMALLEST, and ERRORS times its standard error
SMALLEST, ERRORS = 0.05, 3.0
Columns = dict[str, np.ndarray]


class Missed(NamedTuple):
    """Share of the draws of the reference in regions without draws of the fit, beyond chance."""

    share: float  # from -1 to 1; about 0 if nothing is missed; NaN if the fits cannot be compared
    uncertainty: float  # standard error of the share, from the blocks

    @property
    def clear(self) -> bool:
        """Whether the share is larger than chance explains."""
        return bool(self.share > max(SMALLEST, ERRORS * self.uncertainty))


def missed_share(reference: Columns, fit: Columns, draws: int = DRAWS) -> Missed:
    """Measure the share of the reference that the fit missed, from `draws` of each at most.

    Columns have shape (chain, draw), as from `results.columns`. Those are used that both have and
    that vary in at least one; of more than `MOST_COLUMNS`, those that differ most, and some others.
    """
    names = [name for name in reference if name in fit]
    if len(names) > MOST_COLUMNS:
        names = _differing(reference, fit, names)
        reference, fit = ({name: one[name] for name in names} for one in (reference, fit))
    return _missed_share(_Described(reference), _Described(fit), draws)


def _differing(one: Columns, other: Columns, names: list[str]) -> list[str]:
    """Return the names of columns with the most different quantiles, and evenly spaced ones."""
    probabilities = [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = np.array([
        np.quantile(_thin(fit, names, min(THINNED, fit[names[0]].size)), probabilities, axis=0)
        for fit in (one, other)
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        differences = np.abs(quantiles[0] - quantiles[1]).max(axis=0)
        differences /= (quantiles[:, 3] - quantiles[:, 1]).min(axis=0)
    order = np.argsort(np.nan_to_num(differences, nan=-1.0))[::-1]
    half = MOST_COLUMNS // 2
    spaced = np.linspace(half, len(names) - 1, half).astype(int)
    return [names[i] for i in np.sort(order[np.concatenate([np.arange(half), spaced])])]


def _worst(columns: Columns) -> Columns:
    """Return the columns that mix worst, if there are many."""
    names = worst_columns(columns) if len(columns) > MOST_COLUMNS else columns
    return {name: columns[name] for name in names}


def _missed_share(reference: "_Described", fit: "_Described", draws: int) -> Missed:
    names = reference.names_to_compare(fit)
    if not names:
        return Missed(np.nan, np.nan)
    size = fit.columns[names[0]].size
    n = min(draws, reference.columns[names[0]].size, size)
    n -= n % BLOCKS
    if n < FEWEST:
        return Missed(np.nan, np.nan)
    scale = np.array([reference.scale(fit, name) for name in names])
    center = np.array([reference.median[name] for name in names])
    one, other = ((x.thinned(names, n) - center) / scale for x in (reference, fit))
    result = _compare(one, other, other)
    if not result.clear or size < 2 * n:
        return result
    more = (_thin(fit.columns, names, min(size, MORE * n)) - center) / scale
    return _compare(one, other, more)


def separate_regions(columns: Columns) -> int:
    """Count the separate regions of the chains of one fit; columns have shape (chain, draw).

    Two chains share a region unless each misses most of the other, or if further chains connect
    them.
    """
    chains = max((len(values) for values in columns.values()), default=0)
    if chains < 2:
        return chains
    columns, draws = _worst(columns), max(FEWEST, min(500, 4 * DRAWS // chains))
    each = [_Described({k: v[c : c + 1] for k, v in columns.items()}) for c in range(chains)]
    region = list(range(chains))
    for i, j in combinations(range(chains), 2):
        # pairs that other chains connect need no comparison
        # each must miss the other: a narrow chain inside a wide one is not separate
        if region[i] != region[j] and not (
            _missed_share(each[i], each[j], draws).share > 0.5
            and _missed_share(each[j], each[i], draws).share > 0.5
        ):
            region = [region[i] if r == region[j] else r for r in region]
    return len(set(region))


def is_stationary(columns: Columns, largest_r_hat: float) -> bool:
    """Whether chains, or the halves of a single chain, agree: no R-hat above `largest_r_hat`."""
    for values in _worst(columns).values():
        halves = values
        if len(values) == 1:
            half = values.shape[1] // 2
            halves = values[0, : 2 * half].reshape(2, half)
        if halves.shape[1] < 4 or not np.isfinite(halves).all():
            return False
        if np.ptp(halves) > 0 and not mixing(halves).r_hat <= largest_r_hat:
            return False
    return True


class _Described:
    """Finite columns of a fit or a chain; results for each are kept for all comparisons."""

    def __init__(self, columns: Columns) -> None:
        self.columns = {name: x for name, x in columns.items() if np.isfinite(x).all()}
        self.width = {name: np.ptp(x) for name, x in self.columns.items()}
        self.spread = {name: _spread(x) for name, x in self.columns.items()}  # within chains
        self.median = {name: np.median(x) for name, x in self.columns.items()}
        self._thinned: tuple[list[str], np.ndarray] | None = None

    def names_to_compare(self, other: "_Described") -> list[str]:
        """Return the columns that both have, finite, and not constant in both."""
        shared = (name for name in self.columns if name in other.columns)
        return [name for name in shared if max(self.width[name], other.width[name]) > 0]

    def scale(self, other: "_Described", name: str) -> float:
        """Return the smaller spread within chains: the larger may be a distance between modes."""
        positive = [each.spread[name] for each in (self, other) if each.spread[name] > 0]
        return min(positive) if positive else max(self.width[name], other.width[name])

    def thinned(self, names: list[str], n: int) -> np.ndarray:
        """Return `_thin` of the columns; the last result is kept."""
        if self._thinned is None or len(self._thinned[1]) != n or self._thinned[0] != names:
            self._thinned = names, _thin(self.columns, names, n)
        return self._thinned[1]


def _spread(values: np.ndarray) -> float:
    # heavy tails or a mode of small weight do not affect quartiles
    low, high = np.quantile(values, [0.25, 0.75], axis=1)
    spread = float(np.median(high - low)) / 1.35
    return spread if spread > 0 else float(np.median(values.std(axis=1)))


def _thin(columns: Columns, names: list[str], n: int) -> np.ndarray:
    """Return evenly spaced draws, shape (n, column), one chain after the other."""
    size = columns[names[0]].size
    rows = np.linspace(0, size - 1, n).round().astype(int)
    return np.stack([columns[name].reshape(size)[rows] for name in names], axis=1)


def _compare(one: np.ndarray, other: np.ndarray, more: np.ndarray) -> Missed:
    """Compare distances of rows to the nearest of `more` with those to the `_count`-th of `one`.

    `other` has as many draws of the fit as `one` has of the reference; `more` has at least as many.
    """
    count = _count(len(one))
    with np.errstate(divide="ignore", invalid="ignore"):
        between = _squares(one, other)
        nearest = between.min(axis=1) if more is other else _nearest(one, more, ENOUGH)
        theirs = nearest / _smallest(_squares(one, one), count)
        ours = _squares(other, other).min(axis=1) / _smallest(between.T, count)
    theirs, ours = (np.nan_to_num(x, nan=0.0, posinf=np.inf) for x in (theirs, ours))
    blocks = ours.reshape(BLOCKS, -1)
    # the median block: a region visited in one block must not hide a mode never visited
    wide = max(1.0, float(np.median(np.quantile(blocks, COVERED, axis=1, method="higher"))))
    lacking = (theirs.reshape(BLOCKS, -1) > wide).mean(axis=1)
    chance = (blocks > wide).mean(axis=1)
    error = np.hypot(lacking.std(ddof=1), chance.std(ddof=1)) / np.sqrt(BLOCKS)
    return Missed(float(lacking.mean() - np.median(chance)), float(error))


def _nearest(one: np.ndarray, many: np.ndarray, count: int) -> np.ndarray:
    """Return the squared distance of each row to the `count`-th nearest of many, in batches."""
    nearest = np.full((len(one), count), np.inf)
    for first in range(0, len(many), len(one)):
        squares = _squares(one, many[first : first + len(one)], within=False)
        nearest = np.hstack([nearest, squares])
        nearest = np.partition(nearest, count - 1, axis=1)[:, :count]
    return nearest.max(axis=1)


def _count(n: int) -> int:
    return max(5, n // 60)


def _squares(one: np.ndarray, other: np.ndarray, within: bool = True) -> np.ndarray:
    """Return squared distances, shape (n, m); with `within`, n = m, infinite within a block.

    The draws of a block are dependent.
    """
    squares = -2 * one @ other.T
    squares += (one**2).sum(axis=1)[:, None]
    squares += (other**2).sum(axis=1)
    np.maximum(squares, 0, out=squares)
    size = len(one) // BLOCKS
    for first in range(0, len(one) if within else 0, size):
        squares[first : first + size, first : first + size] = np.inf
    return squares


def _smallest(squares: np.ndarray, count: int) -> np.ndarray:
    return np.partition(squares, count - 1, axis=1)[:, count - 1]
