"""The stages of a pooled warm-up without gradients; see `schedule` for the rules.

SWEEPS   blocks in which each parameter moves alone, with its own scale that is tuned throughout,
         until the log density has settled; chains pool the logarithms of the scales
WALK     blocks of increasing length in which all parameters move together, by the covariance of
         the draws of all chains in the last block
TUNE     only the size of the moves is tuned; chains then pool it

The covariance of few, correlated draws is noise in many dimensions: its correlations are shrunk by
a weight that counts one effective draw per AUTOCORRELATION * dim iterations.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.points import RANDOM_WALK_SCALE
from stanadapt.samplers.whitened.block import Window, make_room, make_window
from stanadapt.samplers.whitened.fisher_metric import FisherMetric

States = list[Any]

# sweeps in a block, largest number of blocks, and their largest share of warm-up
SWEEPS, MOST_BLOCKS, SWEEP_SHARE = 10, 30, 0.5
# relative lengths of the blocks of WALK, and of TUNE, which share the rest of warm-up
WALKS = (1, 2, 4, 8, 12)
TUNES = 5
AUTOCORRELATION, LARGEST_DENSE = 7.0, 200
# scale of single moves at an acceptance rate of 0.44, over the conditional standard deviation
SINGLE_OVER_SD = 2.4


class Stage(IntEnum):
    """Purpose of a block."""

    SWEEPS = 0
    WALK = 1
    TUNE = 2
    DONE = 3


LABELS = {
    Stage.SWEEPS: "moving to the typical set",
    Stage.WALK: "learning the covariance",
    Stage.TUNE: "tuning the scale",
    Stage.DONE: "done",
}


class Progress(NamedTuple):
    """State of a pooled warm-up: numbers and arrays alone.

    stage, block
        The stage that comes next, and its number of iterations, which is 0 after warm-up.
    used, ceiling
        Iterations per chain so far, and in all of warm-up.
    window, left
        Number of the block within its stage; iterations that WALK and TUNE share.
    metric, location
        The latest metric, and the mean of the draws that it was learned from.
    mean_log_density
        Mean for each chain in the last block of SWEEPS, shape (chain,).
    settled
        Whether SWEEPS ended because the log density had settled.

    """

    stage: Stage
    block: int
    used: int
    ceiling: int
    window: int
    left: int
    metric: FisherMetric
    location: np.ndarray
    mean_log_density: np.ndarray
    settled: bool

    @property
    def label(self) -> str:
        """Description of the present stage, for a progress bar."""
        return LABELS[self.stage]


def begin(settings: Any, states: States, iter_warmup: int) -> tuple[Progress, States]:
    """Begin with moves of one parameter at a time."""
    dim = len(states[0].scales)
    progress = Progress(
        stage=Stage.SWEEPS, block=0, used=0, ceiling=iter_warmup, window=0, left=0,
        metric=FisherMetric(np.ones((1, dim)), "diagonal", 0, np.empty(0, int)),
        location=np.mean([state.current.position[:dim] for state in states], axis=0),
        mean_log_density=np.full(len(states), np.nan), settled=False,
    )  # fmt: skip
    return _sweep(progress, states)


def pool(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """Learn from a block of all chains, and set up the next one."""
    progress = progress._replace(used=progress.used + progress.block, window=progress.window + 1)
    window = make_window(states)
    if progress.stage is Stage.SWEEPS:
        return _after_sweeps(settings, progress, states, window)
    if progress.stage is Stage.WALK:
        progress = _learn_covariance(settings, progress, window)
        return _walk(progress, states)
    return _finish(progress, states)


def pool_for_scales(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """As `pool`, but stop once metric and location are known, for another sampler."""
    progress, states = pool(settings, progress, states)
    return _finish(progress, states) if progress.stage is Stage.TUNE else (progress, states)


def _sweep(progress: Progress, states: States) -> tuple[Progress, States]:
    """Let each parameter move alone; begin WALK once the share of sweeps is used up."""
    dim, most = len(states[0].scales), SWEEP_SHARE * progress.ceiling
    sweeps = int(np.clip(most / (2 * dim), 1, SWEEPS))
    if progress.used + sweeps * dim > most or progress.window == MOST_BLOCKS:
        return _begin_walk(progress, states)
    progress = progress._replace(block=sweeps * dim)
    return progress, [
        make_room(state, sweeps)._replace(single=True, coordinate=0, t=0) for state in states
    ]


def _after_sweeps(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    means = window.log_density.mean(axis=1)
    dim = len(states[0].scales)
    scales = np.exp(np.mean([np.log(state.scales) for state in states], axis=0))
    progress = progress._replace(
        settled=window.settled(progress.mean_log_density, dim), mean_log_density=means,
        metric=FisherMetric(scales[None] / SINGLE_OVER_SD, "diagonal", 0, np.empty(0, int)),
        location=window.pooled[0].mean(axis=0),
    )  # fmt: skip
    if progress.settled:
        return _begin_walk(progress, states)
    return _sweep(progress, states)


def _begin_walk(progress: Progress, states: States) -> tuple[Progress, States]:
    progress = progress._replace(
        stage=Stage.WALK, window=0, left=progress.ceiling - progress.used
    )  # fmt: skip
    return _walk(progress, states)


def _walk(progress: Progress, states: States) -> tuple[Progress, States]:
    """Let all parameters move together; after the last block of WALK, only tune."""
    part = progress.left / (sum(WALKS) + TUNES)
    if progress.window < len(WALKS):
        block = max(int(part * WALKS[progress.window]), 1)
    else:
        block = progress.ceiling - progress.used
        progress = progress._replace(stage=Stage.TUNE)
    progress = progress._replace(block=min(block, progress.ceiling - progress.used))
    if not progress.block:
        return _finish(progress, states)
    factor = np.ascontiguousarray(progress.metric.factor)
    scale = RANDOM_WALK_SCALE / np.sqrt(len(states[0].scales))
    room = progress.block if progress.stage is Stage.WALK else 0
    return progress, [
        make_room(state, room)._replace(
            single=False, coordinate=0, t=0, scale=scale, factor=factor.copy()
        )
        for state in states
    ]


def _learn_covariance(settings: Any, progress: Progress, window: Window) -> Progress:
    dim = len(progress.location)
    positions = window.pooled[0]
    location, former = positions.mean(axis=0), progress.metric.scales
    spread = positions.std(axis=0)
    scales = np.where(np.isfinite(spread) & (spread > 0.0), spread, former)
    metric = FisherMetric(scales[None], "diagonal", 0, np.empty(0, int))
    if not settings.diagonal and 1 < dim <= LARGEST_DENSE:
        with one_blas_thread():
            z = (positions - location) / scales
            effective = len(z) / (AUTOCORRELATION * dim)
            weight = effective / (effective + dim)
            matrix = weight * (z.T @ z) / len(z) + (1.0 - weight) * np.eye(dim)
            factor = np.linalg.cholesky(matrix) * scales[:, None]
        metric = FisherMetric(np.ascontiguousarray(factor), "dense", dim, np.empty(0, int))
    return progress._replace(metric=metric, location=location)


def _finish(progress: Progress, states: States) -> tuple[Progress, States]:
    """Pool the scales of moves, and end warm-up."""
    scale = float(np.exp(np.mean([np.log(state.scale) for state in states])))
    progress = progress._replace(stage=Stage.DONE, block=0)
    return progress, [
        make_room(state, 0)._replace(single=False, coordinate=0, scale=scale) for state in states
    ]
