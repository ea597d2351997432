"""The stages of a pooled warm-up, one function per stage.

After each block the driver hands over the states of all chains, in their order. The function of
the stage that has just ended learns from them and says what comes next. It sees arrays alone, and
no clock: the draws do not depend on threads, chunks or the speed of the machine.

TRAVEL          windows of NUTS with a diagonal metric, until the log density has settled; scales
                are each chain's own while the chains stay in clearly different places
FIRST_METRIC    one window of NUTS, for a full metric
FIND_STEP, METRIC   twice: a few trajectories of one two-stage step to find its size, then a window
                for a better metric
TUNE_STEP       the final step size, from eight short blocks in each of which it is fixed; where
                one step per trajectory has too low an acceptance rate half way, a lower one is
                tried in the second half, before several steps, and with them NUTS, are needed
PILOT           nothing is adapted: `kernel_choice` decides
NUTS_METRIC, NUTS_STEP   where NUTS is chosen: longer windows, then each chain's own step size

Lengths are those of four chains; with fewer, blocks are longer, with a small `iter_warmup` shorter.
They were found by hand on eight posteriors, mostly regressions and hierarchical models.

"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stanadapt.samplers.whitened.block import Window, window_of, with_room
from stanadapt.samplers.whitened.fisher_metric import (
    FisherMetric,
    Metric,
    correlations_hold,
    diagonal_metric,
    fisher_metric,
    unbounded,
    with_standard_deviations,
)
from stanadapt.samplers.whitened.next_block import (
    States,
    with_nuts,
    with_own_scales,
    with_two_stage,
)
from stanadapt.samplers.whitened.progress import (
    ASKED_FOR,
    UNDECIDED,
    Choice,
    Progress,
    Stage,
    Trajectory,
    choose,
    steps_too_short,
)

# blocks of TRAVEL, and how many; those in which chains are clearly on their way do not count, but
# end at a share of iter_warmup
TRAVEL_WINDOW, MOST_TRAVEL, TRAVEL_SHARE, TRAVEL_DEPTH = 10, 20, 0.5, 8
# iterations after which chains that are still on their way get scales of their own
PATIENCE = 60
FIRST_WINDOW, FIND_WINDOW, METRIC_WINDOWS = 15, 8, (30, 60)
# where the step is below this after the last window, up to two more windows, each twice as long
GOOD_STEP, MOST_EXTRA = 0.7, 2
TUNE_BLOCK, TUNE_BLOCKS, TUNE_GAIN = 8, 8, 2.5
FIRST_STEP, MOST_STEPS, ROUND_UP = 1.2, 16, 0.8
# of one step, where the target of the settings would need several
LOWER_TARGET = 0.75
PILOT_PROPOSALS = 120
NUTS_WINDOWS, NUTS_CEILING, NUTS_R_HAT, NUTS_LAST = 50, 500, 1.1, 50
# iterations that four chains need at the most usual: with a lower ceiling blocks are shorter
USUAL_LENGTH = 500


def begin(settings: Any, states: States, iter_warmup: int) -> tuple[Progress, States]:
    """Pool the scales that chains found in their gradients, and begin to travel."""
    logs = np.log([state.leapfrog.factor[0] for state in states])
    factor = np.exp(logs.mean(axis=0))[None]
    stretch = max(1.0, 4.0 / len(states))
    shrink = min(1.0, max(iter_warmup / (USUAL_LENGTH * stretch), 0.1))
    progress = Progress(
        stage=Stage.TRAVEL, block=0, used=0, ceiling=iter_warmup, stretch=stretch, shrink=shrink,
        window=0, windows=METRIC_WINDOWS,
        metric=FisherMetric(factor, "diagonal", 0, np.empty(0, int)),
        location=np.mean([state.current.position for state in states], axis=0),
        step_size=FIRST_STEP, n_steps=1, target_accept=settings.target_accept,
        mean_log_density=np.full(len(states), np.nan), settled=False, divergences=0,
        choice=UNDECIDED, unbounded=np.empty(0, int),
    )  # fmt: skip
    return with_nuts(progress, states, TRAVEL_WINDOW, center=10.0, max_treedepth=TRAVEL_DEPTH)


def pool(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """Learn from a block of all chains, and return what they do next."""
    progress = progress._replace(used=progress.used + progress.block)
    return FUNCTIONS[progress.stage](settings, progress, states, window_of(states))


def pool_for_scales(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    """`pool`, where metric and location are wanted for another sampler: the rest is left out.

    Chains on different levels of the log density go on with NUTS until they have met, as those of
    the default sampler do: correlations cannot be learned from chains in two places, and another
    sampler may need more iterations to learn them than it has. Where scales alone are wanted, modes
    may well be on different levels.
    """
    window = window_of(states)
    apart = settings.metric == Metric.automatic and window.apart(window.positions.shape[2])
    met = progress.stage is Stage.NUTS_METRIC and not apart
    progress, states = pool(settings, progress, states)
    if met:
        return _done(progress._replace(settled=True), states)
    if progress.stage is Stage.TUNE_STEP and apart:
        return _begin_nuts(settings, progress, states, UNDECIDED.reason)
    if progress.stage in (Stage.TUNE_STEP, Stage.NUTS_STEP):
        return _done(progress, states)
    return progress, states


def _traveled(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Go on until the log density no longer changes, within and between chains."""
    positions, gradients = window.pooled
    former, dim, ended = progress.mean_log_density, positions.shape[1], progress.block
    settled, traveling = window.settled(former, dim), window.on_its_way(former, dim)
    progress = progress._replace(
        metric=diagonal_metric(positions, gradients, progress.metric.scales),
        location=positions.mean(axis=0), settled=settled,
        mean_log_density=window.log_density.mean(axis=1),
        window=0 if traveling else progress.window + 1,
    )  # fmt: skip
    if settled or progress.used > TRAVEL_SHARE * progress.ceiling or progress.window == MOST_TRAVEL:
        progress = progress._replace(stage=Stage.FIRST_METRIC, window=0)
        return with_nuts(progress, states, FIRST_WINDOW, max_treedepth=TRAVEL_DEPTH)
    former_factors = [state.leapfrog.factor for state in states]
    progress, states = with_nuts(progress, states, TRAVEL_WINDOW, max_treedepth=TRAVEL_DEPTH)
    if traveling and progress.used >= PATIENCE and progress.stage is Stage.TRAVEL:
        unit = progress.used // max(ended, 1) % 2 == 0
        states = with_own_scales(states, window, None if unit else former_factors)
    return progress, states


