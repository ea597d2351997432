"""A continuous temperature: a coordinate q in [0, 1] with b(q), log constants c(q), and q given x.

The extended density of a position and its coordinate is

    exp(b(q) l(x) + (1 - b(q)) psi(x) - c(q)),    0 < q < 1.

Below q = atom, b is 0; above q = 1 - atom it is 1, so that both have positive probability. Between
them, with s = (q - atom) / (1 - 2 atom), b and c are linear in s on each of a number of cells.
Given x, the density of s on cell j is then an exponential, and with f = b Delta - c its integral is

    width (exp(f_(j+1)) - exp(f_j)) / (f_(j+1) - f_j).

Hence the density given x, its value at both ends, and draws from it are exact, without quadrature.
There are two spacings: `set_uniform` has one cell, b = s, on which this is the truncated
exponential of Graham and Storkey; `set_barrier` tabulates monotone cubics through the levels of a
learned ladder, equally spaced in its Lambda.

References
----------
That of `continuous_tempering`, sections 4 and 5. Fritsch and Butland (1984), A method for
constructing local monotone piecewise cubic interpolants, SIAM Journal on Scientific and Statistical
Computing 5, for the cubics.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics.softmax import NEGLIGIBLE, decay
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_Z, B, Ladder
from stanadapt.samplers.tempering.path import IMPOSSIBLE

# number of cells of a barrier coordinate
CELLS = 256
# below this difference of log densities, a cell's mass is a Taylor series, exact to 1e-11
SMALL = 0.02


class Coordinate(NamedTuple):
    """The functions b and c, and the conditional law of q; arrays are updated in place."""

    knots: np.ndarray  # B_AT and C_AT at equally spaced points of s, shape (2, CELLS + 1)
    cells: np.ndarray  # number of cells in use, shape (1,)
    atom: float  # probability, at equal constants, of each end
    logs: np.ndarray  # f at the same points, given the latest x, shape (CELLS + 1,)
    # relative probability of b = 0, of each cell, and of b = 1, shape (CELLS + 2,)
    masses: np.ndarray


class Place(NamedTuple):
    """Values of q, b and c at a coordinate, and the derivatives of b and c by q."""

    q: float
    b: float
    c: float
    b_slope: float
    c_slope: float


B_AT, C_AT = 0, 1


def no_coordinate(atom: float) -> Coordinate:
    """Return a Coordinate without constants: b = s."""
    coordinate = Coordinate(
        np.zeros((2, CELLS + 1)), np.zeros(1, np.int64), atom, np.zeros(CELLS + 1),
        np.zeros(CELLS + 2),
    )  # fmt: skip
    set_uniform(coordinate, 0.0)
    return coordinate


def set_uniform(coordinate: Coordinate, log_zeta: float) -> None:
    """Set b = s and c = s log zeta, as in the paper: p(b) is proportional to Z(b) / zeta^b."""
    coordinate.knots[:, 0] = 0.0
    coordinate.knots[B_AT, 1], coordinate.knots[C_AT, 1] = 1.0, log_zeta
    coordinate.cells[0] = 1


def set_barrier(coordinate: Coordinate, ladder: Ladder) -> None:
    """Set b and c to monotone cubics in Lambda through the levels of a ladder, from b = 0 to 1."""
    count = ladder.size[0]
    lambdas = ladder.levels[:count, BARRIER].copy()
    for part, column in ((B_AT, B), (C_AT, LOG_Z)):
        values = ladder.levels[:count, column].copy()
        _tabulate(lambdas, values, monotone_slopes(lambdas, values), coordinate.knots[part])
    coordinate.cells[0] = CELLS


def monotone_slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return slopes at the knots of the monotone cubic through (x, y), x increasing.

    At inner knots, the slope is the weighted harmonic mean of Fritsch and Butland; at the ends,
    that of the parabola through three points, truncated if it would not be monotone.
    """
    width, rise = np.diff(x), np.diff(y) / np.diff(x)
    if len(rise) == 1:
        return np.full(2, rise[0])
    after, before = 2.0 * width[1:] + width[:-1], width[1:] + 2.0 * width[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = (after + before) / (after / rise[:-1] + before / rise[1:])
    return np.array([
        _end_slope(width[0], width[1], rise[0], rise[1]),
        *np.where(rise[:-1] * rise[1:] > 0.0, inner, 0.0),
        _end_slope(width[-1], width[-2], rise[-1], rise[-2]),
    ])  # fmt: skip


def _end_slope(width: float, next_width: float, rise: float, next_rise: float) -> float:
    slope = ((2.0 * width + next_width) * rise - width * next_rise) / (width + next_width)
    if slope * rise <= 0.0:
        return 0.0
    if rise * next_rise <= 0.0 and abs(slope) > 3.0 * abs(rise):
        return 3.0 * rise
    return slope


def _tabulate(x: np.ndarray, y: np.ndarray, slopes: np.ndarray, out: np.ndarray) -> None:
    """Write the cubic Hermite interpolant at equally spaced points from x[0] to x[-1] into out."""
    points = len(out) - 1
    at = x[0] + (x[-1] - x[0]) * np.arange(points + 1) / points
    k = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    width = x[k + 1] - x[k]
    t = np.clip((at - x[k]) / width, 0.0, 1.0)
    out[:] = (
        (1.0 + 2.0 * t) * (1.0 - t) ** 2 * y[k] + t * t * (3.0 - 2.0 * t) * y[k + 1]
        + width * t * (1.0 - t) * ((1.0 - t) * slopes[k] - t * slopes[k + 1])
    )  # fmt: skip
    out[0], out[points] = y[0], y[-1]


@inline
def place_of(coordinate, u):
    """Return the Place of q = 1 / (1 + exp(-u))."""
    knots, cells, atom = coordinate.knots, coordinate.cells[0], coordinate.atom
    q = 1.0 / (1.0 + np.exp(-u))
    s = (q - atom) / (1.0 - 2.0 * atom)
    if s <= 0.0:
        return Place(q, knots[B_AT, 0], knots[C_AT, 0], 0.0, 0.0)
    if s >= 1.0:
        return Place(q, knots[B_AT, cells], knots[C_AT, cells], 0.0, 0.0)
    j = min(int(s * cells), cells - 1)
    share, scale = s * cells - j, cells / (1.0 - 2.0 * atom)
    b_rise = knots[B_AT, j + 1] - knots[B_AT, j]
    c_rise = knots[C_AT, j + 1] - knots[C_AT, j]
    return Place(
        q, knots[B_AT, j] + share * b_rise, knots[C_AT, j] + share * c_rise,
        scale * b_rise, scale * c_rise,
    )  # fmt: skip


@inline
def log_jacobian(u):
    """Log of dq / du = q (1 - q)."""
    return -abs(u) - 2.0 * np.log1p(np.exp(-abs(u)))


@jit
def condition(coordinate, delta):
    """Find the law of q given Delta = l - psi; returns its densities at q = 1 and at q = 0."""
    knots, cells, logs = coordinate.knots, coordinate.cells[0], coordinate.logs
    masses, atom, finite = coordinate.masses, coordinate.atom, max(delta, IMPOSSIBLE)
    peak = -np.inf
    for j in range(cells + 1):
        logs[j] = knots[B_AT, j] * finite - knots[C_AT, j]
        peak = max(peak, logs[j])
    width, before = (1.0 - 2.0 * atom) / cells, _relative(logs[0] - peak)
    hot, total = before, 0.0
    for j in range(cells):
        after, rise = _relative(logs[j + 1] - peak), logs[j + 1] - logs[j]
        if abs(rise) > SMALL:
            mean = (after - before) / rise
        else:
            mean = before * (1.0 + rise * (0.5 + rise * (1.0 / 6.0 + rise * (1.0 / 24.0))))
        masses[j + 1] = width * mean
        total += masses[j + 1]
        before = after
    masses[0], masses[cells + 1] = atom * hot, atom * before
    total += masses[0] + masses[cells + 1]
    return before / total, hot / total


@inline
def _relative(x):
    return decay(x) if x > NEGLIGIBLE else 0.0


@jit
def draw(coordinate, rng):
    """Draw q from the latest law that `condition` has found."""
    cells, masses, atom = coordinate.cells[0], coordinate.masses, coordinate.atom
    total = 0.0
    for j in range(cells + 2):
        total += masses[j]
    rest, j = total * rng.random(), 0
    while j < cells + 1 and rest >= masses[j]:
        rest -= masses[j]
        j += 1
    if j == 0:
        return atom * (1.0 - rng.random())
    if j == cells + 1:
        return 1.0 - atom * (1.0 - rng.random())
    share = truncated_exponential(coordinate.logs[j] - coordinate.logs[j - 1], rng.random())
    return atom + (1.0 - 2.0 * atom) * (j - 1 + share) / cells


@inline
def truncated_exponential(rate, uniform):
    """Return the quantile, at `uniform` in [0, 1), of the density exp(rate t) on [0, 1].

    The exponential is evaluated from the end at which the density is largest, with exponent <= 0.
    """
    size = abs(rate)
    if size < 1e-8:
        return uniform
    distance = -np.log1p(np.expm1(-size) * uniform) / size
    return distance if rate < 0.0 else 1.0 - distance
