"""Parallel tempering: one chain per level of a ladder, and swaps between neighbors.

Even and odd pairs of neighbors take turns, which carries states along the ladder instead of
letting them diffuse. The level at b = 0 is redrawn in every sweep if the reference can be sampled.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, JRSS B 84, algorithm 1. The evidence: Bennett (1976), Efficient
estimation of free energy differences from Monte Carlo data, Journal of Computational Physics 22,
for each gap, with the constants of the round before in place of a fixed point.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.points import acceptance_probability
from stanadapt.samplers.tempering import moves
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering.ladder import LOG_Z, B, Ladder


class RoundStatistics(NamedTuple):
    """Statistics of a round of sweeps, by level; updated in place."""

    # Columns, for the pair of levels k and k + 1: REJECTION, the sum of the rejection probabilities
    # of their swaps; FORWARD and BACKWARD, the logs of the sums (bridge) of `log_normalizers` over
    # the draws of k and of k + 1; shape (room, 3).
    levels: np.ndarray
    # collected while learning: the MEAN of the positions and the sum of their squared DEVIATIONS;
    # the sum of the SQUARES of the tempered gradient; shape (room, 3, dim)
    vectors: np.ndarray
    counts: np.ndarray  # SWEEPS, and round TRIPS between the ends of the ladder, shape (2,)


REJECTION, FORWARD, BACKWARD = 0, 1, 2
MEAN, DEVIATIONS, SQUARES = 0, 1, 2
SWEEPS, TRIPS = 0, 1
# a parity that no pair has: statistics of neighbors without swaps
NEITHER = 2


class Tempering(NamedTuple):
    """All chains of one parallel tempering; arrays are updated in place."""

    path: paths.TemperingPath
    mover: moves.Mover
    ladder: Ladder
    replicas: paths.Replicas  # one row per chain
    # row at level 0, 1, ...; whether each row has been at the hottest level since it was last at
    # the coldest; shape (2, room)
    order: np.ndarray
    statistics: RoundStatistics
    # final positions of the short chains of warm-up, and l there in the last column; NaN without
    # warm-up; shape (chain, dim + 1)
    short_chain_ends: np.ndarray


class ParallelTemperingInfo(NamedTuple):
    """Statistics of one sweep over all levels."""

    # acceptance_rate, swap_rate: mean acceptance rate of the moves over levels; that of the swaps
    # over all pairs of neighbors or, with energy rings, of the one pair that was picked: 0 if no
    # two states shared a ring
    acceptance_rate: float
    swap_rate: float
    n_steps: int  # leapfrogs (steps of the random walk) of all levels
    # whether the coldest chain's trajectory ended in an energy error above 1000, or the density
    # failed; hot trajectories may well diverge
    diverging: bool
    round_trips: int  # number of chains that came back to the coldest level from the hottest
    levels: int  # number of temperatures


def no_statistics(room: int, dim: int) -> RoundStatistics:
    """Return RoundStatistics without sweeps."""
    statistics = RoundStatistics(
        np.empty((room, 3)), np.empty((room, 3, dim)), np.empty(2, np.int64)
    )
    reset(statistics)
    return statistics


def reset(statistics: RoundStatistics) -> None:
    """Begin a new round."""
    statistics.levels[:] = 0.0
    statistics.levels[:, FORWARD : BACKWARD + 1] = -np.inf
    statistics.vectors[:] = 0.0
    statistics.counts[:] = 0


@jit
def sweep(tempering, target_accept, parity, learning, rng):
    """Move every chain, then swap the pairs (k, k + 1) with k of this parity.

    While `learning`, tune the step sizes to target_accept, and collect statistics of the draws.
    """
    acceptance_rate, steps, diverging = move_levels(tempering, target_accept, learning, rng)
    swap_rate = swap_neighbors(tempering, parity, rng)
    trips = count_round_trips(tempering)
    return ParallelTemperingInfo(
        acceptance_rate, swap_rate, steps, diverging, trips, tempering.ladder.size[0]
    )  # fmt: skip


@jit
def move_levels(tempering, target_accept, learning, rng):
    """Move every chain, as `sweep`; returns the mean acceptance rate, the steps, and divergence."""
    ladder, outcomes, count = tempering.ladder, tempering.mover.numbers, tempering.ladder.size[0]
    moves.move(moves.TASK_PATH, tempering, count, tempering.order[0], None, rng)
    done = moves.summed(outcomes, count)
    for k in range(count if learning else 0):
        if outcomes[k, moves.STEPS] > 0.0:
            n = tempering.statistics.counts[SWEEPS]
            moves.tune_step(ladder, k, n, outcomes[k], target_accept)
    tempering.statistics.counts[SWEEPS] += 1
    if learning:
        _accumulate(tempering)
    # the last level is the target
    return done.acceptance_rate, done.steps, moves.diverged(outcomes[count - 1])


@inline
def run_task(tempering, slot):
    """Make the move of one level, in a worker thread."""
    t = tempering
    moves.run_move(t.path, t.mover, t.ladder, t.replicas, slot, t.order[0, slot], slot)


@jit
def _accumulate(tempering):
    """Add the positions and gradients of this sweep to the statistics of the round."""
    ladder, replicas, statistics = tempering.ladder, tempering.replicas, tempering.statistics
    n, slope = statistics.counts[SWEEPS], tempering.mover.vectors[0, moves.NORMALS]
    for k in range(ladder.size[0]):
        row = tempering.order[0, k]
        mean, deviations = statistics.vectors[k, MEAN], statistics.vectors[k, DEVIATIONS]
        position, squares = replicas.vectors[row, paths.POSITION], statistics.vectors[k, SQUARES]
        paths.fill_slope(replicas, row, ladder.levels[k, B], slope)
        for i in range(position.shape[0]):
            deviation = position[i] - mean[i]
            mean[i] += deviation / n
            deviations[i] += deviation * (position[i] - mean[i])
            squares[i] += slope[i] ** 2


@inline
def _log_logistic(x):
    """log(1 / (1 + exp(-x)))."""
    return min(x, 0.0) - np.log1p(np.exp(-abs(x)))


@jit
def swap_neighbors(tempering, parity, rng):
    """Swap neighbors; returns the mean acceptance probability over all pairs.

    The statistics are those of all pairs, swapped or not.
    """
    order, sums = tempering.order[0], tempering.statistics.levels
    levels = tempering.ladder.levels
    total, last = 0.0, tempering.ladder.size[0] - 1
    cold = paths.log_ratio(tempering.replicas, order[0])
    for k in range(last):
        gap, guess = levels[k + 1, B] - levels[k, B], levels[k + 1, LOG_Z] - levels[k, LOG_Z]
        hot, cold = cold, paths.log_ratio(tempering.replicas, order[k + 1])
        sums[k, FORWARD] = np.logaddexp(sums[k, FORWARD], _log_logistic(gap * hot - guess))
        sums[k, BACKWARD] = np.logaddexp(sums[k, BACKWARD], _log_logistic(guess - gap * cold))
        rate = acceptance_probability(gap * (hot - cold))
        sums[k, REJECTION] += 1.0 - rate
        total += rate
        if k % 2 == parity and rng.random() < rate:
            # `cold` keeps its value from before the swap: all rates refer to the same order
            order[k], order[k + 1] = order[k + 1], order[k]
    return total / max(last, 1)


@jit
def count_round_trips(tempering):
    """Count the chains that have just returned to the coldest level from the hottest."""
    order, been_hot = tempering.order[0], tempering.order[1]
    been_hot[order[0]] = 1
    coldest = order[tempering.ladder.size[0] - 1]
    trips = been_hot[coldest]
    been_hot[coldest] = 0
    tempering.statistics.counts[TRIPS] += trips
    return trips


def log_normalizers(statistics: RoundStatistics, ladder: Ladder, out: np.ndarray) -> None:
    """Write log Z(b) - log Z(b of the hottest level) of each level into out, such as that with c.

    With s(x) = 1 / (1 + exp(-x)) and any c (that of the ladder is used), neighbors b < b' have

        log Z(b') - log Z(b) = c + log E_b[s((b' - b) Delta - c)]
                                 - log E_b'[s(c - (b' - b) Delta)],                     (bridge)

    also if target or reference fail. The variance is least if c is the left side. Terms are at most
    1: means of exp(+-(b' - b) Delta), stepping stones, have heavy tails, and were 0.07 too high on
    twenty modes in the plane, for any length of the run.
    """
    hot, last = ladder.levels[0, LOG_Z], ladder.size[0] - 1
    out[0] = 0.0
    for k in range(last):
        cold = ladder.levels[k + 1, LOG_Z]
        rise = cold - hot + statistics.levels[k, FORWARD] - statistics.levels[k, BACKWARD]
        out[k + 1] = out[k] + (rise if np.isfinite(rise) else 0.0)
        hot = cold


@jit
def coldest_point(tempering, position):
    """Return the point of the chain at b = 1; its position is copied into `position`."""
    return paths.point_of(
        tempering.replicas, tempering.order[0, tempering.ladder.size[0] - 1], position
    )  # fmt: skip
