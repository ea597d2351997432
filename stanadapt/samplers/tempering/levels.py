"""Rows that move along the ladder by themselves: simulated tempering, and pseudo-extended MCMC.

Given its position, the level of a row is drawn exactly and without an evaluation from

    P(b_k | x) proportional to exp(b_k Delta(x)) / Zhat(b_k),    Delta = l - psi;

given the level, it moves at b_k, or is redrawn from the reference if b_k = 0.

Simulated tempering (`excursion`) has one row. The positions at b = 1 are draws of the target, for
any Zhat: wrong constants only make visits uneven, and draws rarer. The mean of P(K | x) over that
of P(1 | x), K being the coldest level and 1 the hottest, is the ratio of Z(1) / Zhat(1) to
Z(0) / Zhat(0) (Rao-Blackwell in place of visits); its error is that of `tours`.

Pseudo-extended MCMC (`sweep`) is the blocked Gibbs kernel on a mixture: of N pseudo-samples one,
with index I, follows the target, and every other one the instrumental distribution q(x, b_k)
proportional to exp(l(x) b_k + psi(x) (1 - b_k)) / Z(b_k). Given the positions,

    P(I = i) proportional to target(x_i) / q(x_i), q(x) = sum over k of q(x, b_k),

and the level of every other j is drawn as above. Given I and the temperatures, the pseudo-samples
are independent.

References
----------
Those of `simulated_tempering`, and of `pseudo_extended` (equations 5 to 9). The constants: Carlson,
Stinson, Pakman and Paninski (2016), Partition functions from Rao-Blackwellized tempered sampling,
ICML. Deviations from the paper of `pseudo_extended`: they move everything jointly with NUTS,
temperatures included; have no reference, psi = 0; and g = 1, while we use g = 1 / Z, which makes
the levels of the ladder equally likely. In our weights the temperature of x_i is summed out.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics.softmax import categorical, softmax
from stanadapt.engine.numerics.vectors import largest
from stanadapt.samplers.tempering import moves, tours
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering.ladder import LOG_Z, B, Ladder
from stanadapt.samplers.tempering.swaps import Tempering

# largest gain of the log normalizing constants, which is otherwise levels / (1 + sweeps)
LARGEST_LEARNING_GAIN = 0.5
# `index` if all rows move along the ladder
NO_INDEX = -1


class Walkers(NamedTuple):
    """Rows and their levels; arrays are updated in place."""

    path: paths.TemperingPath
    mover: moves.Mover
    ladder: Ladder
    replicas: paths.Replicas  # one row per walker, or pseudo-sample
    # P(b_k | x_j) in column k, and the weight P(I = j) in the last; shape (N, room + 1)
    probabilities: np.ndarray
    # LEVEL of each row, which is the coldest for the index, and whether it has BEEN_HOT since it
    # was last at the coldest level (the index); shape (2, N)
    where: np.ndarray
    # sums of the probabilities of each level over the rows that are not the index and, in the last
    # column, the number of moves: while learning (first row), and since then; shape (2, room + 1)
    visits: np.ndarray
    index: np.ndarray  # I, shape (1,)
    tours: np.ndarray  # of one row without an index, the numbers of `tours`


LEVEL, BEEN_HOT = 0, 1
MOVES = WEIGHT = -1  # last column of visits, and of probabilities

# fields that every step rewrites
WORKSPACE = (
    "replicas", "mover", "probabilities", "where", "visits", "path.target", "path.reference.work",
)  # fmt: skip


def no_walkers(
    path: paths.TemperingPath,
    options: moves.Options,
    ladder: Ladder,
    count: int,
    index: int,
    queue: np.ndarray,
) -> Walkers:
    """Return `count` walkers without positions; ladder and queue may be shared with others."""
    room, dim = ladder.scale.shape
    return Walkers(
        path, moves.make_mover(count, dim, options, queue), ladder, paths.no_replicas(count, dim),
        np.zeros((count, room + 1)), np.zeros((2, count), np.int64), np.zeros((2, room + 1)),
        np.full(1, index), tours.no_tours(),
    )  # fmt: skip


def place(walkers: Walkers, tempering: Tempering) -> None:
    """Put the first row at the target, that of the coldest chain, and others from hot to cold."""
    rows, count = tempering.ladder.size[0], walkers.where.shape[1]
    taken = [tempering.order[0, rows - 1 if j == 0 else (j - 1) % rows] for j in range(count)]
    for part, of in zip(walkers.replicas, tempering.replicas, strict=True):
        part[:] = of[taken]
    walkers.where[LEVEL, 0] = walkers.ladder.size[0] - 1


@inline
def run_task(walkers, slot):
    """Make the move of one row, in a worker thread."""
    w = walkers
    moves.run_move(w.path, w.mover, w.ladder, w.replicas, slot, slot, w.where[LEVEL, slot])


@jit
def regenerates(path, ladder):
    """Whether the hottest level is redrawn from the reference."""
    return path.kind == paths.DISTRIBUTION and ladder.levels[0, B] == 0.0


# --- one row: simulated tempering -----------------------------------------------------------------


class SimulatedTemperingInfo(NamedTuple):
    """Statistics of an excursion."""

    # acceptance_rate, n_steps, diverging: mean acceptance rate of the moves without redraws from
    # the reference; leapfrogs (or steps) of all; whether a trajectory on the target ended in an
    # energy error above 1000, or the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    # n_moves, n_redraws: moves from one visit of the target to the next, and the number of redraws
    # from the reference among them
    n_moves: int
    n_redraws: int
    returned: bool  # whether the target was reached; otherwise the last draw is repeated
    round_trips: int  # 1 if the chain came back to the target from the hottest level
    levels: int  # number of temperatures


@jit
def excursion(walkers, target_accept, learning, longest, rng):
    """Move the only row until it is at the coldest level, at most `longest` times.

    While `learning`, tune step sizes and normalizing constants.
    """
    where, outcome = walkers.where[LEVEL], walkers.mover.numbers[0]
    coldest = walkers.ladder.size[0] - 1
    rates, n_moved, steps, made, trips, diverging = 0.0, 0, 0, 0, 0, False
    while True:
        level = where[0]
        moves.move(moves.TASK_LEVELS, walkers, 1, None, where, rng)
        made += 1
        if outcome[moves.STEPS] > 0.0:
            rates += outcome[moves.ACCEPTANCE_RATE]
            n_moved += 1
            steps += int(outcome[moves.STEPS])
            diverging = diverging or (level == coldest and moves.diverged(outcome))
            if learning:
                moves.tune_step(
                    walkers.ladder, level, walkers.visits[0, level], outcome, target_accept
                )
        trips += _choose_level(walkers, learning, rng)
        if where[0] == coldest or made >= longest:
            break
    return SimulatedTemperingInfo(
        rates / max(n_moved, 1), steps, diverging, made, made - n_moved, where[0] == coldest,
        trips, walkers.ladder.size[0],
    )  # fmt: skip


@inline
def _choose_level(walkers, learning, rng):
    """Draw the level given the position; returns 1 if that ends a round trip, otherwise 0."""
    coldest, sums = walkers.ladder.size[0] - 1, walkers.tours
    redrawn = walkers.mover.numbers[0, moves.STEPS] == 0.0
    if not learning and redrawn and regenerates(walkers.path, walkers.ladder):
        tours.end_tour(sums)
    weigh_row(walkers, 0)
    _count_visits(walkers, learning)
    if learning:
        _learn_normalizers(walkers)
    else:
        sums[tours.COLD] += walkers.probabilities[0, coldest]
        sums[tours.HOT] += walkers.probabilities[0, 0]
    _draw_level(walkers, 0, rng)
    return _end_trip(walkers, 0) if walkers.where[LEVEL, 0] == coldest else 0


# --- several rows, one of them the index: pseudo-extended MCMC ------------------------------------


class PseudoExtendedInfo(NamedTuple):
    """Statistics of one sweep over all pseudo-samples."""

    # acceptance_rate, n_steps, diverging: mean acceptance rate of those that moved; leapfrogs (or
    # steps) of all; whether the trajectory on the target ended in an energy error above 1000, or
    # the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    switched: bool  # whether the draw is another pseudo-sample than before
    # largest weight of a pseudo-sample; always 1 if only the draw ever comes near the target
    largest_weight: float
    temperature: float  # mean inverse temperature of those that were not the draw
    # pseudo-samples that are the draw again after having been at the hottest level
    round_trips: int
    levels: int  # number of temperatures


@jit
def sweep(walkers, target_accept, learning, rng):
    """Move every pseudo-sample at its temperature; then draw the index and the temperatures.

    While `learning`, tune step sizes and normalizing constants.
    """
    ladder, where, index = walkers.ladder, walkers.where[LEVEL], walkers.index[0]
    visits, outcomes, rows = walkers.visits[0], walkers.mover.numbers, where.shape[0]
    moves.move(moves.TASK_LEVELS, walkers, rows, None, where, rng)
    done, total = moves.summed(outcomes, rows), 0.0
    for j in range(rows):
        k = where[j]
        if j != index:
            total += ladder.levels[k, B]
        if learning and outcomes[j, moves.STEPS] > 0.0:
            # visits exclude the index, which is at the coldest level in every sweep
            n = visits[k] + (visits[MOVES] if j == index else 0.0)
            moves.tune_step(ladder, k, n, outcomes[j], target_accept)
    diverging = moves.diverged(outcomes[index])  # hot pseudo-samples may well diverge
    heaviest = weigh(walkers)
    _count_visits(walkers, learning)
    if learning:
        _learn_normalizers(walkers)
    trips = choose(walkers, rng)
    return PseudoExtendedInfo(
        done.acceptance_rate, done.steps, diverging, walkers.index[0] != index, heaviest,
        total / max(rows - 1, 1), trips, ladder.size[0],
    )  # fmt: skip


@inline
def weigh(walkers):
    """Compute `probabilities` for the current positions; returns the largest weight."""
    weights, total, heaviest = walkers.probabilities[:, WEIGHT], 0.0, 0.0
    for j in range(weights.shape[0]):
        weights[j] = weigh_row(walkers, j)
    peak = largest(weights)
    for j in range(weights.shape[0]):
        weights[j] = np.exp(weights[j] - peak)
        total += weights[j]
    for j in range(weights.shape[0]):
        weights[j] /= total
        heaviest = max(heaviest, weights[j])
    return heaviest


@inline
def choose(walkers, rng):
    """Draw the index by the weights, and the others' levels; returns the round trips completed.

    A pseudo-sample completes a round trip when it becomes the index again after having been at the
    hottest level.
    """
    where, trips = walkers.where, 0
    index = categorical(walkers.probabilities[:, WEIGHT], rng)
    for j in range(where.shape[1]):
        if j == index:
            where[LEVEL, j] = walkers.ladder.size[0] - 1
            trips += _end_trip(walkers, j)
        else:
            _draw_level(walkers, j, rng)
    walkers.index[0] = index
    return trips


# --- both -----------------------------------------------------------------------------------------


@inline
def weigh_row(walkers, j):
    """Write P(b_k | x_j) into `probabilities`; returns log(exp(Delta) / m(x_j)).

    m(x) is the sum over k of exp(b_k Delta) / Zhat(b_k).
    """
    levels, count = walkers.ladder.levels, walkers.ladder.size[0]
    delta, shares = paths.log_ratio(walkers.replicas, j), walkers.probabilities[j, :count]
    finite_delta = max(delta, paths.IMPOSSIBLE)
    for k in range(count):
        shares[k] = levels[k, B] * finite_delta - levels[k, LOG_Z]
    return delta - softmax(shares)


@inline
def _count_visits(walkers, learning):
    """Add the probabilities of the rows that are not the index to the visits."""
    visits, index = walkers.visits[0 if learning else 1], walkers.index[0]
    visits[MOVES] += 1
    for j in range(walkers.where.shape[1]):
        for k in range(walkers.ladder.size[0] if j != index else 0):
            visits[k] += walkers.probabilities[j, k]


@jit
def _learn_normalizers(walkers):
    """Raise log Z of levels that rows other than the index visit too often, lower others.

    The probability of a visit is used instead of the visit: the same mean, less noise.
    """
    levels, count, index = walkers.ladder.levels, walkers.ladder.size[0], walkers.index[0]
    rows = walkers.where.shape[1]
    others = rows - 1 if index >= 0 else rows
    gain = min(LARGEST_LEARNING_GAIN, count / (1.0 + walkers.visits[0, MOVES])) / max(others, 1)
    for j in range(rows):
        if j == index:
            continue
        for k in range(count):
            levels[k, LOG_Z] += gain * (walkers.probabilities[j, k] - 1.0 / count)
    for k in range(count - 1, -1, -1):
        levels[k, LOG_Z] -= levels[0, LOG_Z]


@inline
def _draw_level(walkers, j, rng):
    """Draw the level of a row by its probabilities."""
    where = walkers.where
    where[LEVEL, j] = categorical(walkers.probabilities[j, : walkers.ladder.size[0]], rng)
    if where[LEVEL, j] == 0:
        where[BEEN_HOT, j] = 1


@inline
def _end_trip(walkers, j):
    """Return 1 if a row at the coldest level has been at the hottest one since, otherwise 0."""
    been_hot = walkers.where[BEEN_HOT, j]
    walkers.where[BEEN_HOT, j] = 0
    return been_hot
