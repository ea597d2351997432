"""Simulated tempering: one row that moves on the target and along the ladder of temperatures.

Its extended density is exp(b_k l(x) + (1 - b_k) psi(x)) / Zhat(b_k): given k, x moves at b_k; given
x, the level has

    P(k | x) proportional to exp(b_k Delta(x)) / Zhat(b_k),

drawn exactly and without an evaluation. The positions at b = 1 are draws of the target, for any
Zhat: wrong constants only make visits uneven, and draws rarer.

The mean of P(K | x) over that of P(1 | x), K being the coldest level and 1 the hottest, is the
ratio of Z(1) / Zhat(1) to Z(0) / Zhat(0) (Rao-Blackwell in place of visits). If the hottest level
is redrawn from the reference, times just after are regenerations: the part between two of them, a
tour, is independent of all others, and gives the error of that ratio.

References
----------
Marinari and Parisi (1992), Simulated tempering: a new Monte Carlo scheme, Europhysics Letters 19.
Geyer and Thompson (1995), Annealing Markov chain Monte Carlo with applications to ancestral
inference, JASA 90, for the regenerations. Carlson, Stinson, Pakman and Paninski (2016), Partition
functions from Rao-Blackwellized tempered sampling, ICML, for the constants.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import as_python, inline, jit
from stanadapt.engine.numerics.softmax import categorical, softmax
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z, B, Ladder
from stanadapt.samplers.tempering.moves import (
    ACCEPTANCE_RATE,
    DIVERGING,
    STEPS,
    Mover,
    Options,
    make_mover,
    move,
)
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    TARGET,
    Replicas,
    TemperingPath,
    log_ratio,
    no_replicas,
)
from stanadapt.samplers.tempering.pseudo_gibbs import IMPOSSIBLE, LARGEST_LEARNING_GAIN
from stanadapt.samplers.tempering.swaps import GAIN_OFFSET, GAIN_POWER

TASK_WALKER = np.int64(2)
# without workers the chain's own thread makes every move
ONE_ROW = 1


class Walker(NamedTuple):
    """The row and its level; arrays are updated in place.

    replicas
        One row.
    probabilities
        P(k | x), shape (room,).
    where
        LEVEL, and whether it has BEEN_HOT since it was last at the coldest level, shape (2,).
    visits
        Sums of P(k | x) over moves and, in the last column, their number: while learning (first
        row), and since then; shape (2, room + 1).
    tours
        For the present tour, the sums of P(K | x) and P(1 | x) (COLD, HOT), and whether it BEGAN
        with a regeneration; for all complete tours their number, the sums of both, of their squares
        and of their product; shape (9,).

    """

    path: TemperingPath
    mover: Mover
    ladder: Ladder
    replicas: Replicas
    probabilities: np.ndarray
    where: np.ndarray
    visits: np.ndarray
    tours: np.ndarray


LEVEL, BEEN_HOT = 0, 1
MOVES = -1  # last column of visits
COLD, HOT, BEGAN, COUNT, SUM_COLD, SUM_HOT, COLD_SQUARES, HOT_SQUARES, PRODUCTS = range(9)


class ExcursionInfo(NamedTuple):
    """The outcome of the moves from one visit of the coldest level to the next."""

    acceptance_rate: float  # mean over moves that were not redraws from the reference
    steps: int
    diverging: bool  # whether a move at the coldest level diverged
    moves: int
    redraws: int  # draws from the reference, one evaluation each
    returned: bool
    round_trips: int


def no_walker(path: TemperingPath, options: Options, ladder: Ladder) -> Walker:
    """Return a Walker without a position."""
    room, dim = ladder.scale.shape
    return Walker(
        path, make_mover(ONE_ROW, dim, options, as_python(no_queue)()), ladder,
        as_python(no_replicas)(ONE_ROW, dim), np.zeros(room), np.zeros(2, np.int64),
        np.zeros((2, room + 1)), np.zeros(9),
    )  # fmt: skip


@jit
def excursion(walker, target_accept, learning, longest, rng):
    """Move until the walker is at the coldest level, at most `longest` times.

    learning
        Whether to tune step sizes and normalizing constants.

    """
    ladder, where, outcome = walker.ladder, walker.where, walker.mover.numbers[0]
    coldest = ladder.size[0] - 1
    rates, n_moved, steps, moves, trips, diverging = 0.0, 0, 0, 0, 0, False
    while True:
        level = where[LEVEL]
        move(
            TASK_WALKER, walker.path, walker.mover, ladder, walker.replicas,
            ONE_ROW, None, where[LEVEL:], rng,
        )  # fmt: skip
        moves += 1
        if outcome[STEPS] > 0.0:
            rates += outcome[ACCEPTANCE_RATE]
            n_moved += 1
            steps += int(outcome[STEPS])
            diverging = diverging or (level == coldest and outcome[DIVERGING] > 0.0)
            if learning:
                gain = (walker.visits[0, level] + GAIN_OFFSET) ** -GAIN_POWER
                rise = gain * (outcome[ACCEPTANCE_RATE] - target_accept)
                ladder.levels[level, LOG_STEP] += rise
        trips += _choose_level(walker, learning, rng)
        if where[LEVEL] == coldest or moves >= longest:
            break
    return ExcursionInfo(
        rates / max(n_moved, 1), steps, diverging, moves, moves - n_moved,
        where[LEVEL] == coldest, trips,
    )  # fmt: skip


@inline
def _choose_level(walker, learning, rng):
    """Draw the level given the position; returns 1 if that ends a round trip, else 0."""
    ladder, where, shares = walker.ladder, walker.where, walker.probabilities
    coldest, visits = ladder.size[0] - 1, walker.visits[0 if learning else 1]
    if not learning:
        _count_tour(walker)
    weigh(walker)
    visits[MOVES] += 1
    for k in range(coldest + 1):
        visits[k] += shares[k]
    if learning:
        _learn_normalizers(walker)
    else:
        walker.tours[COLD] += shares[coldest]
        walker.tours[HOT] += shares[0]
    where[LEVEL] = categorical(shares[: coldest + 1], rng)
    if where[LEVEL] == 0:
        where[BEEN_HOT] = 1
    if where[LEVEL] < coldest or where[BEEN_HOT] == 0:
        return 0
    where[BEEN_HOT] = 0
    return 1


@inline
def weigh(walker):
    """Write P(k | x) into `probabilities`; returns log(exp(Delta) / m(x)).

    m(x) is the sum over k of exp(b_k Delta) / Zhat(b_k).
    """
    levels, count = walker.ladder.levels, walker.ladder.size[0]
    delta, shares = log_ratio(walker.replicas, 0), walker.probabilities[:count]
    finite_delta = max(delta, IMPOSSIBLE)
    for k in range(count):
        shares[k] = levels[k, B] * finite_delta - levels[k, LOG_Z]
    return delta - softmax(shares)


@inline
def _count_tour(walker):
    """End a tour if the latest move was a redraw from the reference."""
    if walker.mover.numbers[0, STEPS] == 0.0 and regenerates(walker.path, walker.ladder):
        end_tour(walker.tours)


@inline
def end_tour(tours):
    """Add the present tour to the complete ones, if it began with a redraw, and begin another."""
    cold, hot = tours[COLD], tours[HOT]
    if tours[BEGAN] > 0.0:
        tours[COUNT] += 1
        tours[SUM_COLD] += cold
        tours[SUM_HOT] += hot
        tours[COLD_SQUARES] += cold * cold
        tours[HOT_SQUARES] += hot * hot
        tours[PRODUCTS] += cold * hot
    tours[COLD], tours[HOT], tours[BEGAN] = 0.0, 0.0, 1.0


@jit
def regenerates(path, ladder):
    """Whether the hottest level is redrawn from the reference."""
    return path.kind == DISTRIBUTION and ladder.levels[0, B] == 0.0


@jit
def _learn_normalizers(walker):
    """Raise log Z of levels that are visited too often, by P(k | x) instead of the visit."""
    ladder, count = walker.ladder, walker.ladder.size[0]
    gain = min(LARGEST_LEARNING_GAIN, count / (1.0 + walker.visits[0, MOVES]))
    for k in range(count):
        ladder.levels[k, LOG_Z] += gain * (walker.probabilities[k] - 1.0 / count)
    for k in range(count - 1, -1, -1):
        ladder.levels[k, LOG_Z] -= ladder.levels[0, LOG_Z]


@jit
def current(walker, position):
    """Return the point of the walker; its position is copied into `position`."""
    copy(walker.replicas.vectors[0, POSITION], position)
    return ValuePoint(position, walker.replicas.logs[0, TARGET])


def log_ratio_error(tours: np.ndarray, fewest: int) -> float:
    """Return the error of log(sum of P(K | x) / sum of P(1 | x)); NaN if there are too few tours.

    By the delta method: h_i = a_i / mean(a) - c_i / mean(c) of tours i has mean 0, and the error is
    its standard deviation over the root of the number of tours.
    """
    n = tours[COUNT]
    if n < fewest or not (tours[SUM_COLD] > 0.0 and tours[SUM_HOT] > 0.0):
        return float("nan")
    cold, hot = tours[SUM_COLD] / n, tours[SUM_HOT] / n
    squares = tours[COLD_SQUARES] / cold**2 + tours[HOT_SQUARES] / hot**2
    squares -= 2.0 * tours[PRODUCTS] / (cold * hot)
    return float(np.sqrt(max(squares, 0.0)) / n)
