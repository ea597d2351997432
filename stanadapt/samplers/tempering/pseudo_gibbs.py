"""The blocked Gibbs kernel on the pseudo-extended target.

The extended density of N pseudo-samples with inverse temperatures b_j on a ladder is a mixture:
one of them, with index I, follows the target, and every other one the instrumental distribution
q(x, b_k) proportional to exp(l(x) b_k + psi(x) (1 - b_k)) / Z(b_k). Given the positions,

    P(I = i) proportional to target(x_i) / q(x_i), q(x) = sum over k of q(x, b_k),
    P(b_j = b_k) proportional to exp(b_k Delta_j) / Z(b_k) for every other j,

both exactly and without evaluating the target. Given I and the temperatures, the pseudo-samples
are independent: x_I moves on the target, and x_j at b_j, or is redrawn from the reference if
b_j = 0.

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), Pseudo-extended Markov chain Monte Carlo, NeurIPS,
equations 5 to 9, for the extended target and its weights. Deviations: they move everything jointly
with NUTS, temperatures included; have no reference, psi = 0; and g = 1, while we use g = 1 / Z,
which makes the levels of the ladder equally likely. In our weights the temperature of x_i is summed
out.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import as_python, inline, jit
from stanadapt.engine.numerics.softmax import categorical, softmax
from stanadapt.engine.numerics.vectors import copy, largest
from stanadapt.engine.points import ValuePoint
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z, B, Ladder
from stanadapt.samplers.tempering.moves import (
    ACCEPTANCE_RATE,
    DIVERGING,
    STEPS,
    Mover,
    Options,
    make_mover,
    move,
    mover_of_worker,
    run_move,
)
from stanadapt.samplers.tempering.path import (
    POSITION,
    TARGET,
    Replicas,
    TemperingPath,
    log_ratio,
    no_replicas,
    path_of_worker,
)
from stanadapt.samplers.tempering.swaps import GAIN_OFFSET, GAIN_POWER

# largest gain of the log normalizing constants, which is otherwise levels / (1 + sweeps)
LARGEST_LEARNING_GAIN = 0.5
# replaces -inf, which gives NaN when multiplied by the inverse temperature 0
IMPOSSIBLE = -1e300
# kind of task in the queue
TASK_PSEUDO_SAMPLE = np.int64(1)


class PseudoSamples(NamedTuple):
    """All pseudo-samples of a chain; arrays are updated in place.

    replicas
        One row per pseudo-sample.
    probabilities
        P(b_j = b_k) in column k, and the weight P(I = j) in the last; shape (N, room + 1).
    where
        LEVEL of each pseudo-sample, which is the coldest for the index, and whether it has
        BEEN_HOT since it was last the index; shape (2, N).
    visits
        Sums of the probabilities of each level over the pseudo-samples that are not the index and,
        in the last column, the number of sweeps: while learning (first row), and since then;
        shape (2, room + 1).
    index
        I, shape (1,).

    """

    path: TemperingPath
    mover: Mover
    ladder: Ladder
    replicas: Replicas
    probabilities: np.ndarray
    where: np.ndarray
    visits: np.ndarray
    index: np.ndarray


LEVEL, BEEN_HOT = 0, 1
SWEEPS = WEIGHT = -1  # last column of visits, and of probabilities


class SweepInfo(NamedTuple):
    """The outcome of one sweep over all pseudo-samples."""

    acceptance_rate: float  # mean over the pseudo-samples that moved
    steps: int
    diverging: bool  # whether the move on the target diverged
    switched: bool
    largest_weight: float
    temperature: float  # mean b of the pseudo-samples that were not the index
    round_trips: int


def no_pseudo_samples(
    path: TemperingPath, options: Options, ladder: Ladder, count: int, queue: np.ndarray
) -> PseudoSamples:
    """Return `count` pseudo-samples without positions; ladder and queue are shared with others."""
    room, dim = ladder.scale.shape
    return PseudoSamples(
        path, make_mover(count, dim, options, queue), ladder, as_python(no_replicas)(count, dim),
        np.zeros((count, room + 1)), np.zeros((2, count), np.int64), np.zeros((2, room + 1)),
        np.zeros(1, np.int64),
    )  # fmt: skip


@inline
def run_task(pseudo, slot):
    """Make the move of one pseudo-sample, in a worker thread."""
    p = pseudo
    run_move(p.path, p.mover, p.ladder, p.replicas, slot, slot, p.where[LEVEL, slot])


@jit
def pseudo_samples_of_worker(density, pseudo):
    """Return the same pseudo-samples with a worker's density and memory for moves."""
    p = pseudo
    path, mover = path_of_worker(density, p.path), mover_of_worker(p.mover)
    return PseudoSamples(
        path, mover, p.ladder, p.replicas, p.probabilities, p.where, p.visits, p.index
    )  # fmt: skip


