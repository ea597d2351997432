"""Stages and state of a pooled warm-up, and the choice between fixed trajectories and NUTS.

A pilot run cannot detect a region that it does not visit. On posteriors with a narrow neck, the
acceptance rate in the pilot was often high, and the chains got stuck later. In some 150 warm-ups,
one criterion separated these posteriors without error: whether a single long step is accepted. So
this is required, and posteriors on which two or more steps would also work are sampled by NUTS.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened.fisher_metric import FisherMetric
from stanadapt.samplers.whitened.straighten import UNCHANGED, Straightened

# a shorter step indicates regions of high curvature, even if it is accepted
LEAST_STEP = 1.5
# proposals with an acceptance probability below LOW: the share of them from which on a pilot is
# continued, and the largest acceptable one
LOW, DOUBTFUL_SHARE, LARGEST_SHARE = 0.1, 0.03, 0.05
# the same for proposals below REJECTED, which the verdict counts, too: it doubts draws if their
# share is 0.025, and a continued pilot determines it to 0.006. Regressions have 0.003
REJECTED, DOUBTFUL_REJECTED, LARGEST_REJECTED = 0.01, 0.01, 0.02


class Trajectory(IntEnum):
    """Kind of trajectory.

    chosen
        Chosen by the pilot run.
    fixed
        Trajectories of fixed length.
    nuts
        NUTS on the learned metric.

    """

    chosen = 0
    fixed = 1
    nuts = 2


class Choice(NamedTuple):
    """The kernel, and the reason for it."""

    two_stage: bool
    reason: str


UNDECIDED = Choice(False, "")
ASKED_FOR = "by request"
CUT_SHORT = Choice(False, "iter_warmup was too short for a pilot run of fixed trajectories")


def steps_too_short(step_size: float, n_steps: int) -> str:
    """Return the reason against trajectories with these steps, or ""."""
    if n_steps == 1 and step_size >= LEAST_STEP:
        return ""
    return f"whitened steps of {step_size:.2f}, below {LEAST_STEP:g}, are required"


def shares_rejected(acceptance: np.ndarray) -> tuple[float, float]:
    """Return the shares of acceptance probabilities below LOW and below REJECTED."""
    return float((acceptance < LOW).mean()), float((acceptance < REJECTED).mean())


def choose(
    *,
    settled: bool,
    divergences: int,
    step_size: float,
    n_steps: int,
    acceptance: np.ndarray,
    continued: bool = False,
) -> Choice:
    """Choose the kernel from a pilot run without adaptation.

    Parameters
    ----------
    settled
        Whether the log density settled before the metric was learned.
    divergences
        Number in the last window for the metric and in the pilot.
    step_size, n_steps
        Step size and number of steps of the pilot's trajectories.
    acceptance
        Acceptance probabilities of its proposals.
    continued
        Whether it was continued because of doubts.

    """
    low, rejected = shares_rejected(acceptance)
    if not settled:
        return Choice(False, "the log density did not settle")
    if divergences:
        return Choice(False, "trajectories diverged in the pilot: curvature varies")
    too_short = steps_too_short(step_size, n_steps)
    if too_short:
        return Choice(False, too_short)
    if low > LARGEST_SHARE:
        reason = f"{low:.0%} of the pilot's proposals were almost surely rejected"
        return Choice(False, f"{reason}: curvature varies")
    if continued and rejected > LARGEST_REJECTED:
        reason = f"{rejected:.1%} of the pilot's proposals were rejected"
        return Choice(False, f"{reason}: curvature varies")
    return Choice(True, f"whitened steps of {step_size:.2f} suffice")


def is_doubtful(acceptance: np.ndarray) -> bool:
    """Whether a pilot that chose fixed trajectories has too few proposals to decide."""
    low, rejected = shares_rejected(acceptance)
    return low > DOUBTFUL_SHARE or rejected > DOUBTFUL_REJECTED


class Stage(IntEnum):
    """Purpose of a block."""

    FIRST_WINDOW = 0
    CLIMB = 1
    TRAVEL = 2
    FIRST_METRIC = 3
    FIND_STEP = 4
    METRIC = 5
    TUNE_STEP = 6
    PILOT = 7
    NUTS_METRIC = 8
    NUTS_STEP = 9
    DONE = 10
    STRAIGHTEN = 11
    NUTS_PILOT = 12
    SURVEY = 13


LABELS = {
    Stage.FIRST_WINDOW: "moving to the typical set",
    Stage.CLIMB: "moving to the typical set",
    Stage.TRAVEL: "moving to the typical set",
    Stage.SURVEY: "moving to the typical set",
    Stage.FIRST_METRIC: "learning the metric",
    Stage.FIND_STEP: "learning the metric",
    Stage.METRIC: "learning the metric",
    Stage.TUNE_STEP: "tuning the step size",
    Stage.PILOT: "pilot run",
    Stage.NUTS_METRIC: "learning the metric for NUTS",
    Stage.NUTS_STEP: "tuning the step size of NUTS",
    Stage.NUTS_PILOT: "pilot run of NUTS",
    Stage.DONE: "done",
    Stage.STRAIGHTEN: "straightening the posterior",
}


class Progress(NamedTuple):
    """State of a pooled warm-up: numbers and arrays alone.

    stage, block
        The stage that comes next, and its number of iterations, which is 0 after warm-up.
    used, ceiling
        Iterations per chain so far, and the largest number allowed.
    stretch, shrink
        Factors of the lengths of blocks: for few chains, and for a low ceiling.
    window
        Number of the block within its stage, from 0.
    windows
        Lengths of the windows of METRIC.
    rounds, returned, traveled
        Numbers of rounds of CLIMB, of returns of a chain to its start, and of windows of TRAVEL so
        far.
    starts
        Positions in which chains started, shape (chain, dim).
    abandoned, abandoned_mass
        Where chains were when they returned to their start, shape (chain, dim), and the log mass
        around; nan and -inf for a chain that did not return.
    metric, location
        The latest metric, and the mean of the draws that it was learned from, shape (dim,).
    step_size, n_steps, target_accept
        Tuning of two-stage trajectories.
    mean_log_density
        Mean for each chain in the last window of TRAVEL, or in the later part of the first window,
        shape (chain,).
    settled
        Whether TRAVEL ended because the log density had settled.
    divergences
        Number in the last window of METRIC, or while a map was judged.
    choice
        The kernel, and the reason for it.
    unbounded
        Numbers of the coordinates that drifted without bound in the last window of NUTS.
    straightened
        The map, its groups, and the distance from a Gaussian without and with it.
    attempts
        Number of searches for a map that were made without one.
    steep_share
        Share of trajectories of NUTS that diverged within the support in its last window for the
        metric or the map.
    restarted
        Whether chains on a lower level than others have returned to their start in TRAVEL.
    shortened
        Whether NUTS is tuned to `nuts_steps.SHORTER`, since trajectories diverged in its pilot.
    piloted
        Acceptance probabilities in the first part of a pilot run of fixed trajectories.

    """

    stage: Stage
    block: int
    used: int
    ceiling: int
    stretch: float
    shrink: float
    window: int
    windows: tuple[int, ...]
    rounds: int
    returned: int
    traveled: int
    starts: np.ndarray
    abandoned: np.ndarray
    abandoned_mass: np.ndarray
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
    straightened: Straightened = UNCHANGED
    attempts: int = 0
    steep_share: float = 0.0
    restarted: bool = False
    shortened: bool = False
    piloted: np.ndarray = np.empty(0)

    @property
    def label(self) -> str:
        """Description of the present stage, for a progress bar."""
        return LABELS[self.stage]
