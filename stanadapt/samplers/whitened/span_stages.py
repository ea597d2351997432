"""SPAN, for a dense metric of 301 to 1,000 parameters: a window whose draws span all directions."""

from typing import Any

import numpy as np

from stanadapt.engine.warmup import Progress, Result, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.fisher_metric import LARGEST_DENSE, MANY, Metric, largest_misfit
from stanadapt.samplers.whitened.window import Window, sd_of_level

# Length of SPAN by the number of parameters: the draws from which four chains learn then exceed it,
# whichever part is kept to judge the metric, and a metric of a Gaussian is exact. It is made if the
# metric is wrong by a larger factor in a direction.
SPAN_SHARE, LARGE_MISFIT = 0.6, 2.0
# distance of levels of the log density, in their standard deviations, from which it is made again
FAR_LEVEL = 2.0


def may_span(dim: int) -> bool:
    """Whether a dense metric of this many parameters needs a separate window."""
    return MANY < dim <= LARGEST_DENSE


def is_to_span(settings: Any, progress: Progress, window: Window) -> bool:
    """Whether SPAN is due: the metric with which a window was drawn does not fit, by far."""
    learned = progress.learned
    if not may_span(learned.dim) or learned.travel.spanned:
        return False
    aside = learned.straightened.block_is_used or learned.metric.kind == "sparse"
    if aside or settings.metric != Metric.automatic:
        return False
    return largest_misfit(learned.metric, *window.pooled) > LARGE_MISFIT


def is_to_span_again(travel: parts.Travel, window: Window) -> bool:
    """Whether chains that have settled did so on another level than that of their only SPAN.

    In the coordinates of a scale that still moved, gradients were other ones.
    """
    change = abs(float(window.log_density.mean()) - travel.span_level)
    return change > FAR_LEVEL * (sd_of_level(window.dim) + 1.0)


def set_up_span(settings: Any, progress: Progress, states: States) -> Result:
    """Let chains make trajectories of one step, however short, each in a random direction.

    Where gradients are linear, a metric learned from these draws is exact as soon as they span all
    directions, however far the chains move: a few gradients per parameter.
    """
    fixed = progress.learned.fixed._replace(step_size=parts.FIRST_STEP, n_steps=1)
    return parts.two_stage_block(learns=True)(settings, progress.learning(fixed=fixed), states)


def learn_span(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the metric, and continue where it was needed."""
    window, learned = parts.window_of(progress, states), progress.learned
    progress = parts.learn_metric(settings, progress, window, 1.0)
    progress = parts.with_levels_of(progress, window.part(slice(-parts.METRIC_WINDOWS[0], None)))
    # the level of the first one: no number of a second, so that none follows
    level = np.nan if learned.travel.spanned else float(window.log_density.mean())
    progress = progress.learning(
        travel=learned.travel._replace(spanned=True, span_level=level),
        fixed=learned.fixed._replace(step_size=parts.FIRST_STEP),
    )
    return progress.to(parts.FIND_STEP if learned.settled else parts.TRAVEL), states
