"""NUTS: a trajectory that doubles until it turns back, and the draw taken from it.

Each doubling is built leaf by leaf: 2^depth leapfrogs on one side. A leaf is a subtree; two
neighbors of equal size are joined as soon as both exist, like the digits of a binary counter, so
that a stack of one subtree per depth is enough. Joins happen in the order of Stan's recursion, and
the first subtree that turns back, or diverges, ends the trajectory.

Momenta are whitened (`leapfrog.Phase`), so the U-turn criterion needs no metric: Stan's
p_sharp . rho is the product of a whitened momentum with a sum of whitened momenta.

References
----------
Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15. Betancourt (2017), A Conceptual
Introduction to Hamiltonian Monte Carlo, appendix A: multinomial weights, biased progressive
sampling, the generalized criterion. The checks across the two halves of a join are Stan's (2.21
and later): stan/mcmc/hmc/nuts/base_nuts.hpp.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.leapfrog import (
    LARGEST_ENERGY_ERROR,
    Phase,
    from_point,
    move,
    moves_around,
    place,
)
from stanadapt.engine.numerics.vectors import copy, squared_norm
from stanadapt.engine.points import acceptance_probability
from stanadapt.engine.settings import Between

# 2^25 gradients per iteration: a deeper trajectory would never end
LARGEST_DEPTH = 25
Depth = Annotated[int, Between(1, LARGEST_DEPTH, "[]")]  # of a setting


class Tree(NamedTuple):
    """Memory of a trajectory, overwritten in each iteration; few arrays, as each slows calls."""

    # phases at the backward (rows 0 to 2) and the forward end (3 to 5); the momentum at the end
    # from which the last doubling started (MIDDLE); the sum of momenta of the trajectory before
    # that doubling (TOTAL); shape (8, dim)
    vectors: np.ndarray
    # finished subtrees of the current doubling, in the order in which they were built: momenta of
    # the FIRST and LAST leaf built, the SUM of the momenta of all leaves, POSITION and GRADIENT of
    # the leaf drawn from the subtree in proportion to weight; shape (subtree, 5, dim)
    stack: np.ndarray
    # LOG_DENSITY and ENERGY of that leaf, and LOG_WEIGHT, the log of the sum over leaves of
    # exp(initial energy - energy); shape (subtree, 3)
    numbers: np.ndarray


MIDDLE, TOTAL = 6, 7
FIRST, LAST, SUM, POSITION, GRADIENT = 0, 1, 2, 3, 4
LOG_DENSITY, ENERGY, LOG_WEIGHT = 0, 1, 2


class Growth(NamedTuple):
    """One doubling: whether it was completed or diverged, and how many leaves were built."""

    complete: bool
    diverging: bool
    leaves: int
    acceptance: float  # sum over leaves of min(1, exp(initial energy - energy))


class Trajectory(NamedTuple):
    """The result of an iteration; `moved` is whether the draw differs from the current point."""

    moved: bool
    log_density: float
    energy: float
    depth: int
    leaves: int
    acceptance_rate: float
    diverging: bool


@jit
def make_tree(dim, max_depth):
    """Return memory for trajectories of up to 2^max_depth - 1 leapfrogs."""
    return Tree(np.empty((8, dim)), np.empty((max_depth, 5, dim)), np.empty((max_depth, 3)))


@jit
def end_of(tree, side):
    """Return the Phase at the backward (0) or forward (1) end."""
    row, vectors = 3 * side, tree.vectors
    return Phase(vectors[row], vectors[row + 1], vectors[row + 2])


@jit
def draw(density, leapfrog, tree, x, y, step_size, max_depth, rng, around=None):
    """Extend a trajectory from x with a new momentum, and draw one of its points into y.

    x and y are GradientPoints; y is written only if the draw is not x. Trajectories may move
    around a Gaussian: an `Around`, and its place of the current point then follows that point.
    """
    start = begin(leapfrog, tree, x, rng, around)
    stack, numbers = tree.stack, tree.numbers
    moved, log_density, energy = False, x.log_density, start
    # with a literal 0, _double would also be compiled for the type of that literal
    depth, leaves, acceptance, log_weight, diverging = np.int64(0), 0, 0.0, 0.0, False
    while depth < max_depth:
        side = 1 if rng.random() > 0.5 else 0
        growth = _double(density, leapfrog, tree, side, step_size, depth, start, rng, around)
        leaves += growth.leaves
        acceptance += growth.acceptance
        diverging = growth.diverging
        if not growth.complete:
            break
        depth += 1
        log_ratio = numbers[0, LOG_WEIGHT] - log_weight
        if log_ratio > 0.0 or rng.random() < np.exp(log_ratio):
            moved, log_density, energy = True, numbers[0, LOG_DENSITY], numbers[0, ENERGY]
            copy(stack[0, POSITION], y.position)
            copy(stack[0, GRADIENT], y.gradient)
        log_weight = np.logaddexp(log_weight, numbers[0, LOG_WEIGHT])
        if turned_back(tree, side):
            break
    if around is not None and moved and moves_around(around):
        copy(y.position, around.here)
        place(leapfrog, around, around.here, y.position)
    return Trajectory(moved, log_density, energy, depth, leaves, acceptance / leaves, diverging)


@jit
def left_support(tree):
    """Whether a trajectory that diverged did so where the density is zero or cannot be computed."""
    return not tree.numbers[0, LOG_WEIGHT] > -np.inf


@jit
def begin(leapfrog, tree, x, rng, around=None):
    """Set both ends of a trajectory to x with a new momentum; return the energy there.

    Around a Gaussian, positions of both ends are z, those of `leapfrog.Around`.
    """
    forward, backward = end_of(tree, 1), end_of(tree, 0)
    from_point(leapfrog, forward, x, rng, around)
    for i in range(x.position.shape[0]):
        backward.position[i] = forward.position[i]
        backward.momentum[i] = tree.vectors[TOTAL, i] = forward.momentum[i]
        backward.force[i] = forward.force[i]
    return 0.5 * squared_norm(forward.momentum) - x.log_density


@jit
def _double(density, leapfrog, tree, side, step_size, depth, start, rng, around):
    """Build 2^depth leaves on one side; if completed, they end up joined in row 0 of the stack.

    start is the energy at the start of the trajectory.
    """
    end = end_of(tree, side)
    signed = step_size if side == 1 else -step_size
    copy(end.momentum, tree.vectors[MIDDLE])
    acceptance, row = 0.0, np.int64(0)
    for leaf in range(1, 2**depth + 1):
        log_density = move(density, leapfrog, end, signed, around)
        energy = 0.5 * squared_norm(end.momentum) - log_density
        acceptance += acceptance_probability(start - energy)
        if not energy - start <= LARGEST_ENERGY_ERROR:
            tree.numbers[0, LOG_WEIGHT] = start - energy  # for `left_support`
            return Growth(False, True, leaf, acceptance)
        push(tree, row, end, leapfrog.gradient, log_density, energy, start - energy)
        row = join_finished(tree, row, leaf, rng)
        if row < 0:
            return Growth(False, False, leaf, acceptance)
    return Growth(True, False, 2**depth, acceptance)


@jit
def push(tree, row, leaf, gradient, log_density, energy, log_weight):
    """Write a leaf, given as a Phase, as the subtree of a row."""
    stack, numbers = tree.stack, tree.numbers
    for i in range(gradient.shape[0]):
        stack[row, FIRST, i] = stack[row, LAST, i] = stack[row, SUM, i] = leaf.momentum[i]
    copy(leaf.position, stack[row, POSITION])
    copy(gradient, stack[row, GRADIENT])
    numbers[row, LOG_DENSITY] = log_density
    numbers[row, ENERGY] = energy
    numbers[row, LOG_WEIGHT] = log_weight


@jit
def join_finished(tree, row, leaves, rng):
    """Join neighbors of equal size, after the last of some leaves was written to a row.

    Returns the row of the next leaf, or -1 if a joined subtree turns back.
    """
    while leaves % 2 == 0:
        leaves //= 2
        row -= 1
        if _join(tree, row, rng):
            return -1
    return row + 1


@jit
def _join(tree, row, rng):
    """Join the subtrees of row and row + 1 into row; True if the joined subtree turns back."""
    stack, numbers, other = tree.stack, tree.numbers, row + 1
    weight = np.logaddexp(numbers[row, LOG_WEIGHT], numbers[other, LOG_WEIGHT])
    if rng.random() < np.exp(numbers[other, LOG_WEIGHT] - weight):
        copy(stack[other, POSITION], stack[row, POSITION])
        copy(stack[other, GRADIENT], stack[row, GRADIENT])
        numbers[row, LOG_DENSITY] = numbers[other, LOG_DENSITY]
        numbers[row, ENERGY] = numbers[other, ENERGY]
    numbers[row, LOG_WEIGHT] = weight
    turned = turns_back(
        stack[row, FIRST], stack[row, LAST], stack[row, SUM],
        stack[other, FIRST], stack[other, LAST], stack[other, SUM],
    )  # fmt: skip
    copy(stack[other, LAST], stack[row, LAST])
    _add(stack[row, SUM], stack[other, SUM])
    return turned


@jit
def turned_back(tree, side):
    """Join the trajectory with the new doubling on one side; True if the result turns back."""
    new, total = tree.stack[0], tree.vectors[TOTAL]
    far = end_of(tree, 1 - side).momentum
    turned = turns_back(far, tree.vectors[MIDDLE], total, new[FIRST], new[LAST], new[SUM])
    _add(total, new[SUM])
    return turned


@jit
def _add(total, other):
    for i in range(total.shape[0]):
        total[i] += other[i]


@jit
def turns_back(first, middle, total, next_first, last, next_total):
    """Whether two joined neighbors turn back: as a whole, or one with the near end of the other.

    first, middle and total are the momenta of the outer and the inner leaf of one neighbor, and
    the sum of its momenta; next_first, last and next_total are those of the inner and the outer
    leaf of the other, and its sum.
    """
    whole_first = whole_last = one_first = one_last = other_first = other_last = 0.0
    for i in range(first.shape[0]):
        whole = total[i] + next_total[i]
        whole_first += whole * first[i]
        whole_last += whole * last[i]
        one = total[i] + next_first[i]
        one_first += one * first[i]
        one_last += one * next_first[i]
        other = next_total[i] + middle[i]
        other_first += other * middle[i]
        other_last += other * last[i]
    outward = whole_first > 0.0 and whole_last > 0.0 and one_first > 0.0 and one_last > 0.0
    return not (outward and other_first > 0.0 and other_last > 0.0)