def _learned_first(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    progress = _with_metric(settings, progress, window)
    if settings.trajectory == Trajectory.nuts:
        return _begin_nuts(settings, progress, states, ASKED_FOR)
    return _find_step(settings, progress, states)


def _find_step(settings: Any, progress: Progress, states: States) -> tuple[Progress, States]:
    step_size = min(progress.step_size, FIRST_STEP)
    progress = progress._replace(stage=Stage.FIND_STEP, step_size=step_size, n_steps=1)
    return with_two_stage(progress, states, FIND_WINDOW, learns=True)


def _found_step(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    step_size = min(_pooled_step(states), settings.trajectory_length)
    n_steps = min(_steps(settings, step_size), MOST_STEPS)
    progress = progress._replace(stage=Stage.METRIC, step_size=step_size, n_steps=n_steps)
    length = progress.windows[progress.window]
    return with_two_stage(progress, states, length, learns=True)


def _learned(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    step_size, windows = min(_pooled_step(states), settings.trajectory_length), progress.windows
    progress = _with_metric(settings, progress, window)._replace(
        step_size=step_size, divergences=window.divergences, window=progress.window + 1
    )
    extra = len(windows) - len(METRIC_WINDOWS)
    if progress.window == len(windows) and step_size < GOOD_STEP and extra < MOST_EXTRA:
        progress = progress._replace(windows=(*windows, 2 * windows[-1]))
    if progress.window < len(progress.windows):
        return _find_step(settings, progress, states)
    progress = progress._replace(stage=Stage.TUNE_STEP, window=0, n_steps=1)
    return with_two_stage(progress, states, TUNE_BLOCK)


def _tuned(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Move the step toward its target; half way, decide on the number of steps."""
    half, length = TUNE_BLOCKS // 2, settings.trajectory_length
    excess = float(window.acceptance.mean()) - progress.target_accept
    change = np.clip(TUNE_GAIN * excess / np.sqrt(1.0 + progress.window % half), -1.0, 1.0)
    step_size = min(progress.step_size * float(np.exp(change)), length / progress.n_steps)
    progress = progress._replace(step_size=step_size, window=progress.window + 1)
    if progress.window == half and _steps(settings, step_size) > 1:
        progress = _with_more_steps(settings, progress)
    if progress.window < TUNE_BLOCKS:
        return with_two_stage(progress, states, TUNE_BLOCK)
    reason = steps_too_short(progress.step_size, progress.n_steps)
    if reason and settings.trajectory == Trajectory.chosen:
        return _begin_nuts(settings, progress, states, reason)
    progress = progress._replace(stage=Stage.PILOT, window=0)
    proposals = PILOT_PROPOSALS * (1 if progress.n_steps == 1 else 2)
    return with_two_stage(progress, states, proposals // 4)


def _with_more_steps(settings: Any, progress: Progress) -> Progress:
    """Several steps, if fixed trajectories are asked for; else one, accepted less often."""
    if settings.trajectory == Trajectory.chosen:
        lower = min(settings.target_accept, LOWER_TARGET)
        return progress._replace(target_accept=lower, step_size=settings.trajectory_length)
    n_steps = _steps(settings, progress.step_size)
    longest = settings.trajectory_length / n_steps
    return progress._replace(n_steps=n_steps, step_size=min(progress.step_size, longest))


def _piloted(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    choice = choose(
        settled=progress.settled, divergences=progress.divergences + window.divergences,
        step_size=progress.step_size, n_steps=progress.n_steps, acceptance=window.acceptance,
    )  # fmt: skip
    if settings.trajectory == Trajectory.fixed:
        choice = Choice(True, ASKED_FOR)
    progress = progress._replace(choice=choice)
    if choice.two_stage:
        return _done(progress, states)
    return _begin_nuts(settings, progress, states, choice.reason)


def _begin_nuts(
    settings: Any, progress: Progress, states: States, reason: str
) -> tuple[Progress, States]:
    progress = progress._replace(
        stage=Stage.NUTS_METRIC, window=0, windows=(), choice=Choice(False, reason)
    )
    return _nuts_window(settings, progress, states, NUTS_WINDOWS)


def _nuts_window(
    settings: Any, progress: Progress, states: States, length: int
) -> tuple[Progress, States]:
    progress = progress._replace(windows=(*progress.windows, length))
    return with_nuts(progress, states, length, stretched=False)


def _learned_with_nuts(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Lengthen the window until chains agree, or the ceiling of this stage is reached.

    Chains on different levels of the log density have not all arrived: some may be in a mode that
    they will leave, where nothing should be learned. Then only iter_warmup is the ceiling, and each
    chain has scales of its own: common ones, of several modes, are too wide for each of them.
    """
    progress = _with_metric(settings, progress, window)
    progress = progress._replace(unbounded=unbounded(window))
    last, used = progress.windows[-1], sum(progress.windows)
    agree = last >= 2 * NUTS_WINDOWS and window.r_hat < NUTS_R_HAT
    if not agree and used + 2 * last + NUTS_LAST <= NUTS_CEILING:
        return _nuts_window(settings, progress, states, 2 * last)
    apart = not agree and window.apart(window.positions.shape[2])
    if apart and progress.used + last + NUTS_LAST <= progress.ceiling:
        progress, states = _nuts_window(settings, progress, states, last)
        common = progress.metric.scales[None]
        return progress, with_own_scales(states, window, [common] * len(states))
    return _last_nuts(settings, progress, states, NUTS_LAST)


def _last_nuts(
    settings: Any, progress: Progress, states: States, length: int
) -> tuple[Progress, States]:
    progress = progress._replace(stage=Stage.NUTS_STEP)
    return with_nuts(progress, states, length, stretched=False)


def _learned_steps(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Each chain keeps its own step: a pooled one is too long for a chain in a funnel's neck."""
    own = [float(np.exp(state.tuning.averaging.log_mean)) for state in states]
    states = [
        state._replace(tuning=state.tuning._replace(step_size=step_size, learns_step=False))
        for state, step_size in zip(states, own, strict=True)
    ]
    return _done(progress, states)


def _done(progress: Progress, states: States) -> tuple[Progress, States]:
    return progress._replace(stage=Stage.DONE, block=0), [with_room(s, 0) for s in states]


FUNCTIONS: dict[Stage, Callable[..., tuple[Progress, States]]] = {
    Stage.TRAVEL: _traveled,
    Stage.FIRST_METRIC: _learned_first,
    Stage.FIND_STEP: _found_step,
    Stage.METRIC: _learned,
    Stage.TUNE_STEP: _tuned,
    Stage.PILOT: _piloted,
    Stage.NUTS_METRIC: _learned_with_nuts,
    Stage.NUTS_STEP: _learned_steps,
}


def _with_metric(settings: Any, progress: Progress, window: Window) -> Progress:
    positions, gradients = window.pooled
    former, location = progress.metric.scales, positions.mean(axis=0)
    if settings.metric == Metric.automatic and correlations_hold(window, former):
        metric = fisher_metric(positions, gradients, former)
    else:
        metric = diagonal_metric(positions, gradients, former)
        if progress.stage is Stage.NUTS_METRIC:
            # where curvature varies, gradients are large in its narrow parts, and scales from them
            # small; NUTS then crosses the wide ones slowly
            metric = with_standard_deviations(metric, positions)
    return progress._replace(metric=metric, location=location)


def _steps(settings: Any, step_size: float) -> int:
    """Number of steps of about this size that make one trajectory."""
    return max(1, int(np.floor(settings.trajectory_length / step_size + ROUND_UP)))


def _pooled_step(states: Sequence[Any]) -> float:
    """Geometric mean of the step sizes that chains have averaged."""
    return float(np.exp(np.mean([state.tuning.averaging.log_mean for state in states])))
