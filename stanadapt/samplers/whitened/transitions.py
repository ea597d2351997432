"""From one stage at the typical set to another: what several of them do on the way."""

from typing import Any

from stanadapt.engine.block_map import unpacked
from stanadapt.engine.warmup import Progress
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_trajectory import Choice

NUTS_WINDOW = 50
# Acceptance rate that NUTS is tuned to if trajectories diverged in its pilot, or in warm-up, or if
# more than this distance remains outside of a block. The last rate is for two hubs that are both
# far from normal, if all are scales: of two that only together are known, each has a long thin arm,
# which longer steps do not enter, often without a divergence.
SHORTER, CURVED_HUBS = 0.95, 0.5
SHORTEST, TWO_ARMS = 0.98, 0.15


def with_fixed(progress: Progress, **changes: Any) -> Progress:
    """Change the memory of the stages of fixed trajectories."""
    return progress.learning(fixed=progress.learned.fixed._replace(**changes))


def to_tune_step(progress: Progress) -> Progress:
    """Find the final step size of fixed trajectories."""
    return with_fixed(progress, n_steps=1).to(parts.TUNE_STEP)


def to_nuts(progress: Progress, reason: str) -> Progress:
    """Choose NUTS, and continue with its stages."""
    earlier = progress.learned.earlier
    if earlier is not None and earlier.metric is not None:
        progress = progress.learning(metric=earlier.metric)
    nuts = progress.learned.nuts._replace(windows=(NUTS_WINDOW,))
    progress = short_for_hubs(progress.learning(choice=Choice(False, reason), nuts=nuts))
    # a map was learned in long windows of NUTS
    mapped = progress.learned.straightened.map_is_used
    return progress.to(parts.NUTS_STEP if mapped else parts.NUTS_METRIC)


def short_for_hubs(progress: Progress) -> Progress:
    """Shorten the steps if the hubs of a block are far from normal."""
    found, nuts = progress.learned.straightened, progress.learned.nuts
    if not found.block_is_used:
        return progress
    target = SHORTER if found.distance > CURVED_HUBS else 0.0
    if found.second > TWO_ARMS and not unpacked(found.straightening.block).powers.any():
        target = SHORTEST
    if target <= nuts.target_accept:
        return progress
    return progress.learning(nuts=nuts._replace(target_accept=target))
