"""The blocked Gibbs kernel on the pseudo-extended target.

The extended density of N pseudo-samples with inverse temperatures b_j on a ladder is a mixture:
one of them, with index I, has the target's law, and each other one the instrumental law
q(x, b_k) proportional to exp(l(x) b_k + psi(x) (1 - b_k)) / Z(b_k). Given what is where,

    P(I = i) proportional to target(x_i) / q(x_i), q(x) = sum over k of q(x, b_k),
    P(b_j = b_k) proportional to exp(b_k Delta_j) / Z(b_k) for every other j,

both exactly and without an evaluation. Given I and the temperatures, the pseudo-samples are
independent: x_I moves on the target, x_j at b_j, and is drawn anew where b_j = 0.

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), Pseudo-extended Markov chain Monte Carlo, NeurIPS,
equations 5 to 9, for the extended target and its weights. Deviations: they move all of it jointly,
temperatures included, with NUTS; have no reference, psi = 0; and a flat law of temperatures, where
ours is flat on the ladder (g = 1 / Z). In the weights the temperature of x_i is summed out.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import inlined, jit
from stanadapt.ladder import LOG_STEP, LOG_Z, B, Ladder
from stanadapt.points import ValuePoint, copy
from stanadapt.softmax import softmax
from stanadapt.tempered_moves import (
    DIVERGING,
    RATE,
    STEPS,
    Mover,
    make_mover,
    move,
    mover_of_helper,
    travel,
)
from stanadapt.tempered_path import (
    POSITION,
    TARGET,
    Path,
    Places,
    gain,
    no_places,
    path_of_helper,
)
from stanadapt.tempering import HEAD, POWER

# gain of the log normalisers: levels / visits, but no more than this
LARGEST_GAIN = 0.5
# in place of -inf, which times the inverse temperature 0 is no number
IMPOSSIBLE = -1e300
# on the board, for helpers
SWEEP_OF_BLOCKS = np.int64(1)


class Blocks(NamedTuple):
    """All pseudo-samples of a chain; arrays are updated in place.

    places
        A row a pseudo-sample.
    chances
        P(b_j = b_k) in the columns k, and the weight P(I = j) in the last; shape (N, room + 1).
    where
        LEVEL of each pseudo-sample, that of the index being the coldest, and whether it has
        BEEN_HOT since it was last the index; shape (2, N).
    visits
        Sums of the chances of each level of the pseudo-samples that are not the index, and, in the
        last column, the number of sweeps: while learning (first row), and since;
        shape (2, room + 1).
    index
        I, shape (1,).

    """

    path: Path
    mover: Mover
    ladder: Ladder
    places: Places
    chances: np.ndarray
    where: np.ndarray
    visits: np.ndarray
    index: np.ndarray


LEVEL, BEEN_HOT = 0, 1
SWEEPS = WEIGHT = -1  # last columns


class Swept(NamedTuple):
    """What one sweep over all pseudo-samples did."""

    acceptance_rate: float  # a mean over the pseudo-samples that moved
    steps: int
    diverging: bool  # the move on the target
    switched: bool
    largest_weight: float
    temperature: float  # mean b of the pseudo-samples that were not the index
    round_trips: int


@jit
def no_blocks(path, options, ladder, count, shared):
    """Return `count` pseudo-samples to be placed; shared: the board."""
    room, dim = ladder.scale.shape
    return Blocks(
        path, make_mover(count, dim, options, shared), ladder, no_places(count, dim),
        np.zeros((count, room + 1)), np.zeros((2, count), np.int64), np.zeros((2, room + 1)),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inlined
def assist(blocks, slot):
    """Make the move of one pseudo-sample, as a helper."""
    b = blocks
    travel(b.path, b.mover, b.ladder, b.places, slot, slot, b.where[LEVEL, slot])


@jit
def blocks_of_helper(density, blocks):
    """Return the same blocks with a density and memory for moves that are a helper's own."""
    b = blocks
    path, mover = path_of_helper(density, b.path), mover_of_helper(b.mover)
    return Blocks(
        path, mover, b.ladder, b.places, b.chances, b.where, b.visits, b.index
    )  # fmt: skip


