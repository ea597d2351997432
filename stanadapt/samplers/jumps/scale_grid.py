"""A proposal's standard deviations: a shape, times the factor that moves a chain fastest.

Warm-up has rounds of doubling length. In each of them all factors 2^-3, ..., 2^1 of a grid take
turns, with equal numbers of evaluations, and the squared jump per evaluation is measured:

    speed = sum of w / sum of evaluations,    w = acceptance probability * squared jump,

with jumps in units of the shape. The next round's grid lies around the fastest factor, or beyond it
if that was the largest. Coordinates become narrower if jumps in them were shorter than proposals:

    spread_i <- spread_i * r_i^(n / (2 (n + 5))),    r_i = mean of jump_i^2 / (2 scale_i^2),

with the mean weighted by w, and n = (sum of w)^2 / sum of w^2 the effective number of jumps in it.
The last round is for the factor alone.

A jump into another mode counts for thousands within one, so that scales that allow it are kept
after the first such jump. The standard deviations of a chain that has seen one mode would be too
small.

References
----------
Pasarica and Gelman (2010), Adaptively scaling the Metropolis algorithm using expected squared
jumped distance, Statistica Sinica 20. Grid, rounds and shape are ours.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace

SMALLEST_POWER, FACTORS = -3, 5
CENTER, LAST = -SMALLEST_POWER, FACTORS - 1
# number of iterations with one factor, and of rounds
TURN, ROUNDS = 10, 6
# weight of the last shape, in jumps
KEPT_JUMPS = 5.0
# columns of ScaleGrid.sums
WEIGHTS, SQUARED_WEIGHTS = 0, 1


class ScaleGrid(NamedTuple):
    """The grid and its measurements in this round; arrays are updated in place."""

    spread: np.ndarray  # standard deviations at the factor 1, shape (dim,)
    # index of the factor of the current turn, 0 for the smallest; after warm-up, of the best
    index: int
    # jumps, evaluations: for each factor the sum of w and of evaluations, shape (FACTORS,)
    jumps: np.ndarray
    evaluations: np.ndarray
    shares: np.ndarray  # for each coordinate the sum of w jump_i^2 / (2 scale_i^2), shape (dim,)
    sums: np.ndarray  # sums of w and of w^2


@jit
def begin(dim, spread):
    """Return a grid around one spread of all coordinates, at the factor 1."""
    return ScaleGrid(
        np.full(dim, spread), CENTER, np.zeros(FACTORS), np.zeros(FACTORS),
        np.zeros(dim), np.zeros(2),
    )  # fmt: skip


@jit
def factor(grid):
    """Return the multiple of the spread in the current turn."""
    return 2.0 ** (SMALLEST_POWER + grid.index)


@jit
def measure(grid, start, end, rate, evaluations):
    """Add a move between two positions, accepted with probability `rate`, and its cost.

    If `rate` is 0 the end may never have been written, since a search was given up.
    """
    spread, square = grid.spread, factor(grid) ** 2
    grid.evaluations[grid.index] += evaluations
    if rate == 0.0:
        return
    jump = 0.0
    for i in range(spread.shape[0]):
        jump += ((end[i] - start[i]) / spread[i]) ** 2
    weight = rate * jump
    for i in range(spread.shape[0]):
        grid.shares[i] += weight * ((end[i] - start[i]) / spread[i]) ** 2 / (2.0 * square)
    grid.jumps[grid.index] += weight
    grid.sums[WEIGHTS] += weight
    grid.sums[SQUARED_WEIGHTS] += weight * weight


@jit
def turned(grid, t, iter_warmup):
    """Take the next factor or begin the next round if one ends at iteration t = 0, 1, ..."""
    if t == iter_warmup - 1:
        return replace(grid, index=_fastest(grid))
    for k in range(1, ROUNDS):
        if t == (iter_warmup >> k) - 1:
            _next_round(grid)
            return replace(grid, index=CENTER)
    if (t + 1) % TURN == 0:
        return replace(grid, index=int(np.argmin(grid.evaluations)))
    return grid


@jit
def _fastest(grid):
    """Return the index of the best factor, 0 if nothing could be accepted."""
    best, highest = 0, 0.0
    for k in range(FACTORS):
        speed = grid.jumps[k] / max(grid.evaluations[k], 1.0)
        if speed > highest:
            best, highest = k, speed
    return best


@jit
def _next_round(grid):
    """Put the grid around the fastest factor, in the shape of jumps, without measurements."""
    spread, shares, best = grid.spread, grid.shares, _fastest(grid)
    # factors beyond the last may be better: go as far above it as below the first
    power = -SMALLEST_POWER if best == LAST else SMALLEST_POWER + best
    level = _mean_log(spread) + np.log(2.0) * power
    measured = grid.sums[SQUARED_WEIGHTS] > 0.0  # squares of the smallest weights are zero
    for i in range(shares.shape[0]):
        measured = measured and shares[i] > 0.0
    if measured:
        jumps = grid.sums[WEIGHTS] ** 2 / grid.sums[SQUARED_WEIGHTS]
        exponent = 0.5 * jumps / (jumps + KEPT_JUMPS)
        for i in range(spread.shape[0]):
            spread[i] *= (shares[i] / grid.sums[WEIGHTS]) ** exponent
    factor = np.exp(level - _mean_log(spread))
    for i in range(spread.shape[0]):
        spread[i] *= factor
    for measurements in (grid.jumps, grid.evaluations, shares, grid.sums):
        measurements[:] = 0.0


@jit
def _mean_log(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += np.log(values[i])
    return total / values.shape[0]
