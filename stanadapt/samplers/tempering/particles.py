"""Annealed particles: sequential Monte Carlo along the path from a reference to the target.

Particles drawn from the reference go to b = 1 in stages. A stage raises b as far as a conditional
effective sample size allows, weighs each particle by exp((b' - b) Delta(x)) before it moves,
resamples, and moves all of them in sweeps at b'. The product of the mean weights estimates
Z(1) / Z(0): without bias for a fixed ladder and fixed moves, consistently for ours, which learn
from the particles. Without resampling the particles keep their weights: annealed importance
sampling.

References
----------
Those of `smc`. The conditional effective sample size: Zhou, Johansen and Aston (2016), Toward
automatic model comparison: an adaptive sequential Monte Carlo approach, JCGS 25. Systematic
resampling: Carpenter, Clifford and Fearnhead (1999), IEE Proceedings F 146. Deviations: the
effective sample size is that of the particles with positive density, since with few of these no
step, however short, would reach the threshold; the scales of the moves are the width of one mode,
from gradients, while others use the covariance of all particles, which spans modes.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics.vectors import largest
from stanadapt.engine.points import RANDOM_WALK_SCALE
from stanadapt.samplers.tempering import moves
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z, B, Ladder, no_ladder
from stanadapt.samplers.tempering.reference_distribution import SMALLEST_SD

HALVINGS = 60
# with more stages than these, the last one goes straight to the target
MOST_STAGES = 200


@jit
def next_temperature(delta, log_weights, b, threshold):
    """Return the largest b' <= 1 with a conditional effective sample size of at least threshold.

    threshold is a share of the particles; delta is Delta(x) of each.
    """
    if conditional_ess(delta, log_weights, 1.0 - b) >= threshold:
        return 1.0
    # the share decreases in the step: its log is 2 C(d) - C(2 d) with a convex C
    low, high = 0.0, 1.0 - b
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if conditional_ess(delta, log_weights, middle) >= threshold:
            low = middle
        else:
            high = middle
    return b + high if b + high > b else 1.0


@jit
def conditional_ess(delta, log_weights, step):
    """Return (sum W v)^2 / (sum W sum W v^2), v = exp(step Delta), over positive densities."""
    top, peak = -np.inf, -np.inf
    for n in range(delta.shape[0]):
        if delta[n] > -np.inf:
            top, peak = max(top, log_weights[n]), max(peak, step * delta[n])
    if not top > -np.inf:
        return 1.0
    total, first, second = 0.0, 0.0, 0.0
    for n in range(delta.shape[0]):
        if delta[n] > -np.inf:
            weight, v = np.exp(log_weights[n] - top), np.exp(step * delta[n] - peak)
            total += weight
            first += weight * v
            second += weight * v * v
    return first * first / (second * total) if second > 0.0 else 0.0


@jit
def reweigh(delta, log_weights, step):
    """Multiply the weights by exp(step Delta); returns the log of their mean factor."""
    before = log_sum(log_weights)
    for n in range(delta.shape[0]):
        # -inf, and not NaN, for a particle without density
        log_weights[n] = log_weights[n] + step * delta[n] if delta[n] > -np.inf else -np.inf
    return log_sum(log_weights) - before


@jit
def log_sum(logs):
    """Return log(sum(exp(logs))), or -inf if all of them are, or if one is not a number."""
    peak, total = largest(logs), 0.0
    if not peak > -np.inf:
        return -np.inf
    for n in range(logs.shape[0]):
        total += np.exp(logs[n] - peak)
    return peak + np.log(total) if total > 0.0 else -np.inf


@jit
def systematic(weights, uniform, chosen):
    """Fill `chosen` with sorted indices: at entry n the running sum passes share (n + u) / N."""
    rows, total, last = weights.shape[0], 0.0, 0
    for n in range(rows):
        total += weights[n]
        if weights[n] > 0.0:
            last = n
    index, passed = -1, 0.0
    for n in range(rows):
        goal = (n + uniform) / rows * total
        # never beyond the last of positive weight: the sum may fall short by its rounding
        while passed <= goal and index < last:
            index += 1
            passed += weights[index]
        chosen[n] = index


class Population(NamedTuple):
    """The particles and the tuning of their moves; arrays are updated in place."""

    path: paths.TemperingPath
    mover: moves.Mover
    ladder: Ladder  # one level per stage, the first at b = 0; LOG_Z is the estimate of log Z(b)
    replicas: paths.Replicas  # the particles, siblings side by side
    # the particles before they were last resampled and, in the last row, a position of positive
    # density in case no particle has one
    spare: paths.Replicas
    # unnormalized, shape (particle,): 0 after resampling; without resampling, those of the rows of
    # `spare` at the end
    log_weights: np.ndarray
    work: np.ndarray  # workspace, shape (particle,)
    # the level at which each particle moves (LEVEL), always the last; its ancestor among the first
    # particles (ANCESTOR); the particle it was resampled from (CHOSEN); shape (3, particle)
    indices: np.ndarray
    # sweeps until the stage ends (SWEEPS_LEFT), whether the last one has ended (DONE), and the
    # particle that is the next draw (TURN), shape (3,)
    counts: np.ndarray


LEVEL, ANCESTOR, CHOSEN = 0, 1, 2
SWEEPS_LEFT, DONE, TURN = 0, 1, 2


def no_population(
    path: paths.TemperingPath,
    options: moves.Options,
    particles: int,
    queue: np.ndarray,
    stages: int = MOST_STAGES,
) -> Population:
    """Return a Population without positions, with room for this many stages."""
    dim = path.target.dim
    return Population(
        path, moves.make_mover(particles, dim, options, queue), no_ladder(stages + 1, dim),
        paths.no_replicas(particles, dim), paths.no_replicas(particles + 1, dim),
        np.zeros(particles), np.zeros(particles), np.zeros((3, particles), np.int64),
        np.zeros(3, np.int64),
    )  # fmt: skip


def bytes_of(settings: Any, dim: int) -> int:
    """Return the bytes of all particles: themselves, predecessors, and memory for their moves."""
    own = 2 * (3 * dim + 2) + 5
    return settings.particles * 8 * (own + moves.VECTORS * dim + moves.NUMBERS + moves.INTEGERS)


@jit
def run_task(population, kind, slot):
    """Move one particle, in a worker thread."""
    p = population
    row = slot if kind == moves.TASK_PARTICLES else p.counts[TURN]
    moves.run_move(p.path, p.mover, p.ladder, p.replicas, slot, row, p.indices[LEVEL, slot])


@jit
def begin(population, fallback, row, rng):
    """Draw all particles from the reference; one row of the Replicas `fallback` is kept."""
    ladder, indices = population.ladder, population.indices
    ladder.size[0], ladder.levels[0] = 1, 0.0
    for n in range(indices.shape[1]):
        indices[LEVEL, n], indices[ANCESTOR, n] = 0, n
    factor = population.path.reference.factor
    for i in range(factor.shape[1]):
        ladder.scale[0, i] = factor[min(i, factor.shape[0] - 1), i]
    population.log_weights[:] = 0.0
    paths.copy_replica(fallback, row, population.spare, indices.shape[1])
    sweep(population, 0.0, rng)
    population.counts[SWEEPS_LEFT] = 0


@jit
def sweep(population, target_accept, rng):
    """Move every particle once, and tune the step size to target_accept; return the Summary."""
    p, rows = population, population.log_weights.shape[0]
    moves.move(moves.TASK_PARTICLES, p, rows, None, p.indices[LEVEL], rng)
    done = moves.summed(p.mover.numbers, rows)
    if done.moved > 0:
        # a mean over all particles: a gain of 1 does not make it noisy
        p.ladder.levels[p.ladder.size[0] - 1, LOG_STEP] += done.acceptance_rate - target_accept
    p.counts[SWEEPS_LEFT] -= 1
    return done


@jit
def anneal(population, target_accept, threshold, sweeps, resamples, rng, given):
    """Make one sweep, the first of a new stage if the latest one is over.

    At the end of the last stage, `counts[DONE]` becomes 1. The inverse temperatures of stages are
    those of `given`, from 1 to 0, or if it is empty as the threshold requires.
    """
    counts, ladder = population.counts, population.ladder
    if counts[SWEEPS_LEFT] <= 0:
        _next_stage(population, threshold, resamples, rng, given)
        counts[SWEEPS_LEFT] = sweeps
    done = sweep(population, target_accept, rng)
    if counts[SWEEPS_LEFT] == 0 and ladder.levels[ladder.size[0] - 1, B] == 1.0:
        counts[DONE] = 1
        if not resamples:
            _resample(population, rng)
        # in order, but from a random one: a particle selected by its position is no exact draw
        counts[TURN] = int(rng.random() * population.log_weights.shape[0])
    return done


@jit
def move_one(population, rng):
    """Move the next particle, which is then the draw; return the Summary."""
    p = population
    moves.move(moves.TASK_PARTICLE, p, 1, p.counts[TURN:], p.indices[LEVEL], rng)
    return moves.summed(p.mover.numbers, 1)


@jit
def _next_stage(population, threshold, resamples, rng, given):
    """Raise b, weigh the particles, resample them if asked, and set scales and step size."""
    p, levels, last = population, population.ladder.levels, population.ladder.size[0] - 1
    for n in range(p.work.shape[0]):
        p.work[n] = paths.log_ratio(p.replicas, n)
    if given.shape[0] > 0:
        b = given[given.shape[0] - 2 - last]
    else:
        b = next_temperature(p.work, p.log_weights, levels[last, B], threshold)
        if last + 1 == MOST_STAGES:
            b = 1.0
    rise = reweigh(p.work, p.log_weights, b - levels[last, B])
    levels[last + 1, B], levels[last + 1, LOG_Z] = b, levels[last, LOG_Z] + rise
    p.ladder.size[0] = last + 2
    p.indices[LEVEL] = last + 1
    if not rise > -np.inf:
        _start_again(population)
    elif resamples:
        _resample(population, rng)
        p.log_weights[:] = 0.0
    _set_scales(population, last + 1)


@jit
def _resample(population, rng):
    """Resample systematically, which keeps siblings next to each other."""
    p, rows = population, population.log_weights.shape[0]
    chosen, ancestors = p.indices[CHOSEN], p.indices[ANCESTOR]
    peak = np.max(p.log_weights)
    for n in range(rows):
        p.work[n] = np.exp(p.log_weights[n] - peak)
        paths.copy_replica(p.replicas, n, p.spare, n)
    systematic(p.work, rng.random(), chosen)
    for n in range(rows):
        paths.copy_replica(p.spare, chosen[n], p.replicas, n)
        # chosen is sorted, and so are the ancestors: no entry that is still needed is overwritten
        p.work[n] = ancestors[chosen[n]]
    for n in range(rows):
        ancestors[n] = int(p.work[n])


@jit
def _start_again(population):
    """Put all particles at a position of positive density, and go straight to b = 1."""
    p = population
    rows, last = p.log_weights.shape[0], p.ladder.size[0] - 1
    for n in range(rows):
        paths.copy_replica(p.spare, rows, p.replicas, n)
        p.indices[ANCESTOR, n] = 0
    p.log_weights[:] = 0.0
    p.ladder.levels[last, B], p.ladder.levels[last, LOG_Z] = 1.0, -np.inf


@jit
def _set_scales(population, level):
    """Set the scales of the moves at a level from the particles there, and a first step size.

    Scales are 1 / sqrt(mean squared slope) or, if the moves use no gradients, standard deviations.
    The step size changes so that its product with the scales is unchanged on average.
    """
    p, dim = population, population.ladder.scale.shape[1]
    scale, old = p.ladder.scale[level], p.ladder.scale[level - 1]
    if p.mover.options.kernel == moves.RANDOM_WALK:
        _sum_squared_deviations(population, scale)
    else:
        _sum_squared_slopes(population, level, scale)
    change = 0.0
    for i in range(dim):
        new = np.sqrt(scale[i])
        if p.mover.options.kernel != moves.RANDOM_WALK:
            new = 1.0 / new
        scale[i] = new if SMALLEST_SD < new < 1.0 / SMALLEST_SD else old[i]
        change += np.log(scale[i] / old[i]) / dim
    if level > 1:
        p.ladder.levels[level, LOG_STEP] = p.ladder.levels[level - 1, LOG_STEP] - change
    elif p.mover.options.kernel == moves.RANDOM_WALK:
        p.ladder.levels[level, LOG_STEP] = np.log(RANDOM_WALK_SCALE / np.sqrt(dim))
    else:
        p.ladder.levels[level, LOG_STEP] = -0.25 * np.log(dim)


@inline
def _weigh(population):
    """Write weights that sum to 1 into `work`."""
    log_weights, work = population.log_weights, population.work
    total = log_sum(log_weights)
    for n in range(work.shape[0]):
        work[n] = np.exp(log_weights[n] - total)


@jit
def _sum_squared_slopes(population, level, out):
    """Weighted mean of the squared slope of the tempered density, shape (dim,)."""
    p, b, slope = population, population.ladder.levels[level, B], population.mover.vectors[0]
    _weigh(population)
    out[:] = 0.0
    for n in range(p.work.shape[0]):
        if p.work[n] > 0.0:
            paths.fill_slope(p.replicas, n, b, slope[moves.NORMALS])
            for i in range(out.shape[0]):
                out[i] += p.work[n] * slope[moves.NORMALS, i] ** 2


@jit
def _sum_squared_deviations(population, out):
    """Weighted variance of the positions, shape (dim,)."""
    p, mean = population, population.mover.vectors[0, moves.NORMALS]
    _weigh(population)
    mean[:], out[:] = 0.0, 0.0
    for n in range(p.work.shape[0]):
        for i in range(out.shape[0]):
            mean[i] += p.work[n] * p.replicas.vectors[n, paths.POSITION, i]
    for n in range(p.work.shape[0]):
        for i in range(out.shape[0]):
            out[i] += p.work[n] * (p.replicas.vectors[n, paths.POSITION, i] - mean[i]) ** 2
