"""Columns with posterior mean zero that belong to one quantity: functions of one direction.

A quantity x is read along the direction a in which it varies, y = a . (position - mean), scaled to
variance 1. For the constant field v = C a, C the covariance, psi'(y) + psi(y) s has posterior mean
zero, with s = v . gradient. If the posterior is Gaussian, s = -y, and the psi that solves Stein's
equation psi'(y) - y psi(y) = h(y) - E h, y standard normal, makes the column h(y) - E h: it removes
all variance of any function h of y, indicators (probabilities, quantiles) included, of
which polynomials remove little. Direction, scale, threshold and h are learned from other draws than
those to which the column is applied: learned from the same, they would hide an error of the order
of 1/n.

References
----------
Stein's equation of an indicator: Chen, Goldstein and Shao (2011), Normal Approximation by Stein's
Method, Springer, section 2.1. Its use for columns of one quantity is ours.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy
from scipy.linalg import cho_solve
from scipy.special import erfc, ndtr, ndtri

# grid on which Stein's equation is solved for a smooth function; beyond FAR psi is constant
GRID = np.linspace(-9.0, 9.0, 1801)
SPACING = float(GRID[1] - GRID[0])
DENSITY = np.exp(-0.5 * GRID**2) / np.sqrt(2.0 * np.pi)
FAR = np.abs(GRID) >= 6.0
BINS, LINEAR_UP_TO = 60, 5.0  # of h, and the end of its linear continuation
FARTHEST = 12.0  # y beyond which psi hardly changes, and exp(y^2 / 2) soon overflows
PROBES = 40  # draws by which coordinates that a quantity does not follow are ruled out


class Moments(NamedTuple):
    """What is learned of positions from some of the draws."""

    rows: np.ndarray  # these draws
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray  # of the covariance, its lower Cholesky factor


class Along(NamedTuple):
    """Draws along the direction of each quantity, shape (draw, quantity)."""

    y: np.ndarray  # position, with mean 0 and variance 1 over the draws that were learned from
    s: np.ndarray  # derivative of the log density along the field, -y if it is Gaussian


def followed_coordinates(order: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return, for each quantity, the coordinate that sorting by it sorts; none: 0.

    `order` has the rows in increasing order of each quantity, shape (draw, quantity).

    Entries are j + 1 for a quantity that increases with coordinate j, and -(j + 1) for one that
    decreases: parameters with scalar constraints are found without knowledge of the program.
    """
    followed = np.zeros(order.shape[1], int)
    probes = np.linspace(0, len(order) - 1, PROBES).round().astype(int)
    for q, rows in enumerate(order.T):
        steps = np.diff(positions[rows[probes]], axis=0)
        for sign in (1, -1):
            for j in np.flatnonzero((sign * steps >= 0.0).all(axis=0)):
                column = sign * positions[rows, j]
                if (np.diff(column) >= -1e-9 * np.abs(column).max()).all() and steps[:, j].any():
                    followed[q] = sign * (j + 1)
    return followed


def along(
    x: np.ndarray, positions: np.ndarray, gradients: np.ndarray,
    followed: np.ndarray, learned: Moments,
) -> Along:  # fmt: skip
    """Find the direction of each quantity from some of the draws, and return all draws along it.

    Parameters
    ----------
    x
        Quantities, shape (draw, quantity).
    positions, gradients
        Shape (draw, dim).
    followed
        From `followed_coordinates`. The direction of any other quantity is the regression of its
        normal scores on the position.
    learned
        Rows from which directions are learned, and their moments.
    """
    rows, mean, covariance, factor = learned
    a = np.zeros((positions.shape[1], x.shape[1]))
    simple, coordinate = np.flatnonzero(followed), np.abs(followed[followed != 0]) - 1
    a[coordinate, simple] = np.sign(followed[simple])
    field, y = np.zeros_like(a), np.empty(x.shape)
    field[:, simple] = covariance[:, coordinate] * np.sign(followed[simple])
    y[:, simple] = (positions[:, coordinate] - mean[coordinate]) * a[coordinate, simple]
    rest = np.flatnonzero(followed == 0)
    if len(rest):
        scores = ndtri((scipy.stats.rankdata(x[np.ix_(rows, rest)], axis=0) - 0.5) / len(rows))
        products = positions[rows].T @ scores - np.outer(mean, scores.sum(axis=0))
        a[:, rest] = cho_solve((factor, True), products / len(rows))
        field[:, rest] = covariance @ a[:, rest]
        y[:, rest] = (positions - mean) @ a[:, rest]
    sd = np.sqrt((a * field).sum(axis=0))
    sd = np.where(sd > 0.0, sd, 1.0)
    kind = gradients.dtype
    return Along((y / sd).astype(kind, copy=False), gradients @ (field / sd).astype(kind))


def power_columns(at: Along) -> list[np.ndarray]:
    """Return the columns of psi = y^2 and y^3, shape (draw, quantity) each."""
    y, square = at.y, at.y * at.y
    return [2.0 * y + square * at.s, square * (3.0 + y * at.s)]


