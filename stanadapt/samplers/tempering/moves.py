"""Moves that leave a tempered density invariant: short trajectories, NUTS, random walks.

A move takes one row of Replicas to a new position or leaves it unchanged, at one inverse
temperature, with a scale per parameter and a step size. Trajectories have a random number of
leapfrogs, 1 to `leapfrogs`: short ones of random length cross between modes more often than long
ones of fixed length.

A sweep first draws the random numbers of all its moves, in order, from the chain's generator. The
moves are then made in any order, on several threads if there are workers (`queue`).

`integrate` makes leapfrogs with little overhead in addition to the target's gradients, since a few
microseconds of work between two gradients soon take a fifth of the time. The density of a
trajectory is needed only at its end, and the force of a Gaussian reference without correlations is
one more term in the loop that updates the momentum: neither the reference density nor the tempered
density is computed at every step.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine import nuts_tree, work_queue
from stanadapt.engine.compiled.jit import as_python, inline, jit, never_inline
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import (
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    GRADIENT_CALLS,
    VALUE_CALLS,
    gradient_of_program,
    value,
    value_and_gradient,
)
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, Leapfrog
from stanadapt.engine.numerics.splitmix import SplitMix64
from stanadapt.engine.numerics.vectors import copy, fill_normal, squared_norm
from stanadapt.engine.points import GradientPoint, acceptance_probability
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering import reference_distribution
from stanadapt.samplers.tempering.ladder import LOG_STEP, B
from stanadapt.samplers.tempering.reference_distribution import DEGREES, is_diagonal

# NUTS keeps only b l + (1 - b) psi of its points: below this b, l cannot be recovered from it
# accurately, and the draw is evaluated once more
SMALLEST_B = 1e-4
SEEDS = 2.0**53  # number of seeds to draw from
# gain of a step size after n moves that tuned it: (n + GAIN_OFFSET)^-GAIN_POWER
GAIN_POWER, GAIN_OFFSET = 0.6, 3.0
# kinds of tasks in the queue: move a chain of the path, one of `levels`, any particle, the next one
TASK_PATH, TASK_LEVELS, TASK_PARTICLES, TASK_PARTICLE = map(np.int64, range(4))


@inline
def integrate(density, replicas, row, momentum, scale, step_size, steps):
    """Follow Hamilton's equations from a row for `steps` leapfrogs of `step_size`, as `leapfrog`.

    density is a Tempered. momentum, shape (dim,), is updated in place, the row is not; the end of
    the trajectory is written to density.latest. scale has shape (1, dim). Returns the log density
    there and the number of steps. If the density fails on the way, the trajectory stops with -inf.
    """
    path, b, latest = density.path, density.temperature, density.latest
    end, gaussian = latest.vectors[0], _has_diagonal_gaussian(path)
    _kick(density, gaussian, replicas.vectors[row], momentum, scale[0], 0.5 * step_size)
    copy(replicas.vectors[row, paths.POSITION], end[paths.POSITION])
    for k in range(steps):
        drift(end[paths.POSITION], momentum, scale[0], step_size)
        latest.logs[0, paths.TARGET] = gradient_of_program(
            path.target, end[paths.POSITION], end[paths.SLOPE]
        )
        failed = b > 0.0 and not latest.logs[0, paths.TARGET] > -np.inf
        if not gaussian:
            latest.logs[0, paths.REFERENCE] = paths.reference_log_density(
                path, end[paths.POSITION], end[paths.REFERENCE_SLOPE]
            )
            failed |= b < 1.0 and not latest.logs[0, paths.REFERENCE] > -np.inf
        if failed:
            return -np.inf, k + 1
        size = 0.5 * step_size if k == steps - 1 else step_size
        _kick(density, gaussian, end, momentum, scale[0], size)
    if gaussian:
        latest.logs[0, paths.REFERENCE] = paths.reference_log_density(
            path, end[paths.POSITION], end[paths.REFERENCE_SLOPE]
        )
    return paths.log_density_of(latest, 0, b), steps


@inline
def _has_diagonal_gaussian(path):
    """Whether the reference is a Gaussian without correlations."""
    return (
        path.kind == paths.DISTRIBUTION
        and is_diagonal(path.reference)
        and path.reference.numbers[DEGREES] == np.inf
    )


@inline
def _kick(density, gaussian, vectors, momentum, scale, size):
    """Add the tempered gradient at a row of Replicas, times size and scale, to the momentum.

    At b = 1 nothing of the reference is read: after a gradient it is no longer in the cache.
    """
    b, reference_weight = density.temperature, 1.0 - density.temperature
    # local names: attribute lookups inside the loop would keep it from being vectorized
    reference = density.path.reference
    slope, mean, precision = vectors[paths.SLOPE], reference.mean, reference.precision
    if b == 1.0:
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * slope[i]
    elif gaussian:
        position = vectors[paths.POSITION]
        for i in range(momentum.shape[0]):
            pull = (mean[i] - position[i]) * precision[i]
            momentum[i] += size * scale[i] * (b * slope[i] + reference_weight * pull)
    else:
        reference_slope = vectors[paths.REFERENCE_SLOPE]
        for i in range(momentum.shape[0]):
            momentum[i] += size * scale[i] * (b * slope[i] + reference_weight * reference_slope[i])


@inline
def drift(position, momentum, scale, step_size):
    """Add the momentum, times step size and scale, to the position."""
    for i in range(position.shape[0]):
        position[i] += step_size * scale[i] * momentum[i]


class MoveKernel(IntEnum):
    """Trajectories of a few leapfrogs; NUTS; a random walk, which needs no gradient."""

    hmc = 0
    nuts = 1
    random_walk = 2


# for compiled code, in which members of an enumeration are not integers
HMC, NUTS, RANDOM_WALK = map(int, MoveKernel)


class Options(NamedTuple):
    """The `MoveKernel`; the maximum number of leapfrogs of hmc; the maximum tree depth of nuts."""

    kernel: int
    leapfrogs: int
    max_treedepth: int


class Mover(NamedTuple):
    """Memory for the moves of a sweep, overwritten each time; one slot per row that moves.

    There are few arrays, since each one costs seconds of compilation.
    """

    options: Options
    # the latest evaluation, as in `Replicas`; the momentum of a trajectory, or the direction and
    # then the proposal of a random walk (NORMALS); `Density.failed_position` after a failure
    # (FAILED_AT); workspace of NUTS from WORK on; shape (slot, 11, dim)
    vectors: np.ndarray
    # The latest evaluation, as in `Replicas`; for a trajectory, the initial log density plus that
    # of the momentum (LOG_DENSITY_BEFORE), and its number of leapfrogs (N_LEAPFROGS); the UNIFORM
    # number of the accept step. Then the outcome of the move: its ACCEPTANCE_RATE, the number of
    # evaluations (STEPS; 0 if the row was redrawn instead), and whether it was DIVERGING; shape
    # (slot, 8).
    numbers: np.ndarray
    # increments of the first columns of `Density.calls`, the last of which, FAILED_IN_A_ROW, is
    # counted from 0; the SEED of the `SplitMix64` of NUTS; shape (slot, 5)
    integers: np.ndarray
    tree: nuts_tree.Tree  # memory of NUTS, one per thread
    queue: np.ndarray  # queue in which slots are offered to workers


NORMALS, FAILED_AT, WORK, VECTORS = 3, 4, 5, 11
LOG_DENSITY_BEFORE, N_LEAPFROGS, UNIFORM = 2, 3, 4
ACCEPTANCE_RATE, STEPS, DIVERGING, NUMBERS = 5, 6, 7, 8
SEED, INTEGERS = 4, 5


def make_mover(slots: int, dim: int, options: Options, queue: np.ndarray) -> Mover:
    """Return memory for moves of up to `slots` rows in `dim` dimensions, with a given queue."""
    depth = options.max_treedepth if options.kernel == NUTS else 1
    return Mover(
        options, np.zeros((slots, VECTORS, dim)), np.zeros((slots, NUMBERS)),
        np.zeros((slots, INTEGERS), np.int64), as_python(nuts_tree.make_tree)(dim, depth), queue,
    )  # fmt: skip


@jit
def mover_of_worker(mover):
    """Return the same mover with its own tree."""
    tree = nuts_tree.make_tree(mover.vectors.shape[2], mover.tree.numbers.shape[0])
    return replace(mover, tree=tree)


@jit
def with_worker(density, chains):
    """Return the same chains with a worker's own density and memory for moves."""
    path, mover = paths.path_of_worker(density, chains.path), mover_of_worker(chains.mover)
    return replace(chains, path=path, mover=mover)


