"""The way to the typical set: windows of NUTS that end when the log density has settled.

Correlations are learned from the first window on, if those of one half of the chains hold for the
other: on a regression in raw units, trees are deep with scales alone. A metric of a few draws is
crude, and trees on it deep as well, so their depth is capped; the cap rises if chains travel long.

Chains far below the others carry no information about the typical set. They are left out when the
metric is learned, and continue with scales of their own, or scales of 1 in turn, until they are no
longer far below. A chain that stays on a lower level than others for several windows may be in a
local mode, into which it has climbed: once, it returns to its own start and goes from there with
NUTS, on the metric of all. No chain is moved to the place of another.

If a chain is far away, all climb first (`climb_rounds`), and again after a window in which they
were still clearly moving.

The schedule, its lengths and bounds are ours; measured on regressions in raw units, hierarchical
models, funnels and separate modes.
"""

from typing import Any

import numpy as np

from stanadapt.samplers.whitened.block import Window
from stanadapt.samplers.whitened.choose_metric import (
    WHILE_TRAVELING,
    choose_metric,
    draws_of,
)
from stanadapt.samplers.whitened.climb import returned_to
from stanadapt.samplers.whitened.climb_rounds import MOST_ROUNDS, begin_climb, rough_metric
from stanadapt.samplers.whitened.fisher_metric import FisherMetric, Metric, diagonal_metric
from stanadapt.samplers.whitened.next_block import (
    DEEPEST,
    TRAVEL_DEPTH,
    States,
    begin_find_step,
    begin_travel,
    set_own_scales,
    set_up_nuts,
)
from stanadapt.samplers.whitened.progress import Progress, Stage, Trajectory

# length and largest depth of the first window, which shows how far away the chains are
FIRST_LENGTH, FIRST_DEPTH = 5, 3
# largest number of windows; those in which chains are clearly still moving do not count, but end
# at a share of iter_warmup
MOST_TRAVEL, TRAVEL_SHARE = 20, 0.5
# windows, in which chains are not clearly moving, after which a map is searched for in one of this
# length: in the neck of a funnel, the log density does not settle
SURVEY_AFTER, SURVEY_LENGTH = 5, 30
# iterations after which chains that are still moving get their own scales
PATIENCE = 60
# length of the further window for a metric if TRAVEL had too few draws per parameter
FIRST_WINDOW, ENOUGH_DRAWS = 15, 2


def begin_first_window(progress: Progress, states: States) -> tuple[Progress, States]:
    """Let chains take their first steps, with scales from the gradient."""
    return set_up_nuts(progress, states, FIRST_LENGTH, center=10.0, max_treedepth=FIRST_DEPTH)


def after_first_window(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Let chains climb if one of them is far away; otherwise learn a first metric, and travel."""
    dim, half = window.positions.shape[2], window.log_density.shape[1] // 2
    before, later = window.part(slice(half)), window.part(slice(half, None))
    far = later.still_moving(before.log_density.mean(axis=1), dim)
    progress = _learn(settings, progress, window)._replace(
        mean_log_density=later.log_density.mean(axis=1)
    )
    if not far:
        return begin_travel(progress, states)
    progress = progress._replace(metric=rough_metric(progress.metric, window))
    return begin_climb(settings, progress, states)


def after_travel(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Continue until the log density has stopped changing, within and between chains."""
    former, dim = progress.mean_log_density, window.positions.shape[2]
    settled, traveling = window.settled(former, dim), window.still_moving(former, dim)
    far_below = window.far_below(dim)
    progress = _learn(settings, progress, window, far_below)._replace(
        settled=settled, mean_log_density=window.log_density.mean(axis=1),
        window=0 if traveling else progress.window + 1, traveled=progress.traveled + 1,
    )  # fmt: skip
    if settled or progress.used > TRAVEL_SHARE * progress.ceiling or progress.window == MOST_TRAVEL:
        return _arrive(settings, progress, states, window)
    if traveling and progress.rounds < MOST_ROUNDS and not progress.restarted:
        return begin_climb(settings, progress, states)
    if settings.straighten and progress.window == SURVEY_AFTER and not far_below.any():
        progress = progress._replace(stage=Stage.SURVEY)
        return set_up_nuts(progress, states, SURVEY_LENGTH, max_treedepth=TRAVEL_DEPTH)
    stuck = window.stuck(former, dim)
    if stuck.any() and progress.window > SURVEY_AFTER and not progress.restarted:
        return _restart(progress, states, stuck)
    former_factors = [state.leapfrog.factor for state in states]
    progress, states = begin_travel(progress, states)
    if progress.stage is Stage.TRAVEL and (far_below.any() or progress.used >= PATIENCE):
        alone = far_below if far_below.any() else np.full(len(states), traveling)
        unit = progress.traveled % 2 == 0
        own = set_own_scales(states, window, None if unit else former_factors)
        states = [own[k] if alone[k] else states[k] for k in range(len(states))]
    return progress, states


def _restart(progress: Progress, states: States, stuck: np.ndarray) -> tuple[Progress, States]:
    """Let chains that stay below the others return to their start."""
    returned = progress.returned + int(stuck.sum())
    progress = progress._replace(restarted=True, returned=returned, window=0)
    progress, states = begin_travel(progress, states)
    if progress.stage is Stage.TRAVEL:
        states = [
            returned_to(state, begin) if alone else state
            for state, begin, alone in zip(states, progress.starts, stuck, strict=True)
        ]
    return progress, states


def _arrive(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Find the step size, unless the metric needs more draws, or the curvature of climbs."""
    progress = progress._replace(window=0)
    draws = window.moved.sum() * window.positions.shape[1]
    enough = draws >= ENOUGH_DRAWS * window.positions.shape[2]
    enough |= progress.rounds > 0 and progress.metric.kind == "dense"
    if progress.settled and enough and settings.trajectory != Trajectory.nuts:
        return begin_find_step(progress, states)
    progress = progress._replace(stage=Stage.FIRST_METRIC)
    return set_up_nuts(progress, states, FIRST_WINDOW, max_treedepth=DEEPEST)


def _learn(
    settings: Any, progress: Progress, window: Window, left_out: np.ndarray | None = None
) -> Progress:
    """Learn metric and location from the chains that are not left out."""
    metric = learn_metric(settings, progress.metric, window, WHILE_TRAVELING, left_out)
    return progress._replace(metric=metric, location=window.pooled[0].mean(axis=0))


def learn_metric(
    settings: Any,
    former: FisherMetric,
    window: Window,
    handicap: float,
    left_out: np.ndarray | None = None,
) -> FisherMetric:
    """Learn the best metric from a window, or scales alone if the settings ask for them."""
    chains = draws_of(window, left_out)
    if settings.metric == Metric.automatic:
        return choose_metric(former, chains, handicap)
    positions, gradients = (np.concatenate(arrays) for arrays in zip(*chains, strict=True))
    return diagonal_metric(positions, gradients, former.scales)
