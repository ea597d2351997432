"""Find the drivers of each coordinate: on what its conditional scale and location depend.

For each coordinate whose conditional is not normal with constant precision, candidates are fitted
on half of the draws and judged on the other half:

- as drivers of the scale, the coordinates most correlated with the log of its squared gradient;
- with each of them, as drivers of the location, those most correlated with what remains;
- with a constant scale, drivers of a curved location.

The best candidate of each coordinate is taken in the order of gain, unless drivers would then
depend on each other in a circle.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
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
    W,
    divergence,
    fit,
    join,
)

# a conditional with a divergence below this counts as normal, and a driver must gain this much
SMALL = 0.05
# share of the divergence that may remain, and what a location driver must gain; and what all must
# gain over a line
LARGEST_REST, LOCATION_GAIN, LINE_GAIN = 0.75, 0.05, 0.3
SCALE_DRIVERS, LOCATION_DRIVERS = 3, 4
# coordinates whose drivers are searched for
MOST_SEARCHED = 48
# where the search begins: the logs of both precisions, below that of a single one
START = 0.7
NONE = -1


class Search(NamedTuple):
    """The map found, and the divergence without it.

    accepted
        One fit per mapped coordinate.
    plain
        Fits without drivers of all coordinates.
    rest
        Held-out divergence of the accepted fit of each coordinate, or of the plain one.
    before
        Held-out divergence of the plain fits.

    """

    accepted: Fits
    plain: Fits
    rest: np.ndarray
    before: np.ndarray


def plain_fits(draws: Draws) -> Fits:
    """Return fits of all coordinates with constant precision and no drivers."""
    n = len(draws.positions)
    numbers = np.zeros((n, PARAMETERS))
    numbers[:, A], numbers[:, C] = draws.log_precision, ABSENT
    none = np.full(n, NONE)
    return fit(Fits(np.arange(n), none, none, numbers, _free(n, A, E)), draws)


def _free(count: int, *names: int) -> np.ndarray:
    free = np.zeros((count, PARAMETERS), bool)
    free[:, list(names)] = True
    return free


def search(learned: Draws, judged: Draws) -> Search:
    """Fit on `learned`, judge on `judged`, and choose drivers without circles."""
    plain = plain_fits(learned)
    before = divergence(plain, judged)
    open_coordinates = _sample(np.flatnonzero(before > SMALL), before)
    candidates = [
        part
        for part in (
            *_scale_candidates(open_coordinates, learned),
            _curved_candidates(plain.take(open_coordinates), learned),
        )
        if len(part.coordinate)
    ]
    if not candidates:
        return Search(plain.take(np.empty(0, int)), plain, before, before)
    everything = join(candidates)
    found = divergence(everything, judged)
    curved = np.flatnonzero(found < (1.0 - LINE_GAIN) * _on_lines(everything, learned, judged))
    everything, found = everything.take(curved), found[curved]
    accepted = _without_circles(everything, found, before)
    rest = before.copy()
    rest[everything.coordinate[accepted]] = found[accepted]
    return Search(everything.take(accepted), plain, rest, before)


def _sample(coordinates: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return at most MOST_SEARCHED: those farthest from a normal, and others evenly spread.

    The members that are left out find their group when its prior is offered to them.
    """
    if len(coordinates) <= MOST_SEARCHED:
        return coordinates
    half = MOST_SEARCHED // 2
    farthest = np.argsort(-before[coordinates], kind="stable")[:half]
    others = np.setdiff1d(np.arange(len(coordinates)), farthest)
    spread = others[np.linspace(0, len(others) - 1, MOST_SEARCHED - half).astype(int)]
    return np.sort(coordinates[np.concatenate([farthest, spread])])


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


def _scale_candidates(coordinates: np.ndarray, draws: Draws) -> tuple[Fits, Fits]:
    """Return fits with a driver of the scale: without a location, and with one."""
    z, g, n = draws.positions, draws.gradients, len(draws.positions)
    if n == 1 or not len(coordinates):
        nothing = Fits(*(np.empty(0, int),) * 3, np.empty((0, PARAMETERS)), _free(0, A))
        return nothing, nothing
    sizes = np.log(g[coordinates] ** 2 + 1e-300)
    scale = _highest(correlations(sizes, z), coordinates, SCALE_DRIVERS)
    j = np.repeat(coordinates, scale.shape[1])
    start = np.zeros((len(j), PARAMETERS))
    start[:, A] = start[:, C] = draws.log_precision[j] - START
    free, none = _free(len(j), A, B, C, D, E), np.full(len(j), NONE)
    starts = [_with_slope(start, slope) for slope in (-1.0, 1.0)]
    alone = _best(
        [fit(Fits(j, scale.ravel(), none, first, free), draws) for first in starts], draws
    )
    location = _locations(alone, draws)
    rows = np.repeat(np.arange(len(j)), location.shape[1])
    first = alone.take(rows)._replace(
        location=location.ravel(), free=_free(len(rows), A, B, C, D, E, W)
    )
    tried = [first, *(first._replace(numbers=numbers[rows]) for numbers in starts)]
    both = _best([fit(each, draws) for each in tried], draws)
    return alone, both.take(np.flatnonzero(both.location != both.scale))


