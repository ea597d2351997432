"""Parallel tempering: a chain a level of a ladder, and swaps between neighbours.

Even and odd pairs of neighbours take turns, which carries states along the ladder instead of
letting them diffuse. The hottest level is drawn anew where the reference is a law.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, JRSS B 84, algorithm 1. The evidence: stepping stones of Xie, Lewis,
Fan, Kuo and Chen (2011), Systematic Biology 60, from both sides of each gap, averaged.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import inlined, jit
from stanadapt.ladder import LOG_STEP, B, Ladder
from stanadapt.metropolis import acceptance_probability
from stanadapt.points import ValuePoint, copy
from stanadapt.tempered_moves import (
    DIVERGING,
    NORMALS,
    RATE,
    STEPS,
    Mover,
    move,
    mover_of_helper,
    travel,
)
from stanadapt.tempered_path import (
    LARGEST_GAIN,
    POSITION,
    TARGET,
    Path,
    Places,
    fill_slope,
    gain,
    path_of_helper,
)

# gain of the step sizes after n sweeps of a round: (n + HEAD)^-POWER
POWER, HEAD = 0.6, 3.0
# on the board, for helpers
SWEEP_OF_PATH = np.int64(0)


class Seen(NamedTuple):
    """What a round of sweeps has shown, by level; updated in place.

    levels
        REJECTION, sum of the rejection probabilities of swaps of k with k + 1; FORWARD and
        BACKWARD, log of the sum of exp(+-(b' - b) Delta) over the draws of k, and of k + 1; how
        many draws of k the target takes (HOT_INSIDE), and of k + 1 the reference (COLD_INSIDE);
        shape (room, 5).
    vectors
        While learning: of positions the MEAN and the sum of squared DEVIATIONS; the sum of the
        SQUARES of the tempered gradient; shape (room, 3, dim).
    counts
        SWEEPS, and round TRIPS between the ends of the ladder, shape (2,).

    """

    levels: np.ndarray
    vectors: np.ndarray
    counts: np.ndarray


REJECTION, FORWARD, BACKWARD, HOT_INSIDE, COLD_INSIDE = 0, 1, 2, 3, 4
MEAN, DEVIATIONS, SQUARES = 0, 1, 2
SWEEPS, TRIPS = 0, 1


class Tempering(NamedTuple):
    """All chains of one parallel tempering; arrays are updated in place.

    places
        A row a chain.
    order
        Which row is at level 0, 1, ... (first row), and whether a row has been at the hottest level
        since it was last at the coldest (second row), shape (2, room).
    ended
        Positions where the short chains of warm-up ended, and l there in the last column; NaN where
        there was none; shape (chain, dim + 1).

    """

    path: Path
    mover: Mover
    ladder: Ladder
    places: Places
    order: np.ndarray
    seen: Seen
    ended: np.ndarray


class Sweep(NamedTuple):
    """What one sweep over all levels did."""

    acceptance_rate: float  # of the moves, a mean over levels
    swap_rate: float  # a mean over all pairs of neighbours
    steps: int
    diverging: bool  # the move on the target; hot ones may well
    round_trips: int


@jit
def nothing_seen(room, dim):
    """Return a Seen without sweeps."""
    seen = Seen(np.empty((room, 5)), np.empty((room, 3, dim)), np.empty(2, np.int64))
    forget(seen)
    return seen


@jit
def forget(seen):
    """Begin a new round."""
    seen.levels[:] = 0.0
    seen.levels[:, FORWARD : BACKWARD + 1] = -np.inf
    seen.vectors[:] = 0.0
    seen.counts[:] = 0


@jit
def sweep(tempering, target_accept, parity, learning, rng):
    """Move every chain, then swap the pairs (k, k + 1) with k of this parity.

    learning: the step sizes are moved towards target_accept.
    """
    ladder, moved, count = tempering.ladder, tempering.mover.numbers, tempering.ladder.size[0]
    move(
        SWEEP_OF_PATH, tempering.path, tempering.mover, ladder, tempering.places,
        count, tempering.order[0], None, rng,
    )  # fmt: skip
    rates, moves, steps, diverging = 0.0, 0, 0, False
    for k in range(count):
        if moved[k, STEPS] == 0.0:
            continue
        rates += moved[k, RATE]
        moves += 1
        steps += int(moved[k, STEPS])
        diverging = moved[k, DIVERGING] > 0.0  # of the last level, which is the target's
        if learning:
            size = (tempering.seen.counts[SWEEPS] + HEAD) ** -POWER
            ladder.levels[k, LOG_STEP] += size * (moved[k, RATE] - target_accept)
    tempering.seen.counts[SWEEPS] += 1
    if learning:
        _watch(tempering)
    swap_rate = _swap(tempering, parity, rng)
    return Sweep(rates / max(moves, 1), swap_rate, steps, diverging, _trips(tempering))


@inlined
def assist(tempering, slot):
    """Make the move of one level, as a helper."""
    t = tempering
    travel(t.path, t.mover, t.ladder, t.places, slot, t.order[0, slot], slot)


@jit
def tempering_of_helper(density, tempering):
    """Return the same tempering with a density and memory for moves that are a helper's own."""
    t = tempering
    path, mover = path_of_helper(density, t.path), mover_of_helper(t.mover)
    return Tempering(path, mover, t.ladder, t.places, t.order, t.seen, t.ended)


@jit
def _watch(tempering):
    """Add the positions and slopes of this sweep to what the round has shown."""
    ladder, places, seen = tempering.ladder, tempering.places, tempering.seen
    n, slope = seen.counts[SWEEPS], tempering.mover.vectors[0, NORMALS]
    for k in range(ladder.size[0]):
        row = tempering.order[0, k]
        mean, deviations = seen.vectors[k, MEAN], seen.vectors[k, DEVIATIONS]
        position, squares = places.vectors[row, POSITION], seen.vectors[k, SQUARES]
        fill_slope(places, row, ladder.levels[k, B], slope)
        for i in range(position.shape[0]):
            deviation = position[i] - mean[i]
            mean[i] += deviation / n
            deviations[i] += deviation * (position[i] - mean[i])
            squares[i] += slope[i] ** 2


@jit
def _swap(tempering, parity, rng):
    """Swap neighbours; returns the mean acceptance probability over all pairs."""
    order, seen = tempering.order[0], tempering.seen.levels
    total, last = 0.0, tempering.ladder.size[0] - 1
    cold = gain(tempering.places, order[0])
    for k in range(last):
        gap = tempering.ladder.levels[k + 1, B] - tempering.ladder.levels[k, B]
        hot, cold = cold, gain(tempering.places, order[k + 1])
        seen[k, FORWARD] = np.logaddexp(seen[k, FORWARD], gap * hot)
        seen[k, BACKWARD] = np.logaddexp(seen[k, BACKWARD], -gap * cold)
        seen[k, HOT_INSIDE] += hot > -np.inf
        seen[k, COLD_INSIDE] += cold < LARGEST_GAIN
        rate = acceptance_probability(gap * (hot - cold))
        seen[k, REJECTION] += 1.0 - rate
        total += rate
        if k % 2 == parity and rng.random() < rate:
            # `cold` stays that of before the swap: rates are those of the ladder as it stood
            order[k], order[k + 1] = order[k + 1], order[k]
    return total / max(last, 1)


@jit
def _trips(tempering):
    """Count the chains that return to the coldest level from the hottest."""
    order, been_hot = tempering.order[0], tempering.order[1]
    been_hot[order[0]] = 1
    coldest = order[tempering.ladder.size[0] - 1]
    trips = been_hot[coldest]
    been_hot[coldest] = 0
    tempering.seen.counts[TRIPS] += trips
    return trips


@jit
def log_normalizers(seen, count, out):
    """Write log Z(b) - log Z(b of the hottest level) of each of `count` levels into out.

    The mean of exp((b' - b) Delta) over draws of one level is the ratio of constants times the
    share of the other level's draws that lie where this one has mass: less than 1 where target or
    reference fail.
    """
    out[0] = 0.0
    for k in range(count - 1):
        forward = seen.levels[k, FORWARD] - np.log(seen.levels[k, COLD_INSIDE])
        backward = np.log(seen.levels[k, HOT_INSIDE]) - seen.levels[k, BACKWARD]
        if not np.isfinite(forward):
            forward = backward
        if not np.isfinite(backward):
            backward = forward
        out[k + 1] = out[k] + (0.5 * (forward + backward) if np.isfinite(forward) else 0.0)


@jit
def coldest(tempering, position):
    """Return the point of the chain at b = 1, copied into position, shape (dim,)."""
    row, places = tempering.order[0, tempering.ladder.size[0] - 1], tempering.places
    copy(places.vectors[row, POSITION], position)
    return ValuePoint(position, places.logs[row, TARGET])
