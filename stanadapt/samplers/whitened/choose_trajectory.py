"""The choice between fixed trajectories and NUTS, from a pilot run without adaptation.

A pilot run cannot detect a region that it does not visit. On posteriors with a narrow neck, the
acceptance rate in the pilot was often high, and the chains got stuck later. In some 150 warm-ups,
one criterion separated these posteriors without error: whether a single long step is accepted. So
this is required, or two steps if the draws are not far from a Gaussian: of 140 fits of known
posteriors none that took two was wrong. With three or more, NUTS is chosen, unless there are many
parameters.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened.fisher_metric import MANY

# a shorter step indicates regions of high curvature, even if it is accepted; and the shortest of
# two, below which a trajectory would need three
LEAST_STEP, LEAST_OF_TWO = 1.5, 0.82
# With many parameters energy errors add up, and more steps are allowed. An acceptance rate of 0.87
# takes steps of 1.05, 0.78, 0.45 and 0.26 on a standard normal with 300, 1,000, 10,000 and 100,000
# of them, which fall like n^(-1/4). These are the shortest step with 300, and the shortest
# trajectory. A single long step requires that the metric fits in all directions; several steps do
# not, so that a pilot measures by which factor it is wrong. It was 1.2 on Gaussians, and 1.9 with a
# scale of 500 volatilities, whose neck fixed trajectories then failed to enter. Two steps that few
# parameters may have do without: it was 1.7 to 2.2 with the scale of 350 groups, which they suit.
LEAST_OF_MANY, LEAST_LENGTH, LARGEST_MISFIT = 0.85, 1.0, 1.5
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


def most_steps(dim: int, length: float) -> int:
    """Return how many steps a trajectory of some length may have, by the number of parameters."""
    return int(np.ceil(length / LEAST_OF_MANY * (dim / MANY) ** 0.25)) if dim > MANY else 1


def steps_too_short(step_size: float, n_steps: int, most: int = 1) -> str:
    """Return the reason against trajectories with these steps, or "".

    `most` is that of `most_steps`; two may be taken by any number of parameters.
    """
    least = LEAST_STEP if n_steps == 1 else LEAST_OF_TWO
    if n_steps <= 2 and step_size >= least:
        return ""
    if n_steps > 1 and most > 1:
        if n_steps <= most and n_steps * step_size >= LEAST_LENGTH:
            return ""
        least = LEAST_LENGTH / most
    return f"whitened steps of {step_size:.2f}, below {least:.2g}, are required"


def shares_rejected(acceptance: np.ndarray) -> tuple[float, float]:
    """Return the shares of acceptance probabilities below LOW and below REJECTED."""
    return float((acceptance < LOW).mean()), float((acceptance < REJECTED).mean())


def choose(
    *,
    settled: bool,  # whether the log density settled before the metric was learned
    divergences: int,  # in the last window for the metric and in the pilot
    step_size: float,  # of the pilot's trajectories
    n_steps: int,
    most: int,  # steps of a trajectory
    scale: float,  # in the direction that the metric fits worst, relative to it
    acceptance: np.ndarray,  # acceptance probabilities of its proposals
    continued: bool = False,  # whether it was continued because of doubts
) -> Choice:
    """Choose the kernel from a pilot run without adaptation."""
    low, rejected = shares_rejected(acceptance)
    if not settled:
        return Choice(False, "the log density did not settle")
    if divergences:
        return Choice(False, "trajectories diverged in the pilot: curvature varies")
    too_short = steps_too_short(step_size, n_steps, most)
    if too_short:
        return Choice(False, too_short)
    if n_steps > 1 and scale > LARGEST_MISFIT:
        return Choice(False, f"the metric is wrong by a factor of {scale:.1f} in a direction")
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
