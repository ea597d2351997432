"""Climb from draws to local maxima of a log density, and distinguish ridges from modes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from scipy.linalg import solve_triangular

from stanadapt.engine.one_blas_thread import one_blas_thread

ITERATIONS = 200  # per climb
MARGIN = 1.0  # climbs may leave the range of the draws by this multiple of its width
LEAST = 10.0  # or by this many standard deviations if that is more
BENDS = 4  # levels of bisection: at most sixteen straight segments per path
ON_LINE = 24  # points between two ends at which the density is evaluated
PAIRS = 6  # nearest pairs of ends tried before two groups count as separate
PARTNERS = 8  # nearest groups that each group is tried with
Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray, str]]


class Ends(NamedTuple):
    position: np.ndarray  # positions of the ends, shape (start, dim)
    log_density: np.ndarray  # log density at the ends, shape (start,)
    # Whether a climb stayed within the box, shape (start,). A climb that left it found no maximum:
    # the density rises without bound, or to a maximum far from every draw.
    inside: np.ndarray


def make_frame(draws: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return directions and units for the climbs, a lower triangle of shape (dim, dim).

    `draws`, shape (draw, dim), are centered per chain; `scale`, shape (dim,), holds robust units.
    The frame is a Cholesky factor of the covariance of the draws with clipped tails, so that a
    normal density is climbed in a few steps, however strong its correlations.
    """
    dim = scale.size
    shares = np.clip(draws / scale, -5, 5)
    covariance = np.einsum("ni,nj->ij", shares, shares, optimize=True) / len(shares)
    shrunk = min(1.0, 1e-3 + dim / len(shares))
    variance = np.diag(covariance) + 1e-9
    covariance = (1 - shrunk) * covariance + shrunk * np.diag(variance) + 1e-9 * np.eye(dim)
    return scale[:, None] * np.linalg.cholesky(covariance)


def climb(evaluate: Evaluate, starts: np.ndarray, frame: np.ndarray) -> Ends:
    """Climb from every start, shape (start, dim), by L-BFGS-B.

    `evaluate` returns the log density at a position (-inf if it fails), its gradient, and a
    message, which is ignored; it is finite at the starts. Climbs run in z, position = frame z, with
    a lower triangle of shape (dim, dim).
    """
    z = solve_triangular(frame, starts.T, lower=True).T
    low, high = z.min(axis=0), z.max(axis=0)
    width = np.maximum(MARGIN * (high - low), LEAST)
    low, high = low - width, high + width
    box = np.stack([low, high], axis=1)
    options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "ftol": 1e-12, "gtol": 1e-5}
    with one_blas_thread():
        optima = [
            scipy.optimize.minimize(
                _Negative(evaluate, frame), start, jac=True, method="L-BFGS-B", bounds=box,
                options=options,
            )
            for start in z
        ]  # fmt: skip
    z = np.array([end.x for end in optima])
    near = 1e-6 * (high - low)
    inside = np.all((z > low + near) & (z < high - near), axis=1)
    position = np.array([_product(frame, end) for end in z])
    return Ends(position, np.array([-float(end.fun) for end in optima]), inside)


def _product(frame: np.ndarray, z: np.ndarray) -> np.ndarray:
    # without BLAS: on a busy machine its threads cost more than a hundred of these products
    return np.einsum("ij,j->i", frame, z)


