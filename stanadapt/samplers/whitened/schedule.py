"""The stages of a pooled warm-up, one function per stage.

After each block the driver passes the states of all chains, in their order, to the function of the
stage that has just ended. It learns from them and sets up the next block. It depends on arrays
alone, and on no clock: the draws do not depend on threads, chunks or the speed of the machine.

FIRST_WINDOW    a few iterations of NUTS, which show whether chains are far away
CLIMB           if one is: up to four times, a climb by L-BFGS to the height of the typical set, and
                a metric from the curvature there (`climb_rounds`)
TRAVEL          windows of NUTS, each with the metric of the last, until the log density has settled
                (`travel`)
SURVEY          if it has not settled after some of these: a longer one, from which a map is
                learned; STRAIGHTEN follows if there is one, and otherwise TRAVEL continues
FIRST_METRIC    one more window of NUTS, if these were too short for the number of parameters
FIND_STEP, METRIC   twice: a few trajectories of one two-stage step to find its size, then a window
                for a better metric
TUNE_STEP       the final step size, from eight short blocks in each of which it is fixed; if one
                step per trajectory has too low an acceptance rate half way, a lower target is tried
                in the second half, before several steps, and with them NUTS, are considered
PILOT           nothing is adapted: `progress.choose` decides
NUTS_METRIC, NUTS_STEP   if NUTS is chosen: longer windows, then a step size for each chain
NUTS_PILOT      if some of its trajectories diverged: nothing is adapted; if some still do,
                NUTS_STEP once more, with a higher acceptance rate (`nuts_steps`)
STRAIGHTEN      if draws of METRIC or NUTS_METRIC show that a map straightens the posterior: windows
                of NUTS on the map, then TUNE_STEP and PILOT on it

Lengths are those for four chains; with fewer chains, blocks are longer, and with a small
`iter_warmup` shorter. They were tuned by hand on eight posteriors, mostly regressions and
hierarchical models.

"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stanadapt.engine.triangular_map import TriangularMap
from stanadapt.samplers.whitened.block import (
    DIVERGING,
    JUDGED_FROM,
    Window,
    make_window,
)
from stanadapt.samplers.whitened.choose_metric import LATER
from stanadapt.samplers.whitened.climb_rounds import after_climb
from stanadapt.samplers.whitened.fisher_metric import (
    FisherMetric,
    Metric,
    unbounded,
    use_standard_deviations,
)
from stanadapt.samplers.whitened.next_block import (
    FIRST_STEP,
    States,
    begin_find_step,
    begin_travel,
    set_own_scales,
    set_up_nuts,
    set_up_two_stage,
)
from stanadapt.samplers.whitened.nuts_steps import (
    NUTS_LAST,
    after_nuts_pilot,
    after_nuts_step,
    begin_nuts_step,
    finish,
)
from stanadapt.samplers.whitened.progress import (
    ASKED_FOR,
    UNDECIDED,
    Choice,
    Progress,
    Stage,
    Trajectory,
    choose,
    is_doubtful,
    steps_too_short,
)
from stanadapt.samplers.whitened.straighten import UNCHANGED, in_coordinates_of, straighten
from stanadapt.samplers.whitened.travel import (
    after_first_window,
    after_travel,
    begin_first_window,
    learn_metric,
)

METRIC_WINDOWS = (30, 60)
# if the step is below this after the last window, up to two more windows, each twice as long; one
# if the distance from a Gaussian is larger: tails in which a step of one size fails are visited
# rarely, and a metric that contains them is learned from more draws
GOOD_STEP, MOST_EXTRA, NEARLY_GAUSSIAN = 0.7, 2, 0.1
TUNE_BLOCK, TUNE_BLOCKS, TUNE_GAIN = 8, 8, 2.5
MOST_STEPS, ROUND_UP = 16, 0.8
# acceptance rate for one step if the target of the settings would need several
LOWER_TARGET = 0.75
PILOT_PROPOSALS, MORE_PROPOSALS = 120, 480
# windows of NUTS on a map, which is learned again after each but the last; that one judges it
STRAIGHTEN_WINDOWS = (60, 100, 60)
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
# searches for a map that found none, or one that was dropped
MOST_ATTEMPTS = 3
NUTS_WINDOWS, NUTS_CEILING, NUTS_R_HAT = 50, 500, 1.1
# iterations that four chains usually need at most: with a lower ceiling blocks are shorter
USUAL_LENGTH = 500


def begin(settings: Any, states: States, iter_warmup: int) -> tuple[Progress, States]:
    """Pool the scales that chains found in their gradients, and begin to travel."""
    logs = np.log([state.leapfrog.factor[0] for state in states])
    factor = np.exp(logs.mean(axis=0))[None]
    starts = np.array([state.current.position for state in states])
    stretch = max(1.0, 4.0 / len(states))
    shrink = min(1.0, max(iter_warmup / (USUAL_LENGTH * stretch), 0.1))
    progress = Progress(
        stage=Stage.FIRST_WINDOW, block=0, used=0, ceiling=iter_warmup,
        stretch=stretch, shrink=shrink,
        window=0, windows=METRIC_WINDOWS, rounds=0, returned=0, traveled=0,
        starts=starts, abandoned=np.full_like(starts, np.nan),
        abandoned_mass=np.full(len(states), -np.inf),
        metric=FisherMetric(factor, "diagonal", 0, np.empty(0, int)),
        location=starts.mean(axis=0),
        step_size=FIRST_STEP, n_steps=1, target_accept=settings.target_accept,
        mean_log_density=np.full(len(states), np.nan), settled=False, divergences=0,
        choice=UNDECIDED, unbounded=np.empty(0, int),
    )  # fmt: skip
    return begin_first_window(progress, states)


def pool(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """Learn from a block of all chains, and set up the next one."""
    progress = progress._replace(used=progress.used + progress.block)
    window = in_coordinates_of(progress.straightened.straightening, make_window(states))
    return FUNCTIONS[progress.stage](settings, progress, states, window)


def pool_for_scales(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """As `pool`, but stop once metric, location and map are known, for another sampler.

    Chains on different levels of the log density continue with NUTS until they agree, like those of
    the default sampler: correlations cannot be learned from chains in two regions, and the other
    sampler may need more iterations to learn them than it has. If only scales are required, modes
    may be on different levels.
    """
    window = in_coordinates_of(progress.straightened.straightening, make_window(states))
    apart = settings.metric == Metric.automatic and window.levels_differ(window.positions.shape[2])
    met = progress.stage is Stage.NUTS_METRIC and not apart
    progress, states = pool(settings, progress, states)
    if met and progress.stage is not Stage.STRAIGHTEN:
        return finish(progress._replace(settled=True), states)
    if progress.stage is Stage.TUNE_STEP and apart:
        return _begin_nuts(settings, progress, states, UNDECIDED.reason)
    if progress.stage in (Stage.TUNE_STEP, Stage.NUTS_STEP):
        return finish(progress, states)
    return progress, states


def _after_survey(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Begin a map if one straightens the posterior; otherwise continue to travel.

    The search is not counted: better draws may show a map that these did not.
    """
    progress = progress._replace(mean_log_density=window.log_density.mean(axis=1))
    found = _straighten(settings, progress, states, FAR_FROM_GAUSSIAN)
    if found.straightened.map_is_used:
        return _begin_straighten(settings, found, states)
    return begin_travel(progress, states)