@jit
def sweep(pseudo, target_accept, learning, rng):
    """Move every pseudo-sample at its temperature; then draw the index and the temperatures.

    learning
        Whether to tune step sizes and normalizing constants.

    """
    ladder, where, index = pseudo.ladder, pseudo.where, pseudo.index[0]
    visits, probabilities = pseudo.visits[0 if learning else 1], pseudo.probabilities
    outcomes = pseudo.mover.numbers
    move(
        TASK_PSEUDO_SAMPLE, pseudo.path, pseudo.mover, ladder, pseudo.replicas,
        where.shape[1], None, where[LEVEL], rng,
    )  # fmt: skip
    rates, n_moved, steps, diverging, total = 0.0, 0, 0, False, 0.0
    for j in range(where.shape[1]):
        k = where[LEVEL, j]
        if j != index:
            total += ladder.levels[k, B]
        if outcomes[j, STEPS] == 0.0:
            continue
        rates += outcomes[j, ACCEPTANCE_RATE]
        n_moved += 1
        steps += int(outcomes[j, STEPS])
        if j == index:  # hot pseudo-samples may well diverge
            diverging = outcomes[j, DIVERGING] > 0.0
        if learning:
            # visits exclude the index, which is at the coldest level in every sweep
            n_visits = visits[k] + (visits[SWEEPS] if j == index else 0.0)
            gain = (n_visits + GAIN_OFFSET) ** -GAIN_POWER
            ladder.levels[k, LOG_STEP] += gain * (outcomes[j, ACCEPTANCE_RATE] - target_accept)
    visits[SWEEPS] += 1
    largest = weigh(pseudo)
    count = ladder.size[0]
    for j in range(where.shape[1]):
        for k in range(count if j != index else 0):
            visits[k] += probabilities[j, k]
    if learning:
        _learn_normalizers(pseudo, index)
    trips = choose(pseudo, rng)
    return SweepInfo(
        rates / max(n_moved, 1), steps, diverging, pseudo.index[0] != index, largest,
        total / max(where.shape[1] - 1, 1), trips,
    )  # fmt: skip


@inline
def weigh(pseudo):
    """Compute `probabilities` for the current positions; returns the largest weight."""
    levels, count = pseudo.ladder.levels, pseudo.ladder.size[0]
    probabilities, total, heaviest = pseudo.probabilities, 0.0, 0.0
    weights = probabilities[:, WEIGHT]
    for j in range(probabilities.shape[0]):
        delta, shares = log_ratio(pseudo.replicas, j), probabilities[j, :count]
        finite_delta = max(delta, IMPOSSIBLE)
        for k in range(count):
            shares[k] = levels[k, B] * finite_delta - levels[k, LOG_Z]
        weights[j] = delta - softmax(shares)
    peak = largest(weights)
    for j in range(probabilities.shape[0]):
        weights[j] = np.exp(weights[j] - peak)
        total += weights[j]
    for j in range(probabilities.shape[0]):
        weights[j] /= total
        heaviest = max(heaviest, weights[j])
    return heaviest


@inline
def choose(pseudo, rng):
    """Draw the index by the weights, and the others' levels; returns the round trips completed.

    A pseudo-sample completes a round trip when it becomes the index again after having been at the
    hottest level.
    """
    where, probabilities = pseudo.where, pseudo.probabilities
    index, trips = categorical(probabilities[:, WEIGHT], rng), 0
    coldest = pseudo.ladder.size[0] - 1
    for j in range(where.shape[1]):
        if j == index:
            where[LEVEL, j] = coldest
            trips += where[BEEN_HOT, j]
            where[BEEN_HOT, j] = 0
        else:
            where[LEVEL, j] = categorical(probabilities[j, : coldest + 1], rng)
            if where[LEVEL, j] == 0:
                where[BEEN_HOT, j] = 1
    pseudo.index[0] = index
    return trips


@jit
def _learn_normalizers(pseudo, index):
    """Raise log Z of levels that pseudo-samples other than the index visit too often, lower others.

    The probability of a visit is used instead of the visit: the same mean, less noise.
    """
    ladder, count, others = pseudo.ladder, pseudo.ladder.size[0], pseudo.probabilities.shape[0] - 1
    gain = min(LARGEST_LEARNING_GAIN, count / (1.0 + pseudo.visits[0, SWEEPS])) / max(others, 1)
    for j in range(others + 1):
        if j == index:
            continue
        for k in range(count):
            ladder.levels[k, LOG_Z] += gain * (pseudo.probabilities[j, k] - 1.0 / count)
    for k in range(count - 1, -1, -1):
        ladder.levels[k, LOG_Z] -= ladder.levels[0, LOG_Z]


@jit
def current(pseudo, position):
    """Return the point of the index; its position is copied into `position`."""
    row, replicas = pseudo.index[0], pseudo.replicas
    copy(replicas.vectors[row, POSITION], position)
    return ValuePoint(position, replicas.logs[row, TARGET])
