"""Rows that move along the ladder by themselves: of simulated tempering, and pseudo-extended MCMC.

Given its position, the level of a row is drawn exactly and without an evaluation from

    P(b_k | x) proportional to exp(b_k Delta(x)) / Zhat(b_k),    Delta = l - psi;

given the level, it moves at b_k, or is redrawn from the reference if b_k = 0.

References
----------
Those of `simulated_tempering`, and of `pseudo_extended`. The constants: Carlson, Stinson, Pakman
and Paninski (2016), Partition functions from Rao-Blackwellized tempered sampling, ICML.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics.softmax import categorical, softmax
from stanadapt.samplers.tempering import moves, tours
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering.evidence import describe_path
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


def describe(state: Any) -> dict[str, Any]:
    """Return ladder and reference, and the visits of `Walkers` to each level during sampling.

    Visits are proportional to Z / Zhat, so that they improve the constants from warm-up.
    """
    walkers: Walkers = state.engine
    learned = describe_path(walkers.path, walkers.ladder, state.tempering.short_chain_ends)
    visits = walkers.visits[1, : len(learned["temperature"])].copy()
    if visits.any():
        learned["occupancy"] = visits
        if visits[0] > 0 and visits[-1] > 0:
            learned["log_evidence"] += float(np.log(visits[-1] / visits[0]))
    return learned


@inline
def run_task(walkers, slot):
    """Make the move of one row, in a worker thread."""
    w = walkers
    moves.run_move(w.path, w.mover, w.ladder, w.replicas, slot, slot, w.where[LEVEL, slot])


# --- levels ---------------------------------------------------------------------------------------


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
def count_visits(walkers, learning):
    """Add the probabilities of the rows that are not the index to the visits."""
    visits, index = walkers.visits[0 if learning else 1], walkers.index[0]
    visits[MOVES] += 1
    for j in range(walkers.where.shape[1]):
        for k in range(walkers.ladder.size[0] if j != index else 0):
            visits[k] += walkers.probabilities[j, k]


@jit
def learn_normalizers(walkers):
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
def draw_level(walkers, j, rng):
    """Draw the level of a row by its probabilities."""
    where = walkers.where
    where[LEVEL, j] = categorical(walkers.probabilities[j, : walkers.ladder.size[0]], rng)
    if where[LEVEL, j] == 0:
        where[BEEN_HOT, j] = 1


@inline
def end_trip(walkers, j):
    """Return 1 if a row at the coldest level has been at the hottest one since, otherwise 0."""
    been_hot = walkers.where[BEEN_HOT, j]
    walkers.where[BEEN_HOT, j] = 0
    return been_hot
