"""Screen all columns of draws, to find those that mix worst without ranking each.

The draws of a column are mapped to (-1, 1), by u / (1 + |u|) of the distance u from the median in
interquartile ranges: like ranks, this gives distant draws a bounded weight. The R-hat of mapped
draws, and of their absolute values, then approximates the rank-normalized one; and batch means of
mapped draws, and of indicators of the tails, give effective sample sizes. All draws count: what
thinned draws do not show (chains that alternate, late jumps, rare values) is seen. Only the median
and the quantiles are those of a sample, which is not taken at equal distances.

Of many short chains, one far from all others hardly raises R-hat, and that of other columns exceeds
it by chance: columns are also ranked by the distance of the farthest chain.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.ranked import MANY_CHAINS
from stanadapt.engine.interrupts import in_threads

MEASURES = 4  # of the screening: this many columns, or fewer, are all measured exactly
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

# differences of draws, relative to the first, that are errors of rounding
ROUNDING = 4.0 * float(np.finfo(float).eps)


class Screened(NamedTuple):
    """What a screening found, by column."""

    finite: np.ndarray  # whether all draws are finite, shape (column,)
    # split R-hat of the mapped draws and of their absolute values, shape (2, column); NaN if draws
    # are not finite, or no part of a chain moves
    r_hat: np.ndarray
    # effective sample sizes of the mapped draws, and of the worse tail, shape (2, column)
    ess: np.ndarray
    # mean, sd and their Monte Carlo errors from batch means, shape (4, column)
    moments: np.ndarray
    # distance of the farthest of many chains from the others, in robust standard deviations of
    # their means, shape (column,); 0 of few
    apart: np.ndarray

    def worst(self, count: int) -> list[int]:
        """Return the indices, in order, of the columns worst by any measure."""
        selected: set[int] = set()
        apart = [self.apart] if self.apart.any() else []
        for badness in (*self.r_hat, *-self.ess, *apart):
            badness = np.where(np.isnan(badness), np.inf, badness)
            selected.update(np.argsort(badness)[-count:].tolist())
        return sorted(selected)

    def is_clear(self, r_hat: float, ess: float) -> bool:
        """Whether every measure of every column is on the good side of a limit."""
        # False for NaN
        return bool(self.finite.all() and (self.r_hat < r_hat).all() and (self.ess > ess).all())


def is_constant(x: np.ndarray) -> bool:
    """Whether all draws of a column, shape (chain, draw), are equal, but for rounding.

    A correlation matrix that a program computes has diagonal elements such as 1 - 1e-16.
    """
    first = x.flat[0]  # and mostly, one of the next draws differs
    error = ROUNDING * abs(first) if np.isfinite(first) else 0.0
    return all(
        np.all((some == first) | ((some >= first - error) & (some <= first + error)))
        for some in (x[..., :8], x)
    )


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
    # NumPy releases the GIL
    threads = min(THREADS if len(columns) * columns[0].size >= PARALLEL else 1, len(blocks))

    def measure(first: int) -> list[Screened]:
        # fresh memory for each array of each block would take a third of the time
        memory = np.empty((4, len(blocks[0]) * columns[0].size))
        return [_measure(each, memory) for each in blocks[first::threads]]

    shares = in_threads(measure, threads, threads=threads) if threads > 1 else [measure(0)]
    measured = [shares[i % threads][i // threads] for i in range(len(blocks))]
    return Screened(*(np.concatenate(parts, axis=-1) for parts in zip(*measured, strict=True)))


def _measure(columns: Sequence[np.ndarray], memory: np.ndarray) -> Screened:
    """Measure a block of columns; memory has shape (4, draws of all columns)."""
    number, (chains, draws) = len(columns), columns[0].shape
    x = memory[0, : number * chains * draws].reshape(number, chains, draws)
    for row, column in zip(x, columns, strict=True):
        row[...] = column
    if draws < 2 * HALVES:
        unknown = np.full((4, number), np.nan)
        finite = np.isfinite(x).all(axis=(1, 2))
        return Screened(finite, unknown[:2], unknown[:2], unknown, np.zeros(number))
    parts = QUARTERS if chains == 1 and draws >= 4 * QUARTERS else HALVES
    length = draws // parts
    size = max(int(np.sqrt(length)), 1)
    shape = number, chains * parts, length // size, size
    batched, mapped, other = (row[: np.prod(shape)].reshape(shape) for row in memory[1:])
    with np.errstate(all="ignore"):  # of draws that are not finite
        total = x.sum(axis=(1, 2))
        finite = np.isfinite(total)
        for i in np.flatnonzero(~finite):  # a sum of finite draws may overflow
            finite[i] = np.isfinite(x[i]).all()
        center, scale, tails = _location_and_scale(x)
        whole = x[:, :, : parts * length].reshape(number, chains * parts, length)
        batched[...] = whole[:, :, : length // size * size].reshape(shape)
        few = [number // parts for number in LONG_BATCHES]
        below = [_batches(np.less_equal(batched, _column(tail), out=mapped)) for tail in tails]
        tail_ess = [each.ess(each.sums.sum(axis=2), few) for each in below]
        np.subtract(batched, _column(center), out=mapped)
        mapped /= np.add(np.abs(mapped, out=other), _column(scale), out=other)
        squares = np.einsum("cpbi,cpbi->cp", mapped, mapped)
        location = _batches(mapped)
        spread = _batches(np.abs(mapped, out=mapped))
        r_hat = np.stack([location.r_hat(squares), spread.r_hat(squares)])
        ess = np.stack([location.ess(squares, few), np.minimum(*tail_ess)])
        apart = _farthest(x.mean(axis=2)) if chains >= MANY_CHAINS else np.zeros(number)
        moments = _moments(x, total / (chains * draws), batched, few)
    measured = (r_hat, ess, moments, apart)
    return Screened(finite, *(np.where(finite, each, np.nan) for each in measured))


def _farthest(means: np.ndarray) -> np.ndarray:
    """Return the distance of the farthest chain, given means of shape (column, chain)."""
    distances = np.abs(means - np.median(means, axis=1)[:, None])
    return np.nan_to_num(distances.max(axis=1) / (1.4826 * np.median(distances, axis=1)))


def _moments(
    x: np.ndarray, mean: np.ndarray, batched: np.ndarray, few: Sequence[int]
) -> np.ndarray:
    """Return mean, sd and their errors, the second by the delta method; changes both arrays."""
    x -= mean[:, None, None]
    variance = np.einsum("cpi,cpi->c", x, x) / x[0].size
    sd = np.sqrt(variance * x[0].size / (x[0].size - 1))
    batched -= _column(mean)
    ess = _batches(batched).ess(np.einsum("cpbi,cpbi->cp", batched, batched), few)
    batched *= batched
    fourth = np.einsum("cpbi,cpbi->cp", batched, batched)
    of_squares = _batches(batched).ess(fourth, few)
    excess = fourth.sum(axis=1) / batched[0].size / variance**2 - 1.0
    return np.stack([mean, sd, sd / np.sqrt(ess), sd * np.sqrt(excess / of_squares) / 2.0])


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


def _batches(values: np.ndarray) -> _Batches:
    """Return the sums of values, shape (column, part, batch, draw), by a fast product."""
    size = values.shape[3]
    return _Batches((values.reshape(-1, size) @ np.ones(size)).reshape(values.shape[:3]), size)


def _ess(sums: np.ndarray, variance: np.ndarray, size: int) -> np.ndarray:
    """Return the effective sample size from the variance of means of batches."""
    number, parts, count = sums.shape
    return parts * count * variance * size / sums.reshape(number, -1).var(axis=1, ddof=1) * size
