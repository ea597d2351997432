"""The equi-energy sampler: chains at several temperatures, and jumps to states of equal energy.

With the energy h = -log density, floors H_1 < .. < H_K and temperatures 1 = T_0 < .. < T_K, chain i
is a random walk on exp(-h_i), with

    h_0(x) = h(x),    h_i(x) = max(h(x), H_i) / T_i,

which now and then jumps to a state y, picked uniformly among the states of chain i + 1 in its file
that lie in the energy ring of x, an interval between two floors, with probability

    min(1, exp(h_i(x) - h_i(y) - h_(i+1)(x) + h_(i+1)(y))).                                (jump)

This would leave exp(-h_i) invariant if the file had the law of chain i + 1, which holds in the
limit as files grow. The error of a file at the time of a jump is common to all draws of the chain.

Files have a fixed number of rows. Once they are full, new states replace random ones, so that each
state so far is kept with the same probability.

References
----------
That of `equi_energy`. Deviations: files are bounded, and H_0, below all energies in the paper, is
not needed.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.density import value
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import acceptance_probability


class Chains(NamedTuple):
    """All chains, level 0 on the target; arrays are updated in place."""

    # positions, energies: shape (level, size) and (level,)
    positions: np.ndarray
    energies: np.ndarray
    # Columns: FLOOR and TEMPERATURE of each level, the log standard deviation of its proposals
    # (LOG_SCALE), and the number of times it was tuned (TUNED); shape (level, 4).
    tuning: np.ndarray
    # acceptance rates of the latest random walks, -1 if there was none, shape (level,)
    rates: np.ndarray
    proposal: np.ndarray  # workspace, shape (size,)
    lowest: np.ndarray  # lowest energy so far, shape (1,)


FLOOR, TEMPERATURE, LOG_SCALE, TUNED = 0, 1, 2, 3
# floors are spaced by this many temperatures, and begin at the same distance above the lowest
# energy: the constants of the paper's mixture of twenty
FLOOR_GAP = 1.8


class Files(NamedTuple):
    """Past states by level and ring; the states of level 0 are not needed, and not kept."""

    # positions, energies: those of level i + 1 in entry i, shape (levels - 1, row, size) and
    # (levels - 1, row)
    positions: np.ndarray
    energies: np.ndarray
    # rows in each ring, the first `counts` of them, shape (levels - 1, ring, row)
    members: np.ndarray
    slots: np.ndarray  # index of each row in `members`, shape (levels - 1, row)
    counts: np.ndarray  # number of rows in each ring, shape (levels - 1, ring)
    offered: np.ndarray  # number of states so far, shape (levels - 1,)


class SweepInfo(NamedTuple):
    """The outcome of one move of each chain."""

    acceptance_rate: float  # mean over random walks
    evaluations: int
    jumps: int
    jumps_accepted: int
    empty_rings: int  # jumps that became random walks


@jit
def make_chains(levels, position, highest_temperature, step_size):
    """Return Chains at a position, shape (size,), not evaluated, at geometric temperatures."""
    size, tuning = position.shape[0], np.zeros((levels, 4))
    tuning[:, FLOOR] = -np.inf
    chains = Chains(
        np.empty((levels, size)), np.full(levels, np.inf), tuning, np.full(levels, -1.0),
        np.empty(size), np.full(1, np.inf),
    )  # fmt: skip
    for i in range(levels):
        copy(position, chains.positions[i])
        tuning[i, TEMPERATURE] = highest_temperature ** (i / (levels - 1))
        tuning[i, LOG_SCALE] = np.log(step_size) + 0.5 * np.log(tuning[i, TEMPERATURE])
    return chains


@jit
def scatter(density, chains, rng):
    """Evaluate all chains, the hot ones at random positions around the start if these are valid."""
    start = chains.positions[0]
    for i in range(chains.energies.shape[0]):
        position, scale = chains.positions[i], np.exp(chains.tuning[i, LOG_SCALE])
        for k in range(density.dim if i > 0 else 0):
            position[k] += scale * rng.standard_normal()
        chains.energies[i] = -value(density, position)
        if i > 0 and not chains.energies[i] < np.inf:
            copy(start, position)
            chains.energies[i] = chains.energies[0]
        chains.lowest[0] = min(chains.lowest[0], chains.energies[i])


def bytes_of_files(settings: Any, dim: int) -> int:
    """Return the bytes of Files: positions, energies, and their entries in the rings."""
    return (settings.levels - 1) * settings.file_size * (8 * (dim + 1) + 4 * (settings.levels + 1))


@jit
def no_files(levels, rows, size):
    hot = levels - 1
    return Files(
        np.zeros((hot, rows, size)), np.zeros((hot, rows)),
        np.zeros((hot, levels, rows), np.int32), np.zeros((hot, rows), np.int32),
        np.zeros((hot, levels), np.int64), np.zeros(hot, np.int64),
    )  # fmt: skip


@jit
def set_floors(chains):
    """Set the floors of all levels but the target's, upwards from the lowest energy so far."""
    tuning, floor = chains.tuning, chains.lowest[0]
    for i in range(1, tuning.shape[0]):
        floor += FLOOR_GAP * tuning[i - 1, TEMPERATURE]
        tuning[i, FLOOR] = floor


