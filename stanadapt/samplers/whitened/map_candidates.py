"""Candidates for the drivers of each coordinate, fitted to draws and their gradients.

- As drivers of the scale, the coordinates most correlated with the log of its squared gradient;
- with each of them, as drivers of the location, those most correlated with what remains;
- if that leaves much, a second driver of the scale: those most correlated with what remains of the
  log of the squared gradient;
- with a constant scale, drivers of a curved location.

"""

import numpy as np

from stanadapt.samplers.whitened.conditionals import (
    ABSENT,
    PARAMETERS,
    SMALLEST,
    A,
    B,
    C,
    D,
    Draws,
    E,
    Fits,
    Q,
    S,
    W,
    divergence,
    fit,
    fit_best,
)

# a conditional with a divergence below this counts as normal
SMALL = 0.05
SCALE_DRIVERS, LOCATION_DRIVERS, SECOND_DRIVERS = 3, 4, 2
# standard errors by which the correlation with a second driver must differ from 0
CLEAR = 2.0
# coordinates that a target must have for one of them to have two drivers of the scale
LEAST_FOR_TWO = 3
# iterations after which the best of several beginnings is chosen, and fits of each coordinate that
# are then finished
BEGINNING, MOST_FINISHED = 8, 6
# where the search begins: the logs of both precisions, below that of a single one
START = 0.7
NONE = -1


def plain_fits(draws: Draws) -> Fits:
    """Return fits of all coordinates with constant precision and no drivers."""
    n = len(draws.positions)
    numbers = np.zeros((n, PARAMETERS))
    numbers[:, A], numbers[:, C] = draws.log_precision, ABSENT
    none = np.full(n, NONE)
    return fit(Fits(np.arange(n), none, none, none, numbers, _free(n, A, E)), draws)


def _free(count: int, *names: int) -> np.ndarray:
    free = np.zeros((count, PARAMETERS), bool)
    free[:, list(names)] = True
    return free


def correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return absolute correlations between rows of two arrays; 0 for a constant row."""
    one, other = (
        np.divide(centered, norm, out=np.zeros_like(centered), where=norm > 0.0)
        for centered in (rows - rows.mean(axis=1, keepdims=True) for rows in (one, other))
        for norm in (np.linalg.norm(centered, axis=1, keepdims=True),)
    )
    return np.abs(one @ other.T)


def _highest(scores: np.ndarray, own: np.ndarray, count: int) -> np.ndarray:
    """Return the columns with the highest scores of each row, without its own coordinate."""
    scores = scores.copy()
    scores[np.arange(len(own)), own] = -np.inf
    count = min(count, scores.shape[1] - 1)
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def scale_candidates(coordinates: np.ndarray, draws: Draws) -> tuple[Fits, Fits]:
    """Return fits with a driver of the scale: without a location, and with one."""
    z, g, n = draws.positions, draws.gradients, len(draws.positions)
    if n == 1 or not len(coordinates):
        nothing = Fits(*(np.empty(0, int),) * 4, np.empty((0, PARAMETERS)), _free(0, A))
        return nothing, nothing
    sizes = np.log(g[coordinates] ** 2 + 1e-300)
    scale = _highest(correlations(sizes, z), coordinates, SCALE_DRIVERS)
    j = np.repeat(coordinates, scale.shape[1])
    start = np.zeros((len(j), PARAMETERS))
    start[:, A] = start[:, C] = draws.log_precision[j] - START
    free, none = _free(len(j), A, B, C, D, E), np.full(len(j), NONE)
    starts = [_with_slope(start, slope) for slope in (-1.0, 1.0)]
    alone = fit_best([Fits(j, scale.ravel(), none, none, first, free) for first in starts], draws)
    return alone, _with_location(alone, starts, draws)


def _with_location(alone: Fits, starts: list[np.ndarray], draws: Draws) -> Fits:
    """Return fits with a driver of the location too, from the given fits and from other numbers."""
    location = _locations(alone, draws)
    rows = np.repeat(np.arange(len(alone.coordinate)), location.shape[1])
    free = alone.free[rows]
    free[:, W] = True
    first = alone.take(rows)._replace(location=location.ravel(), free=free)
    other = (first.location != first.scale) & (first.location != first.second)
    kept = np.flatnonzero(other)
    tried = [first, *(first._replace(numbers=numbers[rows]) for numbers in starts)]
    begun = fit_best([each.take(kept) for each in tried], draws, BEGINNING)
    return fit(begun.take(_best_rows(begun, draws, MOST_FINISHED)), draws)


def second_candidates(alone: Fits, both: Fits, draws: Draws) -> tuple[Fits, ...]:
    """Return fits with two drivers of the scale: without a location, with one, and with it alone.

    Only for coordinates whose best fit with one driver leaves much. The slopes at which they begin
    are those of a regression of the log of the squared gradient on both drivers.
    """
    z = draws.positions
    rest: dict[int, float] = {}
    for fits in (alone, both):
        for j, value in zip(fits.coordinate, divergence(fits, draws), strict=True):
            rest[int(j)] = min(rest.get(int(j), np.inf), value)
    wanted = np.array([rest[int(j)] > SMALL for j in alone.coordinate], bool)
    first = alone.take(np.flatnonzero(wanted))
    if not len(first.coordinate) or len(z) < LEAST_FOR_TWO:
        return ()
    sizes = np.log(draws.gradients[first.coordinate] ** 2 + SMALLEST)
    driver = z[first.scale]
    slope = np.mean(sizes * driver, axis=1, keepdims=True) / np.mean(driver**2, axis=1)[:, None]
    scores = correlations(sizes - slope * driver, z)
    scores[np.arange(len(scores)), first.scale] = -1.0
    second = _highest(scores, first.coordinate, SECOND_DRIVERS)
    chosen, place = np.nonzero(
        np.take_along_axis(scores, second, axis=1) > CLEAR / z.shape[1] ** 0.5
    )
    if not len(chosen):
        return ()
    first, second = first.take(chosen), second[chosen, place]
    # the order of both drivers has no meaning
    pairs = np.sort(np.column_stack([first.scale, second]), axis=1)
    rows = np.unique(np.column_stack([first.coordinate, pairs]), axis=0, return_index=True)[1]
    first = first.take(rows)
    first = first._replace(scale=pairs[rows, 0], second=pairs[rows, 1])
    numbers = np.zeros_like(first.numbers)
    numbers[:, A] = numbers[:, C] = draws.log_precision[first.coordinate] - START
    for row, (j, k, h) in enumerate(zip(first.coordinate, first.scale, first.second, strict=True)):
        design = np.stack([np.ones(z.shape[1]), z[k], z[h]], axis=1)
        size = np.log(draws.gradients[j] ** 2 + SMALLEST)
        numbers[row, [B, S]] = np.linalg.lstsq(design, size, rcond=None)[0][1:]
    free = _free(len(numbers), A, B, S, C, D, E)
    pair = fit(first._replace(numbers=numbers, free=free), draws)
    best = _best_rows(pair, draws)
    located = _with_location(pair.take(best), [numbers[best]], draws)
    # the location may be all that one driver lacked
    return pair, located, fit(_without_second(located), draws)


def _without_second(fits: Fits) -> Fits:
    numbers, free = fits.numbers.copy(), fits.free.copy()
    numbers[:, S], free[:, S] = 0.0, False
    return fits._replace(second=np.full(len(numbers), NONE), numbers=numbers, free=free)


def _best_rows(fits: Fits, draws: Draws, count: int = 1) -> np.ndarray:
    """Return the rows of the best fits of each coordinate."""
    order = np.lexsort((divergence(fits, draws), fits.coordinate))
    _, begin, sizes = np.unique(fits.coordinate[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(begin, sizes)
    return np.sort(order[place < count])


def _with_slope(numbers: np.ndarray, slope: float) -> np.ndarray:
    numbers = numbers.copy()
    numbers[:, B] = slope
    return numbers


def _locations(fits: Fits, draws: Draws) -> np.ndarray:
    """Return the coordinates that would explain most of the residuals as drivers of location."""
    z = draws.positions
    x, g = z[fits.coordinate], draws.gradients[fits.coordinate]
    a, b, s, c, d, e = (fits.numbers[:, i, None] for i in (A, B, S, C, D, E))
    exponent = a + b * z[fits.scale] + s * z[fits.second]
    learned = np.exp(np.clip(exponent, -60.0, 60.0))
    own = np.exp(np.minimum(c, 60.0))
    root = np.sqrt(own + learned)
    residual = root * x + g / root - (own * d + learned * e) / root
    weight = learned / root
    above = np.abs((residual * weight) @ z.T)
    below = np.sqrt(weight**2 @ (z**2).T)
    scores = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
    return _highest(scores, fits.coordinate, LOCATION_DRIVERS)


def curved_candidates(plain: Fits, learned: Draws) -> Fits:
    """Return fits with a constant precision whose location is a curve."""
    z, j, n = learned.positions, plain.coordinate, len(learned.positions)
    if n == 1 or not len(j):
        return plain.take(np.empty(0, int))
    precision = np.exp(plain.numbers[:, A, None])
    residual = precision * z[j] + learned.gradients[j]
    scores = correlations(residual, z**2) + correlations(residual, z)
    location = _highest(scores, j, LOCATION_DRIVERS)
    fits = plain.take(np.repeat(np.arange(len(j)), location.shape[1]))
    fits = fits._replace(location=location.ravel())
    count = len(fits.coordinate)
    line = fit(fits._replace(free=_free(count, A, E, W)), learned)
    return fit(line._replace(free=_free(count, A, E, W, Q)), learned)
