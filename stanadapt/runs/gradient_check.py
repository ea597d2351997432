"""Whether a density has a gradient that samplers can follow: checked where chains may start.

Three things are asked. Along a random direction the gradient must agree with differences of the
density at one step size and one position at least: which step is best differs by many orders of
magnitude between programs, and a wrong gradient agrees at none. Along the line between two
positions, integrals of the gradient must give the differences of the log density: where they do
not, the line is halved again and again, and what is left in the end is a jump. Where a coordinate's
gradient is always zero, the density must not change with it: a staircase of small steps passes the
other two.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from stanadapt.targets.target import Samplable

# steps as shares of the distance between two positions, and how well one of them must agree
STEPS, AGREEMENT = 10.0 ** -np.arange(1.0, 8.0), 0.02
# parts of a line whose integrals are compared; a part is halved up to so many times
PARTS, HALVINGS = 8, 30
# a smaller jump does no harm; one this small against the log density may come from a solver of
# differential equations that takes another step
JUMP, SMALL_SHARE, ROUNDING = 0.5, 1e-3, 1e-13
# coordinates with a zero gradient that are looked at
MOST_COORDINATES = 20
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


class _End(NamedTuple):
    """A point of a line: its share of the way, and the log density."""

    share: float
    log_density: float


def gradient_problem(target: Samplable, positions: np.ndarray) -> str:
    """Say what is wrong with the gradient, or return "" where nothing was found.

    Parameters
    ----------
    target
        What will be sampled.
    positions
        Two of them or more, with finite densities, shape (n, dim).

    """
    ends = np.asarray(positions, dtype=float)
    lines = [_Line(target, one, other) for one, other in pairwise(ends)]
    # far from the posterior a solver of differential equations may be wrong by itself
    if not any(line.slope_agrees() for line in lines):
        return "the gradient does not agree with differences of the log density"
    jump = max((line.jump() for line in lines), key=abs)
    if jump:
        return f"the log density jumps (by {jump:.3g})"
    if _changes_without_gradient(target, ends):
        return "the gradient is zero where the log density is not constant"
    return ""


def _changes_without_gradient(target: Samplable, ends: np.ndarray) -> bool:
    gradients = np.array([target.evaluate(end)[1] for end in ends])
    for i in np.flatnonzero(~gradients.any(axis=0))[:MOST_COORDINATES]:
        moved = ends[0].copy()
        moved[i] = ends[1, i]
        if target.evaluate(moved)[0] != target.evaluate(ends[0])[0]:
            return True
    return False


class _Line:
    """The log density and its slope from one position to another."""

    def __init__(self, target: Samplable, one: np.ndarray, other: np.ndarray) -> None:
        self.target, self.one, self.direction = target, one, other - one

    def at(self, share: float) -> tuple[float, float]:
        """Log density, and slope per length of the line."""
        value, gradient, _ = self.target.evaluate(self.one + share * self.direction)
        return value, float(gradient @ self.direction)

    def slope_agrees(self) -> bool:
        """Whether the slope at the beginning is right, as far as differences can tell."""
        here, slope = self.at(0.0)
        told = False
        for step in STEPS:
            high, low = self.at(step)[0], self.at(-step)[0]
            if not np.isfinite([high, low]).all():
                continue
            difference = (high - low) / (2.0 * step)
            rounding = ROUNDING * max(abs(here), abs(high), abs(low)) / step
            if abs(difference - slope) <= AGREEMENT * max(abs(slope), abs(difference)) + rounding:
                return True
            told = True
        return not told

    def jump(self) -> float:
        """Size of the largest jump that was found; 0.0 without any."""
        ends = [_End(share, self.at(share)[0]) for share in np.linspace(0.0, 1.0, PARTS + 1)]
        return max((self._jump_between(*part) for part in pairwise(ends)), key=abs)

    def _jump_between(self, one: _End, other: _End) -> float:
        missing = self._missing(one, other)
        for _ in range(HALVINGS):
            if not self._counts(missing, one, other):
                return 0.0
            share = 0.5 * (one.share + other.share)
            middle = _End(share, self.at(share)[0])
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
