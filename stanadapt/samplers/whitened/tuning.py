"""Stages at the typical set: the metric, a map, and the steps of fixed trajectories or of NUTS.

Each function learns from the block of a stage, and chooses the next one; `schedule` lists them.

NUTS takes shorter steps if trajectories diverge in its pilot. While a step size is tuned it is too
long at times, and trajectories diverge on posteriors on which they will not later: on a hierarchy
1 % in the windows of warm-up, and 0.02 % of the draws. So a pilot with the final steps decides. It
is left out if no trajectory diverged before, and if at least 3 % did, of which the pilot shows none
in half of the cases: with vague priors of precisions 4 % did, and 0.2 % of the draws. Trajectories
that end where the density is zero or cannot be computed do not count: at a hard edge no step is
short enough. That rule and its lengths are ours, measured on the programs of
`benchmarks.verdict_study`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stanadapt.engine.block_map import unpacked
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.triangular_map import TriangularMap
from stanadapt.engine.warmup import END, Progress, Result, States
from stanadapt.samplers.whitened import choice as pilots
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block import DIVERGING, STEEP, Window, make_room, make_window
from stanadapt.samplers.whitened.choice import ASKED_FOR, CUT_SHORT, UNDECIDED, Choice, Trajectory
from stanadapt.samplers.whitened.choose_metric import LATER
from stanadapt.samplers.whitened.fisher_metric import (
    LARGEST_DENSE,
    MANY,
    largest_misfit,
    scales_alone,
    unbounded,
    use_standard_deviations,
)
from stanadapt.samplers.whitened.straighten import in_coordinates_of, straighten

FIND_LENGTH = 8
# if the step is below this after the last window, up to two more windows, each twice as long; one
# if the distance from a Gaussian is larger: tails in which a step of one size fails are visited
# rarely, and a metric that contains them is learned from more draws
GOOD_STEP, MOST_EXTRA, NEARLY_GAUSSIAN = 0.7, 2, 0.1
# Length of the longer window by the number of parameters, if there are many: the draws from which
# four chains learn then exceed it, whichever part is kept to judge the metric, and a metric of a
# Gaussian is exact.
LONG_SHARE = 0.45
# factor by which the metric is wrong in a direction, from which that window is made
LARGE_MISFIT = 2.0
TUNE_LENGTH, TUNE_BLOCKS, TUNE_GAIN = 8, 8, 2.5
MOST_STEPS, ROUND_UP = 16, 0.8
# acceptance rate for one step if the target of the settings would need several
LOWER_TARGET = 0.75
# steps that will suffice with that
NEARLY_LONG = 1.35
PILOT_PROPOSALS, MORE_PROPOSALS = 120, 480
# windows of NUTS on a map, after each of which it is learned again; and of one more that judges it
STRAIGHTEN_WINDOWS, JUDGE_LENGTH = (60, 100), 60
# share of its trajectories that may diverge while NUTS still tries steps that are too long: on a
# Gaussian some do, too. If a map cuts off a neck, many do, and some in the pilot.
ADAPTING_SHARE = 0.01
# if a map is confirmed by a window with so many draws per dimension, the last one follows
DRAWS_PER_DIMENSION = 10
# distances from a Gaussian below which no map is searched for: after METRIC, since fixed
# trajectories often suit such a posterior as it is; and later, if the pilot decided against them
FAR_FROM_GAUSSIAN, NEAR_GAUSSIAN = 0.3, 0.03
# largest distance that may remain for fixed trajectories: beyond, some are rejected in the tails of
# a hierarchy's scale, which a pilot run does not visit
STRAIGHT_ENOUGH = 0.03
# and without a map for trajectories of two steps; and the distance above which their pilot is
# continued, since what they do not suit, such as a neck, is visited rarely
STRAIGHT_FOR_TWO, DOUBTFUL_FOR_TWO = 0.3, 0.1
# searches for a map that found none, or one that was dropped
MOST_ATTEMPTS = 3
NUTS_WINDOW, NUTS_CEILING, NUTS_R_HAT = 50, 500, 1.1
# lengths of the last window of NUTS, and of its pilot
NUTS_LAST, NUTS_PILOT_LENGTH = 50, 100
# acceptance rate that NUTS is tuned to if trajectories diverged in the pilot, or if more than this
# share did in the two windows before; or if more than this distance remains outside of a block.
# The last rate is for two hubs that are both far from normal, if all are scales: of two that only
# together are known, each has a long thin arm, which longer steps do not enter, often without a
# divergence
SHORTER, MANY_STEEP, CURVED_HUBS = 0.95, 0.03, 0.5
SHORTEST, TWO_ARMS = 0.98, 0.15


set_up_fixed, set_up_metric = (parts.two_stage_block(learns=each) for each in (False, True))


# --- the metric -----------------------------------------------------------------------------------


def learn_first_metric(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the metric again, and find the step size, unless NUTS is asked for."""
    progress = learn_metric(settings, progress, parts.window_of(progress, states))
    if settings.trajectory == Trajectory.nuts:
        return to_nuts(progress, ASKED_FOR), states
    return progress.to(parts.FIND_STEP), states


