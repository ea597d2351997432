"""Parallel tempering (non-reversible) for posteriors with many modes, with the log evidence.

A chain at each inverse temperature between a reference law and the target; neighbours swap. The
reference, the spacing of the temperatures, their number and all step sizes are learned during
warm-up. The draws are those of the coldest chain.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, JRSS B 84. What it consists of: `tempered_path`, `tempered_moves`,
`ladder`, `tempering`, `tempering_rounds`.

"""

from typing import NamedTuple

import numpy as np

from stanadapt import tempering as engine
from stanadapt import tempering_rounds as rounds
from stanadapt._jit import jit
from stanadapt.points import ValuePoint
from stanadapt.protocol import Sampler, register
from stanadapt.tempered_moves import Moves
from stanadapt.tempering_report import of_path
from stanadapt.tempering_settings import (
    Law,
    check_tempering,
    design_of,
    first_path,
    options_of,
    target_rate,
)

# levels for each unit of the barrier: about the best for the rate of round trips (section 5)
LEVELS_A_BARRIER = 2.0


class Settings(NamedTuple):
    """What the user chooses.

    moves
        How each chain moves: hmc (1 to `leapfrogs` leapfrogs), nuts, or random_walk, which needs no
        gradient.
    leapfrogs
        Most leapfrogs of a trajectory of hmc; 0: twice the fourth root of the dimension. Where
        modes are round, 1 or 2 draw more from as many gradients.
    max_treedepth
        Of nuts, 1 to 25.
    target_accept
        Acceptance rate to tune each level's step size to, in [0, 1); 0: 0.8, of random_walk 0.3.
    levels
        Number of temperatures, at least 2; 0: twice the barrier and one, as it is learned.
    law
        The reference: gaussian, student_t (of 5 degrees), or power, which has none: the powers of
        the target alone, improper for most targets.
    inflation
        Spread of a learned reference over that of the draws it is learned from; 0: 2^sqrt(2 / d),
        which is 2 in two dimensions. Before the last fit of warm-up it is at least 4.
    lowest
        Inverse temperature of the hottest chain, in [0, 1); above 0 for power.
    step_size
        The step to begin with, in units of the unconstrained parameters; > 0.

    """

    moves: Moves = Moves.hmc
    leapfrogs: int = 0
    max_treedepth: int = 6
    target_accept: float = 0.0
    levels: int = 0
    law: Law = Law.gaussian
    inflation: float = 0.0
    lowest: float = 0.0
    step_size: float = 0.1


class State(NamedTuple):
    """All chains and the tuning, updated in place; the coldest chain is `current`.

    parity
        Which pairs swap next: even (0) or odd (1) ones.
    learning, learns_law
        Whether it is warm-up; whether the reference is learned in it.

    """

    current: ValuePoint
    tempering: engine.Tempering
    parity: int
    learning: bool
    learns_law: bool


class Info(NamedTuple):
    """What one iteration reports.

    acceptance_rate, swap_rate
        Of the moves, a mean over levels; of the swaps, a mean over all pairs of neighbours.
    n_steps
        Leapfrogs (steps of the random walk) of all levels.
    diverging
        The coldest chain's trajectory ended in an energy error above 1000, or where the density
        failed.
    round_trips
        Chains that came back to the coldest level from the hottest.
    levels
        Number of temperatures.

    """

    acceptance_rate: float
    swap_rate: float
    n_steps: int
    diverging: bool
    round_trips: int
    levels: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    check_tempering(settings)


@jit
def init(density, settings, position, rng):
    """Start all chains at b = 1, the first at position, shape (dim,), the others at random."""
    return init_on(density, settings, position, rng, first_path(density, settings), True)


@jit
def init_on(density, settings, position, rng, path, learns_law):
    """`init` on a path whose reference is given, not learned."""
    options = options_of(settings, density.dim)
    design = _design(settings, learns_law)
    tempering = rounds.begin(path, options, design, position, rng)
    current = engine.coldest(tempering, np.empty(density.dim))
    return State(current, tempering, 0, True, learns_law)


@jit
def _design(settings, learns_law):
    return design_of(settings, settings.levels, learns_law, LEVELS_A_BARRIER)


@jit
def step(density, settings, state, rng):
    """Move all chains, then swap neighbours."""
    tempering, learning = state.tempering, state.learning
    if not learning and rounds.short_chains(tempering.ladder):  # there was no warm-up
        rounds.end_short_chains(tempering, _design(settings, state.learns_law))
    done = engine.sweep(tempering, target_rate(settings), state.parity, learning, rng)
    info = Info(
        done.acceptance_rate, done.swap_rate, done.steps, done.diverging, done.round_trips,
        tempering.ladder.size[0],
    )  # fmt: skip
    current = engine.coldest(tempering, state.current.position)
    return State(current, tempering, 1 - state.parity, learning, state.learns_law), info


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune at the end of a round."""
    design = _design(settings, state.learns_law)
    rounds.after_sweep(state.tempering, design, t, iter_warmup)
    current = engine.coldest(state.tempering, state.current.position)
    return State(current, state.tempering, state.parity, state.learning, state.learns_law)


@jit
def freeze(settings, state):
    """Tune no more."""
    return State(state.current, state.tempering, state.parity, False, state.learns_law)


@jit
def hire(density, settings, state):
    """Return the state as a helper has it, with a density of its own; and the board."""
    tempering = engine.tempering_of_helper(density, state.tempering)
    hired = State(state.current, tempering, state.parity, state.learning, state.learns_law)
    return hired, tempering.mover.board


@jit
def assist(settings, state, kind, slot):
    """Move one chain."""
    engine.assist(state.tempering, slot)


def learned(state: State) -> dict:
    """Ladder and reference; rejection rates, constants and round trips of sampling."""
    tempering = state.tempering
    found, seen = of_path(tempering.path, tempering.ladder, tempering.ended), tempering.seen
    sweeps, count = max(int(seen.counts[engine.SWEEPS]), 1), len(found["temperature"])
    rejection = seen.levels[: count - 1, engine.REJECTION] / sweeps
    engine.log_normalizers(seen, count, found["log_normalizer"])
    found["rejection"] = rejection
    found["barrier"] = float(rejection.sum())
    if np.isfinite(found["log_evidence"]):
        found["log_evidence"] = float(found["log_normalizer"][-1])
    return found


register(
    Sampler(
        Settings,
        Info,
        check,
        init,
        step,
        adapt,
        freeze,
        iter_warmup=3_000,
        iter_sampling=5_000,
        uses_gradient=lambda settings: settings.moves != Moves.random_walk,
        init_on=init_on,
        learned=learned,
        arrays_stay=True,
        hire=hire,
        assist=assist,
        most_threads=lambda settings: settings.levels or rounds.ROOM,
    )
)
