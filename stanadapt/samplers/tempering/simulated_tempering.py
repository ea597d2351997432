"""Simulated tempering for posteriors with many modes: one chain that wanders along temperatures.

The chain moves at one temperature at a time, on a ladder between a reference distribution and the
target; the next temperature is drawn given its position. Its visits to the target are the draws,
and an iteration consists of the moves between two of them. The reference, the ladder, the constants
and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Marinari and Parisi (1992), Simulated tempering: a new Monte Carlo scheme, Europhysics Letters 19.
Geyer and Thompson (1995), Annealing Markov chain Monte Carlo with applications to ancestral
inference, JASA 90. The kernel, its errors, and how the constants are learned: `level_walk`.
Warm-up: `warmup_rounds`. Deviation: the level is drawn from its full conditional, not moved to a
neighbor, which gives 1.5 to 3 times as many effective draws from as many evaluations.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Numbers, Preset, Tempering
from stanadapt.engine.registry import register, require_at_least
from stanadapt.samplers.tempering import level_walk as engine
from stanadapt.samplers.tempering import swaps as path_engine
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.ladder import place
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import TemperingPath, copy_replica
from stanadapt.samplers.tempering.settings import (
    EQUAL_STEPS,
    ReferenceFamily,
    add_common_settings,
    check_tempering,
    first_path,
    hottest_of,
    options_of,
    target_rate,
    warmup_design,
)

# share of warm-up that the parallel tempering takes
PATH_SHARE = 0.6
ON_THE_PATH, LEARNING, FROZEN = 0, 1, 2
# largest number of moves of an excursion per level; smallest number of tours that gives an error
MOVES_PER_LEVEL, FEWEST_TOURS = 1000, 50


# the docstring lists the settings that differ from `settings.COMMON`, which the decorator adds
@add_common_settings
class Settings(NamedTuple):
    """Settings of the sampler.

    levels
        Number of temperatures, at least 2; 0: two and a half times the barrier, but at least 16. An
        iteration takes about this number of moves.
    longest_excursion
        Largest number of moves in an iteration, at least 0; 0: 1000 per temperature. If the chain
        has not returned to the target by then, the last draw is repeated, and the next iteration
        continues from the current position.

    """

    kernel: MoveKernel = MoveKernel.hmc
    leapfrogs: int = 0
    max_treedepth: int = 6
    target_accept: float = 0.0
    levels: int = 0
    inverse_temperatures: Numbers = Numbers()
    longest_excursion: int = 0
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: float = 0.0
    min_inverse_temperature: float = 0.0
    step_size: float = 0.1


class State(NamedTuple):
    """The walker, the parallel tempering of the first part of warm-up, and the latest draw.

    phase
        ON_THE_PATH, LEARNING (the walker tunes the ladder) or FROZEN.
    parity
        Parity of the pairs of the parallel tempering that swap next.
    learns_reference
        Whether the reference is learned.

    """

    current: ValuePoint
    walker: engine.Walker
    tempering: path_engine.Tempering
    phase: int
    parity: int
    learns_reference: bool


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate, n_steps, diverging
        Mean acceptance rate of the moves without redraws from the reference; leapfrogs (or steps)
        of all; whether a trajectory on the target ended in an energy error above 1000, or the
        density failed.
    n_moves, n_redraws
        Moves from one visit of the target to the next, and the number of redraws from the reference
        among them.
    returned
        Whether the target was reached; otherwise the last draw is repeated.
    round_trips
        1 if the chain came back to the target from the hottest level.
    levels
        Number of temperatures.

    """

    acceptance_rate: float
    n_steps: int
    diverging: bool
    n_moves: int
    n_redraws: int
    returned: bool
    round_trips: int
    levels: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_at_least(settings, 0, "longest_excursion")
    check_tempering(settings)


def init(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator
) -> State:
    """Start the parallel tempering, the first of its chains at position, shape (dim,)."""
    return init_from_path(density, settings, position, rng, first_path(density, settings), True)


def init_from_path(
    density: Density, settings: Settings, position: np.ndarray, rng: np.random.Generator,
    path: TemperingPath, learns_reference: bool,
) -> State:  # fmt: skip
    """As `init`, on a path with a given reference, which is not learned."""
    options = options_of(settings, density.dim)
    tempering, current = rounds.begin(path, options, 0, settings.step_size, position, rng)
    levels = max(settings.levels, len(settings.inverse_temperatures))
    ladder = rounds.no_finer_ladder(levels, density.dim)
    walker = engine.no_walker(path, options, ladder)
    return State(
        current=current,
        walker=walker,
        tempering=tempering,
        phase=ON_THE_PATH,
        parity=0,
        learns_reference=learns_reference,
    )


