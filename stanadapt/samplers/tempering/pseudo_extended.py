"""Pseudo-extended MCMC for posteriors with many modes: N pseudo-samples, one of which is the draw.

One pseudo-sample follows the target; the others move between a reference distribution and the
target at their own temperatures, and any of them may become the draw. The reference, the
temperatures and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), Pseudo-extended Markov chain Monte Carlo, NeurIPS.
The kernel and its deviations from theirs: `pseudo_gibbs`. Warm-up: `warmup_rounds`. Their joint
kernels, on the extended density itself: `stanadapt.samplers.tempering.extended.Extended`, sampled
by `nuts`. preset=nemeth2019 has their powers of the density, without a reference distribution, and
NUTS for each pseudo-sample; the kernel is still that of `pseudo_gibbs`.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import ExtraOutput, Preset, Tempering, Threading
from stanadapt.engine.registry import register, require_at_least
from stanadapt.samplers.tempering import pseudo_gibbs as engine
from stanadapt.samplers.tempering import swaps as path_engine
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_path
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import POSITION, TemperingPath, copy_replica
from stanadapt.samplers.tempering.settings import (
    ReferenceFamily,
    add_common_settings,
    check_tempering,
    first_path,
    options_of,
    target_rate,
    warmup_design,
)

# share of warm-up that the parallel tempering takes
PATH_SHARE = 0.6
ON_THE_PATH, LEARNING, FROZEN = 0, 1, 2


# the docstring lists the settings that differ from `settings.COMMON`, which the decorator adds
@add_common_settings
class Settings(NamedTuple):
    """Settings of the sampler.

    pseudo_samples
        Number N of pseudo-samples; each costs as much as a chain. With 1, there is only a chain on
        the target.

    """

    pseudo_samples: int = 2
    kernel: MoveKernel = MoveKernel.hmc
    leapfrogs: int = 0
    max_treedepth: int = 6
    target_accept: float = 0.0
    levels: int = 0
    reference_family: ReferenceFamily = ReferenceFamily.gaussian
    inflation: float = 0.0
    min_inverse_temperature: float = 0.0
    step_size: float = 0.1


class State(NamedTuple):
    """The pseudo-samples, and the parallel tempering of the first part of warm-up.

    phase
        ON_THE_PATH, LEARNING (the pseudo-samples tune the ladder) or FROZEN.
    parity
        Parity of the pairs of the parallel tempering that swap next.
    learns_reference
        Whether the reference is learned.

    """

    current: ValuePoint
    pseudo: engine.PseudoSamples
    tempering: path_engine.Tempering
    phase: int
    parity: int
    learns_reference: bool


class Info(NamedTuple):
    """Statistics of one iteration.

    acceptance_rate, n_steps, diverging
        Mean acceptance rate of those that moved; leapfrogs (or steps) of all; whether the
        trajectory on the target ended in an energy error above 1000, or the density failed.
    switched
        Whether the draw is another pseudo-sample than before.
    largest_weight
        Largest weight of a pseudo-sample; always 1 if only the draw ever comes near the target.
    temperature
        Mean inverse temperature of those that were not the draw.
    round_trips
        Pseudo-samples that are the draw again after having been at the hottest level.
    levels
        Number of temperatures.

    """

    acceptance_rate: float
    n_steps: int
    diverging: bool
    switched: bool
    largest_weight: float
    temperature: float
    round_trips: int
    levels: int


def check(settings: Settings) -> None:
    """Raise StanadaptError for a setting out of range."""
    require_at_least(settings, 1, "pseudo_samples")
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
    ladder = rounds.no_finer_ladder(settings.levels, density.dim)
    queue = tempering.mover.queue
    pseudo = engine.no_pseudo_samples(path, options, ladder, settings.pseudo_samples, queue)
    return State(
        current=current,
        pseudo=pseudo,
        tempering=tempering,
        phase=ON_THE_PATH,
        parity=0,
        learns_reference=learns_reference,
    )


@jit
def _design(settings, learns_reference):
    """Design of the first part of warm-up, with as many levels as needed."""
    hottest = settings.min_inverse_temperature
    return warmup_design(settings, 0, learns_reference, hottest, rounds.NO_LEVELS)


@jit
def step(density, settings, state, rng):
    """Move all pseudo-samples, then choose the draw; in the first part of warm-up, temper."""
    tempering, pseudo, parity = state.tempering, state.pseudo, state.parity
    if state.phase == ON_THE_PATH:
        done = path_engine.sweep(tempering, target_rate(settings), parity, True, rng)
        info = Info(
            done.acceptance_rate, done.steps, done.diverging, False, 1.0, 1.0,
            done.round_trips, tempering.ladder.size[0],
        )  # fmt: skip
        current, parity = path_engine.coldest_point(tempering, state.current.position), 1 - parity
    else:
        if pseudo.ladder.size[0] == 0:  # there was no warm-up
            _place(settings, state)
        done = engine.sweep(pseudo, target_rate(settings), state.phase == LEARNING, rng)
        info = Info(
            done.acceptance_rate, done.steps, done.diverging, done.switched, done.largest_weight,
            done.temperature, done.round_trips, pseudo.ladder.size[0],
        )  # fmt: skip
        current = engine.current(pseudo, state.current.position)
    return replace(state, current=current, parity=parity), info


@jit
def _place(settings, state):
    """Replace the parallel tempering by the pseudo-samples, on a finer ladder."""
    tempering, pseudo = state.tempering, state.pseudo
    barrier = rounds.conclude(tempering, _design(settings, state.learns_reference))
    rounds.set_finer_ladder(tempering, barrier, settings.levels, pseudo.ladder)
    rows = tempering.ladder.size[0]
    for j in range(settings.pseudo_samples):
        # the first at the position of the coldest level, the others from the hottest on
        row = tempering.order[0, rows - 1 if j == 0 else (j - 1) % rows]
        copy_replica(tempering.replicas, row, pseudo.replicas, j)
    pseudo.where[engine.LEVEL, 0] = pseudo.ladder.size[0] - 1


@jit
def adapt(density, settings, state, info, t, iter_warmup):
    """Tune at the end of a round; after the last one, continue with the pseudo-samples."""
    current, design = state.current, _design(settings, state.learns_reference)
    if state.phase != ON_THE_PATH:
        return state
    if rounds.last_sweep(state.tempering, design, t, int(PATH_SHARE * iter_warmup)):
        _place(settings, state)
        current = engine.current(state.pseudo, current.position)
        return replace(state, current=current, phase=LEARNING)
    return replace(state, current=path_engine.coldest_point(state.tempering, current.position))


def freeze(settings: Settings, state: State) -> State:
    """Stop tuning."""
    return state._replace(phase=FROZEN)


@jit
def make_worker(density, settings, state):
    """Return the state for a worker thread, with its own density, and the queue of tasks."""
    tempering = path_engine.tempering_of_worker(density, state.tempering)
    pseudo = engine.pseudo_samples_of_worker(density, state.pseudo)
    return replace(state, pseudo=pseudo, tempering=tempering), tempering.mover.queue


@jit
def run_task(settings, state, kind, slot):
    """Move one chain of the path, or one pseudo-sample."""
    if kind == engine.TASK_PSEUDO_SAMPLE:
        engine.run_task(state.pseudo, slot)
    else:
        path_engine.run_task(state.tempering, slot)


def learned(state: State) -> dict:
    """Return ladder and reference, and the visits to each level during sampling.

    Visits are proportional to Z / Zhat, so that they improve the constants from warm-up.
    """
    pseudo = state.pseudo
    values = describe_path(pseudo.path, pseudo.ladder, state.tempering.short_chain_ends)
    visits = pseudo.visits[1, : len(values["temperature"])].copy()
    if visits.any():
        values["occupancy"] = visits
        if visits[0] > 0 and visits[-1] > 0:
            values["log_evidence"] += float(np.log(visits[-1] / visits[0]))
    return values


@jit
def write_pseudo_samples(settings, state, out):
    """Write positions of all pseudo-samples, their inverse temperatures, their weights."""
    pseudo, n = state.pseudo, settings.pseudo_samples
    dim = pseudo.replicas.vectors.shape[2]
    for j in range(n):
        out[j * dim : (j + 1) * dim] = pseudo.replicas.vectors[j, POSITION]
        out[n * dim + j] = pseudo.ladder.levels[pseudo.where[engine.LEVEL, j], B]
        out[n * dim + n + j] = pseudo.probabilities[j, engine.WEIGHT]


register(
    __name__,
    workspace=(
        "tempering", "parity", "pseudo.replicas", "pseudo.mover", "pseudo.probabilities",
        "pseudo.where", "pseudo.visits", "pseudo.index", "pseudo.path.target",
        "pseudo.path.reference.work",
    ),
    iter_warmup=4_000, iter_sampling=10_000,
    uses_gradient=lambda settings: settings.kernel != MoveKernel.random_walk,
    standardize="no", tempering=Tempering(init_from_path, learned),
    threading=Threading(
        make_worker, run_task, max_threads=lambda settings: settings.pseudo_samples
    ),
    extra_output=ExtraOutput(
        write_pseudo_samples, size=lambda settings, dim: settings.pseudo_samples * (dim + 2)
    ),
    in_place_except=(),
    presets={
        "nemeth2019": Preset(
            {
                "pseudo_samples": 2, "kernel": MoveKernel.nuts, "max_treedepth": 10,
                "target_accept": 0.8, "reference_family": ReferenceFamily.power,
                "min_inverse_temperature": 0.001,
            }
        ),
    },
)  # fmt: skip
