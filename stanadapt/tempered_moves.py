"""Moves that leave a tempered density invariant: short trajectories, NUTS, random walks.

A move takes a row of Places to another position or leaves it, at one inverse temperature, with a
scale a parameter and a step size. Trajectories have a random number of leapfrogs, 1 to `leapfrogs`:
short ones of random length cross between modes more often than long ones of one length.

All rows of a sweep set off first, one after the other: that is where the chain's generator is
asked. Then they travel, in any order, on several threads where there are helpers (`board`).
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt import board, nuts_tree, reference_law
from stanadapt._jit import inlined, jit, stay_apart
from stanadapt.density import (
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    GRADIENT_CALLS,
    VALUE_CALLS,
    value,
    value_and_gradient,
)
from stanadapt.hamiltonian import LARGEST_ENERGY_ERROR, Leapfrog
from stanadapt.ladder import LOG_STEP, B
from stanadapt.metropolis import acceptance_probability, fill_normal, squared_norm
from stanadapt.points import GradientPoint, copy
from stanadapt.stream import Stream
from stanadapt.tempered_path import (
    LAW,
    POSITION,
    Places,
    Tempered,
    copy_place,
    divide,
    evaluate,
    fill_slope,
    log_density_of,
    settle,
)
from stanadapt.tempered_trajectory import follow

# a trajectory keeps b l + (1 - b) psi alone; below this b its point is looked at once more
SMALLEST = 1e-4
SEEDS = 2.0**53


class Moves(IntEnum):
    """Trajectories of a few leapfrogs; NUTS; random walks, which need no gradient."""

    hmc = 0
    nuts = 1
    random_walk = 2


# the same for compiled code, to which members of an enumeration are no numbers
NUTS, RANDOM_WALK = int(Moves.nuts), int(Moves.random_walk)


class Options(NamedTuple):
    """What kind of moves: see `Moves`; the most leapfrogs of a short trajectory; NUTS's depth."""

    moves: int
    leapfrogs: int
    max_treedepth: int


class Mover(NamedTuple):
    """Memory of the moves of a sweep, all written again; a slot a row that moves.

    Few arrays: each costs seconds to compile.

    vectors
        What evaluations find, as in `Places`; the momentum of a trajectory, or the direction and
        then the proposal of a random walk (NORMALS); `Density.failed_position`, where there was any
        (STUCK); from WORK on what NUTS works with; shape (slot, 11, dim).
    numbers
        What evaluations find, as in `Places`; of a trajectory, the log density at the start with
        that of the momentum (BEFORE), and how many leapfrogs it will have (WANTED); a uniform
        number to accept by (THRESHOLD). Then what the move did: its acceptance probability (RATE),
        the evaluations it took (STEPS; 0 where the row was drawn anew instead), and whether it was
        DIVERGING; shape (slot, 8).
    integers
        What the move added to the first columns of `Density.calls`, of which the last,
        FAILED_IN_A_ROW, began with 0; the SEED of the `Stream` of NUTS; shape (slot, 5).
    tree
        Of NUTS; that of the thread that moves.
    board
        Where slots are put up for helpers.

    """

    options: Options
    vectors: np.ndarray
    numbers: np.ndarray
    integers: np.ndarray
    tree: nuts_tree.Tree
    board: np.ndarray


NORMALS, STUCK, WORK, VECTORS = 3, 4, 5, 11
BEFORE, WANTED, THRESHOLD, RATE, STEPS, DIVERGING, NUMBERS = 2, 3, 4, 5, 6, 7, 8
SEED, INTEGERS = 4, 5


@jit
def make_mover(slots, dim, options, shared):
    """Return memory for moves of up to `slots` rows in `dim` dimensions; shared: the board."""
    depth = options.max_treedepth if options.moves == NUTS else 1
    return Mover(
        options, np.zeros((slots, VECTORS, dim)), np.zeros((slots, NUMBERS)),
        np.zeros((slots, INTEGERS), np.int64), nuts_tree.make_tree(dim, depth), shared,
    )  # fmt: skip


@jit
def mover_of_helper(mover):
    """Return the same mover with a tree of its own."""
    tree = nuts_tree.make_tree(mover.vectors.shape[2], mover.tree.numbers.shape[0])
    return Mover(
        mover.options, mover.vectors, mover.numbers, mover.integers, tree, mover.board
    )  # fmt: skip


@inlined
def move(kind, path, mover, ladder, places, count, rows, levels, rng):
    """Move each of the rows at its level of the ladder; `mover.numbers` say what each did.

    In slot 0, ..., count - 1 moves row rows[slot] at level levels[slot]; None for the number of the
    slot itself. kind is that of the work, for helpers, who `travel` too.
    """
    calls = path.target.calls
    before = (
        calls[VALUE_CALLS], calls[GRADIENT_CALLS], calls[FAILED_CALLS], calls[FAILED_IN_A_ROW]
    )  # fmt: skip
    for slot in range(count):
        level = _number(levels, slot)
        set_off(path, mover, places, slot, _number(rows, slot), ladder.levels[level, B], rng)
    slot = board.put_up(mover.board, kind, count)
    while slot >= 0:
        travel(path, mover, ladder, places, slot, _number(rows, slot), _number(levels, slot))
        slot = board.another(mover.board, slot)
    board.wait(mover.board, count)
    _add_up(path.target, mover, count, before)


@inlined
def _number(numbers, slot):
    if numbers is None:
        return slot
    return numbers[slot]


@inlined
def _renews(path, temperature):
    """Whether a row is drawn anew: from the reference, where it is a law and the level b = 0."""
    return temperature == 0.0 and path.kind == LAW


