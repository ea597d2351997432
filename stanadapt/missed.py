"""Draws of one fit that lie where another fit has none: modes that it missed.

A draw of the yardstick counts as missed if the ball around it that holds its `_count` nearest
draws out of the yardstick's other blocks holds none of as many draws of the fit. Distances are thus
measured by the draws themselves, which serves tails, ridges and many dimensions alike, and a mode
that the fit holds with too little weight is not missed, only one that it has (almost) no draws in.

Chains that move slowly leave holes between their draws. So the same is asked of the fit's own
draws, each against the fit's other blocks: were there nothing missed, the yardstick's draws would
do as these do. The balls are widened until nearly all the fit's own draws have one of the fit's
in theirs, and the share of those that still have none is subtracted.

The idea of calibrating nearest neighbours in one sample by those in the other is that of Henze
(1988), A multivariate two-sample test based on the number of nearest neighbor type coincidences,
Annals of Statistics 16; statistic and calibration here are our own.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.results import arviz_module

DRAWS = 2000  # of a fit, evenly thinned: a second at most for a pair of fits
BLOCKS = 8  # parts of a fit in the order of time, that stand for independent repetitions
FEWEST = 8 * BLOCKS
OWN = 0.995  # of the fit's own draws lie in the balls, in the middle one of its blocks
# a miss is told if the share is larger than that, and than so many of its standard errors
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
        """Whether it is too much for chance."""
        return bool(self.share > max(SMALLEST, ERRORS * self.uncertainty))


def missed(yardstick: Columns, fit: Columns, draws: int = DRAWS) -> Missed:
    """Measure how much of the yardstick the fit has missed.

    Parameters
    ----------
    yardstick, fit
        Columns of shape (chain, draw) by name, as of `results.columns`; those are used that
        both have, and that move in one.
    draws
        How many of each are looked at, at most.

    """
    names = [name for name in yardstick if name in fit and _moves(yardstick[name], fit[name])]
    if not names:
        return Missed(np.nan, np.nan)
    n = min(draws, yardstick[names[0]].size, fit[names[0]].size)
    n -= n % BLOCKS
    if n < FEWEST:
        return Missed(np.nan, np.nan)
    scale = np.array([_scale(yardstick[name], fit[name]) for name in names])
    centre = np.array([np.median(yardstick[name]) for name in names])
    one, other = ((_thinned(c, names, n) - centre) / scale for c in (yardstick, fit))
    return _compared(one, other)


def places(columns: Columns) -> int:
    """Count the separate places in which the chains of one fit lie; shape (chain, draw) each.

    Two chains lie in one place unless each misses most of the other, or if others join them.
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
    # a narrow chain inside a wide one is no other place
    return _components(~(apart & apart.T))


def settled(columns: Columns, largest: float) -> bool:
    """Whether chains, or the halves of a single one, agree: no R-hat is above `largest`."""
    arviz = arviz_module()
    for values in columns.values():
        halves = values
        if len(values) == 1:
            half = values.shape[1] // 2
            halves = values[0, : 2 * half].reshape(2, half)
        if halves.shape[1] < 4 or not np.isfinite(halves).all():
            return False
        if np.ptp(halves) > 0 and not float(arviz.rhat(halves)) <= largest:
            return False
    return True


def _moves(one: np.ndarray, other: np.ndarray) -> bool:
    finite = np.isfinite(one).all() and np.isfinite(other).all()
    return bool(finite and max(np.ptp(one), np.ptp(other)) > 0)


def _scale(one: np.ndarray, other: np.ndarray) -> float:
    """Return the smaller of both spreads within chains: the larger may be the distance of modes."""
    spreads = [_spread(one), _spread(other)]
    positive = [spread for spread in spreads if spread > 0]
    return min(positive) if positive else max(np.ptp(one), np.ptp(other))


def _spread(values: np.ndarray) -> float:
    # quartiles: neither heavy tails nor a mode of small weight widen them
    low, high = np.quantile(values, [0.25, 0.75], axis=1)
    spread = float(np.median(high - low)) / 1.35
    return spread if spread > 0 else float(np.median(values.std(axis=1)))


def _thinned(columns: Columns, names: list[str], n: int) -> np.ndarray:
    """Rows, shape (n, column): one chain after the other, evenly spaced."""
    size = columns[names[0]].size
    chosen = np.linspace(0, size - 1, n).round().astype(int)
    return np.stack([columns[name].reshape(size)[chosen] for name in names], axis=1)


def _compared(one: np.ndarray, other: np.ndarray) -> Missed:
    """For rows of both: the nearest of `other`, in units of the `_count`-th nearest of `one`."""
    count = _count(len(one))
    with np.errstate(divide="ignore", invalid="ignore"):
        between = _squares(one, other)
        theirs = between.min(axis=1) / _smallest(_squares(one, one), count)
        own = _squares(other, other).min(axis=1) / _smallest(between.T, count)
    theirs, own = (np.nan_to_num(x, nan=0.0, posinf=np.inf) for x in (theirs, own))
    blocks = own.reshape(BLOCKS, -1)
    # the middle block: a place that the fit visited once must not hide what it never visited
    wide = max(1.0, float(np.median(np.quantile(blocks, OWN, axis=1, method="higher"))))
    lacking = (theirs.reshape(BLOCKS, -1) > wide).mean(axis=1)
    chance = (blocks > wide).mean(axis=1)
    error = np.hypot(lacking.std(ddof=1), chance.std(ddof=1)) / np.sqrt(BLOCKS)
    return Missed(float(lacking.mean() - np.median(chance)), float(error))


def _count(n: int) -> int:
    return max(5, n // 60)


def _squares(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Squared distances, shape (n, n), infinite within a block, whose draws are no repetitions."""
    squares = -2 * one @ other.T
    squares += (one**2).sum(axis=1)[:, None]
    squares += (other**2).sum(axis=1)
    np.maximum(squares, 0, out=squares)
    size = len(one) // BLOCKS
    for first in range(0, len(one), size):
        squares[first : first + size, first : first + size] = np.inf
    return squares


def _smallest(squares: np.ndarray, count: int) -> np.ndarray:
    return np.partition(squares, count - 1, axis=1)[:, count - 1]


def _components(joined: np.ndarray) -> int:
    """Count the connected parts of a graph, shape (node, node)."""
    left, count = set(range(len(joined))), 0
    while left:
        count, reached = count + 1, {left.pop()}
        while reached:
            near = set(np.flatnonzero(joined[reached.pop()]).tolist()) & left
            left -= near
            reached |= near
    return count
