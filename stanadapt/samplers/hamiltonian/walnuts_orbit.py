"""The orbit of WALNUTS: a trajectory of NUTS whose leaves choose their own number of leapfrogs.

A leaf is a macro step of fixed length h, which is divided into 2^level leapfrogs of h / 2^level.
The smallest level that passes is the first at which the energies at both ends of the macro step
differ by no more than a tolerance. The level used is that one, or with probability e
(`extra_halving`) the next. The reverse step would choose its level in the same way, from the other
end of the leaf, so that the leaf's log weight is

    log weight before + energy before - energy + log p(level | backward) - log p(level | forward)

with p(i | i) = 1 - e, p(i + 1 | i) = e, and 0 otherwise, where `forward` and `backward` are the
smallest levels that pass from either end; no level has a probability where none passes. The
corrections add up from leaf to leaf, separately on both sides of the start. With e = 0, a leaf
whose reverse step would pass at a smaller level has no weight; with e > 0 most such leaves have
one.

A leaf without weight ends the orbit, and its doubling is discarded, like one that turns back: this
depends on the orbit and its levels alone, and not on the point from which it was started. The same
holds if no level passes, which counts as a divergence.

The rule compares both ends of a macro step. The largest departure from the energy at the start,
over all leapfrogs of the step, would not do: seen from the other end, it is another number, and the
neck of a funnel gets twice its mass.

References
----------
That of `walnuts`: e = 1/3 is its sampler R2P, e = 0 its sampler D. Deviations: the orbit ends if no
level passes, and at a leaf without weight. Doubling, joins and the U-turn criterion are those of
`nuts_tree`.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine import nuts_tree
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.leapfrog import LARGEST_ENERGY_ERROR, Phase, move
from stanadapt.engine.numerics.vectors import copy, squared_norm
from stanadapt.engine.nuts_tree import ENERGY, GRADIENT, LOG_DENSITY, LOG_WEIGHT, POSITION

# a macro step has at most 2^12 leapfrogs, or twice as many with an extra halving
MOST_HALVINGS = 12


class Steps(NamedTuple):
    """How macro steps are made."""

    step_size: float  # length h of a macro step, in whitened coordinates
    tolerance: float  # largest difference between the energies at both ends of a macro step
    max_halvings: int  # largest level that is tried
    extra_halving: float  # probability e of one level more than needed
    # let the energy fall by any amount, and leave the reverse step unchecked: not reversible, for
    # the first iterations of warm-up, which may begin far from the mass
    descending: bool


class Orbit(NamedTuple):
    """Memory of an orbit, overwritten in each iteration."""

    tree: nuts_tree.Tree  # the memory of a trajectory of NUTS
    # the Phase at the start of a macro step (rows 0 to 2), the Phase of reverse steps (3 to 5), and
    # the gradient at the end of the macro step; shape (7, dim)
    spare: np.ndarray
    log_weights: np.ndarray  # log weights of the backward and the forward end, shape (2,)


class Search(NamedTuple):
    """The smallest level that passes, or the number of levels tried; what was found, and cost."""

    level: int
    log_density: float
    energy: float
    gradients: int


class Leaf(NamedTuple):
    """A macro step."""

    log_density: float
    energy: float
    smallest: int  # the smallest level that passes; max_halvings + 1 if none does
    level: int  # the level used
    # log p(level | backward) - log p(level | forward); -inf if the leaf has no weight
    log_correction: float
    # number of gradients for the step, the levels that did not pass, and the reverse steps
    gradients: int


class Counts(NamedTuple):
    """Leaves of an orbit, those that were not refined, the largest level used, and gradients."""

    leaves: int
    unrefined: int
    halvings: int
    gradients: int


class Growth(NamedTuple):
    """One doubling: whether it was completed or diverged, and the counts up to its end."""

    complete: bool
    diverging: bool
    counts: Counts


class Trajectory(NamedTuple):
    """The result of an iteration; `moved` is whether the draw differs from the current point."""

    moved: bool
    log_density: float
    energy: float
    depth: int
    counts: Counts
    diverging: bool


@jit
def make_orbit(dim, max_depth):
    """Return memory for orbits of up to 2^max_depth - 1 leaves."""
    return Orbit(nuts_tree.make_tree(dim, max_depth), np.empty((7, dim)), np.empty(2))


@jit
def draw(density, leapfrog, orbit, x, y, steps, max_depth, rng):
    """Extend an orbit from x with a new momentum, and draw one of its points into y.

    x and y are GradientPoints; y is written only if the draw is not x.
    """
    tree = orbit.tree
    stack, numbers = tree.stack, tree.numbers
    start = nuts_tree.begin(leapfrog, tree, x, rng)
    orbit.log_weights[:] = 0.0
    moved, log_density, energy = False, x.log_density, start
    # with a literal 0, _double would also be compiled for the type of that literal
    zero = np.int64(0)
    depth, log_weight, diverging, counts = zero, 0.0, False, Counts(zero, zero, zero, zero)
    # the energies at both ends, which a doubling changes at its end
    energies = (start, start)
    while depth < max_depth:
        side = 1 if rng.random() > 0.5 else 0
        growth, energies = _double(
            density, leapfrog, orbit, side, steps, depth, energies, counts, rng
        )
        counts, diverging = growth.counts, growth.diverging
        if not growth.complete:
            break
        depth += 1
        log_ratio = numbers[0, LOG_WEIGHT] - log_weight
        if log_ratio > 0.0 or rng.random() < np.exp(log_ratio):
            moved, log_density, energy = True, numbers[0, LOG_DENSITY], numbers[0, ENERGY]
            copy(stack[0, POSITION], y.position)
            copy(stack[0, GRADIENT], y.gradient)
        log_weight = np.logaddexp(log_weight, numbers[0, LOG_WEIGHT])
        if nuts_tree.turned_back(tree, side):
            break
    return Trajectory(moved, log_density, energy, depth, counts, diverging)


@jit
def _double(density, leapfrog, orbit, side, steps, depth, energies, counts, rng):
    """Build 2^depth leaves on one side; if completed, they end up joined in row 0 of the stack."""
    tree, spare = orbit.tree, orbit.spare
    end = nuts_tree.end_of(tree, side)
    signed = steps.step_size if side == 1 else -steps.step_size
    copy(end.momentum, tree.vectors[nuts_tree.MIDDLE])
    energy, log_weight, row = energies[side], orbit.log_weights[side], np.int64(0)
    for count in range(1, 2**depth + 1):
        leaf = macro_step(density, leapfrog, spare, end, signed, energy, steps, rng)
        counts = _counted(counts, leaf)
        if leaf.smallest > steps.max_halvings:
            return Growth(False, True, counts), energies
        log_weight += energy - leaf.energy + leaf.log_correction
        if not log_weight > -np.inf:
            return Growth(False, False, counts), energies
        energy = leaf.energy
        nuts_tree.push(tree, row, end, spare[6], leaf.log_density, energy, log_weight)
        row = nuts_tree.join_finished(tree, row, count, rng)
        if row < 0:
            return Growth(False, False, counts), energies
    orbit.log_weights[side] = log_weight
    energies = (energies[0], energy) if side == 1 else (energy, energies[1])
    return Growth(True, False, counts), energies


@jit
def _counted(counts, leaf):
    """Return the counts after one more leaf."""
    return Counts(
        counts.leaves + 1, counts.unrefined + (1 if leaf.smallest == 0 else 0),
        max(counts.halvings, leaf.level), counts.gradients + leaf.gradients,
    )  # fmt: skip


# --- macro steps ----------------------------------------------------------------------------------


@jit
def macro_step(density, leapfrog, spare, end, step_size, before, steps, rng):
    """Move the Phase at one end by one leaf, in place, and weigh it.

    step_size is the length of the macro step, negative toward the past; `before` is the energy at
    `end` before it. The gradient at the end is written to row 6 of `spare`.
    """
    start = Phase(spare[0], spare[1], spare[2])
    _copy_phase(end, start)
    levels = steps.max_halvings + 1
    found = _search(density, leapfrog, start, end, step_size, before, steps, levels)
    level, log_density, energy = found.level, found.log_density, found.energy
    gradients = found.gradients
    if level == levels:
        return Leaf(log_density, energy, level, level, -np.inf, gradients)
    if steps.extra_halving > 0.0 and rng.random() < steps.extra_halving:
        level += 1
        _copy_phase(start, end)
        log_density, used = _leapfrogs(density, leapfrog, end, step_size, level)
        energy = 0.5 * squared_norm(end.momentum) - log_density
        gradients += used
    copy(leapfrog.gradient, spare[6])
    if steps.descending or not energy < np.inf:
        correction = 0.0 if energy < np.inf else -np.inf
        return Leaf(log_density, energy, found.level, level, correction, gradients)
    trial = Phase(spare[3], spare[4], spare[5])
    lower = min(level, levels)
    back = _search(density, leapfrog, end, trial, -step_size, energy, steps, lower)
    backward = back.level
    # the reverse step of the same level ends at the start, which need not be computed again
    if backward == lower and not (level < levels and _passes(energy, before, steps)):
        backward = levels
    correction = _log_probability(level, backward, steps)
    correction -= _log_probability(level, found.level, steps)
    return Leaf(log_density, energy, found.level, level, correction, gradients + back.gradients)


@jit
def _search(density, leapfrog, start, end, step_size, before, steps, levels):
    """Move from one Phase to another at the smallest level that passes, out of 0 to levels - 1."""
    gradients = 0
    for level in range(levels):
        _copy_phase(start, end)
        log_density, used = _leapfrogs(density, leapfrog, end, step_size, level)
        energy = 0.5 * squared_norm(end.momentum) - log_density
        gradients += used
        if _passes(before, energy, steps):
            return Search(level, log_density, energy, gradients)
    return Search(levels, -np.inf, np.inf, gradients)


@jit
def _passes(before, after, steps):
    """Whether a macro step is fine enough; False if the density failed."""
    if steps.descending:
        return after - before <= LARGEST_ENERGY_ERROR
    return abs(after - before) <= steps.tolerance


@jit
def _leapfrogs(density, leapfrog, phase, step_size, level):
    """Move a Phase by 2^level leapfrogs; return the log density and the number of gradients.

    It stops at the first leapfrog at which the density fails, with -inf.
    """
    count = 2**level
    log_density = -np.inf
    for k in range(count):
        log_density = move(density, leapfrog, phase, step_size / count)
        if not log_density > -np.inf:
            return -np.inf, k + 1
    return log_density, count


@jit
def _log_probability(level, smallest, steps):
    """Return the log probability of using a level if `smallest` is the first that passes."""
    if smallest > steps.max_halvings:  # none passes, and the orbit would end
        return -np.inf
    if level == smallest:
        return np.log(1.0 - steps.extra_halving)
    return np.log(steps.extra_halving) if level == smallest + 1 else -np.inf


@jit
def _copy_phase(source, target):
    copy(source.position, target.position)
    copy(source.momentum, target.momentum)
    copy(source.force, target.force)
