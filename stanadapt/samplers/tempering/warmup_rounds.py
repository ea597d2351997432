"""Warm-up of parallel tempering: rounds of sweeps of doubling length, each tuning the next.

Other samplers on the same path begin with it, in the first part of their warm-up: see `last_sweep`,
`conclude` and `set_finer_ladder`.

All chains start at b = 1, from different positions: the pooled draws of these short chains give the
first reference distribution. The end of every later round resets, from its draws, the number and
spacing of the levels, the normalizing constants, and the scales of each level; all rounds but the
last also refit the reference, to the coldest levels. Step sizes are tuned throughout.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), JRSS B 84, algorithm 4 (rounds), section 5.
Surjanovic, Syed, Bouchard-Cote and Campbell (2022), Parallel tempering with a variational
reference, NeurIPS, for a reference that is fitted during warm-up. Deviations: see `_refit` and
`_learn_scales`.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.by_reference import by_reference
from stanadapt.engine.compiled.jit import as_python, jit, rarely_called
from stanadapt.engine.numerics.vectors import copy, vector_mean
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import ladder as ladders
from stanadapt.samplers.tempering import reference_distribution
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z, B
from stanadapt.samplers.tempering.moves import RANDOM_WALK, Options, make_mover
from stanadapt.samplers.tempering.path import (
    DISTRIBUTION,
    POSITION,
    TARGET,
    Replicas,
    TemperingPath,
    copy_replica,
    evaluate,
    evaluate_reference,
    no_replicas,
)
from stanadapt.samplers.tempering.reference_distribution import SMALLEST_SD
from stanadapt.samplers.tempering.swaps import (
    DEVIATIONS,
    MEAN,
    REJECTION,
    SQUARES,
    SWEEPS,
    Tempering,
    log_normalizers,
    no_statistics,
    reset,
)

# rounds end after 2^-6, 2^-5, ..., 1 of the warm-up; the first two rounds are the short chains
HALVINGS = 6
LAST_REFIT = 1
# levels per unit of the barrier: about the best for the rate of round trips (section 5)
LEVELS_PER_BARRIER = 2.0
# the same for a ladder along which single chains move: for pseudo-samples 15 levels are no worse
# than 20, 34 or 60 on a Boltzmann relaxation with a barrier of 5.7
FINER_PER_BARRIER, FEWEST_FINER, FINER_ROOM = 2.5, 16, 128
# the reference is fitted to draws of the levels with b at least this, and of at least three levels
SMALLEST_COLD_B, FEWEST_COLD = 0.5, 3
# inflation in two dimensions; and its minimum in all fits but the last: a reference that misses a
# mode never discovers it
INFLATION_2D, EARLY_INFLATION = 2.0, 4.0
FIRST_LEVELS, FEWEST_LEVELS, ROOM = 10, 4, 64
# radius of random starts, as in Stan, and the number of attempts
RADIUS, ATTEMPTS = 2.0, 100
PRIOR_DRAWS = 5.0
# precision of a hot level over that of the target, where the hottest is unknown: of a prior
LEAST_PRECISION = 1e-4
# read-only, like the inverse temperatures that a user gives
NO_LEVELS = np.empty(0)


class WarmupDesign(NamedTuple):
    """Target values of the tuning in warm-up.

    levels
        Number of levels; if 0, one more than LEVELS_PER_BARRIER times the barrier.
    min_inverse_temperature
        b of the hottest level.
    fits_reference, inflation
        Whether the reference is learned; ratio of its scales to the standard deviations of the
        draws, 0: see `_inflation`.
    uses_gradient
        Whether the moves use the gradient.
    given
        Inverse temperatures of the levels from cold to hot, which are not learned; empty if they
        are. `levels` is then their number.
    target_accept
        Acceptance rate to which step sizes are tuned.
    share
        Share of warm-up that parallel tempering takes.

    """

    levels: int
    min_inverse_temperature: float
    fits_reference: bool
    inflation: float
    uses_gradient: bool
    given: np.ndarray
    target_accept: float
    share: float


def begin(
    path: TemperingPath,
    options: Options,
    levels: int,
    step_size: float,
    position: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Tempering, ValuePoint]:
    """Return a Tempering, all chains at b = 1 and the first at position, and its coldest point.

    levels
        As in `WarmupDesign`.
    step_size
        Initial step size of all chains.

    """
    dim, room = path.target.dim, levels or ROOM
    count = levels or FIRST_LEVELS
    replicas, ladder = as_python(no_replicas)(room, dim), as_python(ladders.no_ladder)(room, dim)
    as_python(ladders.first_ladder)(ladder, count, 1.0, np.log(step_size))
    start(_Start(path, replicas), count, position, options.kernel != RANDOM_WALK, rng)
    order = np.zeros((2, room), np.int64)
    order[0] = np.arange(room)
    tempering = Tempering(
        path, make_mover(room, dim, options, as_python(no_queue)()), ladder, replicas, order,
        no_statistics(room, dim), np.full((count, dim + 1), np.nan),
    )  # fmt: skip
    coldest = replicas.vectors[count - 1, POSITION].copy()
    return tempering, ValuePoint(coldest, replicas.logs[count - 1, TARGET])


class _Start(NamedTuple):
    """What `start` passes by reference."""

    path: TemperingPath
    replicas: Replicas


@rarely_called
def start(chains, count, position, with_gradient, rng):
    """Start row 0 at position, others at random as in Stan, or at position if that fails."""
    # by reference, as in the loop: otherwise `evaluate`, and all that it calls, is compiled twice
    held = by_reference(chains)
    path, replicas = held.path, held.replicas
    for row in range(count):
        failed = True
        for _ in range(ATTEMPTS if row > 0 else 0):
            for i in range(position.shape[0]):
                replicas.vectors[row, POSITION, i] = RADIUS * (2.0 * rng.random() - 1.0)
            evaluate(path, replicas, row, with_gradient)
            if replicas.logs[row, TARGET] > -np.inf:
                failed = False
                break
        if failed:
            copy(position, replicas.vectors[row, POSITION])
            evaluate(path, replicas, row, with_gradient)


@jit
def in_short_chains(ladder):
    """Whether all levels are still at b = 1."""
    return ladder.levels[0, B] == 1.0


@jit
def after_sweep(tempering, design, t, iter_warmup):
    """Tune after sweep t = 0, 1, ... of warm-up, if a round ends with it."""
    halvings = HALVINGS
    while halvings >= 0 and t + 1 != max(iter_warmup >> halvings, 1):
        halvings -= 1
    if halvings < 0:
        return
    if halvings == HALVINGS and iter_warmup >> HALVINGS > 0:
        reset(tempering.statistics)  # discards the way from the starts to the bulk of the target
    elif in_short_chains(tempering.ladder):
        end_short_chains(tempering, design)
    else:
        _tune(tempering, design, halvings)


@jit
def last_sweep(tempering, design, t, sweeps):
    """Tune after sweep t of `sweeps`, unless it is the last, after which callers `conclude`."""
    last = t >= sweeps - 1
    if not last:
        after_sweep(tempering, design, t, sweeps)
    return last


@jit
def conclude(tempering, design):
    """Learn from the sweeps since the latest round, if there were any.

    Returns the barrier.
    """
    if in_short_chains(tempering.ladder):
        end_short_chains(tempering, design)
    if tempering.statistics.counts[SWEEPS] > 0:
        return learn(tempering, design)
    return ladders.measure(tempering.ladder, np.ones(tempering.ladder.size[0]))


def no_finer_ladder(levels: int, dim: int) -> ladders.Ladder:
    """Return a ladder without levels, with room for this many or, if 0, for `FINER_ROOM`."""
    return as_python(ladders.no_ladder)(FINER_ROOM if levels == 0 else levels, dim)


@jit
def set_finer_ladder(tempering, barrier, levels, ladder):
    """Space `levels` levels, or if 0 as many as the barrier requires, on the learned ladder."""
    if levels == 0:
        levels = int(np.ceil(FINER_PER_BARRIER * barrier))
        levels = min(max(levels, FEWEST_FINER), FINER_ROOM)
    ladders.respace(tempering.ladder, ladder, levels)


@jit
def end_short_chains(tempering, design):
    """Fit the reference to the draws of the short chains, if any, and set the first ladder."""
    ladder, reference, count = tempering.ladder, tempering.path.reference, tempering.ladder.size[0]
    if tempering.statistics.counts[SWEEPS] > 0:
        for row in range(count):
            copy(tempering.replicas.vectors[row, POSITION], tempering.short_chain_ends[row, :-1])
            tempering.short_chain_ends[row, -1] = tempering.replicas.logs[row, TARGET]
        _learn_scales(tempering, design)
        _refit(tempering, design, EARLY_INFLATION)
    log_step = vector_mean(ladder.levels[:count, LOG_STEP])
    ladders.first_ladder(ladder, count, design.min_inverse_temperature, log_step)
    if design.given.shape[0] > 0:
        ladders.set_levels(ladder, design.given)
    for i in range(ladder.scale.shape[1]):
        target = 0.0
        for k in range(count):
            target += ladder.scale[k, i] ** -2.0
        target /= count
        hot = reference.factor[min(i, reference.factor.shape[0] - 1), i] ** -2.0
        for k in range(count):
            # on a path between Gaussians the precisions are averaged with weights b and 1 - b
            b = ladder.levels[k, B]
            share = (1.0 - b) * hot if tempering.path.kind == DISTRIBUTION else 0.0
            ladder.scale[k, i] = 1.0 / np.sqrt(max(b * target + share, LEAST_PRECISION * target))
    _evaluate_references(tempering, design)
    tempering.order[1] = 0
    reset(tempering.statistics)


@jit
def _tune(tempering, design, halvings):
    """End a round: set scales, constants, the ladder, and the reference."""
    refit, barrier = halvings >= LAST_REFIT, learn(tempering, design)
    if refit:
        _refit(tempering, design, EARLY_INFLATION if halvings > LAST_REFIT else 0.0)
    if design.given.shape[0] == 0:
        _respace(tempering, design, barrier)
    if refit:
        _evaluate_references(tempering, design)
    reset(tempering.statistics)


@jit
def _respace(tempering, design, barrier):
    """Set the number and the spacing of the levels from the barrier."""
    ladder, old = tempering.ladder, tempering.ladder.size[0]
    count, room = old, ladder.scale.shape[0]
    if design.levels == 0:
        count = int(np.ceil(LEVELS_PER_BARRIER * barrier)) + 1
        count = min(max(count, FEWEST_LEVELS), room)
    new = ladders.no_ladder(room, ladder.scale.shape[1])
    ladders.respace(ladder, new, count)
    ladders.copy_ladder(new, ladder)
    _rearrange(tempering, old, count)


@jit
def learn(tempering, design):
    """Set scales, constants and Lambda of each level from a round; returns the barrier."""
    ladder, statistics = tempering.ladder, tempering.statistics
    _learn_scales(tempering, design)
    log_normalizers(statistics, ladder, ladder.levels[:, LOG_Z])
    return ladders.measure(ladder, statistics.levels[:, REJECTION] / statistics.counts[SWEEPS])


@jit
def _rearrange(tempering, old, count):
    """Give each of `count` levels the row of the `old` level nearest in relative position."""
    replicas, order = tempering.replicas, tempering.order
    spare = no_replicas(count, replicas.vectors.shape[2])
    for k in range(count):
        nearest = int(np.round(k * (old - 1) / max(count - 1, 1)))
        copy_replica(replicas, order[0, nearest], spare, k)
    for k in range(count):
        copy_replica(spare, k, replicas, k)
        order[0, k] = k
    order[1] = 0


@jit
def _evaluate_references(tempering, design):
    """Evaluate the reference at all rows after it has changed."""
    for k in range(tempering.ladder.size[0]):
        evaluate_reference(
            tempering.path, tempering.replicas, tempering.order[0, k], design.uses_gradient
        )


@jit
def _learn_scales(tempering, design):
    """Set each level's scales from its round: from gradients if the moves use them, or positions.

    1 / sqrt(mean of the squared gradient) is the standard deviation of a Gaussian; with several
    modes it is the width of one, which the overall standard deviation does not show. Its logarithm
    is averaged with the former one's, which counts as PRIOR_DRAWS draws: a first scale may be wrong
    by any factor. The step size is adjusted so that its product with the scales, on average over
    parameters, is unchanged.
    """
    ladder, statistics, n = (
        tempering.ladder,
        tempering.statistics,
        tempering.statistics.counts[SWEEPS],
    )
    weight = n / (n + PRIOR_DRAWS)
    for k in range(ladder.size[0]):
        for i in range(ladder.scale.shape[1]):
            old = ladder.scale[k, i]
            if design.uses_gradient:
                change = -0.5 * np.log(statistics.vectors[k, SQUARES, i] / n) - np.log(old)
            else:
                change = 0.5 * np.log(statistics.vectors[k, DEVIATIONS, i] / n) - np.log(old)
            new = old * np.exp(weight * change)
            if SMALLEST_SD < new < 1.0 / SMALLEST_SD:
                ladder.levels[k, LOG_STEP] -= weight * change / ladder.scale.shape[1]
                ladder.scale[k, i] = new


@jit
def _refit(tempering, design, least):
    """Fit the reference to the draws of the coldest levels: their mean, and inflated spread.

    Several levels are pooled, as several short chains are at first, so that the spread includes
    that between levels stuck in different regions.

    least
        Lower bound on the inflation.

    """
    if not design.fits_reference:
        return
    statistics, ladder, reference = tempering.statistics, tempering.ladder, tempering.path.reference
    n, count = statistics.counts[SWEEPS], ladder.size[0]
    inflation = max(_inflation(design, reference.mean.shape[0]), least)
    first = max(count - FEWEST_COLD, 0)
    while first > 0 and ladder.levels[first - 1, B] >= SMALLEST_COLD_B:
        first -= 1
    for i in range(reference.mean.shape[0]):
        mean, square = vector_mean(statistics.vectors[first:count, MEAN, i]), 0.0
        for k in range(first, count):
            square += (
                statistics.vectors[k, DEVIATIONS, i] / n
                + (statistics.vectors[k, MEAN, i] - mean) ** 2
            )
        scale = inflation * np.sqrt(square / (count - first))
        if np.isfinite(mean) and SMALLEST_SD < scale < 1.0 / SMALLEST_SD:
            reference.mean[i], reference.factor[0, i] = mean, scale
    reference_distribution.normalize(reference)


@jit
def _inflation(design, dim):
    """Return the inflation of the design; if 0, one that gives the same barrier in any dimension.

    Between a Gaussian and one c times as wide, the barrier is sqrt(2 dim / pi) log(c) in the limit
    of normal energies: the 0.78 of c = 2 in two dimensions takes c = 1.2 in 26.
    """
    if design.inflation > 0.0:
        return design.inflation
    return INFLATION_2D ** np.sqrt(2.0 / dim)
