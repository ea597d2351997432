"""Sequential Monte Carlo: many particles annealed from a reference to the target, with evidence.

The particles of a chain are drawn from the reference distribution. Then they are weighted,
resampled and moved at one inverse temperature b after another, all during warm-up. A draw is a move
of the next particle at b = 1, the target. Chains are independent runs, so their differences show
the error of the log evidence. With resample=False, this is annealed importance sampling.

References
----------
Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, JRSS B 68. Neal (2001),
Annealed importance sampling, Statistics and Computing 11. The stages: `particles`. Deviations: a
first half of warm-up, parallel tempering, learns the reference if none is given, since the
particles see nothing that its draws do not; and particles continue to move at b = 1 for as long as
draws are requested.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Memory, Numbers, Preset, Tempering, Threading
from stanadapt.engine.registry import (
    register,
    require_at_least,
    require_positive,
    require_probability,
)
from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering import particles as engine
from stanadapt.samplers.tempering import swaps as path_engine
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_particles
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.moves import RANDOM_WALK, MoveKernel
from stanadapt.samplers.tempering.path import TemperingPath
from stanadapt.samplers.tempering.settings import (
    EQUAL_STEPS,
    ReferenceFamily,
    add_common_settings,
    check_ladder,
    check_moves,
    first_path,
    options_of,
    target_rate,
)

# share of warm-up that learns the reference
PATH_SHARE = 0.5
ON_THE_PATH, ANNEALING, FROZEN = 0, 1, 2
FEWEST_PARTICLES = 100


# the docstring lists the settings that differ from `settings.COMMON`, which the decorator adds
@add_common_settings
class Settings(NamedTuple):
    """Settings of the sampler.

    particles
        Number of particles of a chain, at least 100: more are more accurate. Make the number of
        draws (iter_sampling) the same: with fewer draws, some particles are left out; with more,
        draws of the same particle are correlated.
    threshold
        Conditional effective sample size of a stage, as a share of the number of particles, in (0,
        1): the nearer to 1, the more and the smaller the stages.
    inverse_temperatures
        Your own stages instead of those that the threshold determines: inverse temperatures in
        strictly decreasing order, from 1 (the target) to 0 (the reference). Each step takes
        `sweeps` iterations of the second half of warm-up; if these are too few, the remaining steps
        are made in the first iteration after it.
    resample
        Whether to resample in every stage. If not, particles keep their weights until the last
        stage has ended, and the weights of all chains together give the error of the log evidence.
        This error is too small if a few large weights dominate: use more chains to see more of
        these.
    sweeps
        Moves of each particle in a stage, at least 1.
    reference_family
        Family of the distribution from which particles are drawn: gaussian, or student_t (5 degrees
        of freedom).
    inflation
        Ratio of the spread of a learned reference to that of the draws from which it is learned; >
        0. The default is larger than for parallel tempering, because modes in which the reference
        has no draws are lost.
    step_size
        Initial step size of the parallel tempering, in units of the unconstrained parameters; > 0.

    """

    particles: int = 1000
    threshold: float = 0.5
    inverse_temperatures: Numbers = Numbers()
    resample: bool = True
    sweeps: int = 8
    kernel: MoveKernel = MoveKernel.hmc
    leapfrogs: int = 0
    max_treedepth: int = 6
    target_accept: float = 0.0
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: float = 3.0
    step_size: float = 0.1


class State(NamedTuple):
    """The particles, and the parallel tempering of the first part of warm-up.

    phase
        ON_THE_PATH, ANNEALING or FROZEN.
    parity
        Parity of the pairs of the parallel tempering that swap next.
    learns_reference
        Whether the reference is learned.

    """

    current: ValuePoint
    population: engine.Population
    tempering: path_engine.Tempering
    phase: int
    parity: int
    learns_reference: bool


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate, n_steps, diverging
        Mean acceptance rate of the moves without draws from the reference; leapfrogs (or steps) of
        all; whether the trajectory of the draw ended in an energy error above 1000, or the density
        failed.
    n_redraws
        Draws from the reference.
    temperature
        Inverse temperature of the particles.
    stage
        Number of the stage.
    particle, ancestor
        Number of the particle that is the draw, and of its ancestor among the first ones: draws of
        one ancestor are not independent.

    """

    acceptance_rate: float
    n_steps: int
    diverging: bool
    n_redraws: int
    temperature: float
    stage: int
    particle: int
    ancestor: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_at_least(settings, FEWEST_PARTICLES, "particles")
    require_at_least(settings, 1, "sweeps")
    require_probability(settings, "threshold")
    require_positive(settings, "inflation")
    check_moves(settings)
    if settings.reference_family == ReferenceFamily.power:
        raise StanadaptError(
            "improper_powers",
            "smc: reference_family must be gaussian or student_t, got power: the particles are "
            "drawn from the reference, and the power of a density cannot be drawn from.",
        )
    check_ladder(settings, threshold=Settings._field_defaults["threshold"])
    if settings.inverse_temperatures and settings.inverse_temperatures[-1] != 0.0:
        raise StanadaptError(
            "invalid_temperatures",
            "smc: inverse_temperatures must end at 0, since the particles are drawn from the "
            f"reference, got {settings.inverse_temperatures[-1]:g}.",
        )


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
    queue, stages = tempering.mover.queue, max(len(settings.inverse_temperatures) - 1, 0)
    return State(
        current=current,
        population=engine.no_population(
            path, options, settings.particles, queue, stages if stages > 0 else engine.MOST_STAGES
        ),
        tempering=tempering,
        phase=ON_THE_PATH if learns_reference else ANNEALING,
        parity=0,
        learns_reference=learns_reference,
    )


