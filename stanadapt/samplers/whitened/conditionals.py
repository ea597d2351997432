"""Fits of one coordinate's conditional distribution, many at a time.

The model is that of `triangular_map`: precision P = P0 + P1 with P1 = exp(a + b z_k + s z_h), and
mean m, the average of d and of e + w z_l + q z_l^2 with weights P0 and P1. The fit minimizes the
Fisher divergence of the conditional from a normal distribution with this precision and mean,

    F = mean over draws of (g + P (x - m))^2 / P,

g being the gradient of the log density with respect to x. It needs no normalizing constant, does
not depend on units, and is 0 if the conditional is exactly of this form, however few the draws.
Everything here is in standardized units: z = (x - mean) / sd, and g times sd.

All fits advance together in a Levenberg-Marquardt iteration with analytic derivatives: array
operations over (fit, draw), nothing to compile.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread

# numbers of a fit
PARAMETERS = 8
COLUMNS = range(PARAMETERS)
A, B, S, C, D, E, W, Q = COLUMNS
# a driver that is absent
NONE = -1
# an absent own precision: exp(-700) is 0 next to any other
ABSENT = -700.0
LARGEST_EXPONENT = 60.0
ITERATIONS, CHUNK = 30, 128
# a fit ends when it has not improved by this share for this many iterations; those that have ended
# are left out of the arrays when fewer than this share of them continue
LEAST_GAIN, PATIENCE, SHARE_LEFT = 1e-4, 7, 0.7
# of the logarithms a and c and the slopes b and s in one iteration
LONGEST_STEP = 2.0
# a fit with less is taken for the true conditional, before others that gain more
EXACT = 0.01
SMALLEST = 1e-300
DIAGONAL = np.arange(PARAMETERS)


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
    found = [
        np.mean(_residuals(part.numbers, *_columns(part, draws))[0] ** 2, axis=1)
        for part in _chunks(fits)
    ]
    return np.nan_to_num(np.concatenate(found), nan=np.inf) if found else np.empty(0)


def fit(fits: Fits, draws: Draws, iterations: int = ITERATIONS) -> Fits:
    """Minimize F over the free numbers, from those given."""
    with one_blas_thread(), np.errstate(all="ignore"):
        parts = [
            part._replace(numbers=_minimize(part, iterations, *_columns(part, draws)))
            for part in _chunks(fits)
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


def _columns(fits: Fits, draws: Draws) -> tuple[np.ndarray, ...]:
    """Return x, g, z_k, z_h and z_l of each fit, shape (fit, draw); 0 for an absent driver."""
    z = draws.positions
    drivers = (
        np.where((driver >= 0)[:, None], z[driver], 0.0)
        for driver in (fits.scale, fits.second, fits.location)
    )
    return z[fits.coordinate], draws.gradients[fits.coordinate], *drivers


def _residuals(
    numbers: np.ndarray,
    x: np.ndarray,
    g: np.ndarray,
    scale: np.ndarray,
    second: np.ndarray,
    location: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return (g + P (x - m)) / sqrt(P), and the parts that its derivatives need."""
    a, b, s, c, d, e, w, q = (numbers[:, i, None] for i in range(PARAMETERS))
    exponent = a + b * scale + s * second
    learned = np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    own = np.exp(np.minimum(c, LARGEST_EXPONENT))
    precision = own + learned
    center = e + (w + q * location) * location
    mean = (own * d + learned * center) / precision
    root = np.sqrt(precision)
    return root * (x - mean) + g / root, learned, own, precision, center, mean, root


def _derivatives(
    numbers: np.ndarray,
    parts: tuple,
    x: np.ndarray,
    g: np.ndarray,
    scale: np.ndarray,
    second: np.ndarray,
    location: np.ndarray,
) -> np.ndarray:
    """Return those of the residuals, shape (fit, PARAMETERS, draw)."""
    _, learned, own, precision, center, mean, root = parts
    half = 0.5 * (x - g / precision + mean)
    by_learned, by_own = (half - center) / root, (half - numbers[:, D, None]) / root
    out = np.empty((len(x), PARAMETERS, x.shape[1]))
    out[:, A] = learned * by_learned
    out[:, B] = out[:, A] * scale
    out[:, S] = out[:, A] * second
    out[:, C] = own * by_own
    out[:, D] = -own / root
    out[:, E] = -learned / root
    out[:, W] = out[:, E] * location
    out[:, Q] = out[:, W] * location
    return out


def _minimize(fits: Fits, iterations: int, *columns: np.ndarray) -> np.ndarray:
    """Levenberg-Marquardt for all fits at once, each with a separate damping."""
    found, rows = fits.numbers.copy(), np.arange(len(fits.numbers))
    numbers, free = found.copy(), fits.free
    damping, idle = np.full(len(rows), 1e-2), np.zeros(len(rows), int)
    parts = _residuals(numbers, *columns)
    best: np.ndarray = np.mean(parts[0] ** 2, axis=1)
    for _ in range(iterations):
        step = _step(numbers, free, damping, parts, *columns)
        tried = numbers + step
        new = _residuals(tried, *columns)
        value: np.ndarray = np.mean(new[0] ** 2, axis=1)
        better: np.ndarray = value < best
        numbers = np.where(better[:, None], tried, numbers)
        gained = np.where(better, best - value, 0.0)
        best = np.where(better, value, best)
        damping = np.clip(np.where(better, 0.2 * damping, 5.0 * damping), 1e-9, 1e9)
        for before, after in zip(parts, new, strict=True):
            np.copyto(before, after, where=better[:, None])
        idle = np.where(gained > LEAST_GAIN * best, 0, idle + 1)
        goes_on = idle < PATIENCE
        if goes_on.mean() < SHARE_LEFT:
            found[rows] = numbers
            rows, numbers, free, damping, idle, best = (
                values[goes_on] for values in (rows, numbers, free, damping, idle, best)
            )
            columns = tuple(values[goes_on] for values in columns)
            parts = tuple(values[goes_on] for values in parts)
            if not len(rows):
                break
    found[rows] = numbers
    return found


def _step(
    numbers: np.ndarray, free: np.ndarray, damping: np.ndarray, parts: tuple, *columns: np.ndarray
) -> np.ndarray:
    """Return the step of each fit, from normal equations whose diagonal is enlarged."""
    slopes = _derivatives(numbers, parts, *columns)
    slopes *= free[:, :, None]
    normal = slopes @ slopes.transpose(0, 2, 1)
    right = (slopes @ parts[0][:, :, None])[:, :, 0]
    sizes = normal[:, DIAGONAL, DIAGONAL]
    normal[:, DIAGONAL, DIAGONAL] += (
        damping[:, None] * sizes
        + 1e-9 * sizes.max(axis=1, keepdims=True)
        + (~free | (sizes <= 0.0))
        + SMALLEST
    )
    usable = np.isfinite(normal).all(axis=(1, 2)) & np.isfinite(right).all(axis=1)
    normal[~usable], right[~usable] = np.eye(PARAMETERS), 0.0
    step: np.ndarray = -np.linalg.solve(normal, right[:, :, None])[:, :, 0] * free
    step[:, : C + 1] = np.clip(step[:, : C + 1], -LONGEST_STEP, LONGEST_STEP)
    return step
