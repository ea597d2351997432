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

from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import erfcx, ndtr, ndtri

# grid on which Stein's equation is solved for a smooth function; beyond FAR psi is constant
GRID = np.linspace(-9.0, 9.0, 1801)
SPACING = GRID[1] - GRID[0]
DENSITY = np.exp(-0.5 * GRID**2) / np.sqrt(2.0 * np.pi)
FAR = np.abs(GRID) >= 6.0
BINS, LINEAR_UP_TO = 60, 5.0  # of h, and where its linear continuation ends
FARTHEST = 36.0  # y beyond which exp(y^2 / 2) overflows
PROBES = 40  # draws by which coordinates that a quantity does not follow are ruled out


class Moments(NamedTuple):
    """What is learned of positions from some of the draws."""

    rows: np.ndarray  # these draws
    mean: np.ndarray
    covariance: np.ndarray


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
    rows, mean, covariance = learned
    a = np.zeros((positions.shape[1], x.shape[1]))
    simple, coordinate = np.flatnonzero(followed), np.abs(followed[followed != 0]) - 1
    a[coordinate, simple] = np.sign(followed[simple])
    rest = np.flatnonzero(followed == 0)
    if len(rest):
        scores = ndtri((scipy.stats.rankdata(x[np.ix_(rows, rest)], axis=0) - 0.5) / len(rows))
        products = positions[rows].T @ scores - np.outer(mean, scores.sum(axis=0))
        a[:, rest] = np.linalg.solve(covariance, products / len(rows))
    field = np.empty_like(a)
    field[:, simple] = covariance[:, coordinate] * np.sign(followed[simple])
    field[:, rest] = covariance @ a[:, rest]
    sd = np.sqrt((a * field).sum(axis=0))
    sd = np.where(sd > 0.0, sd, 1.0)
    y = np.empty(x.shape)
    y[:, simple] = (positions[:, coordinate] - mean[coordinate]) * a[coordinate, simple]
    y[:, rest] = (positions - mean) @ a[:, rest]
    return Along(y / sd, gradients @ (field / sd))


def power_columns(at: Along) -> list[np.ndarray]:
    """Return the columns of psi = y^2 and y^3, shape (draw, quantity) each."""
    y, square = at.y, at.y * at.y
    return [2.0 * y + square * at.s, square * (3.0 + y * at.s)]


class StepParts(NamedTuple):
    """What columns of indicators are made of, whatever their thresholds: two values of each draw.

    psi = sqrt(2 pi) exp(y^2 / 2) Phi(min(y, t)) Phi(-max(y, t)) for the threshold t, by the scaled
    complementary error function, which does not overflow. Only one factor depends on t.
    """

    y: np.ndarray
    below: np.ndarray  # (y + s) psi / Phi(-t) where y <= t, shape (draw, quantity)
    above: np.ndarray  # (y + s) psi / Phi(t) where y > t

    @classmethod
    def of(cls, at: Along) -> "StepParts":
        y = np.clip(at.y, -FARTHEST, FARTHEST)
        factor = np.sqrt(0.5 * np.pi) * (y + at.s)
        y *= np.sqrt(0.5)
        return cls(at.y, factor * erfcx(-y), factor * erfcx(y))

    def column(self, thresholds: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """Return the columns for indicators of y <= threshold, one for each quantity."""
        lower, upper = ndtr(thresholds), ndtr(-thresholds)
        at_most = self.y[rows] <= thresholds
        below, above = self.below[rows] * upper + upper, self.above[rows] * lower - lower
        return np.where(at_most, below, above)


def smooth_column(at: Along, column: int, f: np.ndarray, by_y: np.ndarray) -> np.ndarray:
    """Return the column for a function f of the draws, shape (draw,), read as a function of y.

    Parameters
    ----------
    at, column
        Draws along the directions, and the one to use.
    f
        Values of the function.
    by_y
        Rows from which h is learned, in the order of y.

    """
    y = at.y[:, column]
    slope, psi = solve_stein(_means_in_bins(y[by_y], f[by_y]))
    # linear interpolation on an even grid
    place = np.clip((y - GRID[0]) / SPACING, 0.0, len(GRID) - 1.0)
    left = np.minimum(place.astype(int), len(GRID) - 2)
    part = place - left
    slope = slope[left] + part * (slope[left + 1] - slope[left])
    return slope + (psi[left] + part * (psi[left + 1] - psi[left])) * at.s[:, column]


def _means_in_bins(y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return h on GRID: means of f in bins of equal counts of sorted y, linear between, beyond."""
    edges = np.linspace(0, len(y), min(BINS, len(y) // 4) + 1).astype(int)
    counts = np.diff(edges)
    at = np.add.reduceat(y, edges[:-1]) / counts
    means = np.add.reduceat(f, edges[:-1]) / counts
    h = np.interp(GRID, at, means)
    for beyond, end, inner in ((at[0] > GRID, 0, 1), (at[-1] < GRID, -1, -2)):
        gap = at[end] - at[inner]
        slope = (means[end] - means[inner]) / gap if gap else 0.0
        h[beyond] = means[end] + slope * (
            np.clip(GRID[beyond], -LINEAR_UP_TO, LINEAR_UP_TO) - at[end]
        )
    return h


def solve_stein(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve psi' - y psi = h - E h on GRID, y standard normal; return psi' and psi."""
    centered = h - (h * DENSITY).sum() * SPACING
    weighted = centered * DENSITY
    left = SPACING * np.concatenate([[0.0], np.cumsum(0.5 * (weighted[1:] + weighted[:-1]))])
    psi = np.where(GRID < 0.0, left, left - left[-1]) / np.maximum(DENSITY, 1e-300)
    inside = psi[~FAR]
    psi = np.where(FAR, np.where(GRID < 0.0, inside[0], inside[-1]), psi)
    return np.where(FAR, 0.0, centered + GRID * psi), psi
