"""Find the drivers of each coordinate: on what its conditional scale and location depend.

For each coordinate whose conditional is not normal with constant precision, candidates are fitted
on half of the draws and judged on the other half. The best candidate of each coordinate is taken,
those that leave almost nothing first and others in the order of gain, unless drivers would then
depend on each other in a circle.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.conditionals import SMALLEST, Draws, Fits, divergence, join
from stanadapt.samplers.whitened.map_candidates import (
    SMALL,
    curved_candidates,
    plain_fits,
    scale_candidates,
    second_candidates,
)

# share of the divergence that may remain, and what a location driver must gain; and what all must
# gain over a line
LARGEST_REST, LOCATION_GAIN, LINE_GAIN = 0.75, 0.05, 0.3
# a fit with less is taken for the true conditional, before others that gain more
EXACT = 0.01
# share of the divergence with one driver of the scale that two may leave
SECOND_REST = 0.5
# coordinates whose drivers are searched for
MOST_SEARCHED = 48


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
    tried, found
        All fits that may be accepted, and their held-out divergence.

    """

    accepted: Fits
    plain: Fits
    rest: np.ndarray
    before: np.ndarray
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
    everything = join(candidates)
    found = divergence(everything, judged)
    enough = found < (1.0 - LINE_GAIN) * _on_lines(everything, learned, judged)
    curved = np.flatnonzero(enough & ~_needless_second(everything, found))
    return _choose(plain, before, everything.take(curved), found[curved], exact_first=True)


def _choose(
    plain: Fits, before: np.ndarray, tried: Fits, found: np.ndarray, exact_first: bool
) -> Search:
    rows = _without_circles(tried, found, before, EXACT if exact_first else -np.inf)
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
    return ~one & ((single <= EXACT) | ~(found < SECOND_REST * single))


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