@jit
def ring_of(tuning, energy):
    """Return the number of floors at or below an energy."""
    ring = 0
    while ring + 1 < tuning.shape[0] and energy >= tuning[ring + 1, FLOOR]:
        ring += 1
    return ring


@inline
def tempered(tuning, level, energy):
    """h_i as a function of h."""
    return max(energy, tuning[level, FLOOR]) / tuning[level, TEMPERATURE]


@jit
def log_jump_ratio(tuning, level, here, there):
    """Log of the ratio (jump), from the energies of x and y."""
    own = tempered(tuning, level, here) - tempered(tuning, level, there)
    hotter = tempered(tuning, level + 1, here) - tempered(tuning, level + 1, there)
    return own - hotter


@jit
def sweep(density, chains, files, jump_probability, moving, filing, rng):
    """Move all levels from the hottest down to `moving`; file those from `filing` up."""
    last, rates, walks, jumps, taken, empty = chains.energies.shape[0] - 1, 0.0, 0, 0, 0, 0
    chains.rates[:] = -1.0
    for i in range(last, moving - 1, -1):
        jumped = False
        if i < last and rng.random() < jump_probability:
            jumped, accepted = _jump(chains, files, i, rng)
            jumps, taken, empty = jumps + jumped, taken + accepted, empty + (not jumped)
        if not jumped:
            chains.rates[i] = _walk(density, chains, i, rng)
            rates, walks = rates + chains.rates[i], walks + 1
        if i >= max(filing, 1):
            file_state(files, chains.tuning, i, chains.positions[i], chains.energies[i], rng)
    return SweepInfo(rates / max(walks, 1), walks, jumps, taken, empty)


@inline
def _jump(chains, files, i, rng):
    """Try a state of the next hotter level; returns whether there was one, and was accepted."""
    here = chains.energies[i]
    ring = ring_of(chains.tuning, here)
    count = files.counts[i, ring]
    if count == 0:
        return False, False
    row = files.members[i, ring, int(rng.random() * count)]
    there = files.energies[i, row]
    if not rng.random() < acceptance_probability(log_jump_ratio(chains.tuning, i, here, there)):
        return True, False
    copy(files.positions[i, row], chains.positions[i])
    chains.energies[i] = there
    return True, True


@inline
def _walk(density, chains, i, rng):
    """Make a random-walk move; returns its acceptance rate."""
    position, proposal, tuning = chains.positions[i], chains.proposal, chains.tuning
    scale = np.exp(tuning[i, LOG_SCALE])
    copy(position, proposal)
    for k in range(density.dim):
        proposal[k] += scale * rng.standard_normal()
    energy = -value(density, proposal)
    rate = acceptance_probability(
        tempered(tuning, i, chains.energies[i]) - tempered(tuning, i, energy)
    )
    if rng.random() < rate:
        copy(proposal, position)
        chains.energies[i] = energy
        chains.lowest[0] = min(chains.lowest[0], energy)
    return rate


@jit
def tune(chains, level, target_accept, gain_offset, gain_power):
    """Move the scale of a level's proposals toward an acceptance rate, after a random walk."""
    rate, tuning = chains.rates[level], chains.tuning
    if rate >= 0.0:
        gain = (tuning[level, TUNED] + gain_offset) ** -gain_power
        tuning[level, LOG_SCALE] += gain * (rate - target_accept)
        tuning[level, TUNED] += 1.0


@jit
def file_state(files, tuning, level, position, energy, rng):
    """Add a state of a level above 0; once the file is full, it may replace a random one."""
    entry, rows = level - 1, files.energies.shape[1]
    row = files.offered[entry]
    files.offered[entry] += 1
    if row >= rows:
        row = int(rng.random() * (row + 1))
        if row >= rows:
            return
        _remove(files, entry, ring_of(tuning, files.energies[entry, row]), row)
    copy(position, files.positions[entry, row])
    files.energies[entry, row] = energy
    ring = ring_of(tuning, energy)
    files.slots[entry, row] = files.counts[entry, ring]
    files.members[entry, ring, files.counts[entry, ring]] = row
    files.counts[entry, ring] += 1


@inline
def _remove(files, entry, ring, row):
    """Remove a row from the list of its ring; the last row of the list takes its slot."""
    files.counts[entry, ring] -= 1
    last = files.members[entry, ring, files.counts[entry, ring]]
    slot = files.slots[entry, row]
    files.members[entry, ring, slot] = last
    files.slots[entry, last] = slot
