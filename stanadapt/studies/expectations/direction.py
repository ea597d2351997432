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
from scipy.special import erfcx, ndtr, ndtri
from scipy.stats import rankdata

from stanadapt.studies.expectations.stein_columns import shrunk

# powers of y that are always offered
POWERS = (2, 3)
# grid on which Stein's equation is solved for a smooth function; beyond FAR psi is constant
GRID = np.linspace(-9.0, 9.0, 1801)
SPACING = GRID[1] - GRID[0]
DENSITY = np.exp(-0.5 * GRID**2) / np.sqrt(2.0 * np.pi)
FAR = np.abs(GRID) >= 6.0
BINS, LINEAR_UP_TO = 60, 5.0  # of h, and where its linear continuation ends
FARTHEST = 36.0  # y beyond which exp(y^2 / 2) overflows
PROBES = 40  # draws by which coordinates that a quantity does not follow are ruled out


class Along(NamedTuple):
    """Draws along the direction of each quantity, shape (draw, quantity)."""

    y: np.ndarray  # position, with mean 0 and variance 1 over the draws that were learned from
    s: np.ndarray  # derivative of the log density along the field, -y if it is Gaussian


def followed_coordinates(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return, for each quantity, the coordinate that sorting by it sorts; none: 0.

    Entries are j + 1 for a quantity that increases with coordinate j, and -(j + 1) for one that
    decreases: parameters with scalar constraints are found without knowledge of the program.
    """
    followed = np.zeros(x.shape[1], int)
    probes = np.linspace(0, len(x) - 1, PROBES).round().astype(int)
    for q in range(x.shape[1]):
        order = np.argsort(x[:, q], kind="stable")
        steps = np.diff(positions[order[probes]], axis=0)
        for sign in (1, -1):
            for j in np.flatnonzero((sign * steps >= 0.0).all(axis=0)):
                column = sign * positions[order, j]
                if (np.diff(column) >= -1e-9 * np.abs(column).max()).all() and steps[:, j].any():
                    followed[q] = sign * (j + 1)
    return followed


def along(
    x: np.ndarray, positions: np.ndarray, gradients: np.ndarray,
    followed: np.ndarray, learned: np.ndarray,
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
        Rows from which directions are learned.

    """
    rows = positions[learned]
    mean = rows.mean(axis=0)
    centered = rows - mean
    covariance = shrunk(centered.T @ centered / len(rows), len(rows))
    a = np.zeros((positions.shape[1], x.shape[1]))
    simple = np.flatnonzero(followed)
    a[np.abs(followed[simple]) - 1, simple] = np.sign(followed[simple])
    rest = np.flatnonzero(followed == 0)
    if len(rest):
        scores = ndtri((rankdata(x[np.ix_(learned, rest)], axis=0) - 0.5) / len(rows))
        a[:, rest] = np.linalg.solve(covariance, centered.T @ scores / len(rows))
    field = covariance @ a
    sd = np.sqrt((a * field).sum(axis=0))
    sd = np.where(sd > 0.0, sd, 1.0)
    a, field = a / sd, field / sd
    return Along(positions @ a - mean @ a, gradients @ field)


def power_columns(at: Along) -> np.ndarray:
    """Return the columns of psi = y^2 and y^3, shape (draw, quantity, power)."""
    return np.stack([p * at.y ** (p - 1) + at.y**p * at.s for p in POWERS], axis=2)


def step_column(at: Along, thresholds: np.ndarray) -> np.ndarray:
    """Return the columns for indicators of y <= threshold, one for each column of `at`.

    psi = sqrt(2 pi) exp(y^2 / 2) Phi(min(y, t)) Phi(-max(y, t)), by the scaled complementary error
    function, which does not overflow.
    """
    below = at.y <= thresholds
    y = np.clip(at.y, -FARTHEST, FARTHEST)
    beside = np.where(below, ndtr(-thresholds), ndtr(thresholds))
    psi = np.sqrt(0.5 * np.pi) * erfcx(np.where(below, -y, y) / np.sqrt(2.0)) * beside
    return below - ndtr(thresholds) + (y + at.s) * psi


def smooth_column(
    at: Along, column: int, f: np.ndarray, rows: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Return the column for a function f of the draws, shape (draw,), read as a function of y.

    Parameters
    ----------
    at, column
        Draws along the directions, and the one to use.
    f
        Values of the function.
    rows, order
        Rows from which h is learned, and their order by y.

    """
    y = at.y[:, column]
    slope, psi = solve_stein(_means_in_bins(y[rows][order], f[rows][order]))
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
