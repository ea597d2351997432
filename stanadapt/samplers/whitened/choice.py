"""The choice between fixed trajectories and NUTS, from a pilot run without adaptation.

A pilot run cannot detect a region that it does not visit. On posteriors with a narrow neck, the
acceptance rate in the pilot was often high, and the chains got stuck later. In some 150 warm-ups,
one criterion separated these posteriors without error: whether a single long step is accepted. So
this is required, and posteriors on which two or more steps would also work are sampled by NUTS.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

# a shorter step indicates regions of high curvature, even if it is accepted; and the shortest of
# two, below which a trajectory would need three
LEAST_STEP, LEAST_OF_TWO = 1.5, 0.82
# proposals with an acceptance probability below LOW: the share of them from which on a pilot is
# continued, and the largest acceptable one
LOW, DOUBTFUL_SHARE, LARGEST_SHARE = 0.1, 0.03, 0.05
# the same for proposals below REJECTED, which the verdict counts, too: it doubts draws if their
# share is 0.025, and a continued pilot determines it to 0.006. Regressions have 0.003
REJECTED, DOUBTFUL_REJECTED, LARGEST_REJECTED = 0.01, 0.01, 0.02


class Trajectory(IntEnum):
    """Kind of trajectory."""

    chosen = 0  # chosen by the pilot run
    fixed = 1  # trajectories of fixed length
    nuts = 2  # NUTS on the learned metric


class Choice(NamedTuple):
    """The kernel, and the reason for it."""

    two_stage: bool
    reason: str


UNDECIDED = Choice(False, "")
ASKED_FOR = "by request"
CUT_SHORT = Choice(False, "iter_warmup was too short for a pilot run of fixed trajectories")


def steps_too_short(step_size: float, n_steps: int) -> str:
    """Return the reason against trajectories with these steps, or ""."""
    least = LEAST_STEP if n_steps == 1 else LEAST_OF_TWO
    if n_steps <= 2 and step_size >= least:
        return ""
    return f"whitened steps of {step_size:.2f}, below {least:g}, are required"


def shares_rejected(acceptance: np.ndarray) -> tuple[float, float]:
    """Return the shares of acceptance probabilities below LOW and below REJECTED."""
    return float((acceptance < LOW).mean()), float((acceptance < REJECTED).mean())


def choose(
    *,
    settled: bool,  # whether the log density settled before the metric was learned
    divergences: int,  # in the last window for the metric and in the pilot
    step_size: float,  # of the pilot's trajectories
    n_steps: int,
    acceptance: np.ndarray,  # acceptance probabilities of its proposals
    continued: bool = False,  # whether it was continued because of doubts
) -> Choice:
    """Choose the kernel from a pilot run without adaptation."""
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
    number = "two " if n_steps == 2 else ""
    return Choice(True, f"{number}whitened steps of {step_size:.2f} suffice")


def is_doubtful(acceptance: np.ndarray) -> bool:
    """Whether a pilot that chose fixed trajectories has too few proposals to decide."""
    low, rejected = shares_rejected(acceptance)
    return low > DOUBTFUL_SHARE or rejected > DOUBTFUL_REJECTED