@inlined
def set_off(path, mover, places, slot, row, temperature, rng):
    """Draw all that is random in a move."""
    if _renews(path, temperature):
        reference_law.draw(path.law, places.vectors[row, POSITION], rng)
    elif mover.options.moves == NUTS:
        mover.integers[slot, SEED] = int(SEEDS * rng.random())
    else:
        normals, numbers = mover.vectors[slot, NORMALS], mover.numbers[slot]
        fill_normal(rng, normals)
        if mover.options.moves != RANDOM_WALK:
            start = log_density_of(places, row, temperature)
            numbers[BEFORE] = start - 0.5 * squared_norm(normals)
            numbers[WANTED] = 1 + int(rng.random() * mover.options.leapfrogs)
        numbers[THRESHOLD] = rng.random()


@jit
def travel(path, mover, ladder, places, slot, row, level):
    """Make the move of a row that has set off."""
    stay_apart()
    b, calls, numbers = ladder.levels[level, B], path.target.calls, mover.numbers[slot]
    for column in range(FAILED_IN_A_ROW + 1):
        calls[column] = 0
    if _renews(path, b):
        evaluate(path, places, row, mover.options.moves != RANDOM_WALK)
        numbers[STEPS] = 0.0
    else:
        scale, step_size = ladder.scale[level : level + 1], np.exp(ladder.levels[level, LOG_STEP])
        found = Places(mover.vectors[slot : slot + 1], mover.numbers[slot : slot + 1])
        density = Tempered(path, b, path.target.dim, found)
        if mover.options.moves == RANDOM_WALK:
            moved = _walk(mover, density, places, slot, row, scale, step_size)
        elif mover.options.moves == NUTS:
            moved = _turn(mover, density, places, slot, row, scale, step_size)
        else:
            moved = _glide(mover, density, places, slot, row, scale, step_size)
        numbers[RATE], numbers[STEPS] = moved.acceptance_rate, moved.steps
        numbers[DIVERGING] = moved.diverging
    for column in range(FAILED_IN_A_ROW + 1):
        mover.integers[slot, column] = calls[column]
    if calls[FAILED_CALLS] > 0:
        copy(path.target.failed_position, mover.vectors[slot, STUCK])


@inlined
def _add_up(target, mover, count, before):
    """Count what all slots did, in their order, as if one thread had done it."""
    values, gradients, failed, in_a_row = before
    for slot in range(count):
        calls = mover.integers[slot]
        values += calls[VALUE_CALLS]
        gradients += calls[GRADIENT_CALLS]
        failed += calls[FAILED_CALLS]
        if calls[FAILED_CALLS] > 0:
            copy(mover.vectors[slot, STUCK], target.failed_position)
        if calls[FAILED_CALLS] < calls[VALUE_CALLS] + calls[GRADIENT_CALLS]:
            in_a_row = 0
        in_a_row += calls[FAILED_IN_A_ROW]
    target.calls[VALUE_CALLS], target.calls[GRADIENT_CALLS] = values, gradients
    target.calls[FAILED_CALLS], target.calls[FAILED_IN_A_ROW] = failed, in_a_row


class Moved(NamedTuple):
    """What one move did: see `Mover.numbers`."""

    acceptance_rate: float
    steps: int
    diverging: bool


@inlined
def _glide(mover, density, places, slot, row, scale, step_size):
    """Hamiltonian Monte Carlo with 1 to `leapfrogs` leapfrogs (Neal 2011)."""
    momentum, numbers = mover.vectors[slot, NORMALS], mover.numbers[slot]
    wanted = int(numbers[WANTED])
    after, steps = follow(density, places, row, momentum, scale, step_size, wanted)
    log_ratio = after - 0.5 * squared_norm(momentum) - numbers[BEFORE]
    rate = acceptance_probability(log_ratio)
    if numbers[THRESHOLD] < rate:
        copy_place(density.found, 0, places, row)
    return Moved(rate, steps, not log_ratio > -LARGEST_ENERGY_ERROR)


@jit
def _turn(mover, density, places, slot, row, scale, step_size):
    """One draw from a trajectory that doubles until it turns back (`nuts_tree`)."""
    b, work = density.temperature, mover.vectors[slot, WORK:]
    here = GradientPoint(work[0], log_density_of(places, row, b), work[1])
    there, metric = GradientPoint(work[2], 0.0, work[5]), Leapfrog(scale, work[3], work[4])
    copy(places.vectors[row, POSITION], here.position)
    fill_slope(places, row, b, here.gradient)
    depth, rng = mover.options.max_treedepth, Stream(mover.integers[slot, SEED:])
    found = nuts_tree.draw(density, metric, mover.tree, here, there, step_size, depth, rng)
    steps = found.leaves
    if found.moved:
        if b < SMALLEST:
            value_and_gradient(density, there.position, there.gradient)
            steps += 1
        else:
            divide(density, there.position, found.log_density, there.gradient)
        settle(density, there.position, places, row)
    return Moved(found.acceptance_rate, steps, found.diverging)


@jit
def _walk(mover, density, places, slot, row, scale, step_size):
    """A Gaussian random walk; without gradients."""
    proposal = mover.vectors[slot, NORMALS]
    for i in range(density.dim):
        proposal[i] = places.vectors[row, POSITION, i] + step_size * scale[0, i] * proposal[i]
    before = log_density_of(places, row, density.temperature)
    rate = acceptance_probability(value(density, proposal) - before)
    if mover.numbers[slot, THRESHOLD] < rate:
        settle(density, proposal, places, row)
    return Moved(rate, 1, False)
