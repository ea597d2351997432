"""Where a pooled warm-up is: its stages, and what has been learned so far.

Whether trajectories of fixed length suit a posterior, or NUTS is needed: the rule.

A pilot run cannot see a region that it does not visit. On posteriors with a narrow neck, acceptance
in the pilot was often high, and the chains got stuck later; what told these apart without error in
some 150 warm-ups was whether a single long step is accepted. So it is asked for, and posteriors on
which two or more steps would also serve go to NUTS.

What a pooled warm-up found: attributes of the result, and what the user should know.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened.fisher_metric import FisherMetric

# a shorter step is a sign of regions of high curvature, even where it is accepted
LEAST_STEP = 1.5
# proposals with an acceptance probability below LOW, and the share of them that is borne
LOW, LARGEST_SHARE = 0.1, 0.05


class Trajectory(IntEnum):
    """How a draw is made.

    chosen
        As the pilot run finds.
    fixed
        Trajectories of fixed length.
    nuts
        NUTS on the learned metric.

    """

    chosen = 0
    fixed = 1
    nuts = 2


class Choice(NamedTuple):
    """The kernel, and why."""

    two_stage: bool
    reason: str


UNDECIDED = Choice(False, "")
ASKED_FOR = "asked for"
CUT_SHORT = Choice(False, "iter_warmup was too short to find out whether fixed ones suit")


def steps_too_short(step_size: float, n_steps: int) -> str:
    """Return the reason against trajectories of such steps, or ""."""
    if n_steps == 1 and step_size >= LEAST_STEP:
        return ""
    return f"whitened steps of {step_size:.2f}, below {LEAST_STEP:g}, are needed"


def choose(
    *, settled: bool, divergences: int, step_size: float, n_steps: int, acceptance: np.ndarray
) -> Choice:
    """Choose from a pilot run in which nothing was adapted.

    Parameters
    ----------
    settled
        Whether the log density settled before the metric was learned.
    divergences
        In the last window for the metric, and in the pilot.
    step_size, n_steps
        Of the trajectories of the pilot.
    acceptance
        Probabilities of its proposals.

    """
    low = float((acceptance < LOW).mean())
    if not settled:
        return Choice(False, "the log density did not settle")
    if divergences:
        return Choice(False, "trajectories diverged in the pilot: curvature varies")
    too_short = steps_too_short(step_size, n_steps)
    if too_short:
        return Choice(False, too_short)
    if low > LARGEST_SHARE:
        return Choice(False, f"{low:.0%} of the pilot's proposals had no chance: curvature varies")
    return Choice(True, f"whitened steps of {step_size:.2f} suffice")


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