@jit
def _design(settings, learns_reference):
    """Design of the first part of warm-up."""
    return rounds.WarmupDesign(
        0, rounds.LEVELS_PER_BARRIER, 0.0, learns_reference, settings.inflation,
        settings.kernel != RANDOM_WALK,
        rounds.NO_LEVELS,
    )  # fmt: skip


@jit
def step(density, settings, state, rng):
    """Temper in parallel, then anneal, then move the next particle."""
    tempering, population, parity = state.tempering, state.population, state.parity
    if state.phase == ON_THE_PATH:
        done = path_engine.sweep(tempering, target_rate(settings), parity, True, rng)
        redraws = int(tempering.ladder.levels[0, B] == 0.0)
        info = Info(done.acceptance_rate, done.steps, done.diverging, redraws, 1.0, 0, 0, 0)
        current = path_engine.coldest_point(tempering, state.current.position)
        return replace(state, current=current, parity=1 - parity), info
    if population.counts[engine.DONE]:  # also in the rest of warm-up
        engine.pass_turn(population)
        done = engine.move_one(population, rng)
    else:
        done = _anneal(settings, state, rng)
    current = engine.current(population, state.current.position)
    stage, turn = population.ladder.size[0] - 1, population.counts[engine.TURN]
    info = Info(
        done.acceptance_rate, done.steps, done.diverging, done.redraws,
        population.ladder.levels[stage, B], stage, turn,
        population.indices[engine.ANCESTOR, turn],
    )  # fmt: skip
    return replace(state, current=current), info


@jit
def _anneal(settings, state, rng):
    """Make one sweep or, if warm-up was too short, all that remain."""
    population, steps, redraws, rate = state.population, 0, 0, 0.0
    if population.ladder.size[0] == 0:
        if rounds.in_short_chains(state.tempering.ladder):
            rounds.end_short_chains(state.tempering, _design(settings, state.learns_reference))
        coldest = state.tempering.order[0, state.tempering.ladder.size[0] - 1]
        redraws = engine.begin(population, state.tempering.replicas, coldest, rng).redraws
    while not population.counts[engine.DONE]:
        done = engine.anneal(
            population, target_rate(settings), settings.threshold, settings.sweeps,
            settings.resample, rng, settings.inverse_temperatures,
        )  # fmt: skip
        steps, rate = steps + done.steps, done.acceptance_rate
        if state.phase != FROZEN:
            break
    return engine.SweepInfo(rate, steps, redraws, False)


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """End a round of the parallel tempering; after the last one, continue with the particles."""
    design = _design(settings, state.learns_reference)
    if state.phase != ON_THE_PATH:
        return state
    if rounds.last_sweep(state.tempering, design, t, int(PATH_SHARE * iter_warmup)):
        return replace(state, phase=ANNEALING)
    current = path_engine.coldest_point(state.tempering, state.current.position)
    return replace(state, current=current)


def freeze(settings: Settings, state: State) -> State:
    """Stop tuning."""
    return state._replace(phase=FROZEN)


@jit
def make_worker(density, settings, state):
    """Return the state for a worker thread, with its own density, and the queue of tasks."""
    tempering = path_engine.tempering_of_worker(density, state.tempering)
    population = engine.population_of_worker(density, state.population)
    return replace(state, population=population, tempering=tempering), tempering.mover.queue


@jit
def run_task(settings, state, kind, slot):
    """Move one chain of the path, or one particle."""
    if kind == path_engine.TASK_LEVEL:
        path_engine.run_task(state.tempering, slot)
    else:
        engine.run_task(state.population, kind, slot)


def learned(state: State) -> dict:
    """Return stages and reference; log evidence; ancestors; weights, if they were kept."""
    return describe_particles(state.population, state.tempering.short_chain_ends)


def bytes_of_particles(settings: Settings, dim: int) -> int:
    """Return the bytes of the particles of a chain."""
    return settings.particles * engine.bytes_per_particle(dim)


register(
    __name__,
    workspace=(
        "tempering", "parity", "population.replicas", "population.mover", "population.counts",
        "population.work", "population.path.target", "population.path.reference.work",
    ),
    iter_warmup=4_000, iter_sampling=1_000,
    uses_gradient=lambda settings: settings.kernel != MoveKernel.random_walk,
    standardize="no", tempering=Tempering(init_from_path, learned, draws_reference=True),
    memory=Memory(storage=bytes_of_particles, name="particles", settings=("particles",)),
    threading=Threading(
        make_worker, run_task, max_threads=lambda settings: settings.particles
    ),
    in_place_except=(), extends=False,
    # annealed importance sampling
    presets={
        "nemeth2019": Preset(
            {
                "resample": False, "inverse_temperatures": EQUAL_STEPS, "sweeps": 1,
                "particles": 100, "kernel": MoveKernel.hmc, "leapfrogs": 10, "step_size": 0.5,
            }
        ),
    },
)  # fmt: skip
