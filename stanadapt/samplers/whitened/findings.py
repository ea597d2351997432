"""What a pooled warm-up found: attributes of the result, and notes for the user.

A file of its own, so that a reworded message does not make Numba recompile the samplers.
"""

from typing import Any

from stanadapt.diagnostics.verdict import FAR_BELOW
from stanadapt.engine.after_run import Findings, RunView, reports_for
from stanadapt.samplers.whitened import pooled_am, whitened_hmc
from stanadapt.samplers.whitened.progress import CUT_SHORT, Progress

# fixed trajectories may end far above their target, if a longer step would make them longer than
# they should be; trajectories of NUTS end above it by no more than this share of the rest
NUTS_ABOVE = 0.125
# coordinates that a message lists
LISTED = 5


@reports_for(whitened_hmc.Settings)
def report(view: RunView) -> Findings:
    """Report which trajectories and which metric were used, and why; and improper directions."""
    if view.progress is None:
        return Findings()
    names = view.target.coordinate_names
    return Findings(attributes(view.settings, view.progress), improper(view.progress, names))


@reports_for(pooled_am.Settings)
def report_walk(view: RunView) -> Findings:
    """Report the length of the warm-up, and the kind of covariance that it learned."""
    if view.progress is None:
        return Findings()
    progress = view.progress
    found = {"warmup_iterations": progress.used, "metric": progress.metric.kind}
    if not progress.settled:
        found["unsettled"] = (
            "pooled_am: the log density had not settled when the covariance was learned, and the "
            "chains may still be on their way. Raise iter_warmup, or give inits."
        )
    return Findings(found)


def attributes(settings: Any, progress: Progress) -> dict[str, Any]:
    """Return the attributes: which trajectories, why, and which metric.

    If adaptation had not settled, `unsettled` is a message for the verdict.
    """
    two_stage, reason = progress.choice
    kind = f"{2 * progress.n_steps} gradients per draw" if two_stage else "NUTS"
    target = progress.target_accept if two_stage else settings.nuts_target_accept
    highest = 1.0 if two_stage else 1.0 - NUTS_ABOVE * (1.0 - target)
    rank = f", rank {progress.metric.rank}" if progress.metric.kind == "low rank" else ""
    unsettled = _unsettled(progress)
    return {
        **({"unsettled": unsettled} if unsettled else {}),
        "warmup_cut_short": progress.choice == CUT_SHORT,
        "warmup_iterations": progress.used,
        "fixed_trajectories": two_stage,
        "trajectory": f"{kind}: {reason}",
        "metric": progress.metric.kind + rank,
        "acceptance_target": target,
        "acceptance_range": [FAR_BELOW * target, highest],
    }


def _unsettled(progress: Progress) -> str:
    if progress.choice == CUT_SHORT:
        return (
            f"Warm-up was cut short after {progress.used} iterations, before it had "
            "learned what it needs: leave iter_warmup to its default, or raise it."
        )
    if not progress.settled:
        return (
            "The log density had not settled when the metric was learned, and the "
            "chains may still be on their way. Raise iter_warmup, or give inits."
        )
    return ""


def improper(progress: Progress, names: list[str]) -> list[str]:
    """Return a note for directions without a gradient, and for directions without bounds."""
    found = []
    if len(progress.metric.flat):
        flat = ", ".join(names[i] for i in progress.metric.flat[:LISTED])
        found.append(
            f"whitened_hmc: the gradient did not change with {flat}: the density is flat, or rises "
            "without end, in this direction, and the posterior may be improper. Give it a prior, "
            "or leave it out of the model."
        )
    if len(progress.unbounded):
        wide = ", ".join(names[i] for i in progress.unbounded[:LISTED])
        found.append(
            f"whitened_hmc: in warm-up nothing held the draws of {wide} together: the posterior "
            "may be improper. Check that the data or a prior bounds every direction."
        )
    return found
