"""Warm-up of a tempering: rounds of sweeps that double in length, each of which tunes the next.

All chains begin at b = 1, from places of their own: short chains whose pooled draws give the first
reference law. Then each round, from what the one before has shown, sets anew the spacing of the
ladder and the number of its levels, the normalising constants, and each level's scales; in the
first of them also the reference law, from the coldest levels. Step sizes are tuned all the while.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), JRSS B 84, algorithm 4 (rounds), section 5.
Surjanovic, Syed, Bouchard-Cote and Campbell (2022), Parallel tempering with a variational
reference, NeurIPS, for a reference that is fitted meanwhile. Deviations: see `_refit` and
`_learn_scales`.

"""

from typing import NamedTuple

import numpy as np

from stanadapt import ladder as ladders
from stanadapt import reference_law
from stanadapt._jit import jit
from stanadapt.board import no_board
from stanadapt.ladder import LOG_STEP, LOG_Z, B
from stanadapt.tempered_moves import make_mover
from stanadapt.tempered_path import LAW, POSITION, TARGET, copy_place, evaluate, no_places, refer
from stanadapt.tempering import (
    DEVIATIONS,
    MEAN,
    REJECTION,
    SQUARES,
    SWEEPS,
    Tempering,
    forget,
    log_normalizers,
    nothing_seen,
)

# rounds end after these halvings of the warm-up; the first two are those of the short chains
HALVINGS = 6
LAST_REFIT = 1
# levels whose draws stand for the target in the fit of the reference
COLD, FEWEST_COLD = 0.5, 3
# inflation in two dimensions; and the least of all fits but the last: a law that leaves out a mode
# never hears of it
INFLATION_OF_TWO, EARLY_INFLATION = 2.0, 4.0
FIRST_LEVELS, FEWEST_LEVELS, ROOM = 10, 4, 64
# Stan's radius of random starts, and how many are tried
RADIUS, TRIES = 2.0, 100
SMALLEST_SCALE, PRIOR_DRAWS = 1e-10, 5.0


class Design(NamedTuple):
    """What the rounds are to come to.

    levels, levels_a_barrier
        Number of levels; 0: as many for each unit of the barrier, and one.
    lowest
        b of the hottest level.
    fits_law, inflation
        Whether the reference law is learned; its scale over the standard deviations seen, 0: see
        `_inflation`.
    target_accept, step_size
        Of the moves; the step to begin with.
    uses_gradient
        Whether the moves do.

    """

    levels: int
    levels_a_barrier: float
    lowest: float
    fits_law: bool
    inflation: float
    target_accept: float
    step_size: float
    uses_gradient: bool


@jit
def begin(path, options, design, position, rng):
    """Return a Tempering whose chains are all at b = 1, the first of them at position."""
    dim, room = path.target.dim, ROOM if design.levels == 0 else design.levels
    places, ladder = no_places(room, dim), ladders.no_ladder(room, dim)
    count = FIRST_LEVELS if design.levels == 0 else room
    ladders.first_ladder(ladder, count, 1.0, np.log(design.step_size))
    for row in range(count):
        _start(path, places, row, position, design.uses_gradient, rng)
    order = np.zeros((2, room), np.int64)
    order[0] = np.arange(room)
    mover = make_mover(room, dim, options, no_board())
    ended = np.full((count, dim + 1), np.nan)
    return Tempering(path, mover, ladder, places, order, nothing_seen(room, dim), ended)


@jit
def _start(path, places, row, position, with_gradient, rng):
    """Place a row at position if it is the first, else at random as Stan does, or there too."""
    for _ in range(TRIES if row > 0 else 0):
        for i in range(position.shape[0]):
            places.vectors[row, POSITION, i] = RADIUS * (2.0 * rng.random() - 1.0)
        evaluate(path, places, row, with_gradient)
        if places.logs[row, TARGET] > -np.inf:
            return
    places.vectors[row, POSITION] = position
    evaluate(path, places, row, with_gradient)


@jit
def short_chains(ladder):
    """Whether all levels are still at b = 1."""
    return ladder.levels[0, B] == 1.0


@jit
def after_sweep(tempering, design, t, iter_warmup):
    """Do what is due after sweep t = 0, 1, ... of a warm-up."""
    halvings = HALVINGS
    while halvings >= 0 and t + 1 != max(iter_warmup >> halvings, 1):
        halvings -= 1
    if halvings < 0:
        return
    if halvings == HALVINGS and iter_warmup >> HALVINGS > 0:
        forget(tempering.seen)  # the way from the starts to where the target is
    elif short_chains(tempering.ladder):
        end_short_chains(tempering, design)
    else:
        _tune(tempering, design, halvings)


@jit
def end_short_chains(tempering, design):
    """Fit the law to their draws, if there are any, and put up the first ladder."""
    ladder, law, count = tempering.ladder, tempering.path.law, tempering.ladder.size[0]
    if tempering.seen.counts[SWEEPS] > 0:
        for row in range(count):
            tempering.ended[row, :-1] = tempering.places.vectors[row, POSITION]
            tempering.ended[row, -1] = tempering.places.logs[row, TARGET]
        _learn_scales(tempering, design)
        _refit(tempering, design, EARLY_INFLATION)
    log_step = np.mean(ladder.levels[:count, LOG_STEP])
    ladders.first_ladder(ladder, count, design.lowest, log_step)
    for i in range(ladder.scale.shape[1]):
        cold = np.mean(ladder.scale[:count, i] ** -2.0)
        hot = law.factor[min(i, law.factor.shape[0] - 1), i] ** -2.0
        for k in range(count):
            # inverse variances add up along the path from a Gaussian to a Gaussian
            b = ladder.levels[k, B]
            share = (1.0 - b) * hot if tempering.path.kind == LAW else 0.0
            ladder.scale[k, i] = 1.0 / np.sqrt(max(b * cold + share, SMALLEST_SCALE))
    _refer_all(tempering, design)
    tempering.order[1] = 0
    forget(tempering.seen)


