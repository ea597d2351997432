"""Pseudo-extended MCMC for posteriors with many modes: one of N pseudo-samples is the draw.

One pseudo-sample follows the target; the others move between a reference distribution and the
target at their own temperatures, and any of them may become the draw. The reference, the
temperatures and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), Pseudo-extended Markov chain Monte Carlo, NeurIPS.
The kernel and its deviations from theirs: `levels`. Warm-up: `warmup_rounds`. Their joint
kernels, on the extended density itself: `stanadapt.samplers.tempering.extended.Extended`, sampled
by `nuts`. preset=nemeth2019 has their powers of the density, without a reference distribution, and
NUTS for each pseudo-sample; the kernel is still that of `levels`.
"""

from typing import Any, NamedTuple

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.protocol import ExtraOutput, Preset, Threading
from stanadapt.engine.settings import Count
from stanadapt.samplers.tempering import levels, on_the_path, swaps
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.evidence import describe_levels
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.moves import TASK_LEVELS, MoveKernel
from stanadapt.samplers.tempering.path import POSITION, point_of
from stanadapt.samplers.tempering.settings import ReferenceFamily


class Settings(NamedTuple):
    # Number N of pseudo-samples; each costs as much as a chain. With 1, there is only a chain
    # on the target.
    pseudo_samples: Count = 2
    kernel: common.Kernel = MoveKernel.hmc
    leapfrogs: common.Leapfrogs = 0
    max_treedepth: common.TreeDepth = 6
    target_accept: common.TargetAccept = 0.0
    levels: common.Levels = 0
    reference_family: common.Family = ReferenceFamily.gaussian
    inflation: common.Inflation = 0.0
    min_inverse_temperature: common.MinInverseTemperature = 0.0
    step_size: common.StepSize = 0.1


Info = levels.PseudoExtendedInfo
check, learned = common.check, describe_levels


def make(path: Any, options: Any, settings: Settings, tempering: Any) -> levels.Walkers:
    """Return the pseudo-samples, without positions; the first one is the draw."""
    ladder, queue = rounds.no_finer_ladder(settings.levels, path.target.dim), tempering.mover.queue
    return levels.no_walkers(path, options, ladder, settings.pseudo_samples, 0, queue)


def place(settings: Settings, state: on_the_path.State) -> None:
    """Put the pseudo-samples at the positions of the chains, on a finer ladder."""
    barrier = rounds.conclude(state.tempering, state.design)
    rounds.set_finer_ladder(state.tempering, barrier, settings.levels, state.engine.ladder)
    levels.place(state.engine, state.tempering)


@jit
def move(settings, state, learning, rng):
    """Move all pseudo-samples, then choose the draw."""
    pseudo = state.engine
    info = levels.sweep(pseudo, state.design.target_accept, learning, rng)
    return point_of(pseudo.replicas, pseudo.index[0], state.current.position), info


@jit
def on_path(settings, done, tempering):
    """Return the statistics of a sweep of the parallel tempering."""
    return Info(
        done.acceptance_rate, done.n_steps, done.diverging, False, 1.0, 1.0, done.round_trips,
        done.levels,
    )  # fmt: skip


@jit
def run_task(settings, state, kind, slot):
    """Move one chain of the path, or one pseudo-sample."""
    if kind == TASK_LEVELS:
        levels.run_task(state.engine, slot)
    else:
        swaps.run_task(state.tempering, slot)


@jit
def write_pseudo_samples(settings, state, out):
    """Write positions of all pseudo-samples, their inverse temperatures, their weights."""
    pseudo, n = state.engine, settings.pseudo_samples
    dim = pseudo.replicas.vectors.shape[2]
    for j in range(n):
        out[j * dim : (j + 1) * dim] = pseudo.replicas.vectors[j, POSITION]
        out[n * dim + j] = pseudo.ladder.levels[pseudo.where[levels.LEVEL, j], B]
        out[n * dim + n + j] = pseudo.probabilities[j, levels.WEIGHT]


on_the_path.register(
    __name__,
    workspace=(*levels.WORKSPACE, "index"),
    presets={
        "nemeth2019": Preset({
            "pseudo_samples": 2, "kernel": MoveKernel.nuts, "max_treedepth": 10,
            "target_accept": 0.8, "reference_family": ReferenceFamily.power,
            "min_inverse_temperature": 0.001,
        }),
    },
    iter_warmup=4_000, iter_sampling=10_000,
    threading=Threading(
        on_the_path.make_worker, run_task, max_threads=lambda settings: settings.pseudo_samples
    ),
    extra_output=ExtraOutput(
        write_pseudo_samples, size=lambda settings, dim: settings.pseudo_samples * (dim + 2)
    ),
)  # fmt: skip