class StepParts(NamedTuple):
    """The parts of columns of indicators, for all thresholds: two values of each draw.

    psi = sqrt(2 pi) exp(y^2 / 2) Phi(min(y, t)) Phi(-max(y, t)) for the threshold t, of which only
    one factor depends on t. FARTHEST keeps the other from overflow.
    """

    y: np.ndarray
    below: np.ndarray  # the column / Phi(-t) where y <= t, shape (draw, quantity)
    above: np.ndarray  # the column / Phi(t) where y > t

    @classmethod
    def of(cls, at: Along) -> "StepParts":
        y = np.clip(at.y, -FARTHEST, FARTHEST)
        factor = math.sqrt(0.5 * math.pi) * (y + at.s)
        growth, left = np.exp(0.5 * y * y), y < 0.0
        tail = erfc(math.sqrt(0.5) * np.abs(y, out=y), out=y)
        more = growth * (1.0 - tail)
        more *= 2.0
        growth *= tail  # erfcx of |y|; with more, erfcx of -|y|
        above, below = more * left, more
        below *= ~left
        for parts, end in ((below, 1.0), (above, -1.0)):
            parts += growth
            parts *= factor
            parts += end
        return cls(at.y, below, above)

    def column(
        self, thresholds: np.ndarray, rows: slice = slice(None), size: float | np.ndarray = 1.0
    ) -> np.ndarray:
        """Return the columns for indicators of y <= threshold, each times its size."""
        kind = self.y.dtype
        lower, upper = ((size * ndtr(t)).astype(kind) for t in (thresholds, -thresholds))
        column = self.above[rows] * lower
        at_most = self.y[rows] <= thresholds.astype(kind, copy=False)
        return np.multiply(self.below[rows], upper, out=column, where=at_most)


class Places(NamedTuple):
    """Where draws along the directions are on GRID, and those from which h is learned."""

    left: np.ndarray  # of the grid of all quantities, shape (draw, quantity)
    part: np.ndarray  # of the way to the next point
    by_y: np.ndarray  # draws to learn from in the order of y: places in a flat array
    sorted_y: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, by_y: np.ndarray) -> "Places":
        place = np.clip((y - float(GRID[0])) / SPACING, 0.0, len(GRID) - 1.0)
        left = np.minimum(place.astype(np.int32), len(GRID) - 2)
        place -= left.astype(y.dtype)
        left += len(GRID) * np.arange(y.shape[1], dtype=np.int32)
        by_y = y.shape[1] * by_y + np.arange(y.shape[1])
        return cls(left, place, by_y, y.ravel()[by_y])


def smooth_columns(s: np.ndarray, at: Places, functions: np.ndarray) -> np.ndarray:
    """Return the columns for functions of the draws, each read as a function h of its y.

    Parameters
    ----------
    s
        `Along.s`, shape (draw, quantity).
    at
        Places of the draws along the directions.
    functions
        One of each quantity, shape (draw, quantity).
    """
    h = _means_in_bins(at.sorted_y, functions.ravel()[at.by_y])
    slope, psi = (table.astype(s.dtype, copy=False).ravel() for table in solve_stein(h))

    def read(table: np.ndarray) -> np.ndarray:  # linear between points of the grid
        start = table[at.left]
        return start + at.part * (table[1:][at.left] - start)

    return read(slope) + read(psi) * s


def _means_in_bins(y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return h on GRID, shape (quantity, point): means of f in bins of equal counts of sorted y.

    It is linear between these and beyond.
    """
    edges = np.linspace(0, len(y), min(BINS, len(y) // 4) + 1).astype(int)
    counts, (at, means) = np.diff(edges)[:, None], np.empty((2, len(edges) + 1, y.shape[1]))
    for values, inside in ((y, at[1:-1]), (f, means[1:-1])):
        np.divide(np.add.reduceat(values, edges[:-1], axis=0), counts, out=inside)
    at[0], at[-1] = np.minimum(at[1], -LINEAR_UP_TO), np.maximum(at[-2], LINEAR_UP_TO)
    for beyond, end, inner in ((0, 1, 2), (-1, -2, -3)):
        gap = at[end] - at[inner]
        slope = (means[end] - means[inner]) / np.where(gap != 0.0, gap, np.inf)
        means[beyond] = means[end] + slope * (at[beyond] - at[end])
    rows = zip(*(np.ascontiguousarray(values.T) for values in (at, means)), strict=True)
    return np.array([np.interp(GRID, *row) for row in rows])


def solve_stein(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve psi' - y psi = h - E h on GRID, the last axis, y standard normal; return psi', psi."""
    centered = h - SPACING * (h @ DENSITY)[..., None]
    weighted = (0.5 * SPACING) * centered * DENSITY
    left = np.zeros_like(h)
    np.cumsum(weighted[..., 1:] + weighted[..., :-1], axis=-1, out=left[..., 1:])
    psi = np.where(GRID < 0.0, left, left - left[..., -1:]) / np.maximum(DENSITY, 1e-300)
    first, last = np.flatnonzero(~FAR)[[0, -1]]
    psi[..., :first], psi[..., last + 1 :] = psi[..., first, None], psi[..., last, None]
    return np.where(FAR, 0.0, centered + GRID * psi), psi
