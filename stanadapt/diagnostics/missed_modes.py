"""Draws of one fit (the yardstick) that lie where another fit has none: modes that it missed.

A draw of the yardstick counts as missed if the ball around it that holds its `_count` nearest
draws from the yardstick's other blocks holds none of equally many draws of the fit. The draws
themselves thus set the unit of distance, in tails, along ridges and in many dimensions alike. A
mode to which the fit gives too little weight is not missed, only one in which it has (almost) no
draws: where much seems to be missed, more draws of the fit are looked at, since of a fit that has
found twenty modes few lie in the only one that the yardstick found.

Slowly mixing chains leave gaps between their draws. The same count is therefore made for the fit's
own draws, each against the fit's other blocks: if nothing is missed, the yardstick's draws behave
as these do. The balls are widened until nearly all of the fit's own draws have another one of the
fit in theirs, and the share of those that still have none is subtracted.

The idea of calibrating nearest neighbors in one sample by those in the other is due to Henze
(1988), A multivariate two-sample test based on the number of nearest neighbor type coincidences,
Annals of Statistics 16; statistic and calibration here are our own.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.results import arviz_module

DRAWS = 2000  # per fit, evenly thinned: at most a second per pair of fits
# where much seems to be missed: times as many of the fit, of which a ball must hold some
MORE, HELD = 10, 3
BLOCKS = 8  # parts of a fit in order of time, treated as independent repetitions
FEWEST = 8 * BLOCKS
OWN = 0.995  # share of the fit's own draws with another in their ball, in the median block
# a miss is reported if the share exceeds SMALLEST, and ERRORS of its standard errors
SMALLEST, ERRORS = 0.05, 3.0
Columns = dict[str, np.ndarray]


class Missed(NamedTuple):
    """Share of the yardstick's draws that lie where the fit has none, beyond chance.

    share
        Between -1 and 1; about 0 where nothing is missed; NaN where nothing can be compared.
    uncertainty
        Its standard error, from the blocks.

    """

    share: float
    uncertainty: float

    @property
    def clear(self) -> bool:
        """Whether it is more than chance explains."""
        return bool(self.share > max(SMALLEST, ERRORS * self.uncertainty))


def missed(yardstick: Columns, fit: Columns, draws: int = DRAWS) -> Missed:
    """Measure the share of the yardstick that the fit missed.

    Parameters
    ----------
    yardstick, fit
        Columns of shape (chain, draw) by name, as from `results.columns`; used are those that
        both have and that vary in at least one.
    draws
        Number used of each, at most.

    """
    names = [name for name in yardstick if name in fit and _varies(yardstick[name], fit[name])]
    if not names:
        return Missed(np.nan, np.nan)
    n = min(draws, yardstick[names[0]].size, fit[names[0]].size)
    n -= n % BLOCKS
    if n < FEWEST:
        return Missed(np.nan, np.nan)
    scale = np.array([_scale(yardstick[name], fit[name]) for name in names])
    center = np.array([np.median(yardstick[name]) for name in names])
    one, other = ((_thinned(c, names, n) - center) / scale for c in (yardstick, fit))
    found = _compared(one, other, other)
    size = fit[names[0]].size
    if not found.clear or size < 2 * n:
        return found
    more = (_thinned(fit, names, min(size, MORE * n)) - center) / scale
    return _compared(one, other, more)


def separate_regions(columns: Columns) -> int:
    """Count the separate regions in which the chains of one fit lie; columns (chain, draw).

    Two chains share a region unless each misses most of the other and no further chains join them.
    """
    chains = max((len(values) for values in columns.values()), default=0)
    if chains < 2:
        return chains
    draws = max(FEWEST, min(500, 4 * DRAWS // chains))
    apart = np.zeros((chains, chains), dtype=bool)
    for i in range(chains):
        for j in range(chains):
            one, other = ({k: v[c : c + 1] for k, v in columns.items()} for c in (i, j))
            apart[i, j] = i != j and missed(one, other, draws).share > 0.5
    # both must miss the other: a narrow chain inside a wide one is no separate region
    return _components(~(apart & apart.T))


def is_stationary(columns: Columns, largest_r_hat: float) -> bool:
    """Whether chains, or the halves of a single one, agree: no R-hat above `largest_r_hat`."""
    arviz = arviz_module()
    for values in columns.values():
        halves = values
        if len(values) == 1:
            half = values.shape[1] // 2
            halves = values[0, : 2 * half].reshape(2, half)
        if halves.shape[1] < 4 or not np.isfinite(halves).all():
            return False
        if np.ptp(halves) > 0 and not float(arviz.rhat(halves)) <= largest_r_hat:
            return False
    return True


def _varies(one: np.ndarray, other: np.ndarray) -> bool:
    finite = np.isfinite(one).all() and np.isfinite(other).all()
    return bool(finite and max(np.ptp(one), np.ptp(other)) > 0)


def _scale(one: np.ndarray, other: np.ndarray) -> float:
    """Smaller of the two spreads within chains: the larger may be a distance between modes."""
    spreads = [_spread(one), _spread(other)]
    positive = [spread for spread in spreads if spread > 0]
    return min(positive) if positive else max(np.ptp(one), np.ptp(other))


def _spread(values: np.ndarray) -> float:
    # quartiles: neither heavy tails nor a mode of small weight widens them
    low, high = np.quantile(values, [0.25, 0.75], axis=1)
    spread = float(np.median(high - low)) / 1.35
    return spread if spread > 0 else float(np.median(values.std(axis=1)))


def _thinned(columns: Columns, names: list[str], n: int) -> np.ndarray:
    """Rows, shape (n, column): one chain after the other, evenly spaced."""
    size = columns[names[0]].size
    chosen = np.linspace(0, size - 1, n).round().astype(int)
    return np.stack([columns[name].reshape(size)[chosen] for name in names], axis=1)


def _compared(one: np.ndarray, other: np.ndarray, more: np.ndarray) -> Missed:
    """Distances of rows to the nearest of `more`, over those to the `_count`-th of `one`.

    `other` are as many of the fit's draws as there are rows, and `more` are these or more of them.
    """
    count = _count(len(one))
    with np.errstate(divide="ignore", invalid="ignore"):
        between = _squares(one, other)
        nearest = between.min(axis=1) if more is other else _nearest(one, more, HELD)
        theirs = nearest / _smallest(_squares(one, one), count)
        own = _squares(other, other).min(axis=1) / _smallest(between.T, count)
    theirs, own = (np.nan_to_num(x, nan=0.0, posinf=np.inf) for x in (theirs, own))
    blocks = own.reshape(BLOCKS, -1)
    # the median block: a region visited in one block must not hide what was never visited
    wide = max(1.0, float(np.median(np.quantile(blocks, OWN, axis=1, method="higher"))))
    lacking = (theirs.reshape(BLOCKS, -1) > wide).mean(axis=1)
    chance = (blocks > wide).mean(axis=1)
    error = np.hypot(lacking.std(ddof=1), chance.std(ddof=1)) / np.sqrt(BLOCKS)
    return Missed(float(lacking.mean() - np.median(chance)), float(error))


def _nearest(one: np.ndarray, many: np.ndarray, count: int) -> np.ndarray:
    """Squared distance of each row to the `count`-th nearest of many, a part of these at a time."""
    found = np.full((len(one), count), np.inf)
    for first in range(0, len(many), len(one)):
        squares = _squares(one, many[first : first + len(one)], within=False)
        found = np.hstack([found, squares])
        found = np.partition(found, count - 1, axis=1)[:, :count]
    return found.max(axis=1)


def _count(n: int) -> int:
    return max(5, n // 60)


def _squares(one: np.ndarray, other: np.ndarray, within: bool = True) -> np.ndarray:
    """Squared distances, shape (n, m); `within`: of n draws each, infinite within a block.

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


def _components(joined: np.ndarray) -> int:
    """Count the connected parts of a graph, shape (node, node)."""
    remaining, count = set(range(len(joined))), 0
    while remaining:
        count, reached = count + 1, {remaining.pop()}
        while reached:
            near = set(np.flatnonzero(joined[reached.pop()]).tolist()) & remaining
            remaining -= near
            reached |= near
    return count
