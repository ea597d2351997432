"""Pseudo-extended MCMC for posteriors with many modes: one of N pseudo-samples is the draw.

One pseudo-sample follows the target; the others move between a reference distribution and the
target at their own temperatures, and any of them may become the draw. The reference, the
temperatures and all step sizes are learned during warm-up, which begins with parallel tempering.

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), Pseudo-extended Markov chain Monte Carlo, NeurIPS.
The kernel and its deviations from theirs: the function `sweep` of this file. Warm-up:
`warmup_rounds`. Their joint kernels, on the extended density itself:
`stanadapt.samplers.tempering.extended.Extended`, sampled by `nuts`. preset=nemeth2019 has their
powers of the density, without a reference distribution, and NUTS for each pseudo-sample; the kernel
is still `sweep`.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics.softmax import categorical
from stanadapt.engine.numerics.vectors import largest
from stanadapt.engine.protocol import ExtraOutput, Preset, Threading
from stanadapt.engine.settings import Count
from stanadapt.samplers.tempering import levels, moves, on_the_path, swaps
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.ladder import B
from stanadapt.samplers.tempering.levels import LEVEL, MOVES, WEIGHT
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


class Info(NamedTuple):
    # acceptance_rate, n_steps, diverging: mean acceptance rate of those that moved; leapfrogs (or
    # steps) of all; whether the trajectory on the target ended in an energy error above 1000, or
    # the density failed
    acceptance_rate: float
    n_steps: int
    diverging: bool
    switched: bool  # whether the draw is another pseudo-sample than before
    # largest weight of a pseudo-sample; always 1 if only the draw ever comes near the target
    largest_weight: float
    temperature: float  # mean inverse temperature of those that were not the draw
    # pseudo-samples that are the draw again after having been at the hottest level
    round_trips: int
    levels: int  # number of temperatures


check, learned = common.check, levels.describe


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
    info = sweep(pseudo, state.design.target_accept, learning, rng)
    return point_of(pseudo.replicas, pseudo.index[0], state.current.position), info


@jit
def sweep(walkers, target_accept, learning, rng):
    """Move every pseudo-sample at its temperature; then draw the index and the temperatures.

    While `learning`, tune step sizes and normalizing constants. This is the blocked Gibbs kernel on
    a mixture: of N pseudo-samples one, with index I, follows the target, and every other one the
    instrumental distribution q(x, b_k) proportional to exp(l(x) b_k + psi(x) (1 - b_k)) / Z(b_k).
    Given the positions,

        P(I = i) proportional to target(x_i) / q(x_i), q(x) = sum over k of q(x, b_k)

    (equations 5 to 9 of the paper), and the level of every other j is drawn as in `levels`. Given I
    and the temperatures, the pseudo-samples are independent. Deviations: they move everything
    jointly with NUTS, temperatures included; have no reference, psi = 0; and g = 1, while we use
    g = 1 / Z, which makes the levels of the ladder equally likely. In our weights the temperature
    of x_i is summed out.
    """
    ladder, where, index = walkers.ladder, walkers.where[LEVEL], walkers.index[0]
    visits, outcomes, rows = walkers.visits[0], walkers.mover.numbers, where.shape[0]
    moves.move(moves.TASK_LEVELS, walkers, rows, None, where, rng)
    done, total = moves.summed(outcomes, rows), 0.0
    for j in range(rows):
        k = where[j]
        if j != index:
            total += ladder.levels[k, B]
        if learning and outcomes[j, moves.STEPS] > 0.0:
            # visits exclude the index, which is at the coldest level in every sweep
            n = visits[k] + (visits[MOVES] if j == index else 0.0)
            moves.tune_step(ladder, k, n, outcomes[j], target_accept)
    diverging = moves.diverged(outcomes[index])  # hot pseudo-samples may well diverge
    heaviest = weigh(walkers)
    levels.count_visits(walkers, learning)
    if learning:
        levels.learn_normalizers(walkers)
    trips = choose(walkers, rng)
    return Info(
        done.acceptance_rate, done.steps, diverging, walkers.index[0] != index, heaviest,
        total / max(rows - 1, 1), trips, ladder.size[0],
    )  # fmt: skip


@inline
def weigh(walkers):
    """Compute `probabilities` for the current positions; returns the largest weight."""
    weights, total, heaviest = walkers.probabilities[:, WEIGHT], 0.0, 0.0
    for j in range(weights.shape[0]):
        weights[j] = levels.weigh_row(walkers, j)
    peak = largest(weights)
    for j in range(weights.shape[0]):
        weights[j] = np.exp(weights[j] - peak)
        total += weights[j]
    for j in range(weights.shape[0]):
        weights[j] /= total
        heaviest = max(heaviest, weights[j])
    return heaviest


@inline
def choose(walkers, rng):
    """Draw the index by the weights, and the others' levels; returns the round trips completed.

    A pseudo-sample completes a round trip when it becomes the index again after having been at the
    hottest level.
    """
    where, trips = walkers.where, 0
    index = categorical(walkers.probabilities[:, WEIGHT], rng)
    for j in range(where.shape[1]):
        if j == index:
            where[LEVEL, j] = walkers.ladder.size[0] - 1
            trips += levels.end_trip(walkers, j)
        else:
            levels.draw_level(walkers, j, rng)
    walkers.index[0] = index
    return trips


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
        out[n * dim + j] = pseudo.ladder.levels[pseudo.where[LEVEL, j], B]
        out[n * dim + n + j] = pseudo.probabilities[j, WEIGHT]


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
