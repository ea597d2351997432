"""Subtract from functions of the draws what columns of posterior mean zero explain of them.

Coefficients of a chain's draws are learned from the other chains, so that the residuals are honest:
their mean estimates the expectation, and their asymptotic variance is that of the estimate. Each
function takes the columns with which this variance is smallest, or none unless it gains.

References
----------
Errors of means over dependent draws: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3
(initial monotone sequence), bounded as in Stan.

"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from stanadapt.studies.expectations.stein_columns import DRAWS_PER_COLUMN, Columns
from stanadapt.studies.expectations.tail_shape import HEAVY, NO_VARIANCE, tail_shape

# ridge on columns of unit variance; and those offered if there are too many columns for the draws
RIDGE, WIDE_RIDGES = 1e-6, (1e-2, 1e-1, 1.0)
# a single chain is divided into this many parts; more chains than this are grouped
FOLDS = 4
MOST_FOLDS = 8
# gain below which columns are left out, and above which an error is not believed to be smaller
LEAST_GAIN, LARGEST_GAIN = 1.2, 1e4
# factors of the variance of residuals with heavy tails, which hide a part of their variance
UNCERTAIN, UNKNOWN = 2.0, 10.0


class Controlled(NamedTuple):
    """Estimates of the expectations of functions, shape (function,) each."""

    mean: np.ndarray
    variance: np.ndarray  # of the estimate
    crude_mean: np.ndarray  # without columns
    crude_variance: np.ndarray
    order: np.ndarray  # of the columns that are used; 0: none
    residuals: np.ndarray  # shape (draw, function); their mean is the estimate


class Candidate(NamedTuple):
    """Columns that a function may use."""

    order: int  # 0: none
    end: int  # number of common columns
    ridge: float
    own: bool  # whether the columns of the function's own direction are added


NO_COLUMNS = Candidate(0, 0, 0.0, False)


class Centered(NamedTuple):
    """Columns, with their moments over the draws that a fold learns from."""

    values: np.ndarray  # shape (draw, column)
    mean: np.ndarray  # over these draws
    cross: np.ndarray  # products with the common columns, shape (common column, column)


class Own(NamedTuple):
    """Columns of posterior mean zero that belong to functions, made for one fold."""

    single: np.ndarray  # one for each function, shape (draw, function)
    shared: Centered  # those of each function, one block after the other
    width: int  # of a block


# (fold) -> own columns of the functions
MakeOwn = Callable[[int], Own]


class Controls:
    """The common columns of a fit, and what each fold learns from the others.

    Parameters
    ----------
    columns
        Common columns, in the order of chains.
    chains
        Number of chains, all of the same length.
    usable
        Whether control variates may be used at all.

    """

    def __init__(self, columns: Columns, chains: int, usable: bool = True) -> None:
        self.values, self.chains = columns.values, chains
        draws = len(columns.values) // chains
        pieces = FOLDS if chains == 1 else min(chains, MOST_FOLDS)
        edges = np.linspace(0, chains, pieces + 1).round().astype(int) * draws
        if chains == 1:
            edges = np.linspace(0, draws, pieces + 1).astype(int)
        self.folds = [slice(a, b) for a, b in pairwise(edges)]
        learning = len(columns.values) * (pieces - 1) // pieces
        self.candidates = _candidates(columns.ends, learning) if usable else []
        self._sums = [self.values[fold].sum(axis=0) for fold in self.folds]
        self._products = [self.values[fold].T @ self.values[fold] for fold in self.folds]
        self._factors: dict[tuple[int, Candidate], _Factor] = {}

    def learned_rows(self, fold: int) -> np.ndarray:
        """Return the rows of all other folds."""
        left_out = np.zeros(len(self.values), bool)
        left_out[self.folds[fold]] = True
        return np.flatnonzero(~left_out)

    def centered(self, fold: int, values: np.ndarray) -> Centered:
        """Return columns with their means and products over the draws that a fold learns from."""
        held = self.folds[fold]
        parts = [slice(0, held.start), slice(held.stop, None)]
        count = len(values) - (held.stop - held.start)
        mean = sum(values[part].sum(axis=0) for part in parts) / count
        cross = sum(self.values[part].T @ (values[part] - mean) for part in parts) / count
        return Centered(values, mean, cross)

    def control(self, functions: np.ndarray, make_own: MakeOwn, smooth: bool) -> Controlled:
        """Estimate the expectations of functions of the draws.

        Parameters
        ----------
        functions
            Shape (draw, function).
        make_own
            Makes own columns.
        smooth
            Whether the functions are unbounded, so that tails may be too heavy for a variance.

        """
        residuals = {candidate: np.empty_like(functions) for candidate in self.candidates}
        sizes: dict[Candidate, float] = {}
        center = functions.mean(axis=0)
        products = [self.values[fold].T @ (functions[fold] - center) for fold in self.folds]
        for fold, held in enumerate(self.folds if self.candidates else []):
            rows, own = self.learned_rows(fold), make_own(fold)
            mean = functions[rows].mean(axis=0)
            cross = (sum(products) - products[fold]) / len(rows)
            cross = cross - np.outer(self._sum_of_others(fold), mean - center) / len(rows)
            single = self.centered(fold, own.single)
            learned = _Learned.of(Centered(functions, mean, cross), single, own, rows)
            for candidate in self.candidates:
                factor = self._factor(fold, candidate)
                common, coefficients, sizes[candidate] = learned.solve(factor, candidate)
                rest = functions[held] - self.values[held, : candidate.end] @ common
                if candidate.own:
                    rest -= np.einsum("nfa,fa->nf", learned.own[held], coefficients, optimize=True)
                residuals[candidate][held] = rest
        return self._choose(functions, residuals, sizes, smooth)

    def _sum_of_others(self, fold: int) -> np.ndarray:
        return sum(self._sums) - self._sums[fold]

    def _factor(self, fold: int, candidate: Candidate) -> "_Factor":
        key = fold, candidate._replace(own=False)
        if key not in self._factors:
            count = len(self.values) - (self.folds[fold].stop - self.folds[fold].start)
            end = candidate.end
            mean = self._sum_of_others(fold)[:end] / count
            products = sum(self._products) - self._products[fold]
            among = products[:end, :end] / count - np.outer(mean, mean)
            self._factors[key] = _Factor.of(mean, among, candidate.ridge)
        return self._factors[key]

    def _choose(
        self, functions: np.ndarray, residuals: dict[Candidate, np.ndarray],
        sizes: dict[Candidate, float], smooth: bool,
    ) -> Controlled:  # fmt: skip
        """Choose the candidate with the smallest asymptotic variance, by function."""
        shape = self.chains, -1, functions.shape[1]
        crude = asymptotic_variance(functions.reshape(shape))
        crude_mean = functions.mean(axis=0)
        # effective draws that learn: the noise of coefficients is shared between chains
        ess = functions.var(axis=0) / np.maximum(crude, 1e-300)
        ess = np.clip(ess, 1.0, len(functions)) * (1.0 - 1.0 / len(self.folds))
        every, variances = [NO_COLUMNS], [crude]
        for candidate, rest in residuals.items():
            variance = asymptotic_variance(rest.reshape(shape))
            size = sizes[candidate]
            variance = variance * (1.0 + size / np.maximum(ess, DRAWS_PER_COLUMN * size))
            k = tail_shape(rest - rest.mean(axis=0))
            every.append(candidate)
            variances.append(
                variance * np.where(k >= NO_VARIANCE, UNKNOWN, np.where(k >= HEAVY, UNCERTAIN, 1.0))
            )
        table = np.array(variances)
        chosen = table.argmin(axis=0)
        chosen[table.min(axis=0) > crude / LEAST_GAIN] = 0
        if smooth:
            chosen[tail_shape(functions - crude_mean) >= HEAVY] = 0
        best = np.empty_like(functions)
        for at, candidate in enumerate(every):
            rest = functions if candidate is NO_COLUMNS else residuals[candidate]
            best[:, chosen == at] = rest[:, chosen == at]
        variance = table[chosen, np.arange(functions.shape[1])]
        order = np.array([candidate.order for candidate in every])[chosen]
        variance = np.where(chosen > 0, np.maximum(variance, crude / LARGEST_GAIN), crude)
        return Controlled(best.mean(axis=0), variance, crude_mean, crude, order, best)


class _Learned(NamedTuple):
    """Products, over the draws that a fold learns from, of functions and their own columns."""

    functions: int  # their number
    own: np.ndarray  # own columns, shape (draw, function, column)
    cross: np.ndarray  # of functions and own columns, in this order, with common columns
    among: np.ndarray  # of own columns, shape (function, column, column)
    along: np.ndarray  # of own columns and their function, shape (function, column)

    @classmethod
    def of(cls, functions: Centered, single: Centered, own: Own, rows: np.ndarray) -> "_Learned":
        count = functions.values.shape[1]
        blocks = own.shared.values.reshape(-1, count, own.width)
        every = np.concatenate([single.values[:, :, None], blocks], axis=2)
        mean = np.concatenate([single.mean[:, None], own.shared.mean.reshape(count, -1)], axis=1)
        columns, f = every[rows] - mean, functions.values[rows] - functions.mean
        cross = np.concatenate(
            [
                functions.cross[:, :, None],
                single.cross[:, :, None],
                own.shared.cross.reshape(-1, count, own.width),
            ],
            axis=2,
        )
        return cls(
            count,
            every,
            cross,
            np.einsum("nfa,nfb->fab", columns, columns, optimize=True) / len(rows),
            np.einsum("nfa,nf->fa", columns, f, optimize=True) / len(rows),
        )

    def solve(
        self, factor: "_Factor", candidate: Candidate
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return coefficients of common columns and of own ones, and their effective number.

        Own columns join by their Schur complement: what common columns leave of them.
        """
        end = candidate.end
        scaled = self.cross[:end] / factor.scale[:, None, None]
        if not candidate.own:
            solved = factor.solve(scaled[:, :, 0])
            return solved / factor.scale[:, None], np.empty((self.functions, 0)), factor.size
        solved = factor.solve(scaled.reshape(end, -1)).reshape(scaled.shape)
        a, b = scaled[:, :, 1:], solved[:, :, 1:]
        inner = self.among - np.einsum("pfa,pfb->fab", a, b, optimize=True)
        outer = self.along - np.einsum("pfa,pf->fa", a, solved[:, :, 0], optimize=True)
        ridge = RIDGE * np.einsum("faa->fa", self.among) + 1e-300
        inner = inner + ridge[:, :, None] * np.eye(inner.shape[1])
        own = np.linalg.solve(inner, outer[:, :, None])[:, :, 0]
        common = solved[:, :, 0] - np.einsum("pfa,fa->pf", b, own, optimize=True)
        return common / factor.scale[:, None], own, factor.size + own.shape[1]


