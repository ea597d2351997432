"""Fits of one coordinate's conditional distribution, many at a time.

The model is that of `triangular_map`: precision P = P0 + P1 with P1 = exp(a + b z_k + s z_h), and
mean m, the average of d and of e + w z_l + q z_l^2 with weights P0 and P1. The fit minimizes the
Fisher divergence of the conditional from a normal distribution with this precision and mean,

    F = mean over draws of (g + P (x - m))^2 / P,

g being the gradient of the log density with respect to x. It needs no normalizing constant, does
not depend on units, and is 0 if the conditional is exactly of this form, however few the draws.
Everything here is in standardized units: z = (x - mean) / sd, and g times sd.

All fits advance together in a Levenberg-Marquardt iteration with analytic derivatives.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened import conditional_kernels as kernels
from stanadapt.samplers.whitened.conditional_kernels import LARGEST_EXPONENT, PARAMETERS, SMALLEST

COLUMNS = kernels.COLUMNS
A, B, S, C, D, E, W, Q = COLUMNS
# a driver that is absent
NONE = -1
# an absent own precision: exp(-700) is 0 next to any other
ABSENT = -700.0
ITERATIONS, CHUNK = 30, 128
# fits that have ended are left out of the arrays when fewer than this share of them continue
SHARE_LEFT = 0.7
# a fit with less is taken for the true conditional, before others that gain more
EXACT = 0.01


class Draws(NamedTuple):
    """Standardized draws and gradients, shape (dim, draw), and the constants of their units."""

    positions: np.ndarray
    gradients: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def standardize(
        cls, positions: np.ndarray, gradients: np.ndarray, mean: np.ndarray, sd: np.ndarray
    ) -> "Draws":
        """Return draws and gradients, shape (draw, dim), in units of mean and sd."""
        z = np.ascontiguousarray(((positions - mean) / sd).T)
        return cls(z, np.ascontiguousarray((gradients * sd).T), mean, sd)

    @property
    def log_precision(self) -> np.ndarray:
        """A first guess: half the log of the variance of the gradient over that of the draws."""
        spread, slope = self.positions.var(axis=1), self.gradients.var(axis=1)
        return 0.5 * np.log((slope + SMALLEST) / (spread + SMALLEST))


def correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return absolute correlations between rows of two arrays; 0 for a constant row."""
    one, other = (
        np.divide(centered, norm, out=np.zeros_like(centered), where=norm > 0.0)
        for centered in (rows - rows.mean(axis=1, keepdims=True) for rows in (one, other))
        for norm in (np.linalg.norm(centered, axis=1, keepdims=True),)
    )
    return np.abs(one @ other.T)


class Fits(NamedTuple):
    """Models, one per row: the coordinate, its drivers, and its numbers."""

    # coordinate, scale, second, location: Shape (fit,); a driver of -1 is absent. There may be two
    # of the scale.
    coordinate: np.ndarray
    scale: np.ndarray
    second: np.ndarray
    location: np.ndarray
    numbers: np.ndarray  # shape (fit, PARAMETERS)
    free: np.ndarray  # which of them are fitted, shape (fit, PARAMETERS)

    @property
    def drivers(self) -> list[set[int]]:
        """On which coordinates each fit depends."""
        columns = np.column_stack([self.scale, self.second, self.location])
        return [{int(driver) for driver in row if driver >= 0} for row in columns]

    def take(self, rows: np.ndarray) -> "Fits":
        """Return some of the rows."""
        return Fits(*(values[rows] for values in self))

    def of(self, coordinates: list[int]) -> "Fits":
        """Return the rows of some coordinates."""
        return self.take(np.flatnonzero(np.isin(self.coordinate, coordinates)))

    def with_numbers(self, columns: int | list[int], values: np.ndarray | float) -> "Fits":
        """Return fits with other numbers in one column or several."""
        numbers = self.numbers.copy()
        numbers[:, columns] = values
        return self._replace(numbers=numbers)

    def renumbered(self, numbers: np.ndarray) -> "Fits":
        """Return fits whose coordinates, 0 to n - 1 here, have these numbers, shape (n,)."""
        scale, second, location = (
            np.where(driver >= 0, numbers[driver], NONE)
            for driver in (self.scale, self.second, self.location)
        )
        return Fits(numbers[self.coordinate], scale, second, location, self.numbers, self.free)


def models(
    coordinate: np.ndarray,
    free: tuple[int, ...] = (),
    scale: np.ndarray | int = NONE,
    second: np.ndarray | int = NONE,
    location: np.ndarray | int = NONE,
) -> Fits:
    """Return models of coordinates, shape (fit,), with these numbers free, all 0 as yet."""
    scale, second, location = (
        np.broadcast_to(driver, coordinate.shape) for driver in (scale, second, location)
    )
    numbers = np.zeros((len(coordinate), PARAMETERS))
    free_numbers = np.isin(COLUMNS, free) | (numbers > 0.0)
    return Fits(coordinate, scale, second, location, numbers, free_numbers)