@jit
def _design(settings, learns_reference):
    """Design of the first part of warm-up, with as many levels as needed."""
    return warmup_design(settings, 0, learns_reference, hottest_of(settings), rounds.NO_LEVELS)


@jit
def step(density, settings, state, rng):
    """Move until the target is reached again; in the first part of warm-up, temper in parallel."""
    tempering, walker, parity, current = (
        state.tempering,
        state.walker,
        state.parity,
        state.current,
    )
    if state.phase == ON_THE_PATH:
        done = path_engine.sweep(tempering, target_rate(settings), parity, True, rng)
        info = Info(
            done.acceptance_rate, done.steps, done.diverging, tempering.ladder.size[0],
            int(engine.regenerates(tempering.path, tempering.ladder)), True,
            done.round_trips, tempering.ladder.size[0],
        )  # fmt: skip
        current, parity = path_engine.coldest_point(tempering, current.position), 1 - parity
    else:
        if walker.ladder.size[0] == 0:  # there was no warm-up
            _place(settings, state)
        longest = settings.longest_excursion
        if longest == 0:
            longest = MOVES_PER_LEVEL * walker.ladder.size[0]
        learning = state.phase == LEARNING
        done = engine.excursion(walker, target_rate(settings), learning, longest, rng)
        info = Info(
            done.acceptance_rate, done.steps, done.diverging, done.moves, done.redraws,
            done.returned, done.round_trips, walker.ladder.size[0],
        )  # fmt: skip
        if done.returned:
            current = engine.current(walker, current.position)
    return replace(state, current=current, parity=parity), info


@jit
def _place(settings, state):
    """Replace the parallel tempering by the walker, on a finer ladder."""
    tempering, walker = state.tempering, state.walker
    barrier = rounds.conclude(tempering, _design(settings, state.learns_reference))
    if settings.inverse_temperatures.shape[0] > 0:
        place(tempering.ladder, walker.ladder, settings.inverse_temperatures)
    else:
        rounds.set_finer_ladder(tempering, barrier, settings.levels, walker.ladder)
    coldest = tempering.order[0, tempering.ladder.size[0] - 1]
    copy_replica(tempering.replicas, coldest, walker.replicas, 0)
    walker.where[engine.LEVEL] = walker.ladder.size[0] - 1


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune at the end of a round; after the last one, continue with the walker."""
    current, design = state.current, _design(settings, state.learns_reference)
    if state.phase != ON_THE_PATH:
        return state
    if rounds.last_sweep(state.tempering, design, t, int(PATH_SHARE * iter_warmup)):
        _place(settings, state)
        current = engine.current(state.walker, current.position)
        return replace(state, current=current, phase=LEARNING)
    return replace(state, current=path_engine.coldest_point(state.tempering, current.position))


def freeze(settings: Settings, state: State) -> State:
    """Stop tuning."""
    return state._replace(phase=FROZEN)


def learned(state: State) -> dict:
    """Return ladder and reference, and the visits to each level during sampling.

    Visits are proportional to Z / Zhat, so that they improve the constants from warm-up.
    """
    walker = state.walker
    values = describe_path(walker.path, walker.ladder, state.tempering.short_chain_ends)
    visits = walker.visits[1, : len(values["temperature"])].copy()
    values["log_evidence_error"] = float("nan")
    if visits.any():
        values["occupancy"] = visits
        if visits[0] > 0 and visits[-1] > 0:
            values["log_evidence"] += float(np.log(visits[-1] / visits[0]))
            values["log_evidence_error"] = engine.log_ratio_error(walker.tours, FEWEST_TOURS)
    return values


register(
    __name__,
    workspace=(
        "tempering", "parity", "walker.replicas", "walker.mover", "walker.probabilities",
        "walker.where", "walker.visits", "walker.tours", "walker.path.target",
        "walker.path.reference.work",
    ),
    iter_warmup=3_000, iter_sampling=5_000,
    uses_gradient=lambda settings: settings.kernel != MoveKernel.random_walk,
    standardize="no", tempering=Tempering(init_from_path, learned),
    in_place_except=(),
    presets={
        "nemeth2019": Preset(
            {
                "inverse_temperatures": EQUAL_STEPS, "kernel": MoveKernel.hmc, "leapfrogs": 20,
                "step_size": 0.5,
            }
        ),
    },
)  # fmt: skip
