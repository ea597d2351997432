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


def begin_climb(
    settings: Any,
    progress: Progress,
    states: States,
    known: Sequence[Newton | None] = (),
    stay: Sequence[bool] = (),
) -> tuple[Progress, States]:
    """Let chains climb, except those that stay, each in the coordinates known for it, if any."""
    count, progress = len(states), progress._replace(stage=Stage.CLIMB, rounds=progress.rounds + 1)
    progress, states = set_up_nuts(progress, states, CLIMB_LENGTH, max_treedepth=CLIMB_DEPTH)
    if progress.stage is not Stage.CLIMB:  # no iterations are left for this block
        return progress, states
    known, stay = known or [None] * count, stay or [False] * count
    dense = differences_are_made(settings, progress)
    common = progress.metric.kind == "dense"
    changed = []
    for state, own, stays in zip(states, known, stay, strict=True):
        if own is not None:
            state = _with_root(state, own)
        if not stays:
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
    plan = Climb(most, max(n, 4) / 2, newton, sides, np.empty((0, 0)), np.empty(0), np.inf)
    return state._replace(climb=plan)


def after_climb(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Let chains that are not near the typical set climb again; in the end, let all travel."""
    means, dim = window.log_density.mean(axis=1), window.positions.shape[2]
    progress = progress._replace(mean_log_density=means)
    with one_blas_thread():
        known = [newton_of(state) for state in states]
    states = [_forget(state, own) for state, own in zip(states, known, strict=True)]
    near = _near(known, means, dim)
    again = differences_are_made(settings, progress) and progress.rounds < MOST_ROUNDS
    if again and not near.all():
        return begin_climb(settings, progress, states, known, [bool(is_near) for is_near in near])
    usable = [own.root for own, is_near in zip(known, near, strict=True) if own and is_near]
    usable = usable or [own.root for own in known if own]
    if usable:
        progress = progress._replace(metric=mean_metric(usable) or progress.metric)
    progress, states = begin_travel(progress, states)
    if progress.stage is Stage.TRAVEL:
        states = [
            state if is_near or own is None else _with_root(state, own)
            for state, own, is_near in zip(states, known, near, strict=True)
        ]
    return progress, states


def _near(known: Sequence[Newton | None], means: np.ndarray, dim: int) -> np.ndarray:
    """Which chains are near the typical set: a small rise, and not far below others like that."""
    sd = np.sqrt(dim / 2)  # standard deviation of the log density of a Gaussian
    near = np.array([own is not None and own.rise <= 10.0 * (sd + 1.0) for own in known])
    if near.any():
        near &= means >= means[near].max() - 10.0 * (3.0 * sd + 2.0)
    return near


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
