"""Equi-energy sampler, as published: jumps between modes of equal energy. Not exact.

Chains at several temperatures run one after another, the hottest first. Each jumps to states that
the next hotter chain has stored (its "file"). The draws are those of the coldest chain; they have
the posterior distribution only in the limit of large files. An error in the files is common to all
draws of a chain, and may be two or three times the Monte Carlo error that the draws show. Compare
at least four chains. For exact draws, use parallel_tempering with swaps="energy_rings", which makes
the same jumps between chains that run simultaneously.

With the energy h = -log density, floors H_1 < .. < H_K and temperatures 1 = T_0 < .. < T_K, chain i
is a random walk on exp(-h_i), with

    h_0(x) = h(x),    h_i(x) = max(h(x), H_i) / T_i,

which now and then jumps to a state y, picked uniformly among the states of chain i + 1 in its file
that lie in the energy ring of x, an interval between two floors, with probability

    min(1, exp(h_i(x) - h_i(y) - h_(i+1)(x) + h_(i+1)(y))).                                (jump)

This would leave exp(-h_i) invariant if the file had the law of chain i + 1, which holds in the
limit as files grow. Files have a fixed number of rows. Once they are full, new states replace
random ones, so that each state so far is kept with the same probability.

References
----------
Kou, Zhou and Wong (2006), Equi-energy sampler with applications in statistical inference and
statistical mechanics, Annals of Statistics 34. Deviations: energy floors and proposals are learned,
in a first part of warm-up and in the burn-in of each chain, where the paper has given ones; files
are bounded; and H_0, below all energies in the paper, is not needed. Later analyses: Atchade,
Roberts and Rosenthal (2011), Statistics and Computing 21, on interacting tempering.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import value
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import ValuePoint, acceptance_probability
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Positive, Probability
from stanadapt.samplers.tempering.moves import GAIN_OFFSET, GAIN_POWER

# the first part of warm-up is one over this of it; the rest has a stage of equal length for each
# level, with burn-in in its first half
PILOT = 5
EXPLORING, FILING, FROZEN = 0, 1, 2


class Settings(NamedTuple):
    # Number of temperatures, and of energy rings, at least 2. An iteration evaluates the
    # density once per temperature, except for jumps.
    levels: Annotated[int, Between(2, ends="[)")] = 5
    # temperature of the hottest chain, at which modes should merge; the temperatures between
    # it and 1 are spaced geometrically
    highest_temperature: Annotated[float, Between(1)] = 60.0
    jump_probability: Probability = 0.1  # share of moves that are jumps
    # largest number of states kept per hot chain, of 8 bytes for each parameter
    file_size: Annotated[int, Between(100, ends="[)")] = 50_000
    # acceptance rate of the random walks, to which their scales are tuned
    target_accept: Probability = 0.3
    # initial standard deviation of the coldest chain's proposals, in units of the
    # unconstrained parameters
    step_size: Positive = 0.5


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


class State(NamedTuple):
    current: ValuePoint
    chains: Chains
    files: Files
    phase: int  # EXPLORING (all chains walk, and no state is filed), FILING, or FROZEN
    # moving, filing: the coldest levels that move, and that are filed
    moving: int
    filing: int


class Info(NamedTuple):
    # acceptance_rate, n_steps: mean acceptance rate of the random walks of all levels, and their
    # number, which is that of the evaluations
    acceptance_rate: float
    n_steps: int
    # n_jumps, n_jumps_accepted: jumps of all levels
    n_jumps: int
    n_jumps_accepted: int
    n_empty: int  # jumps that were impossible, since the file had no state in the ring
    ring: int  # energy ring of the draw; ring 0 has the lowest energies
    step_size: float  # standard deviation of the coldest chain's proposals


@rarely_called
def init(density, settings, position, rng):
    """Start at position, shape (dim,), the hot chains around it."""
    levels = settings.levels
    chains = make_chains(levels, position, settings.highest_temperature, settings.step_size)
    scatter(density, chains, rng)
    return State(
        current=ValuePoint(position.copy(), -chains.energies[0]),
        chains=chains,
        files=no_files(levels, settings.file_size, density.size),
        phase=EXPLORING,
        moving=0,
        filing=levels,
    )


@jit
def step(density, settings, state, rng):
    """Move the chains, the hottest first."""
    chains, position = state.chains, state.current.position
    share = 0.0 if state.phase == EXPLORING else settings.jump_probability
    info = sweep(density, chains, state.files, share, state.moving, state.filing, rng)
    copy(chains.positions[0], position)
    return replace(state, current=ValuePoint(position, -chains.energies[0])), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune chains that are not filed yet; begin with the next colder one at the end of a stage."""
    levels, pilot, phase = settings.levels, max(iter_warmup // PILOT, 1), state.phase
    for i in range(state.moving, levels):
        if phase == EXPLORING or (i == state.moving and state.filing > i):
            tune(state.chains, i, settings.target_accept)
    after = t + 1 - pilot
    if after < 0:
        return state
    if after == 0:
        set_floors(state.chains)
    stage = max((iter_warmup - pilot) // levels, 1)
    number = min(after // stage, levels - 1)
    moving = levels - 1 - number
    filing = moving if after - number * stage >= stage // 2 else moving + 1
    return replace(state, phase=FILING, moving=moving, filing=max(filing, 1))


def freeze(settings: Settings, state: State) -> State:
    """Move all chains, and file all but the coldest, from now on."""
    if state.phase == EXPLORING:  # there was no warm-up
        set_floors(state.chains)
    return state._replace(phase=FROZEN, moving=0, filing=1)


# --- all chains -----------------------------------------------------------------------------------


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
    ring, scale = ring_of(chains.tuning, chains.energies[0]), np.exp(chains.tuning[0, LOG_SCALE])
    return Info(rates / max(walks, 1), walks, jumps, taken, empty, ring, scale)


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
def tune(chains, level, target_accept):
    """Move the scale of a level's proposals toward an acceptance rate, after a random walk."""
    rate, tuning = chains.rates[level], chains.tuning
    if rate >= 0.0:
        gain = (tuning[level, TUNED] + GAIN_OFFSET) ** -GAIN_POWER
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


register(
    __name__,
    iter_warmup=50_000, iter_sampling=50_000,
    workspace=(
        "files", "chains.positions", "chains.energies", "chains.rates", "chains.proposal",
        "chains.lowest",
    ),
    uses_gradient=False, standardize="diagonal", exact=False,
    memory=Memory(storage=bytes_of_files, name="files", settings=("file_size", "levels")),
    in_place_except=(), exact_on_estimates=False,
    presets={
        "kou2006": Preset({
            "levels": 5, "highest_temperature": 60.0, "jump_probability": 0.1,
            "step_size": 0.25,
        }),
    },
)  # fmt: skip
