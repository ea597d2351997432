"""Continuously tempered HMC for posteriors with many modes: the temperature is one more coordinate.

Trajectories move the position and a continuous inverse temperature together, between a reference
distribution and the target; both ends have positive probability. Positions at the target are the
draws, and an iteration consists of the moves between two of them. The reference, the spacing of
temperatures and their constants are learned by parallel tempering in the first part of warm-up,
then the step size. One step size must suit all temperatures: simulated_tempering, with one for
each, gives more effective draws from as many gradients.

References
----------
Graham and Storkey (2017), Continuously tempered Hamiltonian Monte Carlo, UAI. The kernel and
deviations from the paper: `continuous_path.py` and `coordinate.py`. As published:
coordinate="uniform", atom=0, learn_log_zeta=False with a log_zeta, inflation=1; draws are then
resampled from weighted positions.

"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Preset, Tempering
from stanadapt.engine.registry import (
    register,
    require_at_least,
    require_at_most,
    require_positive,
    require_probability,
)
from stanadapt.errors import Message, StanadaptError
from stanadapt.samplers.tempering import continuous_path as engine
from stanadapt.samplers.tempering import coordinate as coordinates
from stanadapt.samplers.tempering import swaps as path_engine
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.level_walk import COLD, HOT, log_ratio_error
from stanadapt.samplers.tempering.moves import MoveKernel, Options
from stanadapt.samplers.tempering.path import DISTRIBUTION, TemperingPath
from stanadapt.samplers.tempering.settings import (
    LEAPFROGS,
    RATE_OF_TRAJECTORIES,
    ReferenceFamily,
    add_common_settings,
    first_path,
)

# share of warm-up that the parallel tempering takes
PATH_SHARE = 0.6
ON_THE_PATH, LEARNING, FROZEN = 0, 1, 2
# smallest number of tours that gives an error; largest atom
FEWEST_TOURS, LARGEST_ATOM = 50, 0.45


class Spacing(IntEnum):
    """Dependence of inverse temperatures on the coordinate."""

    barrier = 0
    uniform = 1


class Update(IntEnum):
    """Move of the temperature: along trajectories, or drawn given the position."""

    joint = 0
    gibbs = 1


# for compiled code
UNIFORM, GIBBS = int(Spacing.uniform), int(Update.gibbs)
TRAJECTORIES = int(MoveKernel.hmc)


# the docstring lists the settings that differ from `settings.COMMON`, which the decorator adds
@add_common_settings
class Settings(NamedTuple):
    """Settings of the sampler.

    coordinate
        barrier: temperatures are spaced by the learned barrier. uniform: the inverse temperature b
        is the coordinate itself, with log constants b times log_zeta, as published; b hardly moves
        if modes merge only near b = 0.
    temperature_update
        joint: the coordinate moves along each trajectory. gibbs: each trajectory has a fixed
        temperature; after it, the temperature is drawn given the position.
    atom
        Share of the coordinate on which b is 0, and the share on which it is 1; in [0, 0.45]. With
        0, there are no visits to the target: weighted positions are resampled, and no error of the
        log evidence is estimated.
    leapfrogs
        Largest number of leapfrog steps in a trajectory, at least 1.
    target_accept
        Acceptance rate of trajectories, to which their step size is tuned; in (0, 1).
    coordinate_scale
        Step of the coordinate, on the logit scale, relative to the step of a parameter of scale 1;
        > 0. Not used by gibbs.
    learn_log_zeta, log_zeta
        For coordinate=uniform: whether log_zeta is the log evidence that the first part of warm-up
        estimates, and otherwise its value, in nats.
    levels
        Number of temperatures of the parallel tempering in warm-up, at least 2; 0: two per unit of
        the barrier.
    longest_excursion
        Largest number of trajectories in an iteration, at least 1. If there is no draw by then, the
        last one is repeated, and the next iteration continues from the current position.
    reference_family
        Family of the reference distribution: gaussian, or student_t (5 degrees of freedom).

    """

    coordinate: Spacing = Spacing.barrier
    temperature_update: Update = Update.joint
    atom: float = 0.2
    leapfrogs: int = 20
    target_accept: float = 0.8
    coordinate_scale: float = 0.5
    learn_log_zeta: bool = True
    log_zeta: float = 0.0
    levels: int = 0
    longest_excursion: int = 10_000
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: float = 0.0
    step_size: float = 0.1


class State(NamedTuple):
    """The walker, the parallel tempering of the first part of warm-up, and the latest draw.

    phase
        ON_THE_PATH, LEARNING (the walker tunes its step size) or FROZEN.
    parity
        Parity of the pairs of the parallel tempering that swap next.
    placed
        Whether the walker has been placed.
    learns_reference
        Whether the reference is learned.

    """

    current: ValuePoint
    walker: engine.Walker
    tempering: path_engine.Tempering
    phase: int
    parity: int
    placed: bool
    learns_reference: bool


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate, n_steps, diverging
        Mean acceptance rate of the trajectories, or of the latest one if there was none; number of
        leapfrogs; whether a trajectory that began at the target ended in an energy error above
        1000, or at a point at which the density failed.
    n_moves, n_redraws
        Trajectories from one draw to the next, and draws of the reference before them (instead of
        them, with gibbs).
    returned
        Whether there is a new draw; otherwise the last one is repeated.
    round_trips
        Number of returns to the cold end of the coordinate from the hot one.
    step_size
        Step size of the trajectories, in units of their scales.

    """

    acceptance_rate: float
    n_steps: int
    diverging: bool
    n_moves: int
    n_redraws: int
    returned: bool
    round_trips: int
    step_size: float


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_at_least(settings, 0, "atom", "levels", "inflation")
    require_at_most(settings, LARGEST_ATOM, "atom")
    require_at_least(settings, 1, "leapfrogs", "longest_excursion")
    require_probability(settings, "target_accept")
    require_positive(settings, "coordinate_scale", "step_size")
    require_at_least(settings, -1e300, "log_zeta")
    problems: list[Message] = []
    if settings.levels == 1:
        text = "continuous_tempering: levels must be 0 (learned) or at least 2, got 1."
        problems.append(Message("invalid_setting", text))
    if settings.reference_family == ReferenceFamily.power:
        text = (
            "continuous_tempering: reference_family must be gaussian or student_t, got power: "
            "close to b = 0 the powers of a density are improper."
        )
        problems.append(Message("improper_powers", text))
    has_log_zeta = settings.log_zeta != 0.0 or not settings.learn_log_zeta
    if has_log_zeta and (settings.learn_log_zeta or settings.coordinate != Spacing.uniform):
        text = (
            "continuous_tempering: log_zeta must be left out unless coordinate=uniform and "
            f"learn_log_zeta=false, got {settings.log_zeta}."
        )
        problems.append(Message("log_zeta_unused", text))
    if problems:
        raise StanadaptError(problems[0].code, problems[0])


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
    leapfrogs = max(round(LEAPFROGS * density.dim**0.25), 1)
    options = Options(TRAJECTORIES, leapfrogs, 1)
    tempering, current = rounds.begin(
        path, options, settings.levels, settings.step_size, position, rng
    )
    return State(
        current=current,
        walker=engine.no_walker(path, settings.atom),
        tempering=tempering,
        phase=ON_THE_PATH,
        parity=0,
        placed=False,
        learns_reference=learns_reference,
    )