@jit
def _tune(tempering, design, halvings):
    """End a round: scales, constants, spacing, number of levels, the law."""
    ladder, old, refit = tempering.ladder, tempering.ladder.size[0], halvings >= LAST_REFIT
    total = learn(tempering, design)
    if refit:
        _refit(tempering, design, EARLY_INFLATION if halvings > LAST_REFIT else 0.0)
    count, room = old, ladder.scale.shape[0]
    if design.levels == 0:
        count = int(np.ceil(design.levels_a_barrier * total)) + 1
        count = min(max(count, FEWEST_LEVELS), room)
    new = ladders.no_ladder(room, ladder.scale.shape[1])
    ladders.respace(ladder, new, count)
    ladders.copy_ladder(new, ladder)
    _rearrange(tempering, old, count)
    if refit:
        _refer_all(tempering, design)
    forget(tempering.seen)


@jit
def learn(tempering, design):
    """Learn each level's scales, constant and Lambda from a round; returns the barrier."""
    ladder, seen = tempering.ladder, tempering.seen
    _learn_scales(tempering, design)
    log_normalizers(seen, ladder.size[0], ladder.levels[:, LOG_Z])
    return ladders.measure(ladder, seen.levels[:, REJECTION] / seen.counts[SWEEPS])


@jit
def _rearrange(tempering, old, count):
    """Give each of `count` levels a row: that of the level which stood in its place among `old`."""
    places, order = tempering.places, tempering.order
    spare = no_places(count, places.vectors.shape[2])
    for k in range(count):
        nearest = int(np.round(k * (old - 1) / max(count - 1, 1)))
        copy_place(places, order[0, nearest], spare, k)
    for k in range(count):
        copy_place(spare, k, places, k)
        order[0, k] = k
    order[1] = 0


@jit
def _refer_all(tempering, design):
    """Look at all rows from a changed reference."""
    for k in range(tempering.ladder.size[0]):
        refer(tempering.path, tempering.places, tempering.order[0, k], design.uses_gradient)


@jit
def _learn_scales(tempering, design):
    """Set each level's scales from its round: those of the slope, or else of the positions.

    1 / sqrt(mean of the squared gradient) is the standard deviation of a Gaussian; where there are
    many modes it is the width of one, of which the standard deviation of all says nothing. The
    step size makes up for it: the product of both, on average over the parameters, stays.
    """
    ladder, seen, n = tempering.ladder, tempering.seen, tempering.seen.counts[SWEEPS]
    weight = n / (n + PRIOR_DRAWS)
    for k in range(ladder.size[0]):
        for i in range(ladder.scale.shape[1]):
            old = ladder.scale[k, i]
            if design.uses_gradient:
                mean = weight * seen.vectors[k, SQUARES, i] / n + (1.0 - weight) * old**-2.0
                new = 1.0 / np.sqrt(max(mean, SMALLEST_SCALE))
            else:
                new = np.sqrt(
                    weight * seen.vectors[k, DEVIATIONS, i] / n + (1.0 - weight) * old * old
                )
            if SMALLEST_SCALE < new < np.inf:
                ladder.levels[k, LOG_STEP] -= np.log(new / old) / ladder.scale.shape[1]
                ladder.scale[k, i] = new


@jit
def _refit(tempering, design, least):
    """Fit the law to the draws of the coldest levels: their mean, and inflated spread.

    least: inflated by no less than this.

    Of several levels, as of several chains at first, so that the spread between those which are
    stuck in different places is seen too.
    """
    if not design.fits_law:
        return
    seen, ladder, law = tempering.seen, tempering.ladder, tempering.path.law
    n, count = seen.counts[SWEEPS], ladder.size[0]
    inflation = max(_inflation(design, law.mean.shape[0]), least)
    first = max(count - FEWEST_COLD, 0)
    while first > 0 and ladder.levels[first - 1, B] >= COLD:
        first -= 1
    for i in range(law.mean.shape[0]):
        mean, square = np.mean(seen.vectors[first:count, MEAN, i]), 0.0
        for k in range(first, count):
            square += seen.vectors[k, DEVIATIONS, i] / n + (seen.vectors[k, MEAN, i] - mean) ** 2
        scale = inflation * np.sqrt(square / (count - first))
        if np.isfinite(mean) and SMALLEST_SCALE < scale < np.inf:
            law.mean[i], law.factor[0, i] = mean, scale
    reference_law.normalise(law)


@jit
def _inflation(design, dim):
    """Return the inflation that was chosen; if none was, one that costs the same in any dimension.

    From a Gaussian to one that is c times as wide the barrier is sqrt(2 dim / pi) log(c), by the
    limit of normal energies: what is 0.78 for c = 2 in two dimensions must be c = 1.2 in 26.
    """
    if design.inflation > 0.0:
        return design.inflation
    return INFLATION_OF_TWO ** np.sqrt(2.0 / dim)
