"""A trajectory that doubles until it turns back, and the draw that it yields.

Each doubling is built leaf by leaf: 2^depth leapfrogs on one side. A leaf is a subtree; two
neighbours of equal size are joined as soon as both are there, like the digits of a binary
counter, so that a stack of one subtree a depth is enough. Joins happen in the order of Stan's
recursion, and the first subtree that turns back, or diverges, ends the trajectory.

Momenta are whitened (`hamiltonian.Phase`), so that the criterion of a U-turn needs no metric:
p_sharp . rho of Stan is the product of a whitened momentum with a sum of such.

References
----------
Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15. Betancourt (2017), A Conceptual
Introduction to Hamiltonian Monte Carlo, appendix A: multinomial weights, biased progressive
sampling, the generalised criterion. The checks across the two halves of a join are Stan's (2.21
and later): stan/mcmc/hmc/nuts/base_nuts.hpp.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._jit import jit
from stanadapt.hamiltonian import LARGEST_ENERGY_ERROR, Phase, from_point, move
from stanadapt.metropolis import acceptance_probability, squared_norm


class Subtrees(NamedTuple):
    """A stack of finished subtrees, rows 0, 1, ... in the order in which they were built.

    first, last, total
        Momenta of the leaves built first and last, and the sum over all leaves; (row, dim).
    position, gradient, log_density, energy
        The leaf drawn from each, uniformly by weight; (row, dim) and (row,).
    log_weight
        Log of the sum of exp(energy of the start - energy) over the leaves; (row,).

    """

    first: np.ndarray
    last: np.ndarray
    total: np.ndarray
    position: np.ndarray
    gradient: np.ndarray
    log_density: np.ndarray
    energy: np.ndarray
    log_weight: np.ndarray


class Tree(NamedTuple):
    """Memory of a trajectory, written again in each iteration.

    ends
        Phases backward (row 0) and forward (row 1); each array (2, dim).
    middle, total
        Momentum at the end that the last doubling started from; sum of momenta of the trajectory
        before it; (dim,).
    subtrees
        Those of the doubling under way.

    """

    ends: Phase
    middle: np.ndarray
    total: np.ndarray
    subtrees: Subtrees


class Growth(NamedTuple):
    """One doubling: whether it is whole, whether it ended in a divergence, and its leaves."""

    whole: bool
    diverging: bool
    leaves: int
    acceptance: float  # sum over leaves of min(1, exp(energy of the start - energy))


class Trajectory(NamedTuple):
    """What an iteration yields; `moved` tells whether the draw is another point."""

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
    ends = Phase(np.empty((2, dim)), np.empty((2, dim)), np.empty((2, dim)))
    rows = (max_depth, dim)
    subtrees = Subtrees(
        np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows),
        np.empty(max_depth), np.empty(max_depth), np.empty(max_depth),
    )  # fmt: skip
    return Tree(ends, np.empty(dim), np.empty(dim), subtrees)


@jit
def end_of(tree, side):
    """Return the Phase at the backward (0) or forward (1) end."""
    ends = tree.ends
    return Phase(ends.position[side], ends.momentum[side], ends.force[side])


@jit
def draw(density, leapfrog, tree, x, y, step_size, max_depth, rng):
    """Follow a new momentum from x both ways, and draw one point of the trajectory into y.

    x and y are GradientPoints; y is written if the draw is not x.
    """
    forward, backward = end_of(tree, 1), end_of(tree, 0)
    from_point(leapfrog, forward, x, rng)
    for i in range(density.dim):
        backward.position[i] = forward.position[i]
        backward.momentum[i] = tree.total[i] = forward.momentum[i]
        backward.force[i] = forward.force[i]
    start = 0.5 * squared_norm(forward.momentum) - x.log_density
    drawn = tree.subtrees
    moved, log_density, energy = False, x.log_density, start
    depth, leaves, acceptance, log_weight, diverging = 0, 0, 0.0, 0.0, False
    while depth < max_depth:
        side = 1 if rng.random() > 0.5 else 0
        growth = _double(density, leapfrog, tree, side, step_size, depth, start, rng)
        leaves += growth.leaves
        acceptance += growth.acceptance
        diverging = growth.diverging
        if not growth.whole:
            break
        depth += 1
        gain = drawn.log_weight[0] - log_weight
        if gain > 0.0 or rng.random() < np.exp(gain):
            moved, log_density, energy = True, drawn.log_density[0], drawn.energy[0]
            y.position[:] = drawn.position[0]
            y.gradient[:] = drawn.gradient[0]
        log_weight = np.logaddexp(log_weight, drawn.log_weight[0])
        if _turned_back(tree, side):
            break
    return Trajectory(moved, log_density, energy, depth, leaves, acceptance / leaves, diverging)


@jit
def _double(density, leapfrog, tree, side, step_size, depth, start, rng):
    """Build 2^depth leaves on one side; if all is well they end up in row 0 of the stack.

    start is the energy at the start of the trajectory.
    """
    end, subtrees = end_of(tree, side), tree.subtrees
    signed = step_size if side == 1 else -step_size
    tree.middle[:] = end.momentum
    acceptance, row = 0.0, 0
    for leaf in range(1, 2**depth + 1):
        log_density = move(density, leapfrog, end, signed)
        energy = 0.5 * squared_norm(end.momentum) - log_density
        acceptance += acceptance_probability(start - energy)
        if not energy - start <= LARGEST_ENERGY_ERROR:
            return Growth(False, True, leaf, acceptance)
        _push(subtrees, row, end, leapfrog.gradient, log_density, energy, start)
        count = leaf
        while count % 2 == 0:
            count //= 2
            row -= 1
            if _join(subtrees, row, rng):
                return Growth(False, False, leaf, acceptance)
        row += 1
    return Growth(True, False, 2**depth, acceptance)


@jit
def _push(subtrees, row, leaf, gradient, log_density, energy, start):
    """Write a leaf, which is a Phase, as the subtree of a row."""
    first, last, total = subtrees.first[row], subtrees.last[row], subtrees.total[row]
    for i in range(gradient.shape[0]):
        first[i] = last[i] = total[i] = leaf.momentum[i]
    subtrees.position[row] = leaf.position
    subtrees.gradient[row] = gradient
    subtrees.log_density[row] = log_density
    subtrees.energy[row] = energy
    subtrees.log_weight[row] = start - energy


@jit
def _join(subtrees, row, rng):
    """Join the subtrees of row and row + 1 into the former; True if the whole turns back."""
    weights = subtrees.log_weight
    weight = np.logaddexp(weights[row], weights[row + 1])
    if rng.random() < np.exp(weights[row + 1] - weight):
        subtrees.position[row] = subtrees.position[row + 1]
        subtrees.gradient[row] = subtrees.gradient[row + 1]
        subtrees.log_density[row] = subtrees.log_density[row + 1]
        subtrees.energy[row] = subtrees.energy[row + 1]
    weights[row] = weight
    turned = turns_back(
        subtrees.first[row], subtrees.last[row], subtrees.total[row],
        subtrees.first[row + 1], subtrees.last[row + 1], subtrees.total[row + 1],
    )  # fmt: skip
    subtrees.last[row] = subtrees.last[row + 1]
    _add(subtrees.total[row], subtrees.total[row + 1])
    return turned


@jit
def _turned_back(tree, side):
    """Join the trajectory with the doubling on one side; True if the whole turns back."""
    new = tree.subtrees
    far = tree.ends.momentum[1 - side]
    turned = turns_back(far, tree.middle, tree.total, new.first[0], new.last[0], new.total[0])
    _add(tree.total, new.total[0])
    return turned


@jit
def _add(total, other):
    for i in range(total.shape[0]):
        total[i] += other[i]


@jit
def turns_back(first, middle, total, next_first, last, next_total):
    """Whether two neighbours, joined, turn back: as a whole, or one with the other's near end.

    first, middle and total are the momenta of the outer and the inner leaf of one neighbour and
    its sum; next_first, last, next_total those of the inner and the outer leaf of the other.
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
    going_on = whole_first > 0.0 and whole_last > 0.0 and one_first > 0.0 and one_last > 0.0
    return not (going_on and other_first > 0.0 and other_last > 0.0)
