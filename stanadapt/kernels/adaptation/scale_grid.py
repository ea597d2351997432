"""A proposal's standard deviations: the spread of the chain, times a factor that moves it fastest.

Warm-up is cut into rounds of doubling length. In each of them all factors 2^-3, ..., 2^1 of a grid
take turns, with equal numbers of evaluations, and the squared jump per evaluation is measured:

    speed = sum of (acceptance probability * squared jump) / sum of evaluations,

jumps in units of the spread. At its end the spread becomes that of the chain in this round. The
last round is for the factor alone.

References
----------
Pasarica and Gelman (2010), Adaptively scaling the Metropolis algorithm using expected squared
jumped distance, Statistica Sinica 20. The grid and the rounds are ours. A jump between modes counts
for thousands within one, which no target acceptance rate can tell.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._numba.jit import jit
from stanadapt._numba.replace import replace
from stanadapt.kernels.adaptation import welford as moments

SMALLEST_POWER, FACTORS = -3, 5
# iterations with one factor, and rounds
TURN, ROUNDS = 10, 4
# weight of the last spread, in accepted moves: it is what few of them say too little about
KEPT_MOVES = 5.0


class ScaleGrid(NamedTuple):
    """The grid and what was measured on it in this round; arrays are updated in place.

    spread
        Of the chain, shape (dim,).
    index
        Of the factor of the present turn, 0 for the smallest; after warm-up, of the best.
    jumps, evaluations
        For each factor, shape (FACTORS,).
    draws
        Moments of the positions.
    moves
        Accepted ones.

    """

    spread: np.ndarray
    index: int
    jumps: np.ndarray
    evaluations: np.ndarray
    draws: moments.Welford
    moves: int


@jit
def begin(dim, spread):
    """Return a grid around one spread of all coordinates, at the factor 1."""
    return ScaleGrid(
        np.full(dim, spread), -SMALLEST_POWER, np.zeros(FACTORS), np.zeros(FACTORS),
        moments.no_draws(dim, True), 0,
    )  # fmt: skip


@jit
def factor(grid):
    """The multiple of the spread whose turn it is."""
    return 2.0 ** (SMALLEST_POWER + grid.index)


@jit
def measured(grid, position, jump, rate, evaluations, accepted):
    """Add an iteration: where it ended, its squared jump if accepted, and how likely that was."""
    k = grid.index
    grid.jumps[k] += rate * jump
    grid.evaluations[k] += evaluations
    draws = moments.with_draw(grid.draws, position)
    return replace(grid, draws=draws, moves=grid.moves + int(accepted))


@jit
def squared_jump(grid, one, other):
    """Squared distance of two positions, in units of the spread."""
    total = 0.0
    for i in range(grid.spread.shape[0]):
        total += ((other[i] - one[i]) / grid.spread[i]) ** 2
    return total


@jit
def turned(grid, t, iter_warmup):
    """Go on to the next factor or the next round, where one ends at iteration t = 0, 1, ..."""
    if t == iter_warmup - 1:
        return replace(grid, index=_fastest(grid))
    for k in range(1, ROUNDS):
        if t == (iter_warmup >> k) - 1:
            return _next_round(grid)
    if (t + 1) % TURN == 0:
        return replace(grid, index=int(np.argmin(grid.evaluations)))
    return grid


@jit
def _fastest(grid):
    """The index of the best factor, 0 where nothing could be accepted."""
    best, highest = 0, 0.0
    for k in range(FACTORS):
        speed = grid.jumps[k] / max(grid.evaluations[k], 1.0)
        if speed > highest:
            best, highest = k, speed
    return best


@jit
def _next_round(grid):
    """Take the spread from this round's draws, as far as moves were accepted; begin again."""
    spread, draws = grid.spread, grid.draws
    share = grid.moves / (grid.moves + KEPT_MOVES)
    # not one move was possible: all that is known is that they were too long
    shorter = 1.0 if grid.jumps.max() > 0.0 else 2.0 ** (SMALLEST_POWER - 1)
    for i in range(spread.shape[0]):
        sd = np.sqrt(draws.products[0, i] / max(draws.count - 1, 1))
        if sd > 0.0 and sd < np.inf:
            spread[i] *= (sd / spread[i]) ** share
        spread[i] *= shorter
    grid.jumps[:] = 0.0
    grid.evaluations[:] = 0.0
    draws.mean[:] = 0.0
    draws.products[:] = 0.0
    empty = moments.Welford(0, draws.mean, draws.deviation, draws.products)
    return replace(grid, index=-SMALLEST_POWER, draws=empty, moves=0)