def _with_slope(numbers: np.ndarray, slope: float) -> np.ndarray:
    numbers = numbers.copy()
    numbers[:, B] = slope
    return numbers


def _best(tried: list[Fits], draws: Draws) -> Fits:
    """Return the best of several fits of the same models, row by row."""
    values = np.stack([divergence(fits, draws) for fits in tried])
    best = values.argmin(axis=0)
    numbers = np.stack([fits.numbers for fits in tried])[best, np.arange(len(best))]
    return tried[0]._replace(numbers=numbers)


def _locations(fits: Fits, draws: Draws) -> np.ndarray:
    """Return the coordinates that would explain most of the residuals as drivers of location."""
    z = draws.positions
    x, g = z[fits.coordinate], draws.gradients[fits.coordinate]
    a, b, c, d, e = (fits.numbers[:, i, None] for i in (A, B, C, D, E))
    learned = np.exp(np.clip(a + b * z[fits.scale], -60.0, 60.0))
    own = np.exp(np.minimum(c, 60.0))
    root = np.sqrt(own + learned)
    residual = root * x + g / root - (own * d + learned * e) / root
    weight = learned / root
    above = np.abs((residual * weight) @ z.T)
    below = np.sqrt(weight**2 @ (z**2).T)
    scores = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
    return _highest(scores, fits.coordinate, LOCATION_DRIVERS)


def _curved_candidates(plain: Fits, learned: Draws) -> Fits:
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


def _on_lines(fits: Fits, learned: Draws, judged: Draws) -> np.ndarray:
    """Return the held-out divergence with a constant scale and a location linear in both drivers.

    That is a correlation, which belongs in the metric. A driver of the scale can imitate it, since
    it moves the mean between those of two precisions. For a given precision P, the location is a
    regression of x + g / P on the drivers; with M its residuals, F is least at P = |M g| / |M x|.
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        x, g, design = _design(fits, learned)
        inverse = np.linalg.pinv(np.einsum("fdi,fdj->fij", design, design), hermitian=True)

        def regress(values: np.ndarray) -> np.ndarray:
            return np.einsum("fij,fdj,fd->fi", inverse, design, values, optimize=True)

        def size(values: np.ndarray) -> np.ndarray:
            rest = values - np.einsum("fdi,fi->fd", design, regress(values))
            return np.linalg.norm(rest, axis=1, keepdims=True)

        precision = size(g) / np.maximum(size(x), SMALLEST)
        location = regress(x + g / precision)
        x, g, design = _design(fits, judged)
        rest = g + precision * (x - np.einsum("fdi,fi->fd", design, location))
        return np.nan_to_num(np.mean(rest**2 / precision, axis=1), nan=np.inf)


def _design(fits: Fits, draws: Draws) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, g, and the terms of a line in both drivers, shape (fit, draw, 3)."""
    z, drivers = draws.positions, np.column_stack([fits.scale, fits.location])
    terms = np.where((drivers >= 0)[:, :, None], z[drivers], 0.0)
    ones = np.ones((len(drivers), 1, z.shape[1]))
    design = np.concatenate([ones, terms], axis=1).transpose(0, 2, 1)
    return z[fits.coordinate], draws.gradients[fits.coordinate], design


def _without_circles(fits: Fits, found: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the rows to accept: for each coordinate the best, in the order of gain."""
    both = (fits.location >= 0) & (fits.scale >= 0)
    penalized = np.where(both, (1.0 + LOCATION_GAIN) * found + 1e-3, found)
    own = before[fits.coordinate]
    usable = (found < LARGEST_REST * own) & (own - found > SMALL)
    first = dict.fromkeys(fits.coordinate, np.inf)
    for row in np.flatnonzero(usable):
        j = fits.coordinate[row]
        first[j] = min(first[j], penalized[row])
    order = sorted(
        np.flatnonzero(usable),
        key=lambda row: (
            first[fits.coordinate[row]] - before[fits.coordinate[row]],
            fits.coordinate[row], penalized[row],
        ),
    )  # fmt: skip
    drivers: dict[int, set[int]] = {}
    accepted = []
    for row in order:
        j = int(fits.coordinate[row])
        needs = {int(k) for k in (fits.scale[row], fits.location[row]) if k >= 0}
        if j not in drivers and not reaches(drivers, needs, j):
            drivers[j] = needs
            accepted.append(row)
    return np.array(accepted, int)


def reaches(drivers: dict[int, set[int]], start: set[int], goal: int) -> bool:
    """Whether one of the coordinates in `start` is, or depends on, `goal`."""
    seen, waiting = set(), list(start)
    while waiting:
        now = waiting.pop()
        if now == goal:
            return True
        if now not in seen:
            seen.add(now)
            waiting += drivers.get(now, ())
    return False


def in_order(drivers: dict[int, set[int]]) -> list[int]:
    """Return the keys in an order in which each follows the keys that it depends on."""
    order: list[int] = []
    done: set[int] = set()

    def visit(j: int) -> None:
        if j in done:
            return
        done.add(j)
        for k in sorted(drivers.get(j, ())):
            visit(k)
        if j in drivers:
            order.append(j)

    for j in sorted(drivers):
        visit(j)
    return order
