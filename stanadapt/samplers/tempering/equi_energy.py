"""Equi-energy sampler, as published: jumps between modes of equal energy. Not exact.

Chains at several temperatures run one after another, the hottest first. Each jumps to states that
the next hotter chain has stored (its "file"). The draws are those of the coldest chain; they have
the posterior distribution only in the limit of large files. An error in the files is common to all
draws of a chain, and may be two or three times the Monte Carlo error that the draws show. Compare
at least four chains. For exact draws, use parallel_tempering with swaps="energy_rings", which makes
the same jumps between chains that run simultaneously.

References
----------
Kou, Zhou and Wong (2006), Equi-energy sampler with applications in statistical inference and
statistical mechanics, Annals of Statistics 34. The formulas: `samplers/tempering/energy_walk.py`.
Deviations: energy floors and proposals are learned, in a first part of warm-up and in the burn-in
of each chain; in the paper they are given. Later analyses: Atchade, Roberts and Rosenthal (2011),
Statistics and Computing 21, on interacting tempering.
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit, rarely_called
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Memory, Preset
from stanadapt.engine.registry import register
from stanadapt.engine.settings import Between, Positive, Probability
from stanadapt.samplers.tempering import energy_walk as engine
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


class State(NamedTuple):
    current: ValuePoint
    chains: engine.Chains
    files: engine.Files
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
    chains = engine.make_chains(levels, position, settings.highest_temperature, settings.step_size)
    engine.scatter(density, chains, rng)
    return State(
        current=ValuePoint(position.copy(), -chains.energies[0]),
        chains=chains,
        files=engine.no_files(levels, settings.file_size, density.size),
        phase=EXPLORING,
        moving=0,
        filing=levels,
    )


@jit
def step(density, settings, state, rng):
    """Move the chains, the hottest first."""
    chains, position = state.chains, state.current.position
    share = 0.0 if state.phase == EXPLORING else settings.jump_probability
    done = engine.sweep(density, chains, state.files, share, state.moving, state.filing, rng)
    copy(chains.positions[0], position)
    info = Info(
        done.acceptance_rate, done.evaluations, done.jumps, done.jumps_accepted, done.empty_rings,
        engine.ring_of(chains.tuning, chains.energies[0]),
        np.exp(chains.tuning[0, engine.LOG_SCALE]),
    )  # fmt: skip
    return replace(state, current=ValuePoint(position, -chains.energies[0])), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune chains that are not filed yet; begin with the next colder one at the end of a stage."""
    levels, pilot, phase = settings.levels, max(iter_warmup // PILOT, 1), state.phase
    for i in range(state.moving, levels):
        if phase == EXPLORING or (i == state.moving and state.filing > i):
            engine.tune(state.chains, i, settings.target_accept, GAIN_OFFSET, GAIN_POWER)
    after = t + 1 - pilot
    if after < 0:
        return state
    if after == 0:
        engine.set_floors(state.chains)
    stage = max((iter_warmup - pilot) // levels, 1)
    number = min(after // stage, levels - 1)
    moving = levels - 1 - number
    filing = moving if after - number * stage >= stage // 2 else moving + 1
    return replace(state, phase=FILING, moving=moving, filing=max(filing, 1))


def freeze(settings: Settings, state: State) -> State:
    """Move all chains, and file all but the coldest, from now on."""
    if state.phase == EXPLORING:  # there was no warm-up
        engine.set_floors(state.chains)
    return state._replace(phase=FROZEN, moving=0, filing=1)


register(
    __name__,
    iter_warmup=50_000, iter_sampling=50_000,
    workspace=(
        "files", "chains.positions", "chains.energies", "chains.rates", "chains.proposal",
        "chains.lowest",
    ),
    uses_gradient=False, standardize="diagonal", exact=False,
    memory=Memory(storage=engine.bytes_of_files, name="files", settings=("file_size", "levels")),
    in_place_except=(), exact_on_estimates=False,
    presets={
        "kou2006": Preset({
            "levels": 5, "highest_temperature": 60.0, "jump_probability": 0.1,
            "step_size": 0.25,
        }),
    },
)  # fmt: skip