@inline
def move(task, chains, count, rows, levels, rng):
    """Move each of the rows at its level of the ladder; the outcomes are in `mover.numbers`.

    Slot = 0, ..., count - 1 moves row rows[slot] at level levels[slot]; None means the slot number
    itself. chains have a path, mover, ladder and replicas. task is the kind of task offered to
    workers, which call `run_move` too.
    """
    path, mover, ladder, replicas = chains.path, chains.mover, chains.ladder, chains.replicas
    calls = path.target.calls
    before = (
        calls[VALUE_CALLS], calls[GRADIENT_CALLS], calls[FAILED_CALLS], calls[FAILED_IN_A_ROW]
    )  # fmt: skip
    for slot in range(count):
        level = _index_of(levels, slot)
        draw_randomness(
            path, mover, replicas, slot, _index_of(rows, slot), ladder.levels[level, B], rng
        )
    slot = work_queue.put(mover.queue, task, count)
    while slot >= 0:
        run_move(
            path, mover, ladder, replicas, slot, _index_of(rows, slot), _index_of(levels, slot)
        )
        slot = work_queue.done_and_take(mover.queue, slot)
    work_queue.wait_until_done(mover.queue, count)
    _add_counts(path.target, mover, count, before)


@inline
def redraws(chains):
    """Return the number of levels that are redrawn from the reference: the hottest, or none."""
    return int(paths.is_redrawn(chains.path, chains.ladder.levels[0, B]))


