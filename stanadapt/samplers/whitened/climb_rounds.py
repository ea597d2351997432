"""Rounds of climbing: what chains climb for, and the metric from the curvature where they end.

Each chain climbs from its own point, in coordinates of its own. In the first round these are scales
alone; on a regression with collinear columns or powers of years, climbs in such coordinates end far
below the typical set. The differences at the end of a climb then give the chain the coordinates of
its next one: those in which its own Newton step has length 1. Chains near the typical set wait for
the others with NUTS.

The metric of all chains is the inverse of their mean precision matrix |-H|, which no matrix
product forms: that would square the condition, and the scales of a regression in raw units with
calendar years differ by 1e10.

All lengths and bounds are ours, measured on regressions in raw units.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.block import Window
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, dense_metric
from stanadapt.samplers.whitened.climb import DEEP, Climb
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
MOST_CENTRAL = 30
# scales from the first gradients are no smaller and no larger than these multiples of positions
LEAST_SCALE, MOST_SCALE = 1e-4, 1e2
# smallest curvature over the largest
LEAST_CURVATURE = 1e-12


class Newton(NamedTuple):
    """Curvature at the end of a chain's climb: M with M M^T = |H|^-1, and the rise from there.

    `rise` is that which Newton's method predicts, g' |H|^-1 g / 2; M has shape (n, n).
    """

    root: np.ndarray
    rise: float


class Reached(NamedTuple):
    """Which chains are near the typical set, which far below these, and the level of the former.

    near, behind
        Shape (chain,); a chain that is neither still rises by itself.
    level
        Mean log density of the chains that are near; -inf if there are none.

    """

    near: np.ndarray
    behind: np.ndarray
    level: float


def begin_climb(
    settings: Any,
    progress: Progress,
    states: States,
    known: Sequence[Newton | None] = (),
    reached: Reached | None = None,
) -> tuple[Progress, States]:
    """Let chains climb, each in the coordinates known for it, if any; all but those near."""
    count, progress = len(states), progress._replace(stage=Stage.CLIMB, rounds=progress.rounds + 1)
    progress, states = set_up_nuts(progress, states, CLIMB_LENGTH, max_treedepth=CLIMB_DEPTH)
    if progress.stage is not Stage.CLIMB:  # no iterations are left for this block
        return progress, states
    known = known or [None] * count
    dense = differences_are_made(settings, progress)
    common = progress.metric.kind == "dense"
    shared = _shared_factor(progress, known, reached)
    changed = []
    for k, (state, own) in enumerate(zip(states, known, strict=True)):
        if reached is not None and shared is not None and reached.behind[k]:
            state = _prepare_pursuit(state, shared, reached.level)
        else:
            if own is not None:
                state = _with_root(state, own)
            if reached is None or not reached.near[k]:
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
    sides = (2 if n <= MOST_CENTRAL else 1) if dense else 0
    # the log density of a Gaussian is n / 2 below its maximum, on average
    empty = np.empty((0, 0)), np.empty(0)
    return state._replace(climb=Climb(most, max(n, 4) / 2, np.inf, newton, sides, *empty, np.inf))


def _prepare_pursuit(state: Any, factor: np.ndarray, level: float) -> Any:
    """Let a chain that was left behind climb to the level of others, in their coordinates."""
    state = state._replace(leapfrog=state.leapfrog._replace(factor=factor))
    empty = np.empty((0, 0)), np.empty(0)
    return state._replace(climb=Climb(PURSUIT, 0.0, level, False, 0, *empty, np.inf))


def _shared_factor(
    progress: Progress, known: Sequence[Newton | None], reached: Reached | None
) -> np.ndarray | None:
    """Return the metric of the chains that are near, or in every second round its scales."""
    if reached is None or not reached.behind.any():
        return None
    metric = mean_metric(_roots(known, reached.near))
    if metric is None:
        return None
    factor = metric.factor if progress.rounds % 2 else metric.scales[None]
    return metric_factor.twofold(np.ascontiguousarray(factor))


def after_climb(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Let chains that are not near the typical set climb again; in the end, let all travel."""
    means, former = window.log_density.mean(axis=1), progress.mean_log_density
    progress = progress._replace(mean_log_density=means)
    with one_blas_thread():
        known = [newton_of(state) for state in states]
    reached = _reached(known, states, means)
    states = [_forget(state, own) for state, own in zip(states, known, strict=True)]
    most = _most_rounds(reached, means - former, window.positions.shape[2])
    again = differences_are_made(settings, progress) and progress.rounds < most
    if again and not reached.near.all():
        return begin_climb(settings, progress, states, known, reached)
    usable = _roots(known, reached.near) or _roots(known, np.ones(len(states), bool))
    if usable:
        progress = progress._replace(metric=mean_metric(usable) or progress.metric)
    progress, states = begin_travel(progress, states)
    if progress.stage is Stage.TRAVEL:
        states = [
            state if is_near or own is None else _with_root(state, own)
            for state, own, is_near in zip(states, known, reached.near, strict=True)
        ]
    return progress, states


def _reached(known: Sequence[Newton | None], states: States, means: np.ndarray) -> Reached:
    """Judge chains: those near have a small rise, and are not far below others like that.

    Those that pursued others have no curvature of their own, and are near if they reached them.
    """
    sd = np.sqrt(len(states[0].current.position) / 2)  # of the log density of a Gaussian
    near = np.array([own is not None and own.rise <= 10.0 * (sd + 1.0) for own in known])
    if not near.any():
        return Reached(near, near, -np.inf)
    behind = means < means[near].max() - 10.0 * (3.0 * sd + 2.0)
    near &= ~behind
    pursued = np.array([np.isfinite(state.climb.level) for state in states])
    return Reached(near | (pursued & ~behind), behind, float(means[near].mean()))


def _most_rounds(reached: Reached, rises: np.ndarray, dim: int) -> int:
    if not reached.behind.any():
        return MOST_ROUNDS
    rising = rises[reached.behind].max() > np.sqrt(dim / 2) + 1.0
    return MOST_RISING if rising else MOST_BEHIND


def _roots(known: Sequence[Newton | None], which: np.ndarray) -> list[np.ndarray]:
    return [own.root for own, chosen in zip(known, which, strict=True) if own and chosen]


def newton_of(state: Any) -> Newton | None:
    """Return the curvature that a chain found in its last climb, or earlier; None if neither."""
    n, found = len(state.current.position), state.climb
    former = metric_factor.written_out(state.leapfrog.factor, n)
    if len(found.curvature) and np.isfinite(found.curvature).all():
        try:
            values, vectors = np.linalg.eigh(0.5 * (found.curvature + found.curvature.T))
        except np.linalg.LinAlgError:
            values = np.zeros(1)
        largest = np.abs(values).max()
        if largest > 0.0:
            deviations = np.sqrt(np.maximum(np.abs(values), LEAST_CURVATURE * largest))
            metric = dense_metric(former @ (vectors / deviations), np.empty(0, int))
            rise = 0.5 * float(np.sum((found.force @ vectors / deviations) ** 2))
            if metric is not None and np.isfinite(rise):
                return Newton(metric.factor, rise)
    return Newton(former, found.rise) if np.isfinite(found.rise) else None


def mean_metric(roots: Sequence[np.ndarray]) -> FisherMetric | None:
    """Return the metric with the mean of the precision matrices (M M^T)^-1; None if singular."""
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
