"""The stages of fixed trajectories: their metric, the size and number of their steps, and a pilot.

Each function learns from the block of a stage, and chooses the next one; `schedule` lists them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stanadapt.engine.warmup import END, Progress, Result, States
from stanadapt.samplers.whitened import choose_trajectory
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_trajectory import ASKED_FOR, Choice, Trajectory
from stanadapt.samplers.whitened.fisher_metric import MANY, largest_misfit
from stanadapt.samplers.whitened.map_stages import (
    FAR_FROM_GAUSSIAN,
    STRAIGHT_ENOUGH,
    much_remains,
    straighten_if,
    to_nuts_on_map,
    to_straighten,
)
from stanadapt.samplers.whitened.span_stages import LARGE_MISFIT, is_to_span
from stanadapt.samplers.whitened.transitions import (
    to_nuts,
    to_tune_step,
    with_fixed,
)

FIND_LENGTH = 8
# if the step is below this after the last window, up to two more windows, each twice as long; one
# if the distance from a Gaussian is larger: tails in which a step of one size fails are visited
# rarely, and a metric that contains them is learned from more draws
GOOD_STEP, MOST_EXTRA, NEARLY_GAUSSIAN = 0.7, 2, 0.1
TUNE_LENGTH, TUNE_BLOCKS, TUNE_GAIN = 8, 8, 2.5
MOST_STEPS, ROUND_UP = 16, 0.8
# acceptance rate for one step if the target of the settings would need several
LOWER_TARGET = 0.75
# steps that will suffice with that
NEARLY_LONG = 1.35
PILOT_PROPOSALS, MORE_PROPOSALS = 120, 480
# largest distance from a Gaussian without a map for trajectories of two steps; and that above which
# their pilot is continued, since what they do not suit, such as a neck, is visited rarely
STRAIGHT_FOR_TWO, DOUBTFUL_FOR_TWO = 0.3, 0.1


set_up_fixed, set_up_metric = (parts.two_stage_block(learns=each) for each in (False, True))


# --- the metric -----------------------------------------------------------------------------------


def learn_first_metric(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the metric again, and find the step size, unless NUTS is asked for."""
    progress = parts.learn_metric(settings, progress, parts.window_of(progress, states))
    if settings.trajectory == Trajectory.nuts:
        return to_nuts(progress, ASKED_FOR), states
    return progress.to(parts.FIND_STEP), states


def set_up_find_step(settings: Any, progress: Progress, states: States) -> Result:
    """Let all chains find the size of one two-stage step on the present metric."""
    step_size = min(progress.learned.fixed.step_size, parts.FIRST_STEP)
    progress = with_fixed(progress, step_size=step_size, n_steps=1)
    return set_up_metric(settings, progress, states)


def learn_find_step(settings: Any, progress: Progress, states: States) -> Result:
    """Choose the number of steps of that size."""
    step_size = min(_pooled_step(states), settings.trajectory_length)
    n_steps = min(_steps(settings, step_size), MOST_STEPS)
    return with_fixed(progress, step_size=step_size, n_steps=n_steps), states


def _steps(settings: Any, step_size: float) -> int:
    """Number of steps of about this size in one trajectory."""
    return max(1, int(np.floor(settings.trajectory_length / step_size + ROUND_UP)))


def _pooled_step(states: Sequence[Any]) -> float:
    """Geometric mean of the chains' averaged step sizes."""
    return float(np.exp(np.mean([state.tuning.averaging.log_mean for state in states])))


