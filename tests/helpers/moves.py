"""Many tempered moves in a row from given starts, with a check of the stored densities."""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import moves
from stanadapt.samplers.tempering.ladder import LOG_STEP, B, Ladder, no_ladder
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    PRIOR,
    Replicas,
    TemperingPath,
    copy_replica,
    evaluate,
    no_replicas,
)
from tests.helpers.tempering import make_path

MOVES = 4
STEP_SIZES = dict.fromkeys(moves.MoveKernel, 0.9) | {moves.MoveKernel.random_walk: 1.0}


class Chains(NamedTuple):
    path: TemperingPath
    mover: moves.Mover
    ladder: Ladder
    replicas: Replicas


@jit
def _difference(one, other):
    """Absolute difference; 0 for equal infinities, infinite if either is NaN."""
    found = 0.0 if one == other else abs(one - other)
    return found if found < np.inf else np.inf


@jit
def _make_moves(chains, again, starts, repeats, gradients, out, rng):
    """Move from every start, in place; columns of out: acceptance, steps, diverging, error."""
    path, mover, replicas = chains.path, chains.mover, chains.replicas
    for row in range(starts.shape[0]):
        replicas.vectors[0, POSITION] = starts[row]
        evaluate(path, replicas, 0, gradients)
        out[row, :] = 0.0
        for _ in range(repeats):
            moves.move(moves.TASK_PATH, chains, 1, None, None, rng)
            out[row, 0] += mover.numbers[0, moves.ACCEPTANCE_RATE]
            out[row, 1] += mover.numbers[0, moves.STEPS]
            out[row, 2] += mover.numbers[0, moves.DIVERGING]
        starts[row] = replicas.vectors[0, POSITION]
        copy_replica(replicas, 0, again, 0)
        evaluate(path, again, 0, gradients)
        for part in range(2):
            error = _difference(replicas.logs[0, part], again.logs[0, part])
            out[row, 3] = max(out[row, 3], error)
        for part in range(1, 3 if gradients else 1):
            for i in range(3):
                error = _difference(replicas.vectors[0, part, i], again.vectors[0, part, i])
                out[row, 3] = max(out[row, 3], error / (1.0 + abs(again.vectors[0, part, i])))


def moved(kernel, b, starts, wall=np.inf, scale=None, step_size=None, leapfrogs=4, repeats=MOVES):
    """Make `repeats` moves at b from each of the starts, shape (start, 3).

    Returns where they end; per start the sums of acceptance rates, steps and divergences, and the
    largest error of the stored densities and gradients; and the path with its counters.
    """
    # at b = 0, where draws of a distribution are redrawn, prior-only data are the reference
    path = make_path(DISTRIBUTION if b > 0 else PRIOR, wall)
    mover = moves.make_mover(1, 3, moves.Options(kernel, leapfrogs, 4), no_queue())
    rng, ladder = np.random.default_rng(int(1000 * b) + kernel), no_ladder(1, 3)
    # unequal scales that do not fit the target
    ladder.scale[:] = np.array([[1.2, 0.15, 3.0]]) if scale is None else scale
    x, out = starts.copy(), np.empty((len(starts), 4))
    ladder.levels[0, B] = b
    ladder.levels[0, LOG_STEP] = np.log(STEP_SIZES[kernel] if step_size is None else step_size)
    gradients = kernel != moves.MoveKernel.random_walk
    chains = Chains(path, mover, ladder, no_replicas(1, 3))
    _make_moves(chains, no_replicas(1, 3), x, repeats, gradients, out, rng)
    return x, out, path
