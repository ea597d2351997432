"""Warm-up of parallel tempering: rounds of sweeps of doubling length, each tuning the next.

Other samplers on the same path begin with it, in the first part of their warm-up: see `conclude`
and `set_finer_ladder`. Compiled code makes the sweeps; Python learns after each round.

All chains start at b = 1, from different positions: the pooled draws of these short chains give the
first reference distribution. The end of every later round resets, from its draws, the number and
spacing of the levels, the normalizing constants, and the scales of each level; all rounds but the
last also refit the reference, to the coldest levels. Step sizes are tuned throughout.

References
----------
Those of `swaps`: algorithm 4 (rounds), section 5. A reference that is fitted during warm-up:
Surjanovic, Syed, Bouchard-Cote and Campbell (2022), Parallel tempering with a variational
reference, NeurIPS. Deviations: see `_refit` and `_learn_scales`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.compiled.by_reference import by_reference
from stanadapt.engine.compiled.jit import as_python, rarely_called
from stanadapt.engine.numerics.elementwise import exponentials, logs, powers
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import ladder as ladders
from stanadapt.samplers.tempering import path as paths
from stanadapt.samplers.tempering import reference_distribution, swaps
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z, B
from stanadapt.samplers.tempering.moves import RANDOM_WALK, Options, make_mover
from stanadapt.samplers.tempering.reference_distribution import SMALLEST_SD

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
# precision of a hot level over that of the target, if the hottest is unknown: of a prior
LEAST_PRECISION = 1e-4


class WarmupDesign(NamedTuple):
    """Target values of the tuning in warm-up."""

    levels: int  # number of levels; if 0, one more than LEVELS_PER_BARRIER times the barrier
    min_inverse_temperature: float  # b of the hottest level
    # fits_reference, inflation: whether the reference is learned; ratio of its scales to the
    # standard deviations of the draws, 0: see `_inflation`
    fits_reference: bool
    inflation: float
    uses_gradient: bool  # whether the moves use the gradient
    # Inverse temperatures of the levels from cold to hot, which are not learned; empty if they are.
    # `levels` is then their number.
    given: np.ndarray
    target_accept: float  # acceptance rate to which step sizes are tuned


def begin(
    path: paths.TemperingPath,
    options: Options,
    levels: int,
    step_size: float,
    position: np.ndarray,
    rng: np.random.Generator,
) -> tuple[swaps.Tempering, ValuePoint]:
    """Return a Tempering, all chains at b = 1 and the first at position, and its coldest point."""
    dim, room = path.target.dim, levels or ROOM
    count = levels or FIRST_LEVELS
    replicas, ladder = paths.no_replicas(room, dim), ladders.no_ladder(room, dim)
    ladders.first_ladder(ladder, count, 1.0, np.log(step_size))
    order = np.zeros((2, room), np.int64)
    order[0] = np.arange(room)
    chains, with_gradient = _Start(path, replicas), options.kernel != RANDOM_WALK
    start(chains, count, position, with_gradient, rng)
    evaluate_references(chains, order[0, :0], with_gradient)  # only compiles
    tempering = swaps.Tempering(
        path, make_mover(room, dim, options, as_python(no_queue)()), ladder, replicas, order,
        swaps.no_statistics(room, dim), np.full((count, dim + 1), np.nan),
    )  # fmt: skip
    coldest = replicas.vectors[count - 1, paths.POSITION].copy()
    return tempering, ValuePoint(coldest, replicas.logs[count - 1, paths.TARGET])


class _Start(NamedTuple):
    """What is passed by reference."""

    path: paths.TemperingPath
    replicas: paths.Replicas


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
                replicas.vectors[row, paths.POSITION, i] = RADIUS * (2.0 * rng.random() - 1.0)
            paths.evaluate(path, replicas, row, with_gradient)
            if replicas.logs[row, paths.TARGET] > -np.inf:
                failed = False
                break
        if failed:
            copy(position, replicas.vectors[row, paths.POSITION])
            paths.evaluate(path, replicas, row, with_gradient)


@rarely_called
def evaluate_references(chains, rows, with_gradient):
    """Evaluate the reference at some rows, after it has changed."""
    held = by_reference(chains)
    for row in rows:
        paths.evaluate_reference(held.path, held.replicas, row, with_gradient)


# --- the ends of rounds ---------------------------------------------------------------------------


def in_short_chains(ladder: ladders.Ladder) -> bool:
    """Whether all levels are still at b = 1."""
    return bool(ladder.levels[0, B] == 1.0)


def left_of_round(sweeps: int, total: int) -> int:
    """Return the number of sweeps until the end of a round."""
    ends = (max(total >> halvings, 1) for halvings in range(HALVINGS + 1))
    return min((end for end in ends if end > sweeps), default=sweeps) - sweeps


def end_round(tempering: swaps.Tempering, design: WarmupDesign, sweeps: int, total: int) -> None:
    """Tune at the end of a round, after this many sweeps of warm-up."""
    halvings = next(h for h in range(HALVINGS, -1, -1) if sweeps == max(total >> h, 1))
    if halvings == HALVINGS and total >> HALVINGS > 0:
        swaps.reset(tempering.statistics)  # discards the way from the starts to the bulk
    else:
        tune(tempering, design, halvings)


def conclude(tempering: swaps.Tempering, design: WarmupDesign) -> float:
    """Learn from the sweeps since the latest round, if there were any.

    Returns the barrier.
    """
    if in_short_chains(tempering.ladder):
        end_short_chains(tempering, design)
    if tempering.statistics.counts[swaps.SWEEPS] > 0:
        return learn(tempering, design)
    return ladders.measure(tempering.ladder, np.ones(tempering.ladder.size[0]))


def no_finer_ladder(levels: int, dim: int) -> ladders.Ladder:
    """Return a ladder without levels, with room for this many or, if 0, for `FINER_ROOM`."""
    return ladders.no_ladder(FINER_ROOM if levels == 0 else levels, dim)


def set_finer_ladder(
    tempering: swaps.Tempering, barrier: float, levels: int, ladder: ladders.Ladder
) -> None:
    """Space `levels` levels, or if 0 as many as the barrier requires, on the learned ladder."""
    if levels == 0:
        levels = int(np.ceil(FINER_PER_BARRIER * barrier))
        levels = min(max(levels, FEWEST_FINER), FINER_ROOM)
    ladders.respace(tempering.ladder, ladder, levels)


def end_short_chains(tempering: swaps.Tempering, design: WarmupDesign) -> None:
    """Fit the reference to the draws of the short chains, if any, and set the first ladder."""
    ladder, reference, count = tempering.ladder, tempering.path.reference, tempering.ladder.size[0]
    if tempering.statistics.counts[swaps.SWEEPS] > 0:
        tempering.short_chain_ends[:, :-1] = tempering.replicas.vectors[:count, paths.POSITION]
        tempering.short_chain_ends[:, -1] = tempering.replicas.logs[:count, paths.TARGET]
        _learn_scales(tempering, design)
        _refit(tempering, design, EARLY_INFLATION)
    log_step = mean(ladder.levels[:count, LOG_STEP])
    ladders.first_ladder(ladder, count, design.min_inverse_temperature, log_step)
    if len(design.given):
        ladders.set_levels(ladder, design.given)
    target = mean(powers(ladder.scale[:count], -2.0))
    distribution = tempering.path.kind == paths.DISTRIBUTION
    hot = powers(reference_distribution.scales(reference), -2.0) if distribution else 0.0
    # on a path between Gaussians the precisions are averaged with weights b and 1 - b
    b = ladder.levels[:count, B, np.newaxis]
    ladder.scale[:count] = 1.0 / np.sqrt(
        np.maximum(b * target + (1.0 - b) * hot, LEAST_PRECISION * target)
    )
    _evaluate_references(tempering, design)
    tempering.order[1] = 0
    swaps.reset(tempering.statistics)


def mean(rows: np.ndarray) -> Any:
    """Return the mean of rows, added up from the first to the last."""
    return np.add.accumulate(rows)[-1] / len(rows)


def tune(tempering: swaps.Tempering, design: WarmupDesign, halvings: int) -> None:
    """End a round: set scales, constants, the ladder, and the reference."""
    if in_short_chains(tempering.ladder):
        end_short_chains(tempering, design)
        return
    refit, barrier = halvings >= LAST_REFIT, learn(tempering, design)
    if refit:
        _refit(tempering, design, EARLY_INFLATION if halvings > LAST_REFIT else 0.0)
    if len(design.given) == 0:
        _respace(tempering, design, barrier)
    if refit:
        _evaluate_references(tempering, design)
    swaps.reset(tempering.statistics)


def _respace(tempering: swaps.Tempering, design: WarmupDesign, barrier: float) -> None:
    """Set the number and the spacing of the levels from the barrier."""
    ladder, old = tempering.ladder, tempering.ladder.size[0]
    count, room = int(old), ladder.scale.shape[0]
    if design.levels == 0:
        count = int(np.ceil(LEVELS_PER_BARRIER * barrier)) + 1
        count = min(max(count, FEWEST_LEVELS), room)
    new = ladders.no_ladder(room, ladder.scale.shape[1])
    ladders.respace(ladder, new, count)
    ladders.copy_ladder(new, ladder)
    # each level gets the row of the old one that is nearest in relative position
    nearest = np.round(np.arange(count) * (old - 1) / max(count - 1, 1)).astype(int)
    rows = tempering.order[0, nearest]
    for part in tempering.replicas:
        part[:count] = part[rows]
    tempering.order[0, :count] = np.arange(count)
    tempering.order[1] = 0


def learn(tempering: swaps.Tempering, design: WarmupDesign) -> float:
    """Set scales, constants and Lambda of each level from a round; returns the barrier."""
    ladder, statistics = tempering.ladder, tempering.statistics
    _learn_scales(tempering, design)
    swaps.log_normalizers(statistics, ladder, ladder.levels[:, LOG_Z])
    return ladders.measure(
        ladder, statistics.levels[:, swaps.REJECTION] / statistics.counts[swaps.SWEEPS]
    )


def _evaluate_references(tempering: swaps.Tempering, design: WarmupDesign) -> None:
    """Evaluate the reference at all rows after it has changed."""
    rows = tempering.order[0, : tempering.ladder.size[0]]
    evaluate_references(
        _Start(tempering.path, tempering.replicas), rows, design.uses_gradient
    )  # fmt: skip


def _learn_scales(tempering: swaps.Tempering, design: WarmupDesign) -> None:
    """Set each level's scales from its round: from gradients if the moves use them, or positions.

    1 / sqrt(mean of the squared gradient) is the standard deviation of a Gaussian; with several
    modes it is the width of one, which the overall standard deviation does not show. Its logarithm
    is averaged with the former one's, which counts as PRIOR_DRAWS draws: a first scale may be wrong
    by any factor. The step size is adjusted so that its product with the scales, on average over
    parameters, is unchanged.
    """
    ladder, statistics = tempering.ladder, tempering.statistics
    count, n = ladder.size[0], statistics.counts[swaps.SWEEPS]
    weight, old = n / (n + PRIOR_DRAWS), ladder.scale[:count]
    column, power = (swaps.SQUARES, -0.5) if design.uses_gradient else (swaps.DEVIATIONS, 0.5)
    change = weight * (power * logs(statistics.vectors[:count, column] / n) - logs(old))
    new = old * exponentials(change)
    usable = (new > SMALLEST_SD) & (new < 1.0 / SMALLEST_SD)
    lost = np.where(usable, change / old.shape[1], 0.0)
    log_step = ladder.levels[:count, LOG_STEP, np.newaxis]
    ladder.levels[:count, LOG_STEP] = np.subtract.accumulate(np.hstack([log_step, lost]), 1)[:, -1]
    ladder.scale[:count] = np.where(usable, new, old)


def _refit(tempering: swaps.Tempering, design: WarmupDesign, least: float) -> None:
    """Fit the reference to the draws of the coldest levels: their mean, and inflated spread.

    Several levels are pooled, as several short chains are at first, so that the spread includes
    that between levels stuck in different regions. The inflation is at least `least`.
    """
    if not design.fits_reference:
        return
    statistics, ladder, reference = tempering.statistics, tempering.ladder, tempering.path.reference
    n, count = statistics.counts[swaps.SWEEPS], ladder.size[0]
    inflation = max(_inflation(design, len(reference.mean)), least)
    first = max(count - FEWEST_COLD, 0)
    while first > 0 and ladder.levels[first - 1, B] >= SMALLEST_COLD_B:
        first -= 1
    means = statistics.vectors[first:count, swaps.MEAN]
    center = mean(means)
    squares = statistics.vectors[first:count, swaps.DEVIATIONS] / n + (means - center) ** 2
    scale = inflation * np.sqrt(mean(squares))
    usable = np.isfinite(center) & (scale > SMALLEST_SD) & (scale < 1.0 / SMALLEST_SD)
    reference.mean[usable], reference.factor[0, usable] = center[usable], scale[usable]
    reference_distribution.normalize(reference)


def _inflation(design: WarmupDesign, dim: int) -> float:
    """Return the inflation of the design; if 0, one that gives the same barrier in any dimension.

    Between a Gaussian and one c times as wide, the barrier is sqrt(2 dim / pi) log(c) in the limit
    of normal energies: the 0.78 of c = 2 in two dimensions takes c = 1.2 in 26.
    """
    return design.inflation or INFLATION_2D ** math.sqrt(2.0 / dim)
