"""Subtract from functions of the draws what columns of posterior mean zero explain of them.

Coefficients of a chain's draws are learned from the other chains, so that the residuals are honest:
their mean estimates the expectation, and their asymptotic variance is that of the estimate. Each
function takes the columns with which this variance is smallest, or none unless it gains.

References
----------
Errors of means over dependent draws: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3
(initial monotone sequence), bounded as in Stan.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from stanadapt.diagnostics.control_variates.stein_columns import DRAWS_PER_COLUMN, Columns
from stanadapt.diagnostics.control_variates.tail_shape import HEAVY, NO_VARIANCE, tail_shape

# ridge on columns of unit variance; if there are too many columns for the draws, one of these,
# chosen by the residuals of a few coordinates
RIDGE, WIDE_RIDGES, PROBES = 1e-6, (1e-2, 1e-1, 1.0), 20
# a single chain is divided into this many parts; more chains than this are grouped
FOLDS = 4
MOST_FOLDS = 8
FIRST_LAGS = 12  # of autocovariances; most sums end before
# gain below which columns are left out, and above which an error is not believed to be smaller
LEAST_GAIN, LARGEST_GAIN = 1.2, 1e4
# factors of the variance of values with heavy tails, which hide a part of it; and the shape from
# which on means cannot be estimated, as for importance weights
UNCERTAIN, UNKNOWN, NO_ESTIMATE = 2.0, 10.0, 0.7


class Estimate(NamedTuple):
    """Estimates of one kind, shape (quantity,) each."""

    value: np.ndarray
    error: np.ndarray  # Monte Carlo standard error
    crude: np.ndarray  # the estimate without control variates
    crude_error: np.ndarray
    order: np.ndarray  # of the columns; 0: none

    @property
    def gain(self) -> np.ndarray:
        """Crude variance over controlled variance."""
        with np.errstate(all="ignore"):
            gain = np.where(self.error > 0.0, (self.crude_error / self.error) ** 2, 1.0)
        return np.where(np.isnan(self.error), np.nan, gain)


class Controlled(NamedTuple):
    """Estimates of the expectations of functions, shape (function,) each."""

    mean: np.ndarray
    variance: np.ndarray  # of the estimate
    crude_mean: np.ndarray  # without columns
    crude_variance: np.ndarray
    order: np.ndarray  # of the columns that are used; 0: none
    residuals: np.ndarray  # shape (draw, function); their mean is the estimate
    along: np.ndarray  # coefficients of the functions' single own columns, shape (fold, function)

    @property
    def estimate(self) -> Estimate:
        """The estimates with their errors."""
        error, crude_error = np.sqrt(self.variance), np.sqrt(self.crude_variance)
        return Estimate(self.mean, error, self.crude_mean, crude_error, self.order)


class Candidate(NamedTuple):
    """Columns that a function may use: the first common ones, perhaps with its own."""

    order: int
    end: int  # number of common columns
    own: bool


class Reduced(NamedTuple):
    """Columns, with their moments over the draws that a fold learns from."""

    values: np.ndarray  # shape (draw, column)
    mean: np.ndarray  # over these draws
    # products with the common columns, from the left times the inverse of the factor of these
    products: np.ndarray


class Shared(NamedTuple):
    """Columns of posterior mean zero that all functions of some quantities use, made for a fold."""

    columns: list[Reduced]  # one for each quantity, each
    among: list[list[np.ndarray]]  # products of these with each other, shape (quantity,) each
    noise: np.ndarray  # share of the residuals that is learned from other chains


# (fold) -> a further column for each function, shape (draw, function), and the shared ones
MakeOwn = Callable[[int], tuple[np.ndarray, Shared]]


class Controls:
    """The common columns of a fit, and what each fold learns from the others.

    Parameters
    ----------
    columns
        Common columns, in the order of chains.
    chains
        Number of chains, all of the same length.
    probes
        Functions that choose a ridge if there are many columns, shape (draw, function).
    usable
        Whether control variates may be used at all.
    """

    def __init__(
        self, columns: Columns, chains: int, probes: np.ndarray, usable: bool = True
    ) -> None:
        self.values, self.chains = columns.values, chains
        self.folds = folds_of(len(self.values), chains)
        if not usable:
            self.candidates: list[Candidate] = []
            return
        ends = columns.ends or (0,)
        self.candidates = [Candidate(order, end, True) for order, end in enumerate(ends, 1)]
        self._moments = list(moments_of_others(self.values, self.folds))
        self.wide, self._size = ends[0] > self.count(0) // DRAWS_PER_COLUMN, float(ends[-1])
        if self.wide:
            tried = [(self._factors_with(ridge), ridge) for ridge in WIDE_RIDGES]
            self._factors, ridge = min(tried, key=lambda one: self._left(probes, one[0]))
            self._size = self._factors[0].size(ridge)
            return
        self._factors = self._factors_with(RIDGE)
        if ends[-1]:
            plain = min(2, len(ends))
            self.candidates.append(Candidate(plain, ends[plain - 1], False))

    def count(self, fold: int) -> int:
        """Return the number of draws that a fold learns from."""
        return len(self.values) - (self.folds[fold].stop - self.folds[fold].start)

    def others(self, fold: int) -> list[slice]:
        """Return the rows that a fold learns from."""
        return [slice(0, self.folds[fold].start), slice(self.folds[fold].stop, None)]

    def _left(self, probes: np.ndarray, factors: list["_Factor"]) -> float:
        """Return the share of squares that a ridge leaves, the median over functions."""
        probes = (probes - probes.mean(axis=0)).astype(self.values.dtype, copy=False)
        squares = np.zeros(probes.shape[1])
        every = [self.values[fold].T @ probes[fold] for fold in self.folds]
        for fold, (held, factor) in enumerate(zip(self.folds, factors, strict=True)):
            mean = -probes[held].sum(axis=0) / self.count(fold)
            b = factor.restore(factor.reduce((sum(every) - every[fold]) / self.count(fold), mean))
            left = probes[held] - self.values[held] @ b - (mean - factor.mean @ b)
            squares += (left**2).sum(axis=0)
        return float(np.median(squares / probes.var(axis=0)))

    def _factors_with(self, ridge: float) -> list["_Factor"]:
        return [_Factor.of(*known, ridge, self.values.dtype) for known in self._moments]

    def reduced(self, fold: int, values: np.ndarray) -> Reduced:
        """Return columns with their means and products over the draws that a fold learns from."""
        parts, count, factor = self.others(fold), self.count(fold), self._factors[fold]
        mean = sum(values[part].sum(axis=0) for part in parts) / count
        # means of columns are close to zero: products need not be centered first
        cross = sum(self.values[part].T @ values[part] for part in parts) / count
        return Reduced(values, mean, factor.reduce(cross, mean))

    def shared(self, fold: int, columns: list[np.ndarray], noise: np.ndarray) -> Shared:
        """Return columns that several functions of the same quantities use."""
        found = [self.reduced(fold, values) for values in columns]
        parts, count = self.others(fold), self.count(fold)
        among = [[_products(a, b, parts, count) for b in found] for a in found]
        return Shared(found, among, noise)

    def control(
        self, functions: np.ndarray, make_own: MakeOwn, smooth: bool, apart: bool = False
    ) -> Controlled:
        """Estimate the expectations of functions of the draws.

        Parameters
        ----------
        functions
            Shape (draw, function).
        make_own
            Makes own columns.
        smooth
            Whether the functions are unbounded, so that tails may be too heavy for a variance.
        apart
            Whether differences between chains do not count as variance.
        """
        single = np.zeros((len(self.candidates), len(self.folds), functions.shape[1]))
        sizes, noises = [0.0] * len(self.candidates), [np.zeros(1)] * len(self.candidates)
        # coefficients are learned from values of unit variance, of the type of the columns
        center, scale, kind = functions.mean(axis=0), functions.std(axis=0), self.values.dtype
        scale = np.where(scale > 0.0, scale, 1.0)
        scaled = ((functions - center) / scale).astype(kind, copy=False)
        residuals = [np.empty_like(scaled) for _ in self.candidates]
        folds = self.folds if self.candidates else []
        products = [self.values[fold].T @ scaled[fold] for fold in folds]
        sums = [scaled[fold].sum(axis=0, dtype=float) for fold in folds]  # of all, zero
        for fold, held in enumerate(folds):
            factor, (own, further) = self._factors[fold], make_own(fold)
            parts, count = self.others(fold), self.count(fold)
            mean = -sums[fold] / count
            reduced = factor.reduce((sum(products) - products[fold]) / count, mean)
            moments = _Moments.of(
                Reduced(scaled, mean, reduced), self.reduced(fold, own), further, parts, count
            )
            for at, candidate in enumerate(self.candidates):
                end, left = candidate.end, reduced[: candidate.end]
                sizes[at] = self._size if end == len(factor.scale) else float(end)
                used = []
                if candidate.own:
                    coefficients = moments.solve(end).T.astype(kind)
                    single[at, fold] = coefficients[0] * scale
                    sizes[at] += len(moments.own)
                    noises[at] = further.noise
                    used = list(zip(moments.own, coefficients, strict=True))
                for column, b in used:
                    left = left - column.products[:end] * b
                explained = self.values[held, :end] @ factor.restore(left)
                for column, b in used:
                    explained += column.values[held] * b
                np.subtract(scaled[held], explained, out=residuals[at][held])
        return self._choose(
            functions, center, scale, scaled, residuals, sizes, noises, single, smooth, apart
        )

    def _choose(
        self, functions: np.ndarray, center: np.ndarray, scale: np.ndarray, scaled: np.ndarray,
        residuals: list[np.ndarray], sizes: list[float], noises: list[np.ndarray],
        single: np.ndarray, smooth: bool, apart: bool,
    ) -> Controlled:  # fmt: skip
        """Choose the candidate with the smallest asymptotic variance, by function."""
        shape, count = (self.chains, -1, functions.shape[1]), functions.shape[1]
        crude = asymptotic_variance(scaled.reshape(shape), apart)
        # effective draws that learn: the noise of coefficients is shared between chains
        ess = 1.0 / np.maximum(crude, 1e-300)
        ess = np.clip(ess, 1.0, len(functions)) * (1.0 - 1.0 / len(self.folds))
        table = np.empty((1 + len(residuals), count))
        table[0] = crude
        for at, (rest, size) in enumerate(zip(residuals, sizes, strict=True), 1):
            # noise that each of two chains has from the other counts twice in their mean
            inflation = 1.0 + size / np.maximum(ess, DRAWS_PER_COLUMN * size) + noises[at - 1]
            table[at] = asymptotic_variance(rest.reshape(shape), apart) * inflation
        # heavy residuals hide a part of their variance: judge those of the best, until they stay so
        judged, every = np.zeros(table.shape, bool), np.arange(count)
        while True:
            chosen = np.where(table.min(axis=0) > crude / LEAST_GAIN, 0, table.argmin(axis=0))
            due = np.flatnonzero((chosen > 0) & ~judged[chosen, every])
            if not len(due):
                break
            for at in np.unique(chosen[due]):
                some = due[chosen[due] == at]
                table[at, some] *= _hidden(_tails(residuals[at - 1][:, some]))
                judged[at, some] = True
        if smooth:
            tails = tail_shape(scaled)
            chosen[tails >= HEAVY] = 0
            crude = np.where(tails >= NO_ESTIMATE, np.nan, crude * _hidden(tails))
            table[0] = crude
        best = functions.copy()
        along = np.zeros((len(self.folds), count))
        for at in range(1, len(table)):
            some = chosen == at
            best[:, some] = center[some] + scale[some] * residuals[at - 1][:, some]
            along[:, some] = single[at - 1][:, some]
        variance = np.maximum(table[chosen, every], crude / LARGEST_GAIN) * scale**2
        crude *= scale**2
        order = np.array([0, *(candidate.order for candidate in self.candidates)])[chosen]
        return Controlled(best.mean(axis=0), variance, center, crude, order, best, along)


def _tails(values: np.ndarray) -> np.ndarray:
    return tail_shape(values - values.mean(axis=0))


def _hidden(k: np.ndarray) -> np.ndarray:
    """Return factors of variances that may be larger than they look."""
    return np.where(k >= NO_VARIANCE, UNKNOWN, np.where(k >= HEAVY, UNCERTAIN, 1.0))


class _Moments(NamedTuple):
    """Products, over the draws that a fold learns from, of functions and their own columns."""

    functions: Reduced
    own: list[Reduced]
    among: np.ndarray  # of own columns, shape (function, column, column)
    along: np.ndarray  # of own columns and their function, shape (function, column)

    @classmethod
    def of(
        cls, functions: Reduced, own: Reduced, further: Shared, parts: list[slice], count: int
    ) -> "_Moments":
        columns = [own, *further.columns]
        first = [_products(own, column, parts, count) for column in columns]
        rows = zip(first[1:], further.among, strict=True)
        among = np.moveaxis(np.array([first, *([new, *row] for new, row in rows)]), 2, 0)
        along = np.stack([_products(a, functions, parts, count) for a in columns], axis=1)
        return cls(functions, columns, among, along)

    def solve(self, end: int) -> np.ndarray:
        """Return coefficients of own columns, shape (function, column).

        They join the common columns by what these leave of them.
        """
        left = np.stack([column.products[:end] for column in self.own], axis=2)
        inner = self.among - np.einsum("pfa,pfb->fab", left, left, optimize=True)
        outer = self.along - np.einsum("pfa,pf->fa", left, self.functions.products[:end])
        ridge = RIDGE * np.einsum("faa->fa", self.among) + 1e-300
        inner = inner + ridge[:, :, None] * np.eye(len(self.own))
        return np.linalg.solve(inner, outer[:, :, None])[:, :, 0]


def _products(a: Reduced, b: Reduced, parts: list[slice], count: int) -> np.ndarray:
    """Return the covariance of each column of one with that of the other, over some rows."""
    sums = [np.einsum("nf,nf->f", a.values[part], b.values[part]) for part in parts]
    return sum(sums).astype(float) / count - a.mean * b.mean


class _Factor(NamedTuple):
    """The Cholesky factor of the correlations of columns, with a ridge.

    That of the first columns is its first block, so that it serves all candidates. All numbers have
    the type of the columns.
    """

    mean: np.ndarray
    scale: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(
        cls, mean: np.ndarray, covariance: np.ndarray, ridge: float, kind: np.dtype
    ) -> "_Factor":
        scale = np.sqrt(np.diag(covariance))
        scale = np.where(scale > 0.0, scale, 1.0)
        correlation = covariance / np.outer(scale, scale)
        correlation[np.diag_indices(len(mean))] += ridge
        factor = cholesky(correlation, lower=True, overwrite_a=True) if len(mean) else correlation
        return cls(*(values.astype(kind, copy=False) for values in (mean, scale, factor)))

    def size(self, ridge: float) -> float:
        """Return the effective number of columns, the trace of S (S + ridge)^-1."""
        inverse, _ = lapack.dpotri(self.factor.astype(float), lower=True)
        return len(self.scale) - ridge * float(np.trace(inverse))

    def reduce(self, products: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the inverse of the factor times covariances with the columns.

        `products` are the means of products with the columns, `mean` those of the functions.
        """
        right = products - np.outer(self.mean, mean.astype(self.mean.dtype, copy=False))
        right /= self.scale[:, None]
        return solve_triangular(self.factor, right, lower=True, check_finite=False)

    def restore(self, reduced: np.ndarray) -> np.ndarray:
        """Return coefficients of the first columns from reduced products with these."""
        end = len(reduced)
        found = solve_triangular(
            self.factor[:end, :end], reduced, lower=True, trans=1, check_finite=False
        )
        return found / self.scale[:end, None]