def _after_first_metric(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    progress = _learn_metric(settings, progress, window)
    if settings.trajectory == Trajectory.nuts:
        return _begin_nuts(settings, progress, states, ASKED_FOR)
    return begin_find_step(progress, states)


def _after_find_step(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    step_size = min(_pooled_step(states), settings.trajectory_length)
    n_steps = min(_steps(settings, step_size), MOST_STEPS)
    progress = progress._replace(stage=Stage.METRIC, step_size=step_size, n_steps=n_steps)
    length = progress.windows[progress.window]
    return set_up_two_stage(progress, states, length, learns=True)


def _after_metric(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    step_size, windows = min(_pooled_step(states), settings.trajectory_length), progress.windows
    progress = _learn_metric(settings, progress, window)._replace(
        step_size=step_size, divergences=window.divergences, window=progress.window + 1
    )
    extra = len(windows) - len(METRIC_WINDOWS)
    if progress.window == len(windows) and step_size < GOOD_STEP and extra < MOST_EXTRA:
        progress = progress._replace(windows=(*windows, 2 * windows[-1]))
    if progress.window < len(progress.windows):
        return begin_find_step(progress, states)
    progress = _straighten(settings, progress, states, FAR_FROM_GAUSSIAN)
    if progress.straightened.map_is_used:
        return _begin_straighten(settings, progress, states)
    # it is infinite if it was not measured
    if not extra and NEARLY_GAUSSIAN < progress.straightened.distance < np.inf:
        progress = progress._replace(windows=(*progress.windows, 2 * windows[-1]))
        return begin_find_step(progress, states)
    return _begin_tune_step(progress, states)


def _begin_tune_step(progress: Progress, states: States) -> tuple[Progress, States]:
    progress = progress._replace(stage=Stage.TUNE_STEP, window=0, n_steps=1)
    return set_up_two_stage(progress, states, TUNE_BLOCK)


def _straighten(
    settings: Any, progress: Progress, states: States, least: float = NEAR_GAUSSIAN
) -> Progress:
    """Learn a map from the last window; without one the posterior stays as it is.

    It does so in any case if the distance from a Gaussian is below `least`.
    """
    if not settings.straighten or progress.attempts == MOST_ATTEMPTS:
        return progress
    window = make_window(states)
    positions, gradients = window.pooled
    found = straighten(positions, gradients, progress.straightened, least)
    if found.map_is_used and not fits_all_chains(found.straightening, window):
        found = found._replace(straightening=UNCHANGED.straightening, groups=())
    # once there is a map, windows are counted instead
    tried = progress.attempts + (not progress.straightened.map_is_used)
    return progress._replace(straightened=found, attempts=tried)


def fits_all_chains(straightening: TriangularMap, window: Window) -> bool:
    """Whether chains are in one region, and no direction is unbounded.

    A map of chains in several regions fits none of them, and one of chains that drift apart would
    hide that the posterior is improper.
    """
    straight = in_coordinates_of(straightening, window)
    return not straight.levels_differ(window.positions.shape[2]) and not len(unbounded(straight))


def _begin_straighten(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """Run NUTS on the map that was found, with a metric of the same draws."""
    window = in_coordinates_of(progress.straightened.straightening, make_window(states))
    progress = _learn_metric(settings, _with_scales(progress), window)
    # drifts that were seen along a curved ridge are no sign of an improper posterior
    progress = progress._replace(stage=Stage.STRAIGHTEN, window=0, unbounded=np.empty(0, int))
    return set_up_nuts(progress, states, STRAIGHTEN_WINDOWS[0])


def _after_straighten(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Learn the map again from better draws; in the last window, judge it.

    A location that is slightly wrong, or a member of a group that was overlooked, cuts off the neck
    of a funnel, and neither R-hat nor ESS shows it: trajectories that diverge there do.
    """
    last = len(STRAIGHTEN_WINDOWS) - 1
    if progress.window < last:
        progress = _straighten(settings, progress, states)
        straightening = progress.straightened.straightening
        window = in_coordinates_of(straightening, make_window(states))
        progress = _learn_metric(settings, _with_scales(progress), window)
        if not progress.straightened.map_is_used:  # better draws do not support it
            if settings.trajectory == Trajectory.nuts:
                return _begin_nuts(settings, progress, states, ASKED_FOR)
            progress = progress._replace(window=0, windows=METRIC_WINDOWS)
            return begin_find_step(progress, states)
        draws, dim = np.shape(window.pooled[0])
        enough = progress.straightened.confirmed and draws >= DRAWS_PER_DIMENSION * dim
        progress = progress._replace(window=last if enough else progress.window + 1)
        return set_up_nuts(progress, states, STRAIGHTEN_WINDOWS[progress.window])
    # the first steps of a window may be too long
    judged = window.numbers[:, window.numbers.shape[1] // JUDGED_FROM :, DIVERGING]
    divergences = int(judged.sum()) if judged.mean() > ADAPTING_SHARE else 0
    progress = _learn_metric(settings, progress, window)._replace(
        divergences=divergences, steep_share=window.steep_share, settled=True,
        step_size=FIRST_STEP, target_accept=settings.target_accept,
    )  # fmt: skip
    if settings.trajectory == Trajectory.nuts:
        return _begin_nuts(settings, progress, states, ASKED_FOR)
    rest = progress.straightened.distance
    if rest > STRAIGHT_ENOUGH and settings.trajectory == Trajectory.chosen:
        reason = f"a distance from a Gaussian of {rest:.2g}, above {STRAIGHT_ENOUGH:g}, remains"
        return _begin_nuts(settings, progress, states, reason)
    return _begin_tune_step(progress, states)


def _after_tune_step(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Adjust the step toward its target; half way, decide on the number of steps."""
    half, length = TUNE_BLOCKS // 2, settings.trajectory_length
    excess = float(window.acceptance.mean()) - progress.target_accept
    change = np.clip(TUNE_GAIN * excess / np.sqrt(1.0 + progress.window % half), -1.0, 1.0)
    step_size = min(progress.step_size * float(np.exp(change)), length / progress.n_steps)
    progress = progress._replace(step_size=step_size, window=progress.window + 1)
    if progress.window == half and _steps(settings, step_size) > 1:
        progress = _allow_more_steps(settings, progress)
    if progress.window < TUNE_BLOCKS:
        return set_up_two_stage(progress, states, TUNE_BLOCK)
    reason = steps_too_short(progress.step_size, progress.n_steps)
    if reason and settings.trajectory == Trajectory.chosen:
        return _begin_nuts(settings, progress, states, reason)
    progress = progress._replace(stage=Stage.PILOT, window=0)
    proposals = PILOT_PROPOSALS * (1 if progress.n_steps == 1 else 2)
    return set_up_two_stage(progress._replace(piloted=np.empty(0)), states, proposals // 4)


def _allow_more_steps(settings: Any, progress: Progress) -> Progress:
    """Several steps, if fixed trajectories are requested; otherwise one, with a lower target."""
    if settings.trajectory == Trajectory.chosen:
        lower = min(settings.target_accept, LOWER_TARGET)
        return progress._replace(target_accept=lower, step_size=settings.trajectory_length)
    n_steps = _steps(settings, progress.step_size)
    longest = settings.trajectory_length / n_steps
    return progress._replace(n_steps=n_steps, step_size=min(progress.step_size, longest))


def _after_pilot(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    acceptance = np.append(progress.piloted, window.acceptance)
    progress = progress._replace(divergences=progress.divergences + window.divergences)
    continued = progress.piloted.size > 0
    choice = choose(
        settled=progress.settled, divergences=progress.divergences,
        step_size=progress.step_size, n_steps=progress.n_steps, acceptance=acceptance,
        continued=continued,
    )  # fmt: skip
    if settings.trajectory == Trajectory.fixed:
        choice = Choice(True, ASKED_FOR)
    elif choice.two_stage and not continued and is_doubtful(acceptance):
        more = progress._replace(piloted=acceptance)
        more, prepared = set_up_two_stage(more, states, MORE_PROPOSALS // 4)
        if more.stage is Stage.PILOT:  # otherwise no iterations are left for it
            return more, prepared
    progress = progress._replace(choice=choice)
    if choice.two_stage:
        return finish(progress, states)
    return _begin_nuts(settings, progress, states, choice.reason)


def _begin_nuts(
    settings: Any, progress: Progress, states: States, reason: str
) -> tuple[Progress, States]:
    progress = progress._replace(
        stage=Stage.NUTS_METRIC, window=0, windows=(), choice=Choice(False, reason)
    )
    if progress.straightened.map_is_used:  # it was learned in long windows of NUTS
        return begin_nuts_step(settings, progress, states, NUTS_LAST)
    return _nuts_window(settings, progress, states, NUTS_WINDOWS)


def _nuts_window(
    settings: Any, progress: Progress, states: States, length: int
) -> tuple[Progress, States]:
    progress = progress._replace(windows=(*progress.windows, length))
    return set_up_nuts(progress, states, length, stretched=False)


def _after_nuts_metric(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Lengthen the window until chains agree, or the ceiling of this stage is reached.

    Chains on different levels of the log density have not all arrived: some may be in a mode that
    they will leave, and nothing should be learned there. Then iter_warmup is the only ceiling, and
    each chain has its own scales: scales pooled over several modes are too wide for each of them.
    """
    progress = _straighten(settings, progress, states)
    if progress.straightened.map_is_used:
        return _begin_straighten(settings, progress, states)
    progress = _learn_metric(settings, progress, window)
    progress = progress._replace(unbounded=unbounded(window), steep_share=window.steep_share)
    last, used = progress.windows[-1], sum(progress.windows)
    agree = last >= 2 * NUTS_WINDOWS and window.r_hat < NUTS_R_HAT
    if not agree and used + 2 * last + NUTS_LAST <= NUTS_CEILING:
        return _nuts_window(settings, progress, states, 2 * last)
    apart = not agree and window.levels_differ(window.positions.shape[2])
    if apart and progress.used + last + NUTS_LAST <= progress.ceiling:
        progress, states = _nuts_window(settings, progress, states, last)
        common = progress.metric.scales[None]
        return progress, set_own_scales(states, window, [common] * len(states))
    return begin_nuts_step(settings, progress, states, NUTS_LAST)


FUNCTIONS: dict[Stage, Callable[..., tuple[Progress, States]]] = {
    Stage.FIRST_WINDOW: after_first_window,
    Stage.CLIMB: after_climb,
    Stage.TRAVEL: after_travel,
    Stage.FIRST_METRIC: _after_first_metric,
    Stage.FIND_STEP: _after_find_step,
    Stage.METRIC: _after_metric,
    Stage.TUNE_STEP: _after_tune_step,
    Stage.PILOT: _after_pilot,
    Stage.NUTS_METRIC: _after_nuts_metric,
    Stage.NUTS_STEP: after_nuts_step,
    Stage.NUTS_PILOT: after_nuts_pilot,
    Stage.STRAIGHTEN: _after_straighten,
    Stage.SURVEY: _after_survey,
}


def _learn_metric(settings: Any, progress: Progress, window: Window) -> Progress:
    metric = learn_metric(settings, progress.metric, window, LATER)
    positions, _ = window.pooled
    if progress.stage is Stage.NUTS_METRIC and metric.kind == "diagonal":
        # if curvature varies, gradients are large in narrow regions, and scales learned from
        # them small; NUTS then crosses the wide regions slowly
        metric = use_standard_deviations(metric, positions)
    return progress._replace(metric=metric, location=positions.mean(axis=0))


def _with_scales(progress: Progress) -> Progress:
    """Keep only the scales of the metric: its correlations are those of other coordinates."""
    scales = FisherMetric(progress.metric.scales[None], "diagonal", 0, progress.metric.flat)
    return progress._replace(metric=scales)


def _steps(settings: Any, step_size: float) -> int:
    """Number of steps of about this size in one trajectory."""
    return max(1, int(np.floor(settings.trajectory_length / step_size + ROUND_UP)))


def _pooled_step(states: Sequence[Any]) -> float:
    """Geometric mean of the chains' averaged step sizes."""
    return float(np.exp(np.mean([state.tuning.averaging.log_mean for state in states])))
