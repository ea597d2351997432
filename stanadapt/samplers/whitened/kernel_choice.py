"""Whether trajectories of fixed length suit a posterior, or NUTS is needed: the rule.

A pilot run cannot see a region that it does not visit. On posteriors with a narrow neck, acceptance
in the pilot was often high, and the chains got stuck later; what told these apart without error in
some 150 warm-ups was whether a single long step is accepted. So it is asked for, and posteriors on
which two or more steps would also serve go to NUTS.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

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
