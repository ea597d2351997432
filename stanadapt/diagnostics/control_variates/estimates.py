"""Means, standard deviations, covariances, probabilities and quantiles of quantities of a fit."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky

from stanadapt.diagnostics.control_variates import direction
from stanadapt.diagnostics.control_variates.control import (
    PROBES,
    Controlled,
    Controls,
    Estimate,
    Shared,
    asymptotic_variance,
    folds_of,
    moments_of_others,
)
from stanadapt.diagnostics.control_variates.stein_columns import (
    Columns,
    shrunk,
    stein_columns,
    whitened,
)
from stanadapt.diagnostics.control_variates.tail_shape import NO_VARIANCE, tail_shape

# quantities that are worked on together: memory stays linear in their number
BATCH = 100
FEWEST_DRAWS = 60  # to learn from
# mean of a column, in standard errors, above which its expectation is not zero; and below which it
# is, whatever its error
LARGEST_MEAN, ROUNDING = 6.0, 1e-9
# effective draws beyond a quantile without which its own columns cannot be learned
FEWEST_IN_TAIL = 100
# Newton's method for a quantile: the largest move in crude standard errors; the change of a
# probability, in standard errors, from which a secant is taken; its largest ratio to the density
LARGEST_MOVE, CLEAR, SLOPE_FACTOR = 5.0, 3.0, 1.5
STEPS = 2
# gain of weighted draws above which an error is not believed: tails between draws hide a bias
LARGEST_WEIGHTED_GAIN = 25.0
LEAST_WIDTH = 0.02  # in probability, of the interval that gives the density at a quantile


class Draws:
    """Draws of a fit, gradients there, and the columns that are made of them.

    Parameters
    ----------
    positions, gradients
        On the unconstrained scale, shape (chain, draw, dim).
    weights
        Weights of independent draws of an approximation, sum 1, shape (chain, draw): means are then
        weighted, and their errors at least a fifth of those without control variates.
    """

    def __init__(
        self, positions: np.ndarray, gradients: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        self.weights = None if weights is None else weights.reshape(-1)
        self.chains, self.draws, dim = positions.shape
        self.positions = positions.reshape(-1, dim)
        self.gradients = gradients.reshape(-1, dim)
        rows = np.arange(len(self.positions))
        folds = folds_of(len(rows), self.chains)
        learning = len(rows) - (folds[0].stop - folds[0].start)
        self.learned: list[direction.Moments] = []
        self.doubt = _doubt_of_rows(self.positions, self.gradients, learning)
        columns, z = Columns(np.empty((len(rows), 0)), ()), self.positions
        if not self.doubt:
            z, s = whitened(self.positions, self.gradients, learning)
        if not self.doubt and weights is None:
            self.doubt = _doubt_of_means(z, s, self.chains)
        if not self.doubt:
            columns = stein_columns(z, s, learning)
            for fold, (mean, spread) in zip(
                folds, moments_of_others(self.positions, folds), strict=True
            ):
                others = np.delete(rows, fold)
                spread = shrunk(spread, len(others))
                factor = cholesky(spread, lower=True)
                self.learned.append(direction.Moments(others, mean, spread, factor))
            self.slopes: np.ndarray = self.gradients.astype(z.dtype, copy=False)
        self.usable = not self.doubt
        probes = z[:, np.linspace(0, dim - 1, min(dim, PROBES)).astype(int)]
        self.columns = columns
        self.controls = Controls(columns, self.chains, probes, self.usable)

    def batches(self, quantities: Mapping[str, np.ndarray]) -> "Iterator[tuple[list[str], Batch]]":
        """Yield names and batches of quantities that vary, each of shape (chain, draw)."""
        names = list(quantities)
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            x = np.stack([quantities[name].reshape(-1) for name in some], axis=1)
            yield some, Batch(self, x)


def _doubt_of_rows(positions: np.ndarray, gradients: np.ndarray, learning: int) -> str:
    """Return why these draws cannot be used; "" if they can."""
    lost = ~np.isfinite(positions).all(axis=1) | ~np.isfinite(gradients).all(axis=1)
    if lost.any():
        return f"the gradient is not finite at {lost.sum()} of {len(lost)} draws"
    return f"there are only {len(positions)} draws" if learning < FEWEST_DRAWS else ""


def _doubt_of_means(z: np.ndarray, s: np.ndarray, chains: int) -> str:
    """Return why gradients cannot be used; "" if they can.

    Columns of order 1 and 2 have mean zero unless the density has an edge or a jump, where Stein's
    identity lacks a term, or the draws have another distribution. On good programs the largest of
    their means was 3.4 standard errors; with an edge within two standard deviations, 9 or more.
    """
    columns = np.concatenate([s, 2.0 * (z * s + 1.0)], axis=1)
    columns = columns[:, tail_shape(columns) < NO_VARIANCE]
    if not columns.shape[1]:
        return ""
    error = np.sqrt(asymptotic_variance(columns.reshape(chains, -1, columns.shape[1])))
    # those of an exact Gaussian are zero to rounding
    mean = np.abs(columns.mean(axis=0, dtype=float))
    if (mean > np.maximum(LARGEST_MEAN * error, ROUNDING)).any():
        return (
            "the gradients do not belong to the draws, as if the density had an edge or a jump, or "
            "as if the draws had another distribution"
        )
    return ""


class Batch:
    """Some quantities, and what their directions show; all methods work on each of them.

    Parameters
    ----------
    draws
        The draws of the fit.
    x
        Quantities that vary, shape (draw of all chains, quantity).
    """

    def __init__(self, draws: Draws, x: np.ndarray) -> None:
        self._draws, self.x = draws, x
        self._order = np.argsort(x, axis=0, kind="stable")
        self._sorted = np.take_along_axis(x, self._order, axis=0)
        # a quantity that has no value twice, but for chains that do not move
        moved = (np.diff(x, axis=0) != 0.0).sum(axis=0) + 1
        self._continuous = (np.diff(self._sorted, axis=0) > 0.0).sum(axis=0) + 1 > 0.9 * moved
        self._folds: list[_Fold] = []
        if draws.usable:
            followed = direction.followed_coordinates(self._order, draws.positions)
            for fold in range(len(draws.controls.folds)):
                self._folds.append(self._seen_by(fold, followed))

    def _seen_by(self, fold: int, followed: np.ndarray) -> "_Fold":
        """Return the quantities as a fold sees them, which learns from the others."""
        draws, controls = self._draws, self._draws.controls
        learned, held = draws.learned[fold], controls.folds[fold]
        at = direction.along(self.x, draws.positions, draws.slopes, followed, learned)
        powers = [] if controls.wide else direction.power_columns(at)
        # a column that has no variance would look good by chance; those of all folds are alike
        bounded = self._folds[0].bounded if fold else [_bounded(x) for x in (at.s, *powers)]
        powers = [x * b for x, b in zip(powers, bounded[1:], strict=True)]
        outside = (self._order < held.start) | (self._order >= held.stop)
        by_x = self._order.T[outside.T].reshape(self.x.shape[1], -1).T
        by_y, other = by_x.copy(), followed == 0  # y increases with a coordinate that x follows
        by_y[:, other] = learned.rows[
            np.argsort(at.y[learned.rows][:, other], axis=0, kind="stable")
        ]
        sorted_x = np.take_along_axis(self.x, by_x, axis=0)
        # tails of columns of indicators are no heavier than those of the derivative
        steps = direction.StepParts.of(at)
        places = direction.Places.of(at.y, by_y)
        # for a Gaussian, y + s is but the noise of the field, which pairs of order 2 would explain
        noise = np.zeros(len(followed))
        if not draws.columns.all_pairs:
            share = draws.positions.shape[1] / len(learned.rows)
            noise = np.minimum(share / np.maximum(np.var(at.y + at.s, axis=0), 1e-300), 1.0)
        shared = controls.shared(fold, powers, noise)
        return _Fold(at, shared, bounded, places, sorted_x, ~other, steps)

    def expectations(self, functions: np.ndarray, apart: bool = False) -> Controlled:
        """Estimate the expectation of one function of each quantity, shape (draw, quantity).

        `apart`: see `Controls.control`.
        """
        bounded: list[np.ndarray] = []

        def own(fold: int) -> tuple[np.ndarray, Shared]:
            seen = self._folds[fold]
            columns = direction.smooth_columns(seen.at.s, seen.places, functions)
            if not fold:
                bounded[:] = [_bounded(columns)]
            return columns * bounded[0], seen.shared

        found = self._draws.controls.control(functions, own, smooth=True, apart=apart)
        return self._weighted(found, functions)

    def _weighted(self, found: Controlled, functions: np.ndarray) -> Controlled:
        """Return weighted means of draws that are not exact; some may be repeated."""
        draws = self._draws
        if draws.weights is None:
            return found
        _, first, which = np.unique(draws.positions, axis=0, return_index=True, return_inverse=True)
        weight = np.bincount(which.reshape(-1), draws.weights)

        def estimate(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean = weight @ values[first]
            # variance that the order of draws, learning and tails add
            more = known * len(values) / np.maximum(values.var(axis=0), 1e-300)
            return mean, weight**2 @ (values[first] - mean) ** 2 * np.maximum(1.0, more)

        mean, variance = estimate(found.residuals, found.variance)
        dependent = asymptotic_variance(functions.reshape(draws.chains, draws.draws, -1))
        crude_mean, crude = estimate(functions, dependent)
        return found._replace(
            mean=mean, crude_mean=crude_mean, crude_variance=crude,
            variance=np.maximum(variance, crude / LARGEST_WEIGHTED_GAIN),
        )  # fmt: skip

    def probabilities(self, thresholds: np.ndarray) -> Controlled:
        """Estimate P(x <= threshold), for one threshold of each quantity."""

        def own(fold: int) -> tuple[np.ndarray, Shared]:
            seen = self._folds[fold]
            others = below.sum(axis=0) - below[self._draws.controls.folds[fold]].sum(axis=0)
            return seen.step(thresholds, others.astype(int), slice(None)), seen.shared

        below = (self.x <= thresholds).astype(float)
        found = self._draws.controls.control(below, own, smooth=False)
        return self._weighted(found, below)

    def _part(self, along: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        """Return the mean of indicators minus their own columns, with coefficients as they are."""
        below = self.x <= thresholds
        total = count = below.sum(axis=0)
        for seen, held, b in zip(self._folds, self._draws.controls.folds, along, strict=False):
            column = seen.step(thresholds, count - below[held].sum(axis=0), held)
            total = total - b * column.sum(axis=0, dtype=float)
        return total / len(self.x)

    def means_and_sds(self) -> tuple[Estimate, Estimate]:
        """Estimate means and standard deviations."""
        center = self.x.mean(axis=0)
        mean = self.expectations(self.x)
        square = self.expectations((self.x - center) ** 2)
        variance = np.maximum(square.mean - (mean.mean - center) ** 2, 1e-300)
        sd, crude_sd = np.sqrt(variance), self.x.std(axis=0, ddof=1)
        is_better = (square.order > 0) | (self._draws.weights is not None)
        sd = np.where(is_better, sd, crude_sd)
        return (
            mean.estimate._replace(crude=center),
            Estimate(
                sd, np.sqrt(square.variance) / (2.0 * sd), crude_sd,
                np.sqrt(square.crude_variance) / (2.0 * crude_sd), square.order,
            ),
        )  # fmt: skip

    def quantiles(self, probability: float) -> Estimate:
        """Estimate a quantile of each quantity: its crude one, moved by Newton's method.

        One step would leave the error of the density, a tenth of the crude error or more; the
        second has the slope of the secant, if that is known. Coefficients stay, so that only the
        columns of the indicator are made again. What the probability of the last point lacks counts
        as an error. Quantiles of discrete quantities have no error that draws could show: NaN; nor
        have those at a value that a chain repeats.
        """
        tail = min(probability, 1.0 - probability)
        width = min(max(LEAST_WIDTH, len(self.x) ** -0.5), 0.5 * tail)
        levels = [probability, probability - width, probability + width]
        start, *ends = np.quantile(self._sorted, levels, axis=0)
        density = 2.0 * width / np.maximum(ends[1] - ends[0], 1e-300)
        known = self._continuous & (ends[1] > ends[0])
        found = self.probabilities(start)
        ess = probability * (1.0 - probability) / np.maximum(found.crude_variance, 1e-300)
        used = known & (found.order > 0) & (ess * tail >= FEWEST_IN_TAIL)
        reach = LARGEST_MOVE * np.sqrt(found.crude_variance) / density
        unmoved = self._part(found.along, start)
        q, slope, below = start, density, found.mean
        for _ in range(STEPS):
            moved = np.clip(q - (below - probability) / slope, start - reach, start + reach)
            after = found.mean + self._part(found.along, moved) - unmoved
            # a secant is known if the change of probability exceeds its noise
            clear = np.abs(moved - q) * density > CLEAR * np.sqrt(2.0 * found.variance)
            secant = (after - below) / np.where(clear, moved - q, 1.0)
            secant = np.clip(secant, density / SLOPE_FACTOR, density * SLOPE_FACTOR)
            q, slope, below = moved, np.where(clear, secant, density), after
        crude_error = np.where(known, np.sqrt(found.crude_variance), np.nan) / density
        error = np.sqrt(found.variance + (below - probability) ** 2) / density
        return Estimate(
            np.where(used, q, start), np.where(used, error, crude_error), start, crude_error,
            np.where(used, found.order, 0),
        )  # fmt: skip


class _Fold(NamedTuple):
    """What a fold learns of some quantities from the draws of the others."""

    at: direction.Along
    shared: Shared  # columns of powers
    bounded: list[np.ndarray]  # whether columns made of `at.s`, and of powers, have a variance
    places: direction.Places
    sorted_x: np.ndarray  # values of the quantities in increasing order, of these draws
    follows: np.ndarray  # whether a quantity follows one coordinate
    steps: direction.StepParts

    def step(self, thresholds: np.ndarray, count: np.ndarray, rows: slice) -> np.ndarray:
        """Return the columns of indicators of x <= threshold, zero if these have no variance.

        `count` of the draws that the fold learns from are at most the threshold, by quantity.
        """
        quantity, last = np.arange(len(count)), len(self.sorted_x) - 1
        left, right = np.clip(count - 1, 0, last), np.minimum(count, last)
        start, end = self.places.sorted_y[left, quantity], self.places.sorted_y[right, quantity]
        low, high = self.sorted_x[left, quantity], self.sorted_x[right, quantity]
        part = np.clip((thresholds - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        part = np.where(self.follows, part, 1.0)  # y and x have the same order
        return self.steps.column(start + part * (end - start), rows, self.bounded[0])


def _bounded(columns: np.ndarray) -> np.ndarray:
    """Whether each column has a variance; one that has none would look good by chance."""
    return tail_shape(columns) < NO_VARIANCE


def expectations_of(draws: Draws, functions: Mapping[str, np.ndarray]) -> Estimate:
    """Estimate the means of quantities that vary, in their order."""
    parts = [batch.expectations(batch.x).estimate for _, batch in draws.batches(functions)]
    return Estimate(*(np.concatenate(values) for values in zip(*parts, strict=True)))