@jit
def sweep(blocks, target_accept, learning, rng):
    """Move every pseudo-sample at its temperature; then draw the index and the temperatures.

    learning: step sizes and normalising constants are tuned.
    """
    ladder, where, index = blocks.ladder, blocks.where, blocks.index[0]
    visits, chances = blocks.visits[0 if learning else 1], blocks.chances
    moved = blocks.mover.numbers
    move(
        SWEEP_OF_BLOCKS, blocks.path, blocks.mover, ladder, blocks.places, where.shape[1], None,
        where[LEVEL], rng,
    )  # fmt: skip
    rates, moves, steps, diverging, total = 0.0, 0, 0, False, 0.0
    for j in range(where.shape[1]):
        k = where[LEVEL, j]
        if j != index:
            total += ladder.levels[k, B]
        if moved[j, STEPS] == 0.0:
            continue
        rates += moved[j, RATE]
        moves += 1
        steps += int(moved[j, STEPS])
        if j == index:  # hot ones may well
            diverging = moved[j, DIVERGING] > 0.0
        if learning:
            # visits are those of the others: the index is at the coldest level in every sweep
            seen = visits[k] + (visits[SWEEPS] if j == index else 0.0)
            size = (seen + HEAD) ** -POWER
            ladder.levels[k, LOG_STEP] += size * (moved[j, RATE] - target_accept)
    visits[SWEEPS] += 1
    largest = weigh(blocks)
    count = ladder.size[0]
    for j in range(where.shape[1]):
        for k in range(count if j != index else 0):
            visits[k] += chances[j, k]
    if learning:
        _learn_normalizers(blocks, index)
    trips = choose(blocks, rng)
    return Swept(
        rates / max(moves, 1), steps, diverging, blocks.index[0] != index, largest,
        total / max(where.shape[1] - 1, 1), trips,
    )  # fmt: skip


@inlined
def weigh(blocks):
    """Compute `chances` for the places as they are; returns the largest weight."""
    levels, chances, count = blocks.ladder.levels, blocks.chances, blocks.ladder.size[0]
    weights, total, largest = chances[:, WEIGHT], 0.0, 0.0
    for j in range(chances.shape[0]):
        delta, shares = gain(blocks.places, j), chances[j, :count]
        within = max(delta, IMPOSSIBLE)
        for k in range(count):
            shares[k] = levels[k, B] * within - levels[k, LOG_Z]
        weights[j] = delta - softmax(shares)
    peak = np.max(weights)
    for j in range(chances.shape[0]):
        weights[j] = np.exp(weights[j] - peak)
        total += weights[j]
    for j in range(chances.shape[0]):
        weights[j] /= total
        largest = max(largest, weights[j])
    return largest


@inlined
def choose(blocks, rng):
    """Draw the index by the weights, and the others' levels; returns the round trips completed.

    A round trip is one of a pseudo-sample that was the index, then at the hottest level, and is the
    index again.
    """
    where, chances = blocks.where, blocks.chances
    index, trips, coldest = _drawn(chances[:, WEIGHT], rng), 0, blocks.ladder.size[0] - 1
    for j in range(where.shape[1]):
        if j == index:
            where[LEVEL, j] = coldest
            trips += where[BEEN_HOT, j]
            where[BEEN_HOT, j] = 0
        else:
            where[LEVEL, j] = _drawn(chances[j, : coldest + 1], rng)
            if where[LEVEL, j] == 0:
                where[BEEN_HOT, j] = 1
    blocks.index[0] = index
    return trips


@inlined
def _drawn(shares, rng):
    """Draw an index with probabilities `shares`, which add up to 1 but for rounding."""
    rest = rng.random()
    for i in range(shares.shape[0] - 1):
        rest -= shares[i]
        if rest < 0.0:
            return i
    return shares.shape[0] - 1


@jit
def _learn_normalizers(blocks, index):
    """Raise log Z of levels where those that are not the index are too often, lower the others.

    Their chances stand in place of a visit: the same mean, less noise.
    """
    ladder, count, others = blocks.ladder, blocks.ladder.size[0], blocks.chances.shape[0] - 1
    size = min(LARGEST_GAIN, count / (1.0 + blocks.visits[0, SWEEPS])) / max(others, 1)
    for j in range(others + 1):
        if j == index:
            continue
        for k in range(count):
            ladder.levels[k, LOG_Z] += size * (blocks.chances[j, k] - 1.0 / count)
    for k in range(count - 1, -1, -1):
        ladder.levels[k, LOG_Z] -= ladder.levels[0, LOG_Z]


@jit
def current(blocks, position):
    """Return the point of the index, copied into position, shape (dim,)."""
    row, places = blocks.index[0], blocks.places
    copy(places.vectors[row, POSITION], position)
    return ValuePoint(position, places.logs[row, TARGET])
