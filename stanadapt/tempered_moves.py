"""Moves that leave a tempered density invariant: short trajectories, NUTS, random walks.

A move takes a row of Places to another position or leaves it, at one inverse temperature, with a
scale a parameter and a step size. Trajectories have a random number of leapfrogs, 1 to `leapfrogs`:
short ones of random length cross between modes more often than long ones of one length.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt import nuts_tree
from stanadapt._jit import inlined, jit
from stanadapt.density import value, value_and_gradient
from stanadapt.hamiltonian import LARGEST_ENERGY_ERROR, Leapfrog
from stanadapt.metropolis import acceptance_probability, fill_normal, squared_norm
from stanadapt.points import GradientPoint, copy
from stanadapt.tempered_path import (
    POSITION,
    Places,
    Tempered,
    copy_place,
    divide,
    fill_slope,
    log_density_of,
    no_places,
    settle,
)
from stanadapt.tempered_trajectory import follow

# a trajectory keeps b l + (1 - b) psi alone; below this b its point is looked at once more
SMALLEST = 1e-4


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
    """Memory of a move, all written again.

    work
        Vectors for phases and points, shape (7, dim).
    found
        What an evaluation finds.
    tree
        Of a trajectory of NUTS.

    """

    options: Options
    work: np.ndarray
    found: Places
    tree: nuts_tree.Tree


class Moved(NamedTuple):
    """What a move did: its acceptance probability, gradients it took, whether it diverged."""

    acceptance_rate: float
    steps: int
    diverging: bool


@jit
def make_mover(dim, options):
    """Return memory for moves in `dim` dimensions."""
    depth = options.max_treedepth if options.moves == NUTS else 1
    return Mover(
        options, np.empty((7, dim)), no_places(1, dim), nuts_tree.make_tree(dim, depth)
    )  # fmt: skip


@inlined
def explore(path, mover, places, row, temperature, scale, step_size, rng):
    """Move a row at an inverse temperature; scale is a diagonal factor, shape (1, dim)."""
    density = Tempered(path, temperature, path.target.dim, mover.found)
    if mover.options.moves == RANDOM_WALK:
        return _walk(mover, density, places, row, scale, step_size, rng)
    if mover.options.moves == NUTS:
        return _turn(mover, density, places, row, scale, step_size, rng)
    return _glide(mover, density, places, row, scale, step_size, rng)


@inlined
def _glide(mover, density, places, row, scale, step_size, rng):
    """Hamiltonian Monte Carlo with 1 to `leapfrogs` leapfrogs (Neal 2011)."""
    momentum = mover.work[0]
    fill_normal(rng, momentum)
    before = log_density_of(places, row, density.temperature) - 0.5 * squared_norm(momentum)
    wanted = 1 + int(rng.random() * mover.options.leapfrogs)
    after, steps = follow(density, places, row, momentum, scale, step_size, wanted)
    log_ratio = after - 0.5 * squared_norm(momentum) - before
    rate = acceptance_probability(log_ratio)
    if rng.random() < rate:
        copy_place(density.found, 0, places, row)
    return Moved(rate, steps, not log_ratio > -LARGEST_ENERGY_ERROR)


@jit
def _turn(mover, density, places, row, scale, step_size, rng):
    """One draw from a trajectory that doubles until it turns back (`nuts_tree`)."""
    b, work = density.temperature, mover.work
    here = GradientPoint(work[0], log_density_of(places, row, b), work[1])
    there, metric = GradientPoint(work[2], 0.0, work[5]), Leapfrog(scale, work[3], work[4])
    copy(places.vectors[row, POSITION], here.position)
    fill_slope(places, row, b, here.gradient)
    depth = mover.options.max_treedepth
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
def _walk(mover, density, places, row, scale, step_size, rng):
    """A Gaussian random walk; without gradients."""
    proposal = mover.work[0]
    for i in range(density.dim):
        jump = step_size * scale[0, i] * rng.standard_normal()
        proposal[i] = places.vectors[row, POSITION, i] + jump
    before = log_density_of(places, row, density.temperature)
    rate = acceptance_probability(value(density, proposal) - before)
    if rng.random() < rate:
        settle(density, proposal, places, row)
    return Moved(rate, 1, False)