def learn_metric(settings: Any, progress: Progress, window: Window) -> Progress:
    """Learn location and metric from a window at the typical set."""
    progress = parts.learn_metric(settings, progress, window, LATER)
    metric = progress.learned.metric
    if progress.stage == parts.NUTS_METRIC and metric.kind == "diagonal":
        # if curvature varies, gradients are large in narrow regions, and scales learned from
        # them small; NUTS then crosses the wide regions slowly
        metric = use_standard_deviations(metric, window.pooled[0])
    return progress.learning(metric=metric)


def _fixed(progress: Progress, **changes: Any) -> Progress:
    """Change the memory of the stages of fixed trajectories."""
    return progress.learning(fixed=progress.learned.fixed._replace(**changes))


def set_up_find_step(settings: Any, progress: Progress, states: States) -> Result:
    """Let all chains find the size of one two-stage step on the present metric."""
    step_size = min(progress.learned.fixed.step_size, parts.FIRST_STEP)
    progress = _fixed(progress, step_size=step_size, n_steps=1)
    return set_up_metric(settings, progress, states)


def learn_find_step(settings: Any, progress: Progress, states: States) -> Result:
    """Choose the number of steps of that size."""
    step_size = min(_pooled_step(states), settings.trajectory_length)
    n_steps = min(_steps(settings, step_size), MOST_STEPS)
    return _fixed(progress, step_size=step_size, n_steps=n_steps), states


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
    dim, most_extra, short = window.positions.shape[2], MOST_EXTRA, step_size < GOOD_STEP
    longer = (*windows, 2 * windows[-1])
    if dim > MANY:
        step_size = min(step_size, settings.trajectory_length / fixed.n_steps)
        # by the metric with which the window was drawn
        misfit = largest_misfit(progress.learned.metric, *window.pooled)
        short = misfit > LARGE_MISFIT
    if MANY < dim <= LARGEST_DENSE:
        longer, most_extra = (*windows, max(longer[-1], round(LONG_SHARE * dim))), 1
    if done == len(windows) and short and extra < most_extra:
        windows = longer
    former = progress.learned.metric.kind
    progress = learn_metric(settings, progress, window)
    if dim > MANY and progress.learned.metric.kind != former:
        step_size = parts.FIRST_STEP
    progress = _fixed(progress, step_size=step_size, windows=windows, done=done)
    progress = progress.learning(divergences=window.divergences)
    if done < len(windows):
        return progress.to(parts.FIND_STEP), states
    progress = straighten_if(settings, progress, states, FAR_FROM_GAUSSIAN)
    straightened = progress.learned.straightened
    if straightened.map_is_used:
        return _to_straighten(settings, progress, states), states
    if straightened.block_is_used and _remains(settings, progress):
        return _to_nuts_on_map(progress), states
    # it is infinite if it was not measured
    if not extra and NEARLY_GAUSSIAN < straightened.distance < np.inf:
        return _fixed(progress, windows=longer).to(parts.FIND_STEP), states
    return to_tune_step(progress), states


# --- the map --------------------------------------------------------------------------------------


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
    # once there is a map, windows are counted instead
    tried = learned.attempts + (not learned.straightened.map_is_used)
    return progress.learning(straightened=found, attempts=tried)