def folds_of(draws: int, chains: int) -> list[slice]:
    """Return the rows of each fold: of a chain, some chains, or a part of the only chain."""
    pieces = FOLDS if chains == 1 else min(chains, MOST_FOLDS)
    edges = np.linspace(0, draws, pieces + 1).astype(int)
    if chains > 1:
        edges = np.linspace(0, chains, pieces + 1).round().astype(int) * (draws // chains)
    # divided by an int64 of NumPy, numbers of four bytes would get eight
    return [slice(a, b) for a, b in pairwise(edges.tolist())]


def moments_of_others(
    values: np.ndarray, folds: list[slice]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the mean and covariance of the rows outside of each fold; folds have all rows."""
    center = values.mean(axis=0, dtype=float)
    sums, products = [], []
    for fold in folds:
        part = values[fold] - center
        sums.append(part.sum(axis=0))
        products.append(part.T @ part)
    every = sum(products)
    for fold, own, product in zip(folds, sums, products, strict=True):
        count = len(values) - (fold.stop - fold.start)
        mean = -own / count  # the sum over all is zero
        yield center + mean, (every - product) / count - np.outer(mean, mean)


def asymptotic_variance(values: np.ndarray, apart: bool = False) -> np.ndarray:
    """Return the variance of the mean of values, shape (chain, draw, function), by function.

    Autocovariances are about the mean of all chains, so that chains that disagree raise them;
    `apart`: about that of each chain.
    """
    chains, draws, _ = values.shape
    centered = values - (values.mean(axis=1, keepdims=True) if apart else values.mean(axis=(0, 1)))
    square = np.einsum("cnf,cnf->f", centered, centered) / (chains * draws)
    square = np.maximum(square, 1e-300)
    centered = np.multiply(centered, square**-0.5, out=np.empty(values.shape, np.float32))
    lags = min(FIRST_LAGS, draws)
    covariance = np.stack([
        np.einsum("cnf,cnf->f", centered[:, : draws - lag], centered[:, lag:])
        for lag in range(lags)
    ], axis=1)  # fmt: skip
    total, ended = _initial_monotone(covariance / (chains * draws))
    slow = np.flatnonzero(~ended)
    if len(slow) and lags < draws:
        length = 1 << (2 * draws - 1).bit_length()
        power = np.zeros((len(slow), length // 2 + 1), np.float32)
        for chain in centered[:, :, slow]:
            spectrum = np.fft.rfft(np.ascontiguousarray(chain.T), length, axis=1)
            power += spectrum.real**2 + spectrum.imag**2
        covariance = np.fft.irfft(power, length, axis=1)[:, :draws]
        total[slow], _ = _initial_monotone(covariance / (chains * draws))
    # as in Stan, an effective sample size has a limit
    size = chains * draws
    return square * np.maximum(total, 1.0 / np.log10(max(size, 10))) / size


def _initial_monotone(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of autocovariances, shape (function, lag), and whether all that count are in."""
    even = covariance.shape[1] // 2 * 2
    pairs = covariance[:, 0:even:2] + covariance[:, 1:even:2]
    positive = np.logical_and.accumulate(pairs > 0.0, axis=1)
    pairs = np.minimum.accumulate(pairs, axis=1)
    total = 2.0 * (pairs * positive).sum(axis=1, dtype=float) - covariance[:, 0]
    return total, np.logical_not(positive[:, -1:].all(axis=1))