@inline
def _index_of(numbers, slot):
    if numbers is None:
        return slot
    return numbers[slot]


@inline
def draw_randomness(path, mover, replicas, slot, row, temperature, rng):
    """Draw all random numbers of a move."""
    if paths.is_redrawn(path, temperature):
        reference_distribution.draw(path.reference, replicas.vectors[row, paths.POSITION], rng)
    elif mover.options.kernel == NUTS:
        mover.integers[slot, SEED] = int(SEEDS * rng.random())
    else:
        normals, numbers = mover.vectors[slot, NORMALS], mover.numbers[slot]
        fill_normal(rng, normals)
        if mover.options.kernel != RANDOM_WALK:
            start = paths.log_density_of(replicas, row, temperature)
            numbers[LOG_DENSITY_BEFORE] = start - 0.5 * squared_norm(normals)
            numbers[N_LEAPFROGS] = 1 + int(rng.random() * mover.options.leapfrogs)
        numbers[UNIFORM] = rng.random()


@jit
def run_move(path, mover, ladder, replicas, slot, row, level):
    """Make the move of a row after its random numbers have been drawn."""
    never_inline()
    b, calls, numbers = ladder.levels[level, B], path.target.calls, mover.numbers[slot]
    for column in range(FAILED_IN_A_ROW + 1):
        calls[column] = 0
    if paths.is_redrawn(path, b):
        paths.evaluate(path, replicas, row, mover.options.kernel != RANDOM_WALK)
        numbers[STEPS] = 0.0
    else:
        scale, step_size = ladder.scale[level : level + 1], np.exp(ladder.levels[level, LOG_STEP])
        latest = paths.Replicas(mover.vectors[slot : slot + 1], mover.numbers[slot : slot + 1])
        density = paths.Tempered(path, b, path.target.dim, latest)
        if mover.options.kernel == RANDOM_WALK:
            info = _random_walk_move(mover, density, replicas, slot, row, scale, step_size)
        elif mover.options.kernel == NUTS:
            info = _nuts_move(mover, density, replicas, slot, row, scale, step_size)
        else:
            info = _hmc_move(mover, density, replicas, slot, row, scale, step_size)
        numbers[ACCEPTANCE_RATE], numbers[STEPS] = info.acceptance_rate, info.steps
        numbers[DIVERGING] = info.diverging
    for column in range(FAILED_IN_A_ROW + 1):
        mover.integers[slot, column] = calls[column]
    if calls[FAILED_CALLS] > 0:
        copy(path.target.failed_position, mover.vectors[slot, FAILED_AT])


@inline
def _add_counts(target, mover, count, before):
    """Add the counts of all slots, in order, as if one thread had made all moves."""
    values, gradients, failed, in_a_row = before
    for slot in range(count):
        calls = mover.integers[slot]
        values += calls[VALUE_CALLS]
        gradients += calls[GRADIENT_CALLS]
        failed += calls[FAILED_CALLS]
        if calls[FAILED_CALLS] > 0:
            copy(mover.vectors[slot, FAILED_AT], target.failed_position)
        if calls[FAILED_CALLS] < calls[VALUE_CALLS] + calls[GRADIENT_CALLS]:
            in_a_row = 0
        in_a_row += calls[FAILED_IN_A_ROW]
    target.calls[VALUE_CALLS], target.calls[GRADIENT_CALLS] = values, gradients
    target.calls[FAILED_CALLS], target.calls[FAILED_IN_A_ROW] = failed, in_a_row


