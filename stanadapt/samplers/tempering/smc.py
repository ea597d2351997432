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

from typing import Annotated, Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.protocol import Memory, Preset, Threading
from stanadapt.engine.settings import Between, Count, Numbers, Positive, Probability
from stanadapt.errors import StanadaptError
from stanadapt.samplers.tempering import moves, on_the_path, particles, swaps
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.moves import TASK_PATH, MoveKernel, Summary, diverged
from stanadapt.samplers.tempering.path import POSITION, point_of
from stanadapt.samplers.tempering.settings import EQUAL_STEPS, ReferenceFamily, check_ladder

FEWEST_PARTICLES = 100


class Settings(NamedTuple):
    # Number of particles of a chain: more are more accurate. Make the number of draws
    # (iter_sampling) the same: with fewer draws, some particles are left out; with more, draws
    # of the same particle are correlated.
    particles: Annotated[int, Between(FEWEST_PARTICLES, ends="[)")] = 1000
    # conditional effective sample size of a stage, as a share of the number of particles: the
    # nearer to 1, the more and the smaller the stages
    threshold: Probability = 0.5
    # Your own stages instead of those that the threshold determines: inverse temperatures in
    # strictly decreasing order, from 1 (the target) to 0 (the reference). Each step takes
    # `sweeps` iterations of the second half of warm-up; if these are too few, the remaining
    # steps are made in the first iteration after it.
    inverse_temperatures: Numbers = Numbers()
    # Whether to resample in every stage. If not, particles keep their weights until the last
    # stage has ended, and the weights of all chains together give the error of the log
    # evidence. This error is too small if a few large weights dominate: use more chains to see
    # more of these.
    resample: bool = True
    sweeps: Count = 8  # moves of each particle in a stage
    kernel: common.Kernel = MoveKernel.hmc
    leapfrogs: common.Leapfrogs = 0
    max_treedepth: common.TreeDepth = 6
    target_accept: common.TargetAccept = 0.0
    # family of the distribution from which particles are drawn: gaussian, or student_t (5
    # degrees of freedom)
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    # Ratio of the spread of a learned reference to that of the draws from which it is learned.
    # The default is larger than for parallel tempering, because modes in which the reference
    # has no draws are lost.
    inflation: Positive = 3.0
    # initial step size of the parallel tempering, in units of the unconstrained parameters
    step_size: Positive = 0.1


class Info(NamedTuple):
    # acceptance_rate, n_steps, diverging: mean acceptance rate of the moves without draws from the
    # reference; leapfrogs (or steps) of all; whether the trajectory of the draw ended in an energy
    # error above 1000, or the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    n_redraws: int  # draws from the reference
    temperature: float  # inverse temperature of the particles
    stage: int  # number of the stage
    # particle, ancestor: number of the particle that is the draw, and of its ancestor among the
    # first ones: draws of one ancestor are not independent
    particle: int
    ancestor: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for stages that particles cannot take."""
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


def make(path: Any, options: Any, settings: Settings, tempering: Any) -> particles.Population:
    """Return the particles, without positions."""
    stages = len(settings.inverse_temperatures) - 1
    return particles.no_population(
        path, options, settings.particles, tempering.mover.queue,
        stages if stages > 0 else particles.MOST_STAGES,
    )  # fmt: skip


def place(settings: Settings, state: on_the_path.State) -> None:
    """End the path; the first sweep draws the particles from the reference."""
    if rounds.in_short_chains(state.tempering.ladder):
        rounds.end_short_chains(state.tempering, state.design)


@jit
def move(settings, state, learning, rng):
    """Anneal, then move the next particle."""
    population, redraws, diverging = state.engine, 0, False
    counts = population.counts
    if counts[particles.DONE]:  # also in the rest of warm-up
        counts[particles.TURN] = (counts[particles.TURN] + 1) % settings.particles
        done = particles.move_one(population, rng)
        diverging = diverged(population.mover.numbers[0])
    else:
        redraws = settings.particles if population.ladder.size[0] == 0 else 0
        done = _anneal(settings, state, learning, rng)
    stage, turn = population.ladder.size[0] - 1, counts[particles.TURN]
    return point_of(population.replicas, turn, state.current.position), Info(
        done.acceptance_rate, done.steps, diverging, redraws,
        population.ladder.levels[stage, B], stage, turn,
        population.indices[particles.ANCESTOR, turn],
    )  # fmt: skip


@jit
def _anneal(settings, state, learning, rng):
    """Make one sweep or, if warm-up was too short, all that remain."""
    population, tempering, steps, rate = state.engine, state.tempering, 0, 0.0
    if population.ladder.size[0] == 0:
        coldest = tempering.order[0, tempering.ladder.size[0] - 1]
        particles.begin(population, tempering.replicas, coldest, rng)
    while not population.counts[particles.DONE]:
        done = particles.anneal(
            population, state.design.target_accept, settings.threshold, settings.sweeps,
            settings.resample, rng, settings.inverse_temperatures,
        )  # fmt: skip
        steps, rate = steps + done.steps, done.acceptance_rate
        if learning:
            break
    return Summary(rate, settings.particles, steps)


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep of the parallel tempering."""
    redraws = moves.redraws(tempering)
    return Info(done.acceptance_rate, done.n_steps, done.diverging, redraws, 1.0, 0, 0, 0)


@jit
def run_task(settings, state, kind, slot):
    """Move one chain of the path, or one particle."""
    if kind == TASK_PATH:
        swaps.run_task(state.tempering, slot)
    else:
        particles.run_task(state.engine, kind, slot)


def learned(state: on_the_path.State) -> dict[str, Any]:
    """Return stages, reference, log evidence, ancestors and, if they were kept, weights."""
    population: particles.Population = state.engine
    values = describe_path(population.path, population.ladder, state.tempering.short_chain_ends)
    values.pop("barrier")
    count = len(population.log_weights)
    descendants = np.bincount(population.indices[particles.ANCESTOR], minlength=count)
    values["ancestors"] = float(np.count_nonzero(descendants))
    values["effective_ancestors"] = count**2 / float(np.sum(descendants.astype(float) ** 2))
    if population.counts[particles.DONE] and population.log_weights.any():
        values["log_weight"] = population.log_weights.copy()
        values["weighted_particle"] = population.spare.vectors[:count, POSITION].copy()
    return values


on_the_path.register(
    __name__,
    workspace=(
        "replicas", "mover", "counts", "work", "path.target", "path.reference.work",
    ),
    presets={
        "nemeth2019": Preset({  # annealed importance sampling
            "resample": False, "inverse_temperatures": EQUAL_STEPS, "sweeps": 1,
            "particles": 100, "kernel": MoveKernel.hmc, "leapfrogs": 10, "step_size": 0.5,
        }),
    },
    # the path has only to learn the reference
    path_share=0.5, draws_reference=True, extends=False, iter_warmup=4_000, iter_sampling=1_000,
    memory=Memory(storage=particles.bytes_of, name="particles", settings=("particles",)),
    threading=Threading(
        on_the_path.make_worker, run_task, max_threads=lambda settings: settings.particles
    ),
)  # fmt: skip
