"""Means, standard deviations, covariances, probabilities and quantiles of quantities of a fit."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from stanadapt.studies.expectations import direction
from stanadapt.studies.expectations.control import (
    FOLDS,
    MOST_FOLDS,
    Centered,
    Controlled,
    Controls,
    Own,
    asymptotic_variance,
)
from stanadapt.studies.expectations.stein_columns import (
    Columns,
    second_order,
    stein_columns,
    whitened,
)
from stanadapt.studies.expectations.tail_shape import NO_VARIANCE, tail_shape

# quantities that are worked on together: memory stays linear in their number
BATCH = 50
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
LEAST_WIDTH = 0.02  # in probability, of the interval that gives the density at a quantile


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


class Draws:
    """Draws of a fit, gradients there, and the columns that are made of them.

    Parameters
    ----------
    positions, gradients
        On the unconstrained scale, shape (chain, draw, dim).

    """

    def __init__(self, positions: np.ndarray, gradients: np.ndarray) -> None:
        self.chains, self.draws, dim = positions.shape
        self.positions = positions.reshape(-1, dim)
        self.gradients = gradients.reshape(-1, dim)
        parts = FOLDS if self.chains == 1 else min(self.chains, MOST_FOLDS)
        learning = len(self.positions) * (parts - 1) // parts
        self.doubt = _doubt(self.positions, self.gradients, self.chains, learning)
        self.usable = not self.doubt
        self.columns = (
            stein_columns(self.positions, self.gradients, learning)
            if self.usable
            else Columns(np.empty((len(self.positions), 0)), ())
        )
        self.controls = Controls(self.columns, self.chains, self.usable)

    def batches(self, quantities: Mapping[str, np.ndarray]) -> "Iterator[tuple[list[str], Batch]]":
        """Yield names and batches of quantities that vary, each of shape (chain, draw)."""
        names = list(quantities)
        for start in range(0, len(names), BATCH):
            some = names[start : start + BATCH]
            x = np.stack([quantities[name].reshape(-1) for name in some], axis=1)
            yield some, Batch(self, x)


def _doubt(positions: np.ndarray, gradients: np.ndarray, chains: int, learning: int) -> str:
    """Return why gradients cannot be used; "" if they can.

    Columns of order 1 and 2 have mean zero unless the density has an edge or a jump, where Stein's
    identity lacks a term, or the draws have another distribution. On good programs the largest of
    their means was 3.4 standard errors; with an edge within two standard deviations, 9 or more.
    """
    lost = ~np.isfinite(positions).all(axis=1) | ~np.isfinite(gradients).all(axis=1)
    if lost.any():
        return f"the gradient is not finite at {lost.sum()} of {len(lost)} draws"
    if learning < FEWEST_DRAWS:
        return f"there are only {len(positions)} draws"
    z, s = whitened(positions, gradients)
    every = np.arange(z.shape[1])
    columns = np.concatenate([s, second_order(z, s, every, every)], axis=1)
    columns = columns[:, tail_shape(columns) < NO_VARIANCE]
    if not columns.shape[1]:
        return ""
    error = np.sqrt(asymptotic_variance(columns.reshape(chains, -1, columns.shape[1])))
    # those of an exact Gaussian are zero to rounding
    mean = np.abs(columns.mean(axis=0))
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
        self._folds: list[_Fold] = []
        if draws.usable:
            followed = direction.followed_coordinates(x, draws.positions)
            self._folds = [self._seen_by(i, followed) for i in range(len(draws.controls.folds))]

    def _seen_by(self, fold: int, followed: np.ndarray) -> "_Fold":
        """Return the quantities as a fold sees them, which learns from the others."""
        draws, controls = self._draws, self._draws.controls
        rows = controls.learned_rows(fold)
        at = direction.along(self.x, draws.positions, draws.gradients, followed, rows)
        powers = direction.power_columns(at).reshape(len(self.x), -1)
        shared = controls.centered(fold, powers * _bounded(powers))
        by_y = np.argsort(at.y[rows], axis=0, kind="stable")
        x = np.sort(self.x[rows], axis=0)
        return _Fold(rows, at, shared, by_y, x, followed != 0)

    def expectations(self, functions: np.ndarray) -> Controlled:
        """Estimate the expectation of one function of each quantity, shape (draw, quantity)."""

        def own(fold: int) -> Own:
            seen = self._folds[fold]
            columns = np.empty_like(functions)
            for j, f in enumerate(functions.T):
                columns[:, j] = direction.smooth_column(seen.at, j, f, seen.rows, seen.by_y[:, j])
            return seen.own(columns)

        return self._draws.controls.control(functions, own, smooth=True)

    def probabilities(self, thresholds: np.ndarray) -> Controlled:
        """Estimate P(x <= threshold), for one threshold of each quantity."""

        def own(fold: int) -> Own:
            seen = self._folds[fold]
            return seen.own(direction.step_column(seen.at, seen.levels(thresholds)))

        below = (self.x <= thresholds).astype(float)
        return self._draws.controls.control(below, own, smooth=False)

    def means_and_sds(self) -> tuple[Estimate, Estimate]:
        """Estimate means and standard deviations."""
        center = self.x.mean(axis=0)
        mean = self.expectations(self.x)
        square = self.expectations((self.x - center) ** 2)
        variance = np.maximum(square.mean - (mean.mean - center) ** 2, 1e-300)
        sd, crude_sd = np.sqrt(variance), self.x.std(axis=0, ddof=1)
        return (
            Estimate(
                mean.mean, np.sqrt(mean.variance), center, np.sqrt(mean.crude_variance), mean.order
            ),
            Estimate(
                np.where(square.order > 0, sd, crude_sd), np.sqrt(square.variance) / (2.0 * sd),
                crude_sd, np.sqrt(square.crude_variance) / (2.0 * crude_sd), square.order,
            ),
        )  # fmt: skip

    def quantiles(self, probability: float) -> Estimate:
        """Estimate a quantile of each quantity: its crude one, moved by Newton's method.

        One step would leave the error of the density, a tenth of the crude error or more; the
        second has the slope of the secant, if that is known. The probability of the last point is
        estimated once more, and what it lacks counts as an error. Quantiles of discrete quantities
        have no error that draws could show: it is NaN.
        """
        tail = min(probability, 1.0 - probability)
        start = np.quantile(self.x, probability, axis=0)
        width = min(max(LEAST_WIDTH, len(self.x) ** -0.5), 0.5 * tail)
        ends = np.quantile(self.x, [probability - width, probability + width], axis=0)
        density = 2.0 * width / np.maximum(ends[1] - ends[0], 1e-300)
        found, q = self.probabilities(start), start
        former, before, used = found, start, self._continuous
        for step in range(STEPS):
            slope = density
            if step:
                # a slope is known if the change of probability exceeds its noise
                noise = np.sqrt(found.variance + former.variance)
                changed = np.abs(q - before) * density > CLEAR * noise
                secant = (found.mean - former.mean) / np.where(changed, q - before, 1.0)
                low, high = density / SLOPE_FACTOR, density * SLOPE_FACTOR
                slope = np.where(changed, np.clip(secant, low, high), density)
            reach = LARGEST_MOVE * np.sqrt(found.crude_variance) / density
            ess = probability * (1.0 - probability) / np.maximum(found.crude_variance, 1e-300)
            used = used & (found.order > 0) & (ess * tail >= FEWEST_IN_TAIL)
            moved = np.clip(q - (found.mean - probability) / slope, start - reach, start + reach)
            former, before, q = found, q, np.where(used, moved, start)
            found = self.probabilities(q)
        used = used & (found.order > 0)
        crude_error = np.where(self._continuous, np.sqrt(found.crude_variance), np.nan) / density
        lacking = found.variance + (found.mean - probability) ** 2
        return Estimate(
            np.where(used, q, start),
            np.where(used, np.sqrt(lacking) / density, crude_error),
            start,
            crude_error,
            np.where(used, found.order, 0),
        )

    @property
    def _continuous(self) -> np.ndarray:
        """Whether a quantity has no value twice, but for chains that stay where they are."""
        moved = (np.diff(self.x, axis=0) != 0.0).sum(axis=0) + 1
        distinct = np.array([len(np.unique(column)) for column in self.x.T])
        return distinct > 0.9 * moved


class _Fold(NamedTuple):
    """What a fold learns of some quantities from the draws of the others."""

    rows: np.ndarray  # these draws
    at: direction.Along
    shared: Centered  # columns of powers
    by_y: np.ndarray  # order of the rows by y, for each quantity
    sorted_x: np.ndarray  # their values in increasing order, likewise
    follows: np.ndarray  # whether a quantity follows one coordinate

    def own(self, columns: np.ndarray) -> Own:
        """Return the own columns of functions, one of them for each quantity."""
        return Own(columns * _bounded(columns), self.shared, len(direction.POWERS))

    def levels(self, thresholds: np.ndarray) -> np.ndarray:
        """Return the y at which each quantity passes its threshold."""
        levels = np.empty(len(thresholds))
        for j, threshold in enumerate(thresholds):
            x, y = self.sorted_x[:, j], self.at.y[self.rows[self.by_y[:, j]], j]
            if self.follows[j]:  # y and x have the same order
                levels[j] = np.interp(threshold, x, y)
            else:
                levels[j] = np.interp(np.searchsorted(x, threshold, "right"), np.arange(len(y)), y)
        return levels


def _bounded(columns: np.ndarray) -> np.ndarray:
    """Whether each column has a variance; one that has none would look good by chance."""
    return tail_shape(columns) < NO_VARIANCE


def expectations_of(draws: Draws, functions: Mapping[str, np.ndarray]) -> Estimate:
    """Estimate the means of quantities that vary, in their order."""
    parts = []
    for _, batch in draws.batches(functions):
        found = batch.expectations(batch.x)
        errors = np.sqrt(found.variance), np.sqrt(found.crude_variance)
        parts.append(Estimate(found.mean, errors[0], found.crude_mean, errors[1], found.order))
    return Estimate(*(np.concatenate(values) for values in zip(*parts, strict=True)))