class Summary(NamedTuple):
    """The outcome of the moves of several rows, without those that were redrawn."""

    acceptance_rate: float  # mean
    moved: int
    steps: int


@jit
def summed(outcomes, rows):
    """Return the Summary of the first `rows` of `Mover.numbers`."""
    rates, moved, steps = 0.0, 0, 0
    for row in range(rows):
        if outcomes[row, STEPS] > 0.0:
            rates += outcomes[row, ACCEPTANCE_RATE]
            moved += 1
            steps += int(outcomes[row, STEPS])
    return Summary(rates / max(moved, 1), moved, steps)


@inline
def diverged(outcome):
    """Whether a row of `Mover.numbers` is that of a move that diverged."""
    return outcome[STEPS] > 0.0 and outcome[DIVERGING] > 0.0


@inline
def tune_step(ladder, level, n, outcome, target_accept):
    """Move the step size of a level toward an acceptance rate, after n moves that tuned it."""
    gain = (n + GAIN_OFFSET) ** -GAIN_POWER
    ladder.levels[level, LOG_STEP] += gain * (outcome[ACCEPTANCE_RATE] - target_accept)


class MoveInfo(NamedTuple):
    """The outcome of one move: see `Mover.numbers`."""

    acceptance_rate: float
    steps: int
    diverging: bool


@inline
def _hmc_move(mover, density, replicas, slot, row, scale, step_size):
    """Hamiltonian Monte Carlo with 1 to `leapfrogs` leapfrogs (Neal 2011)."""
    momentum, numbers = mover.vectors[slot, NORMALS], mover.numbers[slot]
    leapfrogs = int(numbers[N_LEAPFROGS])
    after, steps = integrate(density, replicas, row, momentum, scale, step_size, leapfrogs)
    log_ratio = after - 0.5 * squared_norm(momentum) - numbers[LOG_DENSITY_BEFORE]
    rate = acceptance_probability(log_ratio)
    if numbers[UNIFORM] < rate:
        paths.copy_replica(density.latest, 0, replicas, row)
    return MoveInfo(rate, steps, not log_ratio > -LARGEST_ENERGY_ERROR)


@jit
def _nuts_move(mover, density, replicas, slot, row, scale, step_size):
    """Make one draw from a trajectory that doubles until it turns back (`nuts_tree`)."""
    b, work = density.temperature, mover.vectors[slot, WORK:]
    current = GradientPoint(work[0], paths.log_density_of(replicas, row, b), work[1])
    drawn, metric = GradientPoint(work[2], 0.0, work[5]), Leapfrog(scale, work[3], work[4])
    copy(replicas.vectors[row, paths.POSITION], current.position)
    paths.fill_slope(replicas, row, b, current.gradient)
    depth, rng = mover.options.max_treedepth, SplitMix64(mover.integers[slot, SEED:])
    trajectory = nuts_tree.draw(
        density, metric, mover.tree, current, drawn, step_size, depth, rng
    )  # fmt: skip
    steps = trajectory.leaves
    if trajectory.moved:
        if b < SMALLEST_B:
            value_and_gradient(density, drawn.position, drawn.gradient)
            steps += 1
        else:
            paths.recover_target(density, drawn.position, trajectory.log_density, drawn.gradient)
        paths.store(density, drawn.position, replicas, row)
    return MoveInfo(trajectory.acceptance_rate, steps, trajectory.diverging)


@jit
def _random_walk_move(mover, density, replicas, slot, row, scale, step_size):
    """A Gaussian random walk, without gradients."""
    proposal = mover.vectors[slot, NORMALS]
    for i in range(density.dim):
        proposal[i] = (
            replicas.vectors[row, paths.POSITION, i] + step_size * scale[0, i] * proposal[i]
        )
    before = paths.log_density_of(replicas, row, density.temperature)
    rate = acceptance_probability(value(density, proposal) - before)
    if mover.numbers[slot, UNIFORM] < rate:
        paths.store(density, proposal, replicas, row)
    return MoveInfo(rate, 1, False)
