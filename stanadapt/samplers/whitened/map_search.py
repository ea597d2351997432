"""Find the drivers of each coordinate: on what its conditional scale and location depend.

For each coordinate whose conditional is not normal with constant precision, candidates are fitted
on half of the draws and judged on the other half:

- As drivers of the scale, the coordinates most correlated with the log of its squared gradient;
- with each of them, as drivers of the location, those most correlated with what remains;
- if that leaves much, a second driver of the scale: those most correlated with what remains of the
  log of the squared gradient;
- with a constant scale, drivers of a curved location.

The best candidate of each coordinate is taken, those that leave almost nothing first and others in
the order of gain, unless drivers would then depend on each other in a circle.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened import conditionals
from stanadapt.samplers.whitened.conditionals import NONE, SMALLEST, Draws, Fits, divergence, fit

COLUMNS = conditionals.COLUMNS
A, B, S, C, D, E, W, Q = COLUMNS
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
# start of the search: the logs of both precisions, below that of a single one
START = 0.7
# share of the divergence that may remain, and what a location driver must gain; and what all must
# gain over a line
LARGEST_REST, LOCATION_GAIN, LINE_GAIN = 0.75, 0.05, 0.3
# share of the divergence with one driver of the scale that two may leave
SECOND_REST = 0.5
# coordinates whose drivers are searched for
MOST_SEARCHED = 48


# --- candidates -----------------------------------------------------------------------------------


def plain_fits(draws: Draws) -> Fits:
    """Return fits of all coordinates with constant precision and no drivers."""
    plain = conditionals.models(np.arange(len(draws.positions)), (A, E))
    return fit(
        plain.with_numbers(A, draws.log_precision).with_numbers(C, conditionals.ABSENT), draws
    )


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
        nothing = conditionals.models(np.empty(0, int))
        return nothing, nothing
    sizes = np.log(g[coordinates] ** 2 + 1e-300)
    scale = _highest(conditionals.correlations(sizes, z), coordinates, SCALE_DRIVERS)
    j = np.repeat(coordinates, scale.shape[1])
    start = _begun(conditionals.models(j, (A, B, C, D, E), scale.ravel()), draws)
    starts = [start.with_numbers(B, slope) for slope in (-1.0, 1.0)]
    alone = conditionals.fit_best(starts, draws)
    return alone, _with_location(alone, [start.numbers for start in starts], draws)


def _begun(fits: Fits, draws: Draws) -> Fits:
    """Begin with half the precision in each of its two parts, or so."""
    precision = draws.log_precision[fits.coordinate] - START
    return fits.with_numbers([A, C], precision[:, None])


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
    begun = conditionals.fit_best([each.take(kept) for each in tried], draws, BEGINNING)
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
    scores = conditionals.correlations(sizes - slope * driver, z)
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
    begun = _begun(
        conditionals.models(first.coordinate, (A, B, S, C, D, E), pairs[rows, 0], pairs[rows, 1]),
        draws,
    )
    for row, (j, k, h) in enumerate(zip(begun.coordinate, begun.scale, begun.second, strict=True)):
        design = np.stack([np.ones(z.shape[1]), z[k], z[h]], axis=1)
        size = np.log(draws.gradients[j] ** 2 + SMALLEST)
        begun.numbers[row, [B, S]] = np.linalg.lstsq(design, size, rcond=None)[0][1:]
    pair = fit(begun, draws)
    best = _best_rows(pair, draws)
    located = _with_location(pair.take(best), [begun.numbers[best]], draws)
    # the location may be all that one driver lacked
    single = located._replace(
        second=np.full(len(located.second), NONE), free=located.free & (np.array(COLUMNS) != S)
    )
    return pair, located, fit(single.with_numbers(S, 0.0), draws)


def _best_rows(fits: Fits, draws: Draws, count: int = 1) -> np.ndarray:
    """Return the rows of the best fits of each coordinate."""
    order = np.lexsort((divergence(fits, draws), fits.coordinate))
    _, begin, sizes = np.unique(fits.coordinate[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(begin, sizes)
    return np.sort(order[place < count])


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
    scores = conditionals.correlations(residual, z**2) + conditionals.correlations(residual, z)
    location = _highest(scores, j, LOCATION_DRIVERS)
    fits = plain.take(np.repeat(np.arange(len(j)), location.shape[1]))
    fits = fits._replace(location=location.ravel())
    line, curve = (
        conditionals.models(fits.coordinate, free).free for free in ((A, E, W), (A, E, W, Q))
    )
    return fit(fit(fits._replace(free=line), learned)._replace(free=curve), learned)


# --- the choice among them ------------------------------------------------------------------------


class Search(NamedTuple):
    """The map found, and the divergence without it."""

    accepted: Fits  # one fit per mapped coordinate
    plain: Fits  # fits without drivers of all coordinates
    # held-out divergence of the accepted fit of each coordinate, or of the plain one
    rest: np.ndarray
    before: np.ndarray  # held-out divergence of the plain fits
    # tried, found: all fits that may be accepted, and their held-out divergence
    tried: Fits
    found: np.ndarray

    def by_gain(self) -> "Search":
        """Return the same search with the fits that gain most first, even if they leave much."""
        return _choose(self.plain, self.before, self.tried, self.found, exact_first=False)


def search(learned: Draws, judged: Draws) -> Search:
    """Fit on `learned`, judge on `judged`, and choose drivers without circles."""
    plain = plain_fits(learned)
    before = divergence(plain, judged)
    open_coordinates = _sample(np.flatnonzero(before > SMALL), before)
    alone, both = scale_candidates(open_coordinates, learned)
    candidates = [
        part
        for part in (
            alone,
            both,
            *second_candidates(alone, both, learned),
            curved_candidates(plain.take(open_coordinates), learned),
        )
        if len(part.coordinate)
    ]
    if not candidates:
        none = plain.take(np.empty(0, int))
        return Search(none, plain, before, before, none, np.empty(0))
    everything = conditionals.join(candidates)
    found = divergence(everything, judged)
    enough = found < (1.0 - LINE_GAIN) * _on_lines(everything, learned, judged)
    curved = np.flatnonzero(enough & ~_needless_second(everything, found))
    return _choose(plain, before, everything.take(curved), found[curved], exact_first=True)


def _choose(
    plain: Fits, before: np.ndarray, tried: Fits, found: np.ndarray, exact_first: bool
) -> Search:
    rows = _without_circles(tried, found, before, conditionals.EXACT if exact_first else -np.inf)
    rest = before.copy()
    rest[tried.coordinate[rows]] = found[rows]
    return Search(tried.take(rows), plain, rest, before, tried, found)


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


def _needless_second(fits: Fits, found: np.ndarray) -> np.ndarray:
    """Whether a fit has a second driver of the scale that gains little over a single one."""
    best = np.full(int(fits.coordinate.max()) + 1, np.inf)
    one = fits.second < 0
    np.minimum.at(best, fits.coordinate[one], found[one])
    single = best[fits.coordinate]
    return ~one & ((single <= conditionals.EXACT) | ~(found < SECOND_REST * single))


def _on_lines(fits: Fits, learned: Draws, judged: Draws) -> np.ndarray:
    """Return the held-out divergence with a constant scale and a location linear in the drivers.

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
    """Return x, g, and the terms of a line in all drivers, shape (fit, draw, 4)."""
    z = draws.positions
    drivers = np.column_stack([fits.scale, fits.second, fits.location])
    terms = np.where((drivers >= 0)[:, :, None], z[drivers], 0.0)
    ones = np.ones((len(drivers), 1, z.shape[1]))
    design = np.concatenate([ones, terms], axis=1).transpose(0, 2, 1)
    return z[fits.coordinate], draws.gradients[fits.coordinate], design


def _without_circles(fits: Fits, found: np.ndarray, before: np.ndarray, exact: float) -> np.ndarray:
    """Return the rows to accept: for each coordinate the best, in the order of gain.

    Those that leave less than `exact` come before all others.
    """
    more = ((fits.location >= 0) & (fits.scale >= 0)).astype(float) + (fits.second >= 0)
    penalized = (1.0 + LOCATION_GAIN * more) * found + 1e-3 * more
    own = before[fits.coordinate]
    usable = (found < LARGEST_REST * own) & (own - found > SMALL)
    first = dict.fromkeys(fits.coordinate, np.inf)
    for row in np.flatnonzero(usable):
        j = fits.coordinate[row]
        first[j] = min(first[j], penalized[row])
    order = sorted(
        np.flatnonzero(usable),
        key=lambda row: (
            found[row] > exact,
            first[fits.coordinate[row]] - before[fits.coordinate[row]],
            fits.coordinate[row], penalized[row],
        ),
    )  # fmt: skip
    drivers: dict[int, set[int]] = {}
    accepted = []
    needed = fits.drivers
    for row in order:
        j, needs = int(fits.coordinate[row]), needed[row]
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