@jit
def _design(settings, learns_reference):
    """Design of the first part of warm-up."""
    return rounds.WarmupDesign(
        settings.levels, rounds.LEVELS_PER_BARRIER, 0.0, learns_reference, settings.inflation,
        True, rounds.NO_LEVELS,
    )  # fmt: skip


@jit
def step(density, settings, state, rng):
    """Move until a draw is due; in the first part of warm-up, temper in parallel."""
    walker, current, parity = state.walker, state.current, state.parity
    if state.phase == ON_THE_PATH:
        tempering = state.tempering
        done = path_engine.sweep(tempering, RATE_OF_TRAJECTORIES, parity, True, rng)
        hot = tempering.path.kind == DISTRIBUTION and not rounds.in_short_chains(tempering.ladder)
        coldest = tempering.ladder.size[0] - 1
        info = Info(
            done.acceptance_rate, done.steps, done.diverging, coldest + 1, int(hot), True,
            done.round_trips, np.exp(tempering.ladder.levels[coldest, LOG_STEP]),
        )  # fmt: skip
        current = path_engine.coldest_point(tempering, current.position)
        return replace(state, current=current, parity=1 - parity), info
    if not state.placed:  # there was no warm-up
        _place(settings, state)
    learning = state.phase == LEARNING
    scale = 0.0 if settings.temperature_update == GIBBS else settings.coordinate_scale
    design = engine.Design(settings.leapfrogs, scale, settings.target_accept)
    done = engine.excursion(walker, design, learning, settings.longest_excursion, rng)
    log_step = walker.averaging[engine.LOG_STEP if learning else engine.LOG_MEAN]
    info = Info(
        done.acceptance_rate, done.steps, done.diverging, done.moves, done.redraws,
        done.returned, done.round_trips, np.exp(log_step),
    )  # fmt: skip
    if done.returned:
        current = engine.current(walker, current.position)
    return replace(state, current=current, placed=True), info


