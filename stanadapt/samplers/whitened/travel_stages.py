"""Stages on the way to the typical set: windows of NUTS, and climbs of chains that are far away.

TRAVEL ends when the log density has settled. Correlations are learned from the first window on, if
those of one half of the chains hold for the other: on a regression in raw units, trees are deep
with scales alone. A metric of a few draws is crude, and trees on it deep as well, so their depth is
capped; the cap rises if chains travel long.

Chains far below the others carry no information about the typical set. They are left out when the
metric is learned, and continue with separate scales, or scales of 1 in turn, until they are no
longer far below. A chain that stays on a lower level than others for several windows may be in a
local mode, into which it has climbed: once, it returns to its own start and goes from there with
NUTS, on the metric of all. So it does if others leave such a mode only later
(`compare_levels_first`). No chain is moved to the place of another.

If a chain is far away, all climb first, and again after a window in which they were still clearly
moving. Each chain climbs from its own point, in separate coordinates. In the first round of CLIMB
these are scales alone; on a regression with collinear columns or powers of years, climbs in such
coordinates end far below the typical set. The differences at the end of a climb then give the chain
the coordinates of its next one: those in which its own Newton step has length 1. Chains near the
typical set wait for the others with NUTS. With many parameters there are no differences, and those
on the highest level wait that do not rise.

A chain far below those near pursues them: it climbs to their level in the coordinates of their mean
curvature, or, in every second round, in the scales of these. In its own coordinates it would follow
a canyon for long. A chain that ended high up with little mass around first returns to its start.

The schedule, its lengths and bounds are ours; measured on regressions in raw units, hierarchical
models, funnels and separate modes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.warmup import Change, Progress, Result, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.arrival import (
    Arrival,
    Newton,
    differences_are_made,
    highest_allowed,
    judge,
    mean_metric,
    newton_of,
    roots_of,
    sides_for,
)
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, WHILE_TRAVELING
from stanadapt.samplers.whitened.choose_trajectory import Trajectory
from stanadapt.samplers.whitened.climb import DEEP, no_climb
from stanadapt.samplers.whitened.fisher_metric import MANY, FisherMetric, Metric, diagonal_metric
from stanadapt.samplers.whitened.further_climbs import ask_for_climbs
from stanadapt.samplers.whitened.span_stages import is_to_span, is_to_span_again
from stanadapt.samplers.whitened.window import Window

# length and largest depth of the first window, which shows how far away the chains are
FIRST_LENGTH, FIRST_DEPTH = 5, 3
# length of the windows of TRAVEL; depth of the trees in the first ones, their number, and the depth
# that later ones reach by one per window. A crude metric makes trees deep.
TRAVEL_LENGTH, TRAVEL_DEPTH, SHALLOW_WINDOWS, DEEPEST = 10, 4, 4, 8
# depth in the first window with many parameters: chains may not settle with shallower trees
DEEP_FROM = 6
# largest number of windows; those in which chains are clearly still moving do not count, but end
# at a share of iter_warmup
MOST_TRAVEL, TRAVEL_SHARE = 20, 0.5
# windows, in which chains are not clearly moving, after which a map is searched for in one of this
# length: in the neck of a funnel, the log density does not settle
SURVEY_AFTER, SURVEY_LENGTH = 5, 30
# iterations after which chains that are still moving get their own scales
PATIENCE = 60
# length of the further window for a metric if TRAVEL had too few draws per parameter
FIRST_METRIC_LENGTH, ENOUGH_DRAWS = 15, 2
# largest number of rounds, and of gradients of a chain in each; far down, or with more than MANY
# parameters, three times as many
MOST_ROUNDS, MOST_GRADIENTS, DEEP_TIMES = 4, 150, 3
# largest number of rounds if some chains are left behind, and if these still rise; and of their
# gradients in each
MOST_BEHIND, MOST_RISING, PURSUIT = 6, 16, 450
# iterations of NUTS after a climb, and their depth
CLIMB_LENGTH, CLIMB_DEPTH = 4, 2
# Scales from the first gradients are no smaller and no larger than these multiples of positions,
# whatever the units. Of an exponential of exponentials they are far too small: in a Weibull
# regression in raw units, one chain has a log density of -1e9 and another of -1e79, whose gradients
# suggest scales of 1e-40, in ratios of 1e36. Its chains arrive after 1,260 gradients, without the
# lower bound after 1,560, and with one seed of 16 after 43,000. L-BFGS learns all other scales on
# its way: four normals with sds from 1e-14 to 1e14 take 1,200 gradients with and without bounds.
LEAST_SCALE, MOST_SCALE = 1e-4, 1e2


# --- windows of NUTS ------------------------------------------------------------------------------


def learn_first_window(settings: Any, progress: Progress, states: States) -> Result:
    """Let chains climb if one of them is far away; otherwise learn a first metric, and travel."""
    window = parts.window_of(progress, states)
    half = window.log_density.shape[1] // 2
    before, later = window.part(slice(half)), window.part(slice(half, None))
    far = later.still_moving(before.log_density.mean(axis=1))
    progress = parts.learn_metric(settings, progress, window, WHILE_TRAVELING)
    progress = parts.with_levels_of(progress, later)
    if not far:
        return progress, states
    if progress.learned.metric.kind != "sparse":
        progress = progress.learning(metric=rough_metric(progress.learned.metric, window))
    return to_climb(settings, progress, states), states


def rough_metric(former: FisherMetric, window: Window) -> FisherMetric:
    """Return the scales in which chains far away begin to climb."""
    positions, gradients = window.pooled
    metric = diagonal_metric(positions, gradients, former.scales)
    size = np.maximum(1.0, np.abs(positions).mean(axis=0))
    # if gradients hardly vary, far away, scales are wrong by many orders of magnitude
    factor = np.clip(metric.factor, LEAST_SCALE * size, MOST_SCALE * size)
    return metric._replace(factor=np.ascontiguousarray(factor))


def travel_depth(progress: Progress) -> int:
    """Return the largest depth of trees in a window of TRAVEL."""
    dim, windows = progress.learned.dim, progress.learned.travel.windows
    if dim > LARGEST_COMPOSED:
        return min(DEEP_FROM + windows, DEEPEST) if dim > MANY else DEEPEST
    later = max(progress.learned.travel.windows - SHALLOW_WINDOWS + 1, 0)
    return min(TRAVEL_DEPTH + later, DEEPEST)


def learn_travel(settings: Any, progress: Progress, states: States) -> Result:
    """Continue until the log density has stopped changing, within and between chains."""
    window, former, travel = (
        parts.window_of(progress, states), progress.chains.level, progress.learned.travel,
    )  # fmt: skip
    # After SPAN the metric is known. The log density of hundreds of collinear predictors and their
    # scale still moves slowly: in 29 windows in a row, one of four chains changed by too much.
    settled = window.settled(former, together=travel.spanned)
    moving = window.still_moving(former)
    far_below, span = window.far_below(), is_to_span(settings, progress, window)
    quiet = 0 if moving else travel.quiet + 1
    travel = travel._replace(quiet=quiet, windows=travel.windows + 1)
    progress = parts.learn_metric(settings, progress, window, WHILE_TRAVELING, far_below)
    progress = parts.with_levels_of(progress.learning(settled=settled, travel=travel), window)
    if settled and is_to_span_again(travel, window):
        return progress.to(parts.SPAN, settled=False), states
    if settled or progress.used > TRAVEL_SHARE * progress.ceiling or quiet == MOST_TRAVEL:
        return ask_for_climbs(settings, _arrive(settings, progress, window), states)
    restarted = progress.chains.restarted
    if span and not (moving or far_below.any()):
        return progress.to(parts.SPAN), states
    if moving and travel.rounds < MOST_ROUNDS and not restarted.any():
        return to_climb(settings, progress, states, stay=_stay(window, former)), states
    if settings.straighten and quiet == SURVEY_AFTER and not far_below.any():
        return progress.to(parts.SURVEY), states
    progress = progress.to(parts.TRAVEL)
    stuck = window.stuck(former) & ~restarted
    # another chain may move for long: far below all others, it crosses a plain
    if stuck.any() and (quiet > SURVEY_AFTER or travel.windows > MOST_TRAVEL):
        return _restart(progress, stuck), states
    if far_below.any() or progress.used >= PATIENCE:
        alone = far_below if far_below.any() else np.full(len(states), moving)
        # Scales of 1 help if the log density falls by many orders of magnitude on the way, as with
        # exponentials of exponentials: the gradients at one point then carry no information about
        # the scales at the next.
        own = [np.ones((1, window.dim))] * len(states)
        if travel.windows % 2:
            own = parts.own_scales(states, window, [state.leapfrog.factor for state in states])
        plans = (parts.Alone(own[k]) if alone[k] else None for k in range(len(states)))
        progress = progress.learning(alone=tuple(plans))
    return progress, states


def _stay(window: Window, former: np.ndarray) -> np.ndarray:
    """Return which chains do not climb again: with many parameters, a high one that does not rise.

    It may have climbed into a neck, where the log density has no upper bound. Each further climb
    would take it deeper, and here no curvature is computed that would show it.
    """
    high = ~(window.rising(former) | window.far_below())
    return high & (window.dim > MANY)


def _restart(progress: Progress, stuck: np.ndarray) -> Progress:
    """Let chains that stay below the others return to their start."""
    travel, chains = progress.learned.travel, progress.chains
    travel = travel._replace(returned=travel.returned + int(stuck.sum()), quiet=0)
    plans = (
        parts.back_to(start) if is_stuck else None
        for start, is_stuck in zip(chains.starts, stuck, strict=True)
    )
    progress = progress._replace(chains=chains._replace(restarted=chains.restarted | stuck))
    return progress.learning(travel=travel, alone=tuple(plans))


def compare_levels_first(
    learn: Change, settings: Any, progress: Progress, states: States
) -> Result:
    """Let a stage at the typical set first see whether chains have left it for a higher level.

    All may have arrived in a local mode, and some may leave it later, by luck. The others would
    stay, and the metric would be that of both modes. So they return to their own starts, once.
    """
    learned, window = progress.learned, parts.window_of(progress, states)
    half = window.log_density.shape[1] // 2
    # if only scales are wanted, for another sampler, modes may be on different levels
    other = settings.metric != Metric.automatic or learned.earlier is not None
    if other or learned.straightened.map_is_used or not half:
        return learn(settings, progress, states)
    before, later = window.part(slice(half)), window.part(slice(half, None))
    lower = later.stuck(before.log_density.mean(axis=1)) & ~progress.chains.restarted
    lower &= window.log_density.max(axis=1) < window.log_density.min(axis=1).max()
    if not lower.any() or progress.used > TRAVEL_SHARE * progress.ceiling:
        return learn(settings, progress, states)
    progress = progress._replace(learned=parts.anew(settings, learned))
    progress = parts.learn_metric(settings, progress, later, WHILE_TRAVELING, lower)
    return _restart(parts.with_levels_of(progress, later), lower).to(parts.TRAVEL), states


def _arrive(settings: Any, progress: Progress, window: Window) -> Progress:
    """Find the step size, unless the metric needs more draws, or the curvature of climbs."""
    learned = progress.learned
    draws = window.moved.sum() * window.positions.shape[1]
    enough = draws >= ENOUGH_DRAWS * window.dim
    enough |= learned.travel.rounds > 0 and learned.metric.kind == "dense"
    enough |= learned.metric.kind == "sparse"
    enough |= len(learned.members_aside) > 0
    fixed = learned.settled and enough and settings.trajectory != Trajectory.nuts
    return progress.to(parts.FIND_STEP if fixed else parts.FIRST_METRIC)


# --- climbs ---------------------------------------------------------------------------------------


def to_climb(
    settings: Any,
    progress: Progress,
    states: States,
    known: Sequence[Newton | None] = (),
    arrival: Arrival | None = None,
    stay: np.ndarray | None = None,
) -> Progress:
    """Let chains climb, each in the coordinates known for it, if any; all but those near.

    `stay` are these if there is no `arrival`: by default, none.
    """
    near = np.zeros(len(states), bool) if stay is None else stay
    near = near if arrival is None else arrival.near
    travel, metric = progress.learned.travel, progress.learned.metric
    travel = travel._replace(rounds=travel.rounds + 1)
    known = known or [None] * len(states)
    dense = differences_are_made(settings, progress)
    shared = None if arrival is None else _shared_factor(travel.rounds, known, arrival)
    plans = []
    for k, (state, own) in enumerate(zip(states, known, strict=True)):
        if arrival is not None and shared is not None and (arrival.behind | arrival.lost)[k]:
            begin = np.empty(0)
            if arrival.lost[k]:
                begin = progress.chains.starts[k].copy()
                travel = travel._replace(returned=travel.returned + 1)
            plans.append(_pursuit(state, shared, arrival.level, begin))
        else:
            factor = None if own is None else metric_factor.twofold(own.root)
            plan = parts.Alone(factor)
            if not near[k]:
                newton = metric.kind in ("dense", "sparse") or own is not None
                plan = _climb(state, factor, newton=newton, dense=dense)
            plans.append(plan)
    return progress.to(parts.CLIMB, travel=travel, alone=tuple(plans))


def _climb(state: Any, factor: np.ndarray | None, *, newton: bool, dense: bool) -> parts.Alone:
    n, most = len(state.current.position), MOST_GRADIENTS
    if state.current.log_density < DEEP:
        # the curvature there says nothing about that at the mode
        factor = np.maximum(1.0, np.abs(state.current.position))[None]
        newton, most = False, DEEP_TIMES * MOST_GRADIENTS
    elif n > MANY:
        most = DEEP_TIMES * MOST_GRADIENTS
    sides = sides_for(n) if dense else 0
    # the log density of a Gaussian is n / 2 below its maximum, on average
    plan = no_climb()._replace(gradients=most, enough=max(n, 4) / 2, newton=newton, sides=sides)
    return parts.Alone(factor, plan)


def _pursuit(state: Any, factor: np.ndarray, level: float, begin: np.ndarray) -> parts.Alone:
    """Let a chain climb to the level of the others, in their coordinates."""
    dim = len(state.current.position)
    plan = no_climb()._replace(
        gradients=PURSUIT, begin=begin, level=level, highest=highest_allowed(level, dim),
        sides=sides_for(dim),
    )  # fmt: skip
    return parts.Alone(factor, plan)


def _shared_factor(
    rounds: int, known: Sequence[Newton | None], arrival: Arrival
) -> np.ndarray | None:
    """Return the metric of the chains that are near, or in every second round its scales."""
    metric = mean_metric(roots_of(known, arrival.near))
    if metric is None:
        return None
    factor = metric.factor if rounds % 2 else metric.scales[None]
    return metric_factor.twofold(np.ascontiguousarray(factor))


def learn_climb(settings: Any, progress: Progress, states: States) -> Result:
    """Let chains that are not near the typical set climb again; in the end, let all travel.

    The metric of all chains is the inverse of their mean precision matrix.
    """
    window, former = parts.window_of(progress, states), progress.chains.level
    dim, progress = window.dim, parts.with_levels_of(progress, window)
    means = progress.chains.level
    with one_blas_thread():
        known = [newton_of(state) for state in states]
    arrival = judge(known, means, dim)
    states = [_forget(state, own) for state, own in zip(states, known, strict=True)]
    most = _most_rounds(arrival, means - former, dim)
    again = differences_are_made(settings, progress) and progress.learned.travel.rounds < most
    if again and not arrival.near.all():
        return to_climb(settings, progress, states, known, arrival), states
    usable = roots_of(known, arrival.near) or roots_of(known, np.ones(len(states), bool))
    metric = mean_metric(usable) or progress.learned.metric
    travel, plans = progress.learned.travel, []
    for k, own in enumerate(known):
        plan = None
        if arrival.lost[k]:
            plan = parts.back_to(progress.chains.starts[k])
            travel = travel._replace(returned=travel.returned + 1)
        elif own is not None and not arrival.near[k]:
            plan = parts.Alone(metric_factor.twofold(own.root))
        plans.append(plan)
    progress = progress.learning(metric=metric, travel=travel, alone=tuple(plans))
    return ask_for_climbs(settings, progress.to(parts.TRAVEL), states)


def _most_rounds(arrival: Arrival, rises: np.ndarray, dim: int) -> int:
    pursues = arrival.behind | arrival.lost
    if not pursues.any():
        return MOST_ROUNDS
    rising = np.abs(rises[pursues]).max() > np.sqrt(dim / 2) + 1.0
    return MOST_RISING if rising else MOST_BEHIND


def _forget(state: Any, own: Newton | None) -> Any:
    """Drop the differences, which have been used; keep the rise, with the chain's own factor."""
    rise = np.inf if own is None else own.rise
    found = state.climb._replace(curvature=np.empty((0, 0)), force=np.empty(0), rise=rise)
    return state._replace(climb=found)
