"""Whether the gradient of a density can be used, checked at a few random positions.

Along a random direction it must agree with differences of the density, for at least one step size
at one position: the best step differs by many orders of magnitude between programs, and a wrong
gradient agrees at none. Along the line between two positions, integrals of the gradient must give
the differences of the log density; if they do not, the line is halved repeatedly, and a difference
that remains is a jump. If a coordinate's gradient is always zero, the density must not change with
it: a staircase of small steps passes the first two checks. Where the density is finite, the
gradient must be so too. And it must not be zero throughout: a density that is constant up to an
edge says nothing about where the edge is.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from stanadapt.targets.target import Samplable

# steps as shares of the distance between two positions, and how well one of them must agree
STEPS, AGREEMENT = 10.0 ** -np.arange(1.0, 8.0), 0.02
# parts of a line with integrals to be compared, and how often a part is halved at most
PARTS, HALVINGS = 8, 30
# a smaller jump does no harm; one this small against the log density may come from a solver of
# differential equations that takes another step
JUMP, SMALL_SHARE, ROUNDING = 0.5, 1e-3, 1e-13
# coordinates with a zero gradient that are looked at, and places along each
MOST_COORDINATES, PLACES = 20, 12
# how far from a position an edge of a constant density is looked for
DISTANCES = 10.0 ** np.arange(10)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


class _End(NamedTuple):
    """A point of a line: its share of the way, the log density, and the slope per length."""

    share: float
    log_density: float
    slope: float


@np.errstate(all="ignore")  # comparisons with numbers that are not finite are false
def gradient_problem(target: Samplable, positions: np.ndarray) -> str:
    """Return the fault of the gradient; "" if nothing was found.

    At least two positions are needed, with finite densities, shape (n, dim).
    """
    ends = np.asarray(positions, dtype=float)
    lines = [_Line(target, one, other) for one, other in pairwise(ends)]
    # far from the posterior, a solver of differential equations may itself be inaccurate
    if not any(line.slope_agrees() for line in lines):
        return "the gradient does not agree with differences of the log density"
    cut_off = _without_gradient(lines)
    if cut_off:
        return cut_off
    jump = max((line.jump() for line in lines), key=abs)
    if jump:
        return f"the log density jumps (by {jump:.3g})"
    gradients = np.array([target.evaluate(end)[1] for end in ends])
    if _changes_without_gradient(target, ends, gradients):
        return "the gradient is zero where the log density is not constant"
    if not gradients.any() and _has_edge(target, ends[0]):
        return "the log density is constant between hard edges (declared as bounds, they are seen)"
    return ""


def _without_gradient(lines: list["_Line"]) -> str:
    """Return why samplers that follow gradients would leave out regions; "" if they would not.

    They reject each position at which the gradient is not finite. One such point on the lines may
    be an accident, of a function that is not differentiable there.
    """
    ends = lines[0].ends[:1] + [end for line in lines for end in line.ends[1:]]
    slopes = np.array([end.slope for end in ends if np.isfinite(end.log_density)])
    missing = np.count_nonzero(~np.isfinite(slopes))
    if missing < 2:
        return ""
    return (
        f"the gradient is not finite at {missing} of {slopes.size} random positions with a finite "
        "log density"
    )


def _changes_without_gradient(target: Samplable, ends: np.ndarray, gradients: np.ndarray) -> bool:
    """Whether the density changes along a coordinate whose gradient is zero at all positions.

    A staircase may have the same height at two positions, so a dozen are compared.
    """
    here = target.evaluate(ends[0])[0]
    for i in np.flatnonzero(~gradients.any(axis=0))[:MOST_COORDINATES]:
        low, high = ends[:, i].min(), ends[:, i].max()
        spread = np.linspace(2 * low - high, 2 * high - low, PLACES)
        for place in [*ends[1:, i], *spread]:
            moved = ends[0].copy()
            moved[i] = place
            if np.isfinite(value := target.evaluate(moved)[0]) and value != here:
                return True
    return False


def _has_edge(target: Samplable, position: np.ndarray) -> bool:
    """Whether the density is zero somewhere along a coordinate."""
    moves = DISTANCES[:, None, None] * np.eye(len(position))[:MOST_COORDINATES]
    places = position + np.concatenate([moves, -moves]).reshape(-1, len(position))
    return any(target.evaluate(place)[0] == -np.inf for place in places)


class _Line:
    """The log density and its slope from one position to another."""

    def __init__(self, target: Samplable, one: np.ndarray, other: np.ndarray) -> None:
        self.target, self.one, self.direction = target, one, other - one
        self.ends = [_End(share, *self.at(share)) for share in np.linspace(0.0, 1.0, PARTS + 1)]

    def at(self, share: float) -> tuple[float, float]:
        """Log density, and slope per length of the line."""
        value, gradient, _ = self.target.evaluate(self.one + share * self.direction)
        return value, float(gradient @ self.direction)

    def slope_agrees(self) -> bool:
        """Whether the slope at the beginning agrees with differences; also if none is finite."""
        _, here, slope = self.ends[0]
        compared = False
        for step in STEPS:
            high, low = self.at(step)[0], self.at(-step)[0]
            if not np.isfinite([high, low]).all():
                continue
            difference = (high - low) / (2.0 * step)
            rounding = ROUNDING * max(abs(here), abs(high), abs(low)) / step
            if abs(difference - slope) <= AGREEMENT * max(abs(slope), abs(difference)) + rounding:
                return True
            compared = True
        return not compared

    def jump(self) -> float:
        """Size of the largest jump that was found; 0.0 without any."""
        return max((self._jump_between(*part) for part in pairwise(self.ends)), key=abs)

    def _jump_between(self, one: _End, other: _End) -> float:
        missing = self._missing(one, other)
        for _ in range(HALVINGS):
            if not self._counts(missing, one, other):
                return 0.0
            share = 0.5 * (one.share + other.share)
            middle = _End(share, *self.at(share))
            left, right = self._missing(one, middle), self._missing(middle, other)
            if abs(left) > abs(right):
                other, missing = middle, left
            else:
                one, missing = middle, right
        return missing if self._counts(missing, one, other) else 0.0

    def _missing(self, one: _End, other: _End) -> float:
        """The rise from one end to the other without the integral of the slope."""
        half, middle = 0.5 * (other.share - one.share), 0.5 * (other.share + one.share)
        integral = half * sum(
            weight * self.at(middle + half * node)[1]
            for node, weight in zip(NODES, WEIGHTS, strict=True)
        )
        return other.log_density - one.log_density - integral

    def _counts(self, missing: float, one: _End, other: _End) -> bool:
        size = max(abs(one.log_density), abs(other.log_density))
        return bool(np.isfinite(missing) and abs(missing) > max(JUMP, SMALL_SHARE * size))
