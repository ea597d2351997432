"""Where a pooled warm-up is: its stages, and what has been learned so far."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened.fisher_metric import FisherMetric
from stanadapt.samplers.whitened.kernel_choice import Choice


class Stage(IntEnum):
    """What a block is for."""

    TRAVEL = 0
    FIRST_METRIC = 1
    FIND_STEP = 2
    METRIC = 3
    TUNE_STEP = 4
    PILOT = 5
    NUTS_METRIC = 6
    NUTS_STEP = 7
    DONE = 8


LABELS = {
    Stage.TRAVEL: "moving to the typical set",
    Stage.FIRST_METRIC: "learning the metric",
    Stage.FIND_STEP: "learning the metric",
    Stage.METRIC: "learning the metric",
    Stage.TUNE_STEP: "tuning the step size",
    Stage.PILOT: "pilot run",
    Stage.NUTS_METRIC: "learning the metric for NUTS",
    Stage.NUTS_STEP: "tuning the step size of NUTS",
    Stage.DONE: "done",
}


class Progress(NamedTuple):
    """Where a pooled warm-up is: numbers and arrays alone.

    stage, block
        What the chains do next, and for how many iterations; 0 once warm-up has ended.
    used, ceiling
        Iterations per chain so far, and at most.
    stretch, shrink
        By which the lengths of blocks are multiplied: for few chains, and for a low ceiling.
    window
        Number of the block within its stage, from 0.
    windows
        Lengths of the windows of METRIC.
    metric, location
        What was learned last, and the mean of the draws it was learned from, shape (dim,).
    step_size, n_steps, target_accept
        Of two-stage trajectories.
    mean_log_density
        Of each chain in the last window of TRAVEL, shape (chain,).
    settled
        TRAVEL ended because the log density had settled.
    divergences
        In the last window of METRIC.
    choice
        The kernel, and why.
    unbounded
        Numbers of coordinates that nothing seemed to hold together in the last window of NUTS.

    """

    stage: Stage
    block: int
    used: int
    ceiling: int
    stretch: float
    shrink: float
    window: int
    windows: tuple[int, ...]
    metric: FisherMetric
    location: np.ndarray
    step_size: float
    n_steps: int
    target_accept: float
    mean_log_density: np.ndarray
    settled: bool
    divergences: int
    choice: Choice
    unbounded: np.ndarray

    @property
    def label(self) -> str:
        """What the chains are doing, for a progress bar."""
        return LABELS[self.stage]