def join(parts: list[Fits]) -> Fits:
    """Return the rows of several."""
    return Fits(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def divergence(fits: Fits, draws: Draws) -> np.ndarray:
    """Return F of each fit on some draws, shape (fit,)."""
    found = [_Model(part, draws).evaluate(part.numbers).divergence for part in _chunks(fits)]
    return np.nan_to_num(np.concatenate(found), nan=np.inf) if found else np.empty(0)


def fit(fits: Fits, draws: Draws, iterations: int = ITERATIONS) -> Fits:
    """Minimize F over the free numbers, from those given."""
    with one_blas_thread(), np.errstate(all="ignore"):
        parts = [
            part._replace(numbers=_minimize(part, iterations, draws)) for part in _chunks(fits)
        ]
    return join(parts) if parts else fits


def fit_best(beginnings: list[Fits], draws: Draws, iterations: int = ITERATIONS) -> Fits:
    """Fit the same models from several beginnings, and return the best fit of each.

    If several fits are equally good, the first is returned.
    """
    fits = fit(join(beginnings), draws, iterations)
    count = len(beginnings[0].coordinate)
    best = divergence(fits, draws).reshape(len(beginnings), count).argmin(axis=0)
    return fits.take(best * count + np.arange(count))


def _chunks(fits: Fits) -> list[Fits]:
    count = len(fits.coordinate)
    return [fits.take(np.arange(i, min(i + CHUNK, count))) for i in range(0, count, CHUNK)]


class _At(NamedTuple):
    """Fits at some of their numbers."""

    divergence: np.ndarray  # F, shape (fit,)
    residuals: np.ndarray  # shape (fit, draw)
    # own, learned: both parts of the precision, shapes (fit,) and (fit, draw)
    own: np.ndarray
    learned: np.ndarray

    def take(self, rows: np.ndarray) -> "_At":
        return _At(*(values[rows] for values in self))


class _Model:
    """Fits with the draws that they are fitted to."""

    def __init__(self, fits: Fits, draws: Draws) -> None:
        self.fits, self.gradients = fits, draws.gradients
        self.z = np.vstack([draws.positions, np.zeros(draws.positions.shape[1])])

    def take(self, rows: np.ndarray) -> None:
        """Keep some of the rows."""
        self.fits = self.fits.take(rows)

    def evaluate(self, numbers: np.ndarray) -> _At:
        """Return the fits at these numbers."""
        fits, shape = self.fits, (len(numbers), self.z.shape[1])
        learned, values = np.empty(shape), np.empty(shape)
        kernels.exponents(numbers, fits.scale, fits.second, self.z, learned)
        np.exp(learned, out=learned)
        own = np.exp(np.minimum(numbers[:, C], LARGEST_EXPONENT))
        kernels.residuals(
            numbers, fits.coordinate, fits.location, self.z, self.gradients, learned, own, values
        )
        return _At(np.mean(values**2, axis=1), values, own, learned)

    def normal_equations(
        self, rows: np.ndarray, numbers: np.ndarray, at: _At
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return those of some rows, shapes (row, PARAMETERS, PARAMETERS) and (row, PARAMETERS)."""
        fits, slopes = self.fits, np.empty((len(rows), PARAMETERS, self.z.shape[1]))
        kernels.slopes(
            rows, numbers, fits.free, fits.coordinate, fits.scale, fits.second, fits.location,
            self.z, self.gradients, at.learned, at.own, slopes,
        )  # fmt: skip
        right = slopes @ at.residuals[rows][:, :, None]
        return slopes @ slopes.transpose(0, 2, 1), right[:, :, 0]


def _minimize(fits: Fits, iterations: int, draws: Draws) -> np.ndarray:
    """Levenberg-Marquardt for all fits at once, each with a separate damping.

    The normal equations of a fit are computed again when it has improved.
    """
    model, found, rows = _Model(fits, draws), fits.numbers.copy(), np.arange(len(fits.numbers))
    numbers, damping, idle = found.copy(), np.full(len(rows), 1e-2), np.zeros(len(rows), int)
    at, better = model.evaluate(numbers), np.ones(len(rows), bool)
    best = at.divergence.copy()
    normal, right = model.normal_equations(rows, numbers, at)
    for _ in range(iterations):
        places, enlarged, sides = (np.empty_like(values) for values in (numbers, normal, right))
        free = model.fits.free
        kernels.damp(normal, right, free, damping, enlarged, sides)
        kernels.move(numbers, np.linalg.solve(enlarged, sides[:, :, None]), free, places)
        at = model.evaluate(places)
        kernels.accept(places, at.divergence, numbers, best, damping, idle, better)
        goes_on = idle < kernels.PATIENCE
        if goes_on.mean() < SHARE_LEFT:
            found[rows] = numbers
            if not goes_on.any():
                return found
            rows, numbers, damping, idle, best, normal, right, better = (
                values[goes_on]
                for values in (rows, numbers, damping, idle, best, normal, right, better)
            )
            model.take(goes_on)
            at = at.take(goes_on)
        improved = np.flatnonzero(better)
        normal[improved], right[improved] = model.normal_equations(improved, numbers, at)
    found[rows] = numbers
    return found