def fits_all_chains(straightening: TriangularMap, window: Window) -> bool:
    """Whether chains are in one region, and no direction is unbounded.

    A map of chains in several regions fits none of them, and one of chains that drift apart would
    hide that the posterior is improper.
    """
    straight = in_coordinates_of(straightening, window)
    return not straight.levels_differ(window.positions.shape[2]) and not len(unbounded(straight))


def with_metric_of_map(settings: Any, progress: Progress, states: States) -> Progress:
    """Learn a metric for the map that was just found, from the same draws.

    Of the former metric only scales remain: its correlations are those of other coordinates.
    """
    former = progress.learned.metric
    progress = progress.learning(metric=scales_alone(former.scales, former.flat))
    return learn_metric(settings, progress, parts.window_of(progress, states))


def _to_straighten(settings: Any, progress: Progress, states: States) -> Progress:
    """Run NUTS on the map that was found, with a metric of the same draws."""
    progress = with_metric_of_map(settings, progress, states)
    # drifts that were seen along a curved ridge are no sign of an improper posterior
    return progress.to(parts.STRAIGHTEN, unbounded=np.empty(0, int))


def learn_survey(settings: Any, progress: Progress, states: States) -> Result:
    """Begin a map if one straightens the posterior; otherwise continue to travel.

    The search is not counted: better draws may show a map that these did not.
    """
    level = parts.window_of(progress, states).log_density.mean(axis=1)
    progress = progress.to(parts.TRAVEL)._replace(chains=progress.chains._replace(level=level))
    found = straighten_if(settings, progress, states, FAR_FROM_GAUSSIAN)
    if found.learned.straightened.map_is_used:
        return _to_straighten(settings, found, states), states
    return progress, states


def learn_map(settings: Any, progress: Progress, states: States) -> Result:
    """Learn the map again from better draws."""
    progress = straighten_if(settings, progress, states)
    progress = with_metric_of_map(settings, progress, states)
    if not progress.learned.straightened.map_is_used:  # better draws do not support it
        if settings.trajectory == Trajectory.nuts:
            return to_nuts(progress, ASKED_FOR), states
        return _fixed(progress, windows=parts.METRIC_WINDOWS, done=0).to(parts.FIND_STEP), states
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
    progress = learn_metric(settings, progress, window)
    progress = _fixed(progress, step_size=parts.FIRST_STEP, target_accept=settings.target_accept)
    nuts = progress.learned.nuts._replace(steep_share=window.steep_share)
    progress = progress.learning(divergences=divergences, settled=True, nuts=nuts)
    if settings.trajectory == Trajectory.nuts:
        return to_nuts(progress, ASKED_FOR), states
    if _remains(settings, progress):
        return _to_nuts_on_map(progress), states
    return to_tune_step(progress), states


def _remains(settings: Any, progress: Progress) -> bool:
    rest = progress.learned.straightened.distance
    return rest > STRAIGHT_ENOUGH and settings.trajectory == Trajectory.chosen


def _to_nuts_on_map(progress: Progress) -> Progress:
    rest = progress.learned.straightened.distance
    reason = f"a distance from a Gaussian of {rest:.2g}, above {STRAIGHT_ENOUGH:g}, remains"
    return to_nuts(progress, reason)


# --- steps of fixed trajectories ------------------------------------------------------------------


def to_tune_step(progress: Progress) -> Progress:
    """Find the final step size of fixed trajectories."""
    return _fixed(progress, n_steps=1).to(parts.TUNE_STEP)


