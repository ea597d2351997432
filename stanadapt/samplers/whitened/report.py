"""What a pooled warm-up found: attributes of the result, and what the user should know."""

from typing import Any

from stanadapt.samplers.whitened.kernel_choice import CUT_SHORT
from stanadapt.samplers.whitened.progress import Progress

# the acceptance rate is as expected within these; fixed trajectories may end far above their target
# where a longer step would make them longer than they should be
FAR_BELOW, NUTS_ABOVE = 0.5, 0.125


def described(settings: Any, progress: Progress) -> dict[str, Any]:
    """Return the attributes: what was used, which trajectories, why, and which metric.

    Where adaptation had not settled, `unsettled` is a sentence for the verdict.
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


def sentences(settings: Any, progress: Progress, names: list[str]) -> list[str]:
    """Return one sentence per thing that went wrong; `names` are those of the coordinates."""
    found = []
    if len(progress.metric.flat):
        flat = ", ".join(names[i] for i in progress.metric.flat[:5])
        found.append(
            f"whitened_hmc: the gradient did not change with {flat}: the density is flat, or rises "
            "without end, in this direction, and the posterior may be improper. Give it a prior, "
            "or leave it out of the model."
        )
    if len(progress.unbounded):
        wide = ", ".join(names[i] for i in progress.unbounded[:5])
        found.append(
            f"whitened_hmc: in warm-up nothing held the draws of {wide} together: the posterior "
            "may be improper. Check that the data or a prior bounds every direction."
        )
    return found