class _Negative:
    """The negative log density and its gradient in the frame, finite everywhere.

    If the density fails, the value is that at the last good point plus the decrease that its slope
    predicted, plus 1: the line search then tries about a quarter of its step. A huge value would
    end the search.
    """

    def __init__(self, evaluate: Evaluate, frame: np.ndarray) -> None:
        self._evaluate, self._frame = evaluate, frame
        self._last: tuple[np.ndarray, float, np.ndarray] | None = None

    def __call__(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, _ = self._evaluate(_product(self._frame, z))
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            self._last = z.copy(), -value, -_product(self._frame.T, gradient)
            return self._last[1], self._last[2].copy()
        if self._last is None:
            return 0.0, np.zeros(z.size)  # a start without a gradient stays in place
        last, low, slope = self._last
        return low + abs(slope @ (z - last)) + 1.0, np.zeros(z.size)


def group_ends(evaluate: Evaluate, ends: Ends, frame: np.ndarray, dip: float) -> np.ndarray:
    """Group ends between which the density does not dip; return group numbers, shape (start,).

    Two groups are joined if a path between them falls no more than `dip` in log density below
    the lower of their peaks: the persistence of Chazal, Guibas, Oudot and Skraba (2013),
    Persistence-based clustering in Riemannian manifolds, J. ACM 60, over paths between ends. The
    edges of the minimum spanning tree are tried first, so that a curved ridge is followed from end
    to end; then the nearest ends, and the highest, of the remaining groups.
    """
    scaled = solve_triangular(frame, ends.position.T, lower=True).T
    near = scipy.spatial.distance.cdist(scaled, scaled, "chebyshev") < 1e-3
    near &= np.abs(ends.log_density[:, None] - ends.log_density) < 1e-3
    group = scipy.sparse.csgraph.connected_components(near, directed=False)[1]
    # the highest of ends that coincide, in position and height, represents them all
    first = np.array([_best(ends, group == g) for g in range(group.max() + 1)])
    path = _Paths(evaluate, frame, dip)
    heights, peak = ends.log_density[first], np.arange(len(first))  # the highest end of its group
    gaps = scipy.spatial.distance.squareform(scipy.spatial.distance.pdist(scaled[first]))
    # SciPy treats a distance of zero as no edge, and two ends may differ in density alone
    tree = scipy.sparse.csgraph.minimum_spanning_tree(gaps + 1e-12).tocoo()
    pairs = list(zip(tree.row.tolist(), tree.col.tolist(), strict=True))
    for _ in range(2):
        with one_blas_thread():
            levels = [path.level(ends, first[i], first[j]) for i, j in pairs]
        for k in np.argsort(levels)[::-1]:
            low, high = sorted((peak[end] for end in pairs[k]), key=lambda end: heights[end])
            if low != high and heights[low] - levels[k] <= dip:
                peak[peak == low] = high
        label = np.unique(peak, return_inverse=True)[1]
        pairs = _remaining_pairs(label, gaps, heights)
    return label[group]


def _best(ends: Ends, which: np.ndarray) -> int:
    members = np.flatnonzero(which)
    return int(members[np.argmax(ends.log_density[members])])


class _Paths(NamedTuple):
    """Paths between ends: a straight line, bent toward the ridge if the density dips."""

    evaluate: Evaluate
    frame: np.ndarray
    dip: float

    def level(self, ends: Ends, i: int, j: int) -> float:
        """Return the lowest log density on the path from one end to another, both included."""
        lower = float(min(ends.log_density[i], ends.log_density[j]))
        one, other = ends.position[i], ends.position[j]
        return min(lower, self._lowest(one, other, lower - self.dip, BENDS))

    def _lowest(self, one: np.ndarray, other: np.ndarray, enough: float, bends: int) -> float:
        points = [one + t * (other - one) for t in np.linspace(0, 1, ON_LINE + 2)[1:-1]]
        values = [self.evaluate(point)[0] for point in points]
        low = int(np.argmin(values))
        if values[low] >= enough or bends == 0 or not np.isfinite(values[low]):
            return values[low]
        middle, height = self._climb(points[low])
        gap = self._distance(one, other)
        at_an_end = min(self._distance(one, middle), self._distance(middle, other)) < 0.02 * gap
        if height < enough or at_an_end:
            return values[low]
        left = self._lowest(one, middle, enough, bends - 1)
        return min(left, self._lowest(middle, other, enough, bends - 1)) if left >= enough else left

    def _climb(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        z = solve_triangular(self.frame, point, lower=True)
        # default tolerances suffice to reach the ridge
        end = scipy.optimize.minimize(
            _Negative(self.evaluate, self.frame), z, jac=True, method="L-BFGS-B",
            options={"maxiter": ITERATIONS},
        )  # fmt: skip
        return _product(self.frame, end.x), -float(end.fun)

    def _distance(self, one: np.ndarray, other: np.ndarray) -> float:
        return float(np.linalg.norm(solve_triangular(self.frame, one - other, lower=True)))


def _remaining_pairs(
    label: np.ndarray, gaps: np.ndarray, log_density: np.ndarray
) -> list[tuple[int, int]]:
    """Return pairs of ends of different groups to try next, nearest first."""
    members = [np.flatnonzero(label == g) for g in range(label.max() + 1)]
    highest = [m[np.argmax(log_density[m])] for m in members]
    pairs: list[tuple[int, int]] = []
    for g, ours in enumerate(members):
        to = [gaps[np.ix_(ours, m)].min() if h != g else np.inf for h, m in enumerate(members)]
        for h in np.argsort(to)[: min(PARTNERS, len(members) - 1)]:
            block = gaps[np.ix_(ours, members[h])]
            nearest = np.argsort(block, axis=None)[:PAIRS]
            i, j = np.unravel_index(nearest, block.shape)
            pairs += zip(ours[i].tolist(), members[h][j].tolist(), strict=True)
            pairs.append((int(highest[g]), int(highest[h])))
    ordered = dict.fromkeys((min(i, j), max(i, j)) for i, j in pairs)
    return sorted(ordered, key=lambda p: gaps[p])
