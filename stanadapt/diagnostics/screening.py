"""Screen all columns of draws, to find those that mix worst without ranking each.

The draws of a column are mapped to (-1, 1), by u / (1 + |u|) of the distance u from the median in
interquartile ranges: like ranks, this gives distant draws a bounded weight. The R-hat of mapped
draws, and of their absolute values, then approximates the rank-normalized one; and batch means of
mapped draws, and of indicators of the tails, give effective sample sizes. All draws count: what
thinned draws do not show (chains that alternate, late jumps, rare values) is seen. Only the median
and the quantiles are those of a sample, which is not taken at equal distances.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stanadapt.engine.interrupts import in_threads

MEASURES = 4  # of the screening: so many columns, or fewer, are all measured exactly
WORST = 8  # columns that are selected by each measure
NUMBERS = 1 << 17  # in a block of columns: 1 MB, so that its passes stay in the processor's cache
PARALLEL = 1 << 21  # numbers from which blocks are screened in threads
THREADS = 4  # each has a few copies of a block
SAMPLED = 1024  # draws of a column from which its quantiles are estimated
# parts of a chain that R-hat compares: of a single chain, the verdict compares halves, each split
HALVES, QUARTERS = 2, 4
# Numbers of batches per chain, in addition to batches of sqrt(n) draws. If draws are correlated for
# longer than a batch, batches count as independent. A few long ones show such a correlation, or a
# small share of a trend, but estimate poorly. The smallest effective sample size counts.
LONG_BATCHES = (64, 8)


class Screened(NamedTuple):
    """What a screening found, by column."""

    finite: np.ndarray  # whether all draws are finite, shape (column,)
    # split R-hat of the mapped draws and of their absolute values, shape (2, column); NaN if draws
    # are not finite, or no part of a chain moves
    r_hat: np.ndarray
    # effective sample sizes of the mapped draws, and of the worse tail, shape (2, column)
    ess: np.ndarray

    def worst(self, count: int) -> list[int]:
        """Return the indices, in order, of the columns worst by any of the four measures."""
        selected: set[int] = set()
        for badness in (*self.r_hat, *-self.ess):
            badness = np.where(np.isnan(badness), np.inf, badness)
            selected.update(np.argsort(badness)[-count:].tolist())
        return sorted(selected)

    def is_clear(self, r_hat: float, ess: float) -> bool:
        """Whether every measure of every column is on the good side of a limit."""
        # False for NaN
        return bool(self.finite.all() and (self.r_hat < r_hat).all() and (self.ess > ess).all())


def is_constant(x: np.ndarray) -> bool:
    """Whether all draws of a column, shape (chain, draw), are equal."""
    first = x.flat[0]  # and mostly, one of the next draws differs
    return bool(np.all(x[..., :8] == first) and np.all(x == first))


def worst_columns(columns: dict[str, np.ndarray]) -> list[str]:
    """Return the names of the columns, shape (chain, draw), that are worst by any measure."""
    names = list(columns)
    if len(names) <= 2 * WORST:
        return names
    return [names[i] for i in screen(list(columns.values())).worst(WORST)]


def screen(columns: Sequence[np.ndarray], block: int = NUMBERS) -> Screened:
    """Measure columns of one shape (chain, draw), a block at a time; NaN with under four draws."""
    size = max(block // columns[0].size, 1)
    blocks = [columns[first : first + size] for first in range(0, len(columns), size)]
    if len(columns) * columns[0].size < PARALLEL:
        measured = list(map(_measure, blocks))
    else:
        # NumPy releases the GIL
        measured = in_threads(lambda i: _measure(blocks[i]), len(blocks), threads=THREADS)
    finite, r_hat, ess = zip(*measured, strict=True)
    return Screened(np.concatenate(finite), np.hstack(r_hat), np.hstack(ess))


def _measure(columns: Sequence[np.ndarray]) -> Screened:
    x = np.array(columns, dtype=float)
    number, chains, draws = x.shape
    if draws < 2 * HALVES:
        unknown = np.full((2, number), np.nan)
        return Screened(np.isfinite(x).all(axis=(1, 2)), unknown, unknown)
    parts = QUARTERS if chains == 1 and draws >= 4 * QUARTERS else HALVES
    length = draws // parts
    size = max(int(np.sqrt(length)), 1)
    with np.errstate(all="ignore"):  # of draws that are not finite
        total = x.sum(axis=(1, 2))
        finite = np.isfinite(total)
        for i in np.flatnonzero(~finite):  # a sum of finite draws may overflow
            finite[i] = np.isfinite(x[i]).all()
        center, scale, tails = _location_and_scale(x)
        batched = (
            x[:, :, : parts * length]
            .reshape(number, chains * parts, length)[:, :, : length // size * size]
            .reshape(number, chains * parts, length // size, size)
        )  # fmt: skip
        below = [
            _Batches((batched <= _column(tail)).sum(axis=3, dtype=float), size) for tail in tails
        ]
        mapped = batched - _column(center)
        distance = np.abs(mapped)
        distance += _column(scale)
        mapped /= distance
        squares = np.einsum("cpbi,cpbi->cp", mapped, mapped)
        location = _Batches(mapped.sum(axis=3), size)
        spread = _Batches(np.abs(mapped, out=mapped).sum(axis=3), size)
        few = [number // parts for number in LONG_BATCHES]
        r_hat = np.stack([location.r_hat(squares), spread.r_hat(squares)])
        tail_ess = [x.ess(x.sums.sum(axis=2), few) for x in below]
        ess = np.stack([location.ess(squares, few), np.minimum(*tail_ess)])
    return Screened(finite, np.where(finite, r_hat, np.nan), np.where(finite, ess, np.nan))


def _column(values: np.ndarray) -> np.ndarray:
    return values[:, None, None, None]


def _location_and_scale(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Return medians, scales, and quantiles of both tails, from draws at irregular distances.

    At equal distances, a chain that alternates would show half of its values.
    """
    number, chains, draws = x.shape
    count = min(draws, max(SAMPLED // chains, 8))
    strata = np.arange(count)
    jitter = strata * 0.6180339887498949 % 1.0  # of the golden ratio: far from any period
    rows = ((strata + jitter) * draws / count).astype(int)
    sample = np.sort(x[:, :, rows].reshape(number, -1), axis=1)
    low, first, middle, third, high = (
        sample[:, int(p * (sample.shape[1] - 1))] for p in (0.05, 0.25, 0.5, 0.75, 0.95)
    )
    scale = third - first
    # of a column that mostly repeats one value
    scale = np.where(scale > 0.0, scale, high - low)
    for i in np.flatnonzero(~(scale > 0.0)):
        scale[i] = x[i].std()
    return middle, scale, (low, high)


class _Batches(NamedTuple):
    """Sums of batches of draws, shape (column, part, batch), and their size."""

    sums: np.ndarray
    size: int

    def r_hat(self, squares: np.ndarray) -> np.ndarray:
        """Return R-hat of parts, given the sums of squares of each, shape (column, part)."""
        length = self.sums.shape[2] * self.size
        means = self.sums.sum(axis=2) / length
        within = (squares / length - means**2).mean(axis=1) * length / (length - 1)
        return np.sqrt((length - 1) / length + means.var(axis=1, ddof=1) / within)

    def ess(self, squares: np.ndarray, few: Sequence[int]) -> np.ndarray:
        """Return the smallest effective sample size of these batches and of few longer ones.

        Without variation, it is the number of draws, as for ArviZ.
        """
        number, parts, count = self.sums.shape
        draws = parts * count * self.size
        means = self.sums.sum(axis=(1, 2)) / draws
        variance = squares.sum(axis=1) / draws - means**2
        sizes = [_ess(self.sums, variance, self.size)]
        for fewer in few:
            each = count // fewer
            if each < 2:
                continue
            longer = self.sums[:, :, : fewer * each].reshape(number, parts, fewer, each).sum(axis=3)
            sizes.append(_ess(longer, variance, self.size * each))
        return np.where(variance > 0.0, np.min(sizes, axis=0), float(draws))


def _ess(sums: np.ndarray, variance: np.ndarray, size: int) -> np.ndarray:
    """Return the effective sample size from the variance of means of batches."""
    number, parts, count = sums.shape
    return parts * count * variance * size / sums.reshape(number, -1).var(axis=1, ddof=1) * size
