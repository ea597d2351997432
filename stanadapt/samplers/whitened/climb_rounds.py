"""Rounds of climbing, from the goal of each chain to the metric of the curvature where they end.

Each chain climbs from its own point, in coordinates of its own. In the first round these are scales
alone; on a regression with collinear columns or powers of years, climbs in such coordinates end far
below the typical set. The differences at the end of a climb then give the chain the coordinates of
its next one: those in which its own Newton step has length 1. Chains near the typical set wait for
the others with NUTS.

A chain far below those near pursues them: it climbs to their level in the coordinates of their mean
curvature, or, in every second round, in the scales of these. In its own coordinates it would follow
a canyon for long. A chain that ended high up with little mass around first returns to its start. If
there is even less around where it then ends, in a local mode, it goes back to where it had been.

The metric of all chains is the inverse of their mean precision matrix |-H|, which no matrix
product forms: that would square the condition, and the scales of a regression in raw units with
calendar years differ by 1e10.

All lengths and bounds are ours, measured on regressions in raw units.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine import metric_factor
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.arrival import (
    Arrival,
    Newton,
    highest_allowed,
    judge,
    newton_of,
)
from stanadapt.samplers.whitened.block import Window
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, dense_metric
from stanadapt.samplers.whitened.climb import DEEP, no_climb, returned_to
from stanadapt.samplers.whitened.fisher_metric import FisherMetric, Metric, diagonal_metric
from stanadapt.samplers.whitened.next_block import States, begin_travel, set_up_nuts
from stanadapt.samplers.whitened.progress import Progress, Stage

# largest number of rounds, and of gradients of a chain in each; far down, three times as many
MOST_ROUNDS, MOST_GRADIENTS, DEEP_TIMES = 4, 150, 3
# largest number of rounds if some chains are left behind, and if these still rise; and of their
# gradients in each
MOST_BEHIND, MOST_RISING, PURSUIT = 6, 16, 450
# iterations of NUTS after a climb, and their depth
CLIMB_LENGTH, CLIMB_DEPTH = 4, 2
# up to this number of parameters differences are central, with two gradients each
MOST_CENTRAL = 5
# Scales from the first gradients are no smaller and no larger than these multiples of positions,
# whatever the units. Of an exponential of exponentials they are far too small: in a Weibull
# regression in raw units, one chain has a log density of -1e9 and another of -1e79, whose gradients
# suggest scales of 1e-40, in ratios of 1e36. Its chains arrive after 1,260 gradients, without the
# lower bound after 1,560, and with one seed of 16 after 43,000. L-BFGS learns all other scales on
# its way: four normals with sds from 1e-14 to 1e14 take 1,200 gradients with and without bounds.
LEAST_SCALE, MOST_SCALE = 1e-4, 1e2


def begin_climb(
    settings: Any,
    progress: Progress,
    states: States,
    known: Sequence[Newton | None] = (),
    arrival: Arrival | None = None,
) -> tuple[Progress, States]:
    """Let chains climb, each in the coordinates known for it, if any; all but those near."""
    count, progress = len(states), progress._replace(stage=Stage.CLIMB, rounds=progress.rounds + 1)
    progress, states = set_up_nuts(progress, states, CLIMB_LENGTH, max_treedepth=CLIMB_DEPTH)
    if progress.stage is not Stage.CLIMB:  # no iterations are left for this block
        return progress, states
    known = known or [None] * count
    dense = differences_are_made(settings, progress)
    common = progress.metric.kind == "dense"
    shared = None if arrival is None else _shared_factor(progress, known, arrival)
    changed = []
    for k, (state, own) in enumerate(zip(states, known, strict=True)):
        if arrival is not None and shared is not None and (arrival.behind | arrival.lost)[k]:
            begin = np.empty(0)
            if arrival.lost[k]:
                begin, progress = progress.starts[k], _abandon(progress, k, state, arrival)
            state = _prepare_pursuit(state, shared, arrival.level, begin)
        else:
            if own is not None:
                state = _with_root(state, own)
            if arrival is None or not arrival.near[k]:
                state = _prepare_climb(state, newton=common or own is not None, dense=dense)
        changed.append(state)
    return progress, changed


def differences_are_made(settings: Any, progress: Progress) -> bool:
    """Whether the curvature at the end of a climb is computed."""
    few = len(progress.location) <= LARGEST_COMPOSED
    return few and settings.metric == Metric.automatic


def _prepare_climb(state: Any, *, newton: bool, dense: bool) -> Any:
    n, most = len(state.current.position), MOST_GRADIENTS
    if state.current.log_density < DEEP:
        # the curvature there says nothing about that at the mode
        scales = np.maximum(1.0, np.abs(state.current.position))[None]
        state = state._replace(leapfrog=state.leapfrog._replace(factor=scales))
        newton, most = False, DEEP_TIMES * MOST_GRADIENTS
    sides = _sides(n) if dense else 0
    # the log density of a Gaussian is n / 2 below its maximum, on average
    plan = no_climb()._replace(gradients=most, enough=max(n, 4) / 2, newton=newton, sides=sides)
    return state._replace(climb=plan)


def _prepare_pursuit(state: Any, factor: np.ndarray, level: float, begin: np.ndarray) -> Any:
    """Let a chain climb to the level of the others, in their coordinates."""
    state = state._replace(leapfrog=state.leapfrog._replace(factor=factor))
    dim = len(state.current.position)
    plan = no_climb()._replace(
        gradients=PURSUIT, begin=begin, level=level, highest=highest_allowed(level, dim),
        sides=_sides(dim),
    )  # fmt: skip
    return state._replace(climb=plan)


def _sides(dim: int) -> int:
    return 2 if dim <= MOST_CENTRAL else 1


def _shared_factor(
    progress: Progress, known: Sequence[Newton | None], arrival: Arrival
) -> np.ndarray | None:
    """Return the metric of the chains that are near, or in every second round its scales."""
    metric = mean_metric(_roots(known, arrival.near))
    if metric is None:
        return None
    factor = metric.factor if progress.rounds % 2 else metric.scales[None]
    return metric_factor.twofold(np.ascontiguousarray(factor))


def after_climb(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Let chains that are not near the typical set climb again; in the end, let all travel."""
    means, former = window.log_density.mean(axis=1), progress.mean_log_density
    dim = window.positions.shape[2]
    progress = progress._replace(mean_log_density=means)
    with one_blas_thread():
        known = [newton_of(state) for state in states]
    arrival = judge(known, means, dim)
    states = [_forget(state, own) for state, own in zip(states, known, strict=True)]
    most = _most_rounds(arrival, means - former, dim)
    again = differences_are_made(settings, progress) and progress.rounds < most
    if again and not arrival.near.all():
        return begin_climb(settings, progress, states, known, arrival)
    usable = _roots(known, arrival.near) or _roots(known, np.ones(len(states), bool))
    if usable:
        progress = progress._replace(metric=mean_metric(usable) or progress.metric)
    progress, states = begin_travel(progress, states)
    if progress.stage is Stage.TRAVEL:
        for k, (state, own) in enumerate(zip(states, known, strict=True)):
            if not arrival.near[k] and progress.abandoned_mass[k] > arrival.mass[k]:
                states[k] = returned_to(state, progress.abandoned[k])
            elif arrival.lost[k]:
                states[k] = returned_to(state, progress.starts[k])
                progress = progress._replace(returned=progress.returned + 1)
            elif own is not None and not arrival.near[k]:
                states[k] = _with_root(state, own)
    return progress, states