def learn_step(settings: Any, progress: Progress, states: States) -> Result:
    """Adjust the step toward its target; half way, decide on the number of steps."""
    fixed, done = progress.learned.fixed, progress.window + 1
    half, length = TUNE_BLOCKS // 2, settings.trajectory_length
    step_size = _adjusted(settings, progress, states)
    fixed = fixed._replace(step_size=step_size)
    dim = len(progress.learned.location)
    most = pilots.most_steps(dim, length)
    if done == half and _steps(settings, step_size) > 1:
        # several steps, if fixed trajectories are requested; otherwise one, with a lower target,
        # unless there are many parameters
        if settings.trajectory == Trajectory.chosen and (
            round(length / step_size) > most or most == 1 or step_size > NEARLY_LONG
        ):
            lower = min(settings.target_accept, LOWER_TARGET)
            fixed = fixed._replace(target_accept=lower, step_size=length)
        else:
            n_steps = round(length / step_size) if dim > MANY else _steps(settings, step_size)
            fixed = fixed._replace(n_steps=n_steps, step_size=min(step_size, length / n_steps))
    progress = progress.learning(fixed=fixed._replace(piloted=np.empty(0)))
    if done < TUNE_BLOCKS:
        return progress.to(parts.TUNE_STEP), states
    reason = pilots.steps_too_short(fixed.step_size, fixed.n_steps, most)
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
    hopeless = hopeless or learned.straightened.distance_before > STRAIGHT_FOR_TWO
    if hopeless or learned.fixed.step_size < shortest:
        return to_nuts(progress, reason)
    target = settings.target_accept
    return _fixed(progress, n_steps=2, step_size=shortest, target_accept=target).to(parts.TWO_STEPS)


def learn_two_steps(settings: Any, progress: Progress, states: States) -> Result:
    """Adjust the size of two steps toward its target."""
    step_size = _adjusted(settings, progress, states)
    progress = _fixed(progress, step_size=step_size, piloted=np.empty(0))
    if progress.window + 1 < TUNE_BLOCKS // 2:
        return progress.to(parts.TWO_STEPS), states
    reason = pilots.steps_too_short(step_size, 2)
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
    bent = fixed.n_steps == 2 and learned.straightened.distance_before > DOUBTFUL_FOR_TWO
    many = fixed.n_steps > 1 and window.positions.shape[2] > MANY
    progress = progress.learning(divergences=divergences)
    choice = pilots.choose(
        settled=learned.settled, divergences=divergences, step_size=fixed.step_size,
        n_steps=fixed.n_steps, acceptance=acceptance, continued=continued,
        most=pilots.most_steps(window.positions.shape[2], settings.trajectory_length),
        scale=largest_misfit(learned.metric, *window.pooled) if many else 1.0,
    )  # fmt: skip
    if settings.trajectory == Trajectory.fixed:
        choice = Choice(True, ASKED_FOR)
    elif choice.two_stage and not continued and (pilots.is_doubtful(acceptance) or bent):
        more = _fixed(progress, piloted=acceptance).to(parts.PILOT)
        if pilot_length(settings, more._replace(window=1)):
            return more, states
    if not choice.two_stage:
        return _after_one_step(settings, progress, choice.reason), states
    if fixed.n_steps == 2 and not learned.straightened.map_is_used:
        # a map may allow one step, or show a funnel, whose neck a pilot does not visit
        searched = straighten_if(settings, progress, states)
        found = searched.learned.straightened
        if found.map_is_used and (found.groups or found.distance < STRAIGHT_ENOUGH):
            return _to_straighten(settings, searched, states), states
    return progress.to(END, choice=choice), states


# --- NUTS -----------------------------------------------------------------------------------------


def to_nuts(progress: Progress, reason: str) -> Progress:
    """Choose NUTS, and continue with its stages."""
    first = 2 * NUTS_WINDOW if progress.learned.earlier else NUTS_WINDOW
    nuts = progress.learned.nuts._replace(windows=(first,))
    progress = _short_for_hubs(progress.learning(choice=Choice(False, reason), nuts=nuts))
    # a map was learned in long windows of NUTS
    mapped = progress.learned.straightened.map_is_used
    return progress.to(parts.NUTS_STEP if mapped else parts.NUTS_METRIC)


def _short_for_hubs(progress: Progress) -> Progress:
    """Shorten the steps if the hubs of a block are far from normal."""
    found, nuts = progress.learned.straightened, progress.learned.nuts
    if not found.block_is_used:
        return progress
    target = SHORTER if found.distance > CURVED_HUBS else 0.0
    if found.second > TWO_ARMS and not as_python(unpacked)(found.straightening.block).powers.any():
        target = SHORTEST
    if target <= nuts.target_accept:
        return progress
    return progress.learning(nuts=nuts._replace(target_accept=target))


