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
from typing import Annotated, Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.protocol import Preset
from stanadapt.engine.settings import Between, Count, CountOrZero, Finite, Positive, Probability
from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering import continuous_path, moves, on_the_path, tours
from stanadapt.samplers.tempering import coordinate as coordinates
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.moves import HMC, Options
from stanadapt.samplers.tempering.path import point_of
from stanadapt.samplers.tempering.settings import LEAPFROGS, RATE_OF_TRAJECTORIES, ReferenceFamily

LARGEST_ATOM = 0.45


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


class Settings(NamedTuple):
    # barrier: temperatures are spaced by the learned barrier. uniform: the inverse temperature
    # b is the coordinate itself, with log constants b times log_zeta, as published; b hardly
    # moves if modes merge only near b = 0.
    coordinate: Spacing = Spacing.barrier
    # joint: the coordinate moves along each trajectory. gibbs: each trajectory has a fixed
    # temperature; after it, the temperature is drawn given the position.
    temperature_update: Update = Update.joint
    # Share of the coordinate on which b is 0, and the share on which it is 1. With 0, there
    # are no visits to the target: weighted positions are resampled, and no error of the log
    # evidence is estimated.
    atom: Annotated[float, Between(0, LARGEST_ATOM, "[]")] = 0.2
    leapfrogs: Count = 20  # largest number of leapfrog steps in a trajectory
    # acceptance rate of trajectories, to which their step size is tuned
    target_accept: Probability = 0.8
    # Step of the coordinate, on the logit scale, relative to the step of a parameter of scale
    # 1. Not used by gibbs.
    coordinate_scale: Positive = 0.5
    # for coordinate=uniform: whether log_zeta is the log evidence that the first part of
    # warm-up estimates
    learn_log_zeta: bool = True
    log_zeta: Finite = 0.0  # its value otherwise, in nats
    # number of temperatures of the parallel tempering in warm-up, at least 2; 0: two per unit
    # of the barrier
    levels: CountOrZero = 0
    # Largest number of trajectories in an iteration. If there is no draw by then, the last one
    # is repeated, and the next iteration continues from the current position.
    longest_excursion: Count = 10_000
    # family of the reference distribution: gaussian, or student_t (5 degrees of freedom)
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: common.Inflation = 0.0
    step_size: common.StepSize = 0.1


Info = continuous_path.ContinuousTemperingInfo


def check(settings: Settings) -> None:
    """Raise StanadaptError for settings that contradict each other."""
    common.check_levels(settings)
    if settings.reference_family == ReferenceFamily.power:
        raise StanadaptError(
            "improper_powers",
            "continuous_tempering: reference_family must be gaussian or student_t, got power: "
            "close to b = 0 the powers of a density are improper.",
        )
    has_log_zeta = settings.log_zeta != 0.0 or not settings.learn_log_zeta
    if has_log_zeta and (settings.learn_log_zeta or settings.coordinate != Spacing.uniform):
        raise StanadaptError(
            "log_zeta_unused",
            "continuous_tempering: log_zeta must be left out unless coordinate=uniform and "
            f"learn_log_zeta=false, got {settings.log_zeta}.",
        )


def design_of_path(
    settings: Settings, dim: int, learns_reference: bool
) -> tuple[Options, rounds.WarmupDesign]:
    """Return that of the path, with short trajectories: the settings have those of the walker."""
    leapfrogs = max(round(LEAPFROGS * dim**0.25), 1)
    return Options(HMC, leapfrogs, 1), rounds.WarmupDesign(
        levels=settings.levels,
        min_inverse_temperature=0.0,
        fits_reference=learns_reference,
        inflation=settings.inflation,
        uses_gradient=True,
        given=np.empty(0),
        target_accept=RATE_OF_TRAJECTORIES,
    )


def make(path: Any, options: Any, settings: Settings, tempering: Any) -> continuous_path.Walker:
    """Return the walker, without a position."""
    return continuous_path.no_walker(path, settings.atom)


def place(settings: Settings, state: on_the_path.State) -> None:
    """Put the walker at the target, on a continuous coordinate."""
    tempering, walker, ladder = state.tempering, state.engine, state.tempering.ladder
    rounds.conclude(tempering, state.design)
    coldest = ladder.size[0] - 1
    if settings.coordinate != UNIFORM:
        coordinates.set_barrier(walker.coordinate, ladder)
    elif settings.learn_log_zeta:
        coordinates.set_uniform(walker.coordinate, ladder.levels[coldest, LOG_Z])
    else:
        coordinates.set_uniform(walker.coordinate, settings.log_zeta)
    continuous_path.place(
        walker, tempering.replicas, tempering.order[0, coldest], ladder.scale[coldest],
        ladder.levels[coldest, LOG_STEP],
    )  # fmt: skip


@jit
def move(settings, state, learning, rng):
    """Move until a draw is due."""
    walker, current = state.engine, state.current
    scale = 0.0 if settings.temperature_update == GIBBS else settings.coordinate_scale
    design = continuous_path.Design(settings.leapfrogs, scale, settings.target_accept)
    info = continuous_path.excursion(walker, design, learning, settings.longest_excursion, rng)
    if info.returned:
        current = point_of(walker.replicas, continuous_path.CURRENT, current.position)
    return current, info


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep of the parallel tempering."""
    count = done.levels
    return Info(
        done.acceptance_rate, done.n_steps, done.diverging, count, moves.redraws(tempering), True,
        done.round_trips, np.exp(tempering.ladder.levels[count - 1, LOG_STEP]),
    )  # fmt: skip


def learned(state: on_the_path.State) -> dict[str, Any]:
    """Return ladder, reference, and the visits to each tenth of the coordinate while drawing.

    The densities of both ends of the coordinate, given the positions, improve the log evidence that
    warm-up has estimated.
    """
    walker, coordinate = state.engine, state.engine.coordinate
    values = describe_path(walker.path, state.tempering.ladder, state.tempering.short_chain_ends)
    values["step_size"] = float(np.exp(walker.averaging[continuous_path.LOG_MEAN]))
    cold, hot = walker.ends[[tours.COLD, tours.HOT]]
    drawn = cold > 0.0 and hot > 0.0
    correction = float(np.log(cold / hot)) if drawn else float("nan")
    values["log_zeta"] = float(coordinate.knots[coordinates.C_AT, coordinate.cells[0]])
    if drawn:
        values["log_evidence"] = values["log_zeta"] + correction
    values["log_zeta_correction"] = correction
    values["log_evidence_error"] = tours.log_ratio_error(walker.tours)
    values["coordinate_occupancy"] = walker.visits / max(walker.visits.sum(), 1.0)
    return values


on_the_path.register(
    __name__,
    workspace=(
        "replicas", "momentum", "numbers", "coordinate.logs", "coordinate.masses", "visits",
        "ends", "tours", "path.target", "path.reference.work",
    ),
    presets={
        "graham2017": Preset({  # one step of the trajectory moves parameters and coordinate alike
            "coordinate": Spacing.uniform, "atom": 0.0, "temperature_update": Update.joint,
            "leapfrogs": 20, "coordinate_scale": 1.0, "step_size": 0.5,
        }),
    },
)  # fmt: skip