def learn_from_fixed(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the metric, and a map if one straightens the posterior; continue with more windows."""
    window, fixed = parts.window_of(progress, states), progress.learned.fixed
    step_size = min(_pooled_step(states), settings.trajectory_length)
    windows, done = fixed.windows, fixed.done + 1
    extra = len(windows) - len(parts.METRIC_WINDOWS)
    dim, short = window.dim, step_size < GOOD_STEP
    longer = (*windows, 2 * windows[-1])
    if dim > MANY:
        step_size = min(step_size, settings.trajectory_length / fixed.n_steps)
        # by the metric with which the window was drawn
        misfit = largest_misfit(progress.learned.metric, *window.pooled)
        short = misfit > LARGE_MISFIT and not progress.learned.straightened.block_is_used
    span = is_to_span(settings, progress, window)
    if span:
        longer = (*windows, windows[-1])
    if done == len(windows) and short and extra < MOST_EXTRA:
        windows = longer
    former = progress.learned.metric.kind
    progress = parts.learn_metric(settings, progress, window)
    if dim > MANY and progress.learned.metric.kind != former:
        step_size = parts.FIRST_STEP
    progress = with_fixed(progress, step_size=step_size, windows=windows, done=done)
    progress = progress.learning(divergences=window.divergences)
    if done < len(windows):
        return progress.to(parts.SPAN if span else parts.FIND_STEP), states
    progress = straighten_if(settings, progress, states, FAR_FROM_GAUSSIAN)
    straightened = progress.learned.straightened
    if straightened.map_is_used:
        return to_straighten(settings, progress, states), states
    if straightened.block_is_used and much_remains(settings, progress):
        return to_nuts_on_map(progress), states
    # it is infinite if it was not measured
    if not extra and NEARLY_GAUSSIAN < straightened.distance < np.inf:
        return with_fixed(progress, windows=longer).to(parts.FIND_STEP), states
    return to_tune_step(progress), states


# --- steps ----------------------------------------------------------------------------------------


def learn_step(settings: Any, progress: Progress, states: States) -> Result:
    """Adjust the step toward its target; half way, decide on the number of steps."""
    fixed, done = progress.learned.fixed, progress.window + 1
    half, length = TUNE_BLOCKS // 2, settings.trajectory_length
    step_size = _adjusted(settings, progress, states)
    fixed = fixed._replace(step_size=step_size)
    dim = progress.learned.dim
    most = choose_trajectory.most_steps(dim, length)
    if done == half and _steps(settings, step_size) > 1:
        # several steps, if fixed trajectories are requested; otherwise one, with a lower target,
        # unless there are many parameters, and a metric with which a pilot may choose several
        if settings.trajectory == Trajectory.chosen and (
            round(length / step_size) > most
            or most == 1
            or step_size > NEARLY_LONG
            or largest_misfit(progress.learned.metric, *parts.window_of(progress, states).pooled)
            > choose_trajectory.LARGEST_MISFIT
        ):
            lower = min(settings.target_accept, LOWER_TARGET)
            fixed = fixed._replace(target_accept=lower, step_size=length)
        else:
            n_steps = round(length / step_size) if dim > MANY else _steps(settings, step_size)
            fixed = fixed._replace(n_steps=n_steps, step_size=min(step_size, length / n_steps))
    progress = progress.learning(fixed=fixed._replace(piloted=np.empty(0)))
    if done < TUNE_BLOCKS:
        return progress.to(parts.TUNE_STEP), states
    reason = choose_trajectory.steps_too_short(fixed.step_size, fixed.n_steps, most)
    if reason and settings.trajectory == Trajectory.chosen:
        return _after_one_step(settings, progress, reason), states
    return progress.to(parts.PILOT), states


def _adjusted(settings: Any, progress: Progress, states: States) -> float:
    """Return the step size, moved toward its target after a block in which it was fixed."""
    fixed, since = progress.learned.fixed, progress.window % (TUNE_BLOCKS // 2)
    excess = float(parts.window_of(progress, states).acceptance.mean()) - fixed.target_accept
    change = np.clip(TUNE_GAIN * excess / np.sqrt(1.0 + since), -1.0, 1.0)
    return min(fixed.step_size * float(np.exp(change)), settings.trajectory_length / fixed.n_steps)


def _after_one_step(settings: Any, progress: Progress, reason: str) -> Progress:
    """Try two steps where one does not suffice, if its size leaves hope for them; or choose NUTS.

    Four gradients per draw are fewer than those of NUTS, and moderate curvature allows two steps.
    """
    learned, shortest = progress.learned, settings.trajectory_length / 2
    hopeless = learned.divergences or not learned.settled or learned.fixed.n_steps > 1
    hopeless = hopeless or learned.straightened.curvature(learned.dim) > STRAIGHT_FOR_TWO
    if hopeless or learned.fixed.step_size < shortest:
        return to_nuts(progress, reason)
    target = settings.target_accept
    progress = with_fixed(progress, n_steps=2, step_size=shortest, target_accept=target)
    return progress.to(parts.TWO_STEPS)


def learn_two_steps(settings: Any, progress: Progress, states: States) -> Result:
    """Adjust the size of two steps toward its target."""
    step_size = _adjusted(settings, progress, states)
    progress = with_fixed(progress, step_size=step_size, piloted=np.empty(0))
    if progress.window + 1 < TUNE_BLOCKS // 2:
        return progress.to(parts.TWO_STEPS), states
    reason = choose_trajectory.steps_too_short(step_size, 2)
    return to_nuts(progress, reason) if reason else progress.to(parts.PILOT), states


def _pilot_proposals(progress: Progress) -> int:
    if progress.window:
        return MORE_PROPOSALS // 4
    return PILOT_PROPOSALS * (1 if progress.learned.fixed.n_steps == 1 else 2) // 4


pilot_length = parts.fitting(_pilot_proposals)


def learn_from_pilot(settings: Any, progress: Progress, states: States) -> Result:
    """Choose the kernel; in case of doubt, continue once if there are iterations left for it."""
    window, fixed, learned = (
        parts.window_of(progress, states),
        progress.learned.fixed,
        progress.learned,
    )
    acceptance = np.append(fixed.piloted, window.acceptance)
    divergences, continued = learned.divergences + window.divergences, fixed.piloted.size > 0
    far = learned.straightened.curvature(learned.dim)
    bent = fixed.n_steps == 2 and far > DOUBTFUL_FOR_TWO
    bent &= learned.earlier is None  # earlier draws were in a neck, if there is one
    # what few parameters may have suits a metric that is wrong in a direction
    allowed = far <= STRAIGHT_FOR_TWO
    allowed &= not choose_trajectory.steps_too_short(fixed.step_size, fixed.n_steps)
    judged = window.dim > MANY and not allowed
    progress = progress.learning(divergences=divergences)
    choice = choose_trajectory.choose(
        settled=learned.settled, divergences=divergences, step_size=fixed.step_size,
        n_steps=fixed.n_steps, acceptance=acceptance, continued=continued,
        most=choose_trajectory.most_steps(window.dim, settings.trajectory_length),
        scale=largest_misfit(learned.metric, *window.pooled) if judged else 1.0,
    )  # fmt: skip
    if settings.trajectory == Trajectory.fixed:
        choice = Choice(True, ASKED_FOR)
    elif choice.two_stage and not continued and (choose_trajectory.is_doubtful(acceptance) or bent):
        more = with_fixed(progress, piloted=acceptance).to(parts.PILOT)
        if pilot_length(settings, more._replace(window=1)):
            return more, states
    if not choice.two_stage:
        return _after_one_step(settings, progress, choice.reason), states
    if fixed.n_steps == 2 and not learned.straightened.map_is_used:
        # a map may allow one step, or show a funnel, whose neck a pilot does not visit
        searched = straighten_if(settings, progress, states)
        found = searched.learned.straightened
        if found.map_is_used and (found.groups or found.distance < STRAIGHT_ENOUGH):
            return to_straighten(settings, searched, states), states
    return progress.to(END, choice=choice), states