@jit
def _place(settings, state):
    """Replace the parallel tempering by the walker, on a continuous coordinate."""
    tempering, walker, ladder = state.tempering, state.walker, state.tempering.ladder
    rounds.conclude(tempering, _design(settings, state.learns_reference))
    coldest = ladder.size[0] - 1
    if settings.coordinate != UNIFORM:
        coordinates.set_barrier(walker.coordinate, ladder)
    elif settings.learn_log_zeta:
        coordinates.set_uniform(walker.coordinate, ladder.levels[coldest, LOG_Z])
    else:
        coordinates.set_uniform(walker.coordinate, settings.log_zeta)
    engine.place(
        walker, tempering.replicas, tempering.order[0, coldest], ladder.scale[coldest],
        ladder.levels[coldest, LOG_STEP],
    )  # fmt: skip


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune at the end of a round; after the last one, continue with the walker."""
    current, design = state.current, _design(settings, state.learns_reference)
    if state.phase != ON_THE_PATH:
        return state
    if rounds.last_sweep(state.tempering, design, t, int(PATH_SHARE * iter_warmup)):
        _place(settings, state)
        current = engine.current(state.walker, current.position)
        return replace(state, current=current, phase=LEARNING, placed=True)
    return replace(state, current=path_engine.coldest_point(state.tempering, current.position))


def freeze(settings: Settings, state: State) -> State:
    """Stop tuning."""
    return state._replace(phase=FROZEN)


def learned(state: State) -> dict:
    """Return ladder, reference, and the visits to each tenth of the coordinate while drawing.

    The densities of both ends of the coordinate, given the positions, improve the log evidence that
    warm-up has estimated.
    """
    walker, coordinate = state.walker, state.walker.coordinate
    values = describe_path(walker.path, state.tempering.ladder, state.tempering.short_chain_ends)
    values["step_size"] = float(np.exp(walker.averaging[engine.LOG_MEAN]))
    cold, hot = walker.ends[[COLD, HOT]]
    drawn = cold > 0.0 and hot > 0.0
    correction = float(np.log(cold / hot)) if drawn else float("nan")
    values["log_zeta"] = float(coordinate.knots[coordinates.C_AT, coordinate.cells[0]])
    if drawn:
        values["log_evidence"] = values["log_zeta"] + correction
    values["log_zeta_correction"] = correction
    values["log_evidence_error"] = log_ratio_error(walker.tours, FEWEST_TOURS)
    values["coordinate_occupancy"] = walker.visits / max(walker.visits.sum(), 1.0)
    return values


register(
    __name__,
    workspace=(
        "tempering", "parity", "walker.replicas", "walker.momentum", "walker.numbers",
        "walker.coordinate.logs", "walker.coordinate.masses", "walker.visits",
        "walker.ends", "walker.tours", "walker.path.target", "walker.path.reference.work",
    ),
    iter_warmup=3_000, iter_sampling=5_000,
    standardize="no", tempering=Tempering(init_from_path, learned),
    in_place_except=(),
    # one step of the trajectory moves parameters and coordinate alike
    presets={
        "graham2017": Preset(
            {
                "coordinate": Spacing.uniform, "atom": 0.0, "temperature_update": Update.joint,
                "leapfrogs": 20, "coordinate_scale": 1.0, "step_size": 0.5,
            }
        ),
    },
)  # fmt: skip
