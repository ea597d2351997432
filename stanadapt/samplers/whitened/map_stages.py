"""The stages of a map: it is searched for, learned again from better draws, and judged."""

from typing import Any

import numpy as np

from stanadapt.engine.triangular_map import TriangularMap
from stanadapt.engine.warmup import Progress, Result, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened import transitions
from stanadapt.samplers.whitened.choose_trajectory import ASKED_FOR, Trajectory
from stanadapt.samplers.whitened.fisher_metric import scales_alone, unbounded
from stanadapt.samplers.whitened.straighten import straighten
from stanadapt.samplers.whitened.straightened import distance_of, in_coordinates_of
from stanadapt.samplers.whitened.window import DIVERGING, Window, make_window

# windows of NUTS on a map, after each of which it is learned again; and of one more that judges it
STRAIGHTEN_WINDOWS, JUDGE_LENGTH = (60, 100), 60
# share of its trajectories that may diverge while NUTS still tries steps that are too long: on a
# Gaussian some do, too. If a map cuts off a neck, many do, and some in the pilot.
ADAPTING_SHARE = 0.01
# if a map is confirmed by a window with this many draws per dimension, the last one follows
DRAWS_PER_DIMENSION = 10
# distances from a Gaussian below which no map is searched for: after METRIC, since fixed
# trajectories often suit such a posterior as it is; and later, if the pilot decided against them
FAR_FROM_GAUSSIAN, NEAR_GAUSSIAN = 0.3, 0.03
# largest distance that may remain for fixed trajectories: beyond, some are rejected in the tails of
# a hierarchy's scale, which a pilot run does not visit
STRAIGHT_ENOUGH = 0.03
# the same outside of a block in which trajectories rotate
STRAIGHT_AROUND = 0.3
# searches for a map that found none, or one that was dropped
MOST_ATTEMPTS = 3


def straighten_if(
    settings: Any, progress: Progress, states: States, least: float = NEAR_GAUSSIAN
) -> Progress:
    """Learn a map from the last window; without one the posterior stays as it is.

    It does so in any case if the distance from a Gaussian is below `least`.
    """
    learned = progress.learned
    if not settings.straighten or learned.attempts == MOST_ATTEMPTS:
        return progress
    window = make_window(states)
    positions, gradients = window.pooled
    found = straighten(positions, gradients, learned.straightened, least, learned.metric)
    if found.map_is_used and not fits_all_chains(found.straightening, window):
        found = found.without_map()
    within = window.within_modes
    if within is not window and not (found.map_is_used or found.block_is_used):
        distance, part = distance_of(*within.pooled)
        found = found._replace(distance_before=distance, distance=distance, part=part)
    # once there is a map, windows are counted instead
    tried = learned.attempts + (not learned.straightened.map_is_used)
    return progress.learning(straightened=found, attempts=tried)


def fits_all_chains(straightening: TriangularMap, window: Window) -> bool:
    """Whether chains are in one region, and no direction is unbounded.

    A map of chains in several regions fits none of them, and one of chains that drift apart would
    hide that the posterior is improper.
    """
    straight = in_coordinates_of(straightening, window)
    return not straight.levels_differ() and not len(unbounded(straight))


def with_metric_of_map(settings: Any, progress: Progress, states: States) -> Progress:
    """Learn a metric for the map that was just found, from the same draws.

    Of the former metric only scales remain: its correlations are those of other coordinates.
    """
    former = progress.learned.metric
    progress = progress.learning(metric=scales_alone(former.scales, former.flat))
    window, at_nuts = parts.window_of(progress, states), progress.stage == parts.NUTS_METRIC
    return parts.learn_metric(settings, progress, window, nuts_follows=at_nuts)


def to_straighten(settings: Any, progress: Progress, states: States) -> Progress:
    """Run NUTS on the map that was found, with a metric of the same draws."""
    progress = with_metric_of_map(settings, progress, states)
    # drifts that were seen along a curved ridge are no sign of an improper posterior
    return progress.to(parts.STRAIGHTEN, unbounded=np.empty(0, int))


def learn_survey(settings: Any, progress: Progress, states: States) -> Result:
    """Begin a map if one straightens the posterior; otherwise continue to travel.

    The search is not counted: better draws may show a map that these did not.
    """
    window = parts.window_of(progress, states)
    progress = parts.with_levels_of(progress, window).to(parts.TRAVEL)
    found = straighten_if(settings, progress, states, FAR_FROM_GAUSSIAN)
    if found.learned.straightened.map_is_used:
        return to_straighten(settings, found, states), states
    return progress, states


def learn_map(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the map again from better draws."""
    progress = straighten_if(settings, progress, states)
    progress = with_metric_of_map(settings, progress, states)
    if not progress.learned.straightened.map_is_used:  # better draws do not support it
        if settings.trajectory == Trajectory.nuts:
            return transitions.to_nuts(progress, ASKED_FOR), states
        progress = transitions.with_fixed(progress, windows=parts.METRIC_WINDOWS, done=0)
        return progress.to(parts.FIND_STEP), states
    draws, dim = np.shape(make_window(states).pooled[0])
    enough = progress.learned.straightened.confirmed and draws >= DRAWS_PER_DIMENSION * dim
    last = enough or progress.window + 1 == len(STRAIGHTEN_WINDOWS) or progress.learned.earlier
    return progress.to(parts.JUDGE_MAP if last else parts.STRAIGHTEN), states


def judge_map(settings: Any, progress: Progress, states: States) -> Result:
    """Decide between fixed trajectories and NUTS on the map, as far as the map decides it.

    A location that is slightly wrong, or a member of a group that was overlooked, cuts off the neck
    of a funnel, and neither R-hat nor ESS shows it: trajectories that diverge there do.
    """
    window = parts.window_of(progress, states)
    judged = window.judged(DIVERGING)
    divergences = int(judged.sum()) if judged.mean() > ADAPTING_SHARE else 0
    progress = parts.learn_metric(settings, progress, window)
    target = settings.target_accept
    progress = transitions.with_fixed(progress, step_size=parts.FIRST_STEP, target_accept=target)
    nuts = progress.learned.nuts._replace(steep_share=window.steep_share)
    progress = progress.learning(divergences=divergences, settled=True, nuts=nuts)
    if settings.trajectory == Trajectory.nuts:
        return transitions.to_nuts(progress, ASKED_FOR), states
    if much_remains(settings, progress):
        return to_nuts_on_map(progress), states
    return transitions.to_tune_step(progress), states


def much_remains(settings: Any, progress: Progress) -> bool:
    far = progress.learned.straightened.distance > _straight_enough(progress)
    return far and settings.trajectory == Trajectory.chosen


def _straight_enough(progress: Progress) -> float:
    return STRAIGHT_AROUND if len(progress.learned.members_aside) else STRAIGHT_ENOUGH


def to_nuts_on_map(progress: Progress) -> Progress:
    found = progress.learned.straightened
    where = " outside of the block" if found.block_is_used else ""
    most = _straight_enough(progress)
    rest = f"a distance from a Gaussian of {found.distance:.2g}, above {most:g}"
    return transitions.to_nuts(progress, f"{rest}, remains{where}")