def _abandon(progress: Progress, k: int, state: Any, arrival: Arrival) -> Progress:
    """Keep the place that chain k leaves for its start, if it is the best that it has left."""
    progress = progress._replace(returned=progress.returned + 1)
    if not arrival.mass[k] > progress.abandoned_mass[k]:
        return progress
    abandoned, mass = progress.abandoned.copy(), progress.abandoned_mass.copy()
    abandoned[k], mass[k] = state.current.position, arrival.mass[k]
    return progress._replace(abandoned=abandoned, abandoned_mass=mass)


def _most_rounds(arrival: Arrival, rises: np.ndarray, dim: int) -> int:
    pursues = arrival.behind | arrival.lost
    if not pursues.any():
        return MOST_ROUNDS
    rising = np.abs(rises[pursues]).max() > np.sqrt(dim / 2) + 1.0
    return MOST_RISING if rising else MOST_BEHIND


def _roots(known: Sequence[Newton | None], which: np.ndarray) -> list[np.ndarray]:
    return [own.root for own, chosen in zip(known, which, strict=True) if own and chosen]


def mean_metric(roots: Sequence[np.ndarray]) -> FisherMetric | None:
    """Return the metric with the mean of the precision matrices (M M^T)^-1; None if singular."""
    if not len(roots):
        return None
    n = len(roots[0])
    with one_blas_thread():
        try:
            inverses = [solve_triangular(root, np.eye(n), lower=True) for root in roots]
            upper = np.linalg.qr(np.concatenate(inverses) / np.sqrt(len(roots)), mode="r")
            return dense_metric(solve_triangular(upper, np.eye(n)), np.empty(0, int))
        except (np.linalg.LinAlgError, ValueError):  # singular, or not finite
            return None


def rough_metric(former: FisherMetric, window: Window) -> FisherMetric:
    """Return the scales in which chains far away begin to climb."""
    positions, gradients = window.pooled
    metric = diagonal_metric(positions, gradients, former.scales)
    size = np.maximum(1.0, np.abs(positions).mean(axis=0))
    # if gradients hardly vary, far away, scales are wrong by many orders of magnitude
    factor = np.clip(metric.factor, LEAST_SCALE * size, MOST_SCALE * size)
    return metric._replace(factor=np.ascontiguousarray(factor))


def _with_root(state: Any, own: Newton) -> Any:
    factor = metric_factor.twofold(own.root)
    return state._replace(leapfrog=state.leapfrog._replace(factor=factor))


def _forget(state: Any, own: Newton | None) -> Any:
    """Drop the differences, which have been used; keep the rise, with the chain's own factor."""
    rise = np.inf if own is None else own.rise
    found = state.climb._replace(curvature=np.empty((0, 0)), force=np.empty(0), rise=rise)
    return state._replace(climb=found)