def learn_from_nuts(settings: Any, progress: Progress, states: States) -> Result:
    """Lengthen the window until chains agree, or the ceiling of this stage is reached.

    Those that begin at draws of an earlier fit need not: their metric is known, and R-hat of so few
    draws of heavy tails is large. Chains on different levels of the log density have not all
    arrived: some may be in a mode that they will leave, and nothing should be learned there. Then
    iter_warmup is the only ceiling, and each chain has its own scales: scales pooled over several
    modes are too wide for each of them.
    """
    window = parts.window_of(progress, states)
    progress = _short_for_hubs(straighten_if(settings, progress, states))
    if progress.learned.straightened.map_is_used:
        return _to_straighten(settings, progress, states), states
    progress = learn_metric(settings, progress, window)
    nuts = progress.learned.nuts._replace(steep_share=window.steep_share)
    progress = progress.learning(unbounded=unbounded(window))
    last, used = nuts.windows[-1], sum(nuts.windows)
    agree = last >= 2 * NUTS_WINDOW and window.r_hat < NUTS_R_HAT
    known = agree or progress.learned.earlier
    if not known and used + 2 * last + NUTS_LAST <= NUTS_CEILING:
        return _more_nuts(progress, nuts, 2 * last), states
    apart = not agree and window.levels_differ(window.positions.shape[2])
    if apart and progress.used + last + NUTS_LAST <= progress.ceiling:
        common = progress.learned.metric.scales[None]
        own = parts.own_scales(states, window, [common] * len(states))
        return _more_nuts(progress.learning(alone=tuple(map(parts.Alone, own))), nuts, last), states
    return progress.to(parts.NUTS_STEP, nuts=nuts), states


def _more_nuts(progress: Progress, nuts: parts.Nuts, length: int) -> Progress:
    nuts = nuts._replace(windows=(*nuts.windows, length))
    return progress.to(parts.NUTS_METRIC, nuts=nuts)


def nuts_step_length(settings: Any, progress: Progress) -> int:
    """Return the length of the window in which each chain finds its step size."""
    return max(parts.shrunk(NUTS_LAST, progress), 1)


def keep_steps(settings: Any, progress: Progress, states: States) -> Result:
    """Keep each chain's step: a pooled one is too long for a chain in the neck of a funnel."""
    window, nuts = parts.window_of(progress, states), progress.learned.nuts
    steps = [float(np.exp(state.tuning.averaging.log_mean)) for state in states]
    if nuts.target_accept == SHORTEST:  # with longer ones, a chain would not enter an arm
        steps = [min(steps)] * len(steps)
    states = [
        state._replace(tuning=state.tuning._replace(step_size=step_size, learns_step=False))
        for state, step_size in zip(states, steps, strict=True)
    ]
    # whether steps were tuned but once, and there are iterations left to do so again
    room = progress.used + NUTS_PILOT_LENGTH + NUTS_LAST <= progress.ceiling
    lower = max(settings.nuts_target_accept, nuts.target_accept) < SHORTER
    shares = nuts.steep_share, window.steep_share
    if settings.shorten and lower and room and not nuts.shortened and max(shares) > 0.0:
        if sum(shares) / 2 > MANY_STEEP:
            return _with_shorter_steps(progress), states
        progress = progress.to(parts.NUTS_PILOT)
    return progress, states


def set_up_nuts_pilot(settings: Any, progress: Progress, states: States) -> Result:
    """Record further draws with the steps as they are."""
    return progress, [make_room(state, progress.block) for state in states]


def shorten_steps(settings: Any, progress: Progress, states: States) -> Result:
    """Shorten the steps if trajectories diverged."""
    if not parts.window_of(progress, states).numbers[:, :, STEEP].any():
        return progress, states
    return _with_shorter_steps(progress), states


def _with_shorter_steps(progress: Progress) -> Progress:
    """Tune the steps once more, to a higher acceptance rate."""
    nuts = progress.learned.nuts._replace(shortened=True, target_accept=SHORTER)
    return progress.to(parts.NUTS_STEP, nuts=nuts)


def set_up_rest(settings: Any, progress: Progress, states: States) -> Result:
    """Let each chain find its step size in all iterations that are left."""
    if progress.learned.choice == UNDECIDED:
        progress = progress.learning(choice=CUT_SHORT)
    center = parts.NUTS_CENTER if progress.used else parts.FAR_CENTER
    return parts.nuts_block(center=center)(settings, progress.learning(alone=()), states)
