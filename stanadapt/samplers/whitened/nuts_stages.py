"""The stages of NUTS: longer windows, a step size for each chain, and a pilot.

NUTS takes shorter steps if trajectories diverge in its pilot. While a step size is tuned it is too
long at times, and trajectories diverge on posteriors on which they will not later: on a hierarchy
1 % in the windows of warm-up, and 0.02 % of the draws. So a pilot with the final steps decides. It
is left out if no trajectory diverged before, and if at least 2 % did, of which the pilot shows none
in half of the cases: with vague priors of precisions 4 % did, and 0.2 % of the draws. Trajectories
that end where the density is zero or cannot be computed do not count: at a hard edge no step is
short enough. That rule and its lengths are ours, measured on the programs of
`benchmarks.verdict_study`.

With many parameters the energy errors of all of them add up, and most are those of a Gaussian. So
NUTS, too, moves around the Gaussian that was learned (`leapfrog.move`), if it explains nearly all
of the force: with 400 to 500 collinear predictors, trees have 7 to 11 leaves in place of 15. On
1,000 volatilities, which curve more or less as their scale changes, there were more effective draws
per gradient with some data, and fewer with others.
"""

from typing import Any

import numpy as np

from stanadapt.diagnostics.mixing import mixing
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.leapfrog import moves_around
from stanadapt.engine.warmup import Progress, Result, Sampled, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened import transitions
from stanadapt.samplers.whitened.around_gaussian import LONGEST_TURN
from stanadapt.samplers.whitened.choose_trajectory import CUT_SHORT, UNDECIDED, Trajectory
from stanadapt.samplers.whitened.fisher_metric import unbounded
from stanadapt.samplers.whitened.map_stages import straighten_if, to_straighten
from stanadapt.samplers.whitened.window import STEEP, make_room

# Iterations of sampling after which divergences are counted. If there are more than this share of
# the draws, of USUAL iterations at least, draws begin again: the verdict doubts them then.
REVIEWED, USUAL, MANY_DIVERGED = (125, 250, 500, 1000, 2000, 4000), 1000, 0.001
AGAIN = 0.99  # acceptance rate that NUTS is then tuned to
# Effective draws of the log density per iteration, below which shorter steps do not help: .007 to
# .046 in five funnels without a map, hardly better for twice the cost, and .066 to .45 in twelve
# other fits; after that, these were fine without divergences.
SLOW = 0.05
DIVERGED = "fixed trajectories diverged in sampling"

NUTS_CEILING, NUTS_R_HAT = 500, 1.1
# lengths of the last window of NUTS, and of its pilot
NUTS_LAST, NUTS_PILOT_LENGTH = 50, 100
# mean share of trajectories that diverged in the two windows before the pilot, above which it is
# left out
MANY_STEEP = 0.02


def learn_from_nuts(settings: Any, progress: Progress, states: States) -> Result:
    """Lengthen the window until chains agree, or the ceiling of this stage is reached.

    Those that begin at draws of an earlier fit need not: R-hat of so few draws of heavy tails is
    large, and until they agree, they keep the metric of these draws. Chains on different levels of
    the log density have not all arrived: some may be in a mode that they will leave, and nothing
    should be learned there. Then iter_warmup is the only ceiling, and each chain has its own
    scales: scales pooled over several modes are too wide for each of them.
    """
    window = parts.window_of(progress, states)
    progress = transitions.short_for_hubs(straighten_if(settings, progress, states))
    if progress.learned.straightened.map_is_used:
        return to_straighten(settings, progress, states), states
    earlier = progress.learned.earlier
    if earlier is None or earlier.metric is None or window.r_hat < NUTS_R_HAT:
        progress = parts.learn_metric(settings, progress, window, nuts_follows=True)
    nuts = progress.learned.nuts._replace(steep_share=window.steep_share)
    progress = progress.learning(unbounded=unbounded(window))
    last, used = nuts.windows[-1], sum(nuts.windows)
    agree = last >= 2 * transitions.NUTS_WINDOW and window.r_hat < NUTS_R_HAT
    known = agree or earlier is not None
    if not known and used + 2 * last + NUTS_LAST <= NUTS_CEILING:
        return _more_nuts(progress, nuts, 2 * last), states
    apart = not agree and window.levels_differ()
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
    if as_python(moves_around)(states[0].around):
        steps = [min(step_size, LONGEST_TURN) for step_size in steps]
    # with longer ones, a chain would not enter an arm
    if nuts.target_accept == transitions.SHORTEST:
        steps = [min(steps)] * len(steps)
    states = [
        state._replace(tuning=state.tuning._replace(step_size=step_size, learns_step=False))
        for state, step_size in zip(states, steps, strict=True)
    ]
    # whether steps were tuned but once, and there are iterations left to do so again
    room = progress.used + NUTS_PILOT_LENGTH + NUTS_LAST <= progress.ceiling
    lower = max(settings.nuts_target_accept, nuts.target_accept) < transitions.SHORTER
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


def _with_shorter_steps(
    progress: Progress, target: float = transitions.SHORTER, stage: str = parts.NUTS_STEP
) -> Progress:
    """Tune the steps once more, to a higher acceptance rate."""
    nuts = progress.learned.nuts._replace(shortened=True, target_accept=target)
    return progress.to(stage, nuts=nuts)


def review(
    settings: Any, progress: Progress, sampled: Sampled, log_density: np.ndarray
) -> Progress:
    """Shorten the steps if more of the draws diverged than a fit may have that is fine.

    NUTS follows fixed trajectories. What ended where the density failed does not count, as above.
    Nor is a funnel cured: its log density, which changes little along a trajectory, moves slowly.
    """
    learned = progress.learned
    draws = max(sampled.iterations, USUAL * len(progress.chains.level))
    many = sampled.diverging - sampled.failed > MANY_DIVERGED * draws
    shorter = max(settings.nuts_target_accept, learned.nuts.target_accept) < AGAIN
    asked = learned.choice.two_stage and settings.trajectory == Trajectory.fixed
    if not (many and shorter and settings.shorten and progress.left >= NUTS_LAST) or asked:
        return progress
    if mixing(log_density).ess_bulk < SLOW * sampled.iterations:
        return progress
    progress = progress.learning(reviewed=parts.Reviewed(learned.choice, learned.nuts))
    if learned.choice.two_stage:
        progress = transitions.to_nuts(progress, DIVERGED)
    return _with_shorter_steps(progress, AGAIN, parts.AGAIN)


def set_up_rest(settings: Any, progress: Progress, states: States) -> Result:
    """Let each chain find its step size in all iterations that are left."""
    if progress.learned.choice == UNDECIDED:
        progress = progress.learning(choice=CUT_SHORT)
    center = parts.NUTS_CENTER if progress.used else parts.FAR_CENTER
    return parts.nuts_block(center=center)(settings, progress.learning(alone=()), states)