class _Factor(NamedTuple):
    """The Cholesky factor of the correlations of columns, with a ridge."""

    mean: np.ndarray
    scale: np.ndarray
    factor: tuple
    size: float  # effective number of columns

    @classmethod
    def of(cls, mean: np.ndarray, covariance: np.ndarray, ridge: float) -> "_Factor":
        scale = np.sqrt(np.diag(covariance))
        scale = np.where(scale > 0.0, scale, 1.0)
        correlation = covariance / np.outer(scale, scale)
        correlation[np.diag_indices(len(mean))] += ridge
        factor = cho_factor(correlation, lower=True)
        size = float(len(mean))
        if ridge > RIDGE:  # the trace of S (S + ridge)^-1
            inverse, _ = lapack.dpotri(factor[0], lower=True)
            size -= ridge * float(np.trace(inverse))
        return cls(mean, scale, factor, size)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return cho_solve(self.factor, right) if len(self.mean) else right


def _candidates(ends: tuple[int, ...], learning: int) -> list[Candidate]:
    """Return the sets of columns that functions may use, besides none."""
    if not ends or ends[-1] == 0:
        return [Candidate(1, 0, RIDGE, True)]
    if ends[0] > learning // DRAWS_PER_COLUMN:
        return [Candidate(1, ends[0], ridge, True) for ridge in WIDE_RIDGES]
    every = [Candidate(order, end, RIDGE, True) for order, end in enumerate(ends, 1)]
    plain = min(2, len(ends))
    return [*every, Candidate(plain, ends[plain - 1], RIDGE, False)]


def asymptotic_variance(values: np.ndarray) -> np.ndarray:
    """Return the variance of the mean of values, shape (chain, draw, function), by function.

    Autocovariances are about the mean of all chains, so that chains that disagree raise them.
    """
    chains, draws, count = values.shape
    centered = values - values.mean(axis=(0, 1))
    length = 1 << (2 * draws - 1).bit_length()
    covariance = np.zeros((count, draws))
    for chain in centered:
        spectrum = np.fft.rfft(np.ascontiguousarray(chain.T), length, axis=1)
        power = spectrum.real**2 + spectrum.imag**2
        covariance += np.fft.irfft(power, length, axis=1)[:, :draws]
    covariance /= chains * draws
    even = draws // 2 * 2
    pairs = covariance[:, 0:even:2] + covariance[:, 1:even:2]
    positive = np.logical_and.accumulate(pairs > 0.0, axis=1)
    pairs = np.minimum.accumulate(pairs, axis=1)
    total = 2.0 * (pairs * positive).sum(axis=1) - covariance[:, 0]
    # as in Stan, an effective sample size has a limit
    size = chains * draws
    return np.maximum(total, covariance[:, 0] / np.log10(max(size, 10))) / size
