"""The stages of the warm-up of the default sampler, in which all chains learn together.

After each block, the function of its stage learns from the states of all chains, in their order,
and chooses the next one (`engine.warmup`).

EARLIER         with draws of an earlier fit (`warm_start`): a window that judges the metric and map
                of these; STRAIGHTEN, TUNE_STEP, or the second METRIC follows
EARLIER_BLOCK   before it, if these are far from a Gaussian: gradients around them that may show a
                Gaussian block
FIRST_WINDOW    otherwise, a few iterations of NUTS, which show whether chains are far away
CLIMB           if one is: up to four times, a climb by L-BFGS to the height of the typical set, and
                a metric from the curvature there
TRAVEL          windows of NUTS, each with the metric of the last, until the log density has settled
                and, once, climbs from further starts (`further_climbs`)
SURVEY          if it has not settled after some of these: a longer one, from which a map is
                learned; STRAIGHTEN follows if there is one, and otherwise TRAVEL continues
SPAN            with 301 to 1,000 parameters, if the metric does not fit in TRAVEL or METRIC: many
                trajectories of one short step, from which a dense metric is learned; once more if
                the log density then settles on another level
FIRST_METRIC    one more window of NUTS, if these were too short for the number of parameters
FIND_STEP, METRIC   twice: a few trajectories of one two-stage step to find its size, then a window
                for a better metric
STRAIGHTEN      if draws of METRIC or NUTS_METRIC show that a map straightens the posterior: windows
                of NUTS on the map, in which it is learned again
JUDGE_MAP       one more, which judges it; then TUNE_STEP and PILOT on it
TUNE_STEP       the final step size, from eight short blocks, fixed within each of them; if one
                step per trajectory has too low an acceptance rate half way, a lower target is tried
                in the second half, before several steps, and with them NUTS, are considered
TWO_STEPS       if one step does not suffice, but two may: their size, from four such blocks
PILOT           nothing is adapted: `choose_trajectory.choose` decides
NUTS_METRIC, NUTS_STEP   if NUTS is chosen: longer windows, then a step size for each chain
NUTS_PILOT      if some of its trajectories diverged: nothing is adapted; if some still do, or many
                did before, NUTS_STEP once more, with a higher acceptance rate
AGAIN           if too many of the first draws diverge (`nuts_stages.review`): NUTS_STEP for a
                higher acceptance rate, after which sampling begins again
TRAVEL          again, after any of these, in the coordinates of a Gaussian block if there is one
                (`gaussian_block`), or if chains stay on a lower level than another, which left it:
                they return to their starts (`travel_stages`)
REST            NUTS_STEP, with all that is left, if iter_warmup has no room for another stage

Lengths are those for four chains; with fewer chains, blocks are longer, and with a small
`iter_warmup` shorter. With more than eight, blocks at the typical set are shorter. They were tuned
by hand on eight posteriors, mostly regressions and hierarchical models.

"""

from functools import partial
from typing import Any

import numpy as np

from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.density import Density
from stanadapt.engine.warmup import (
    END,
    Progress,
    Result,
    Review,
    Stage,
    States,
    Warmup,
    all_left,
)
from stanadapt.samplers.whitened import earlier_draws, nuts_stages, transitions
from stanadapt.samplers.whitened import fixed_stages as fixed
from stanadapt.samplers.whitened import map_stages as maps
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened import travel_stages as moving
from stanadapt.samplers.whitened.choose_trajectory import UNDECIDED
from stanadapt.samplers.whitened.climb import climb_if_due
from stanadapt.samplers.whitened.fisher_metric import LARGEST_DENSE, Metric, scales_alone
from stanadapt.samplers.whitened.further_climbs import climb_further_if_due, follow_climbs_first
from stanadapt.samplers.whitened.gaussian_block import seek_block_too
from stanadapt.samplers.whitened.probes import probe_if_due
from stanadapt.samplers.whitened.span_stages import (
    SPAN_SHARE,
    learn_span,
    may_span,
    set_up_span,
)
from stanadapt.samplers.whitened.sparse_precision import ask_for_precision
from stanadapt.samplers.whitened.window import no_record

MOVING, LEARNING = "moving to the typical set", "learning the metric"
STRAIGHTENING, TUNING_NUTS = "straightening the posterior", "tuning the step size of NUTS"
# arrays as large as the positions of a block of all chains, while it is learned from: measured
COPIES = 16
fit, nuts = parts.fitting, parts.nuts_block
unshortened = partial(fit, least=1.0)  # chains that move need iterations, however many there are
STAGES = {
    parts.FIRST_WINDOW: Stage(
        MOVING, unshortened(moving.FIRST_LENGTH), nuts(moving.FIRST_DEPTH, parts.FAR_CENTER),
        moving.learn_first_window, parts.TRAVEL,
    ),
    parts.EARLIER: Stage(
        MOVING, fit(earlier_draws.LENGTH), nuts(moving.DEEPEST), earlier_draws.judge_earlier
    ),
    parts.EARLIER_BLOCK: Stage(
        MOVING, fit(parts.SHORTEST), nuts(moving.FIRST_DEPTH), earlier_draws.put_back
    ),
    parts.CLIMB: Stage(
        MOVING, unshortened(moving.CLIMB_LENGTH), nuts(moving.CLIMB_DEPTH), moving.learn_climb
    ),
    parts.TRAVEL: Stage(
        MOVING, unshortened(moving.TRAVEL_LENGTH), nuts(moving.travel_depth), moving.learn_travel
    ),
    parts.SURVEY: Stage(
        MOVING, unshortened(moving.SURVEY_LENGTH), nuts(moving.TRAVEL_DEPTH), maps.learn_survey
    ),
    parts.SPAN: Stage(
        LEARNING, fit(lambda now: round(SPAN_SHARE * now.learned.dim)),
        set_up_span, learn_span,
    ),
    parts.FIRST_METRIC: Stage(
        LEARNING, fit(moving.FIRST_METRIC_LENGTH), nuts(moving.DEEPEST),
        fixed.learn_first_metric,
    ),
    parts.FIND_STEP: Stage(
        LEARNING, fit(fixed.FIND_LENGTH), fixed.set_up_find_step, fixed.learn_find_step,
        parts.METRIC,
    ),
    parts.METRIC: Stage(
        LEARNING, fit(lambda now: now.learned.fixed.windows[now.learned.fixed.done]),
        fixed.set_up_metric, fixed.learn_from_fixed,
    ),
    parts.STRAIGHTEN: Stage(
        STRAIGHTENING, fit(lambda now: maps.STRAIGHTEN_WINDOWS[now.window]), nuts(),
        maps.learn_map,
    ),
    parts.JUDGE_MAP: Stage(STRAIGHTENING, fit(maps.JUDGE_LENGTH), nuts(), maps.judge_map),
    parts.TUNE_STEP: Stage(
        "tuning the step size", fit(fixed.TUNE_LENGTH), fixed.set_up_fixed, fixed.learn_step
    ),
    parts.TWO_STEPS: Stage(
        "tuning the step size", fit(fixed.TUNE_LENGTH), fixed.set_up_fixed,
        fixed.learn_two_steps,
    ),
    parts.PILOT: Stage(
        "pilot run", fixed.pilot_length, fixed.set_up_fixed, fixed.learn_from_pilot
    ),
    parts.NUTS_METRIC: Stage(
        "learning the metric for NUTS",
        fit(lambda now: now.learned.nuts.windows[-1], stretched=False), nuts(),
        nuts_stages.learn_from_nuts,
    ),
    parts.NUTS_STEP: Stage(
        TUNING_NUTS, nuts_stages.nuts_step_length, nuts(), nuts_stages.keep_steps
    ),
    parts.NUTS_PILOT: Stage(
        "pilot run of NUTS", nuts_stages.NUTS_PILOT_LENGTH, nuts_stages.set_up_nuts_pilot,
        nuts_stages.shorten_steps,
    ),
    parts.AGAIN: Stage(
        "many draws diverged, shortening steps", nuts_stages.nuts_step_length, nuts(),
        nuts_stages.keep_steps,
    ),
    parts.REST: Stage(TUNING_NUTS, all_left, nuts_stages.set_up_rest, nuts_stages.keep_steps),
}  # fmt: skip


def bytes_of_trees(settings: Any, dim: int) -> int:
    """Return about the bytes of a chain's trees."""
    return 8 * 5 * dim * (settings.max_treedepth + 2)


def bytes_of_pool(settings: Any, dim: int, chains: int) -> int:
    """Return the bytes of the longest block of all chains, while it is learned from, at most."""
    longest = max(4 * parts.METRIC_WINDOWS[-1], round(SPAN_SHARE * dim) if may_span(dim) else 0)
    draws = int(chains * parts.stretch_for(chains) * longest)
    dense = 6 * dim**2 if dim <= LARGEST_DENSE and settings.metric == Metric.automatic else 0
    return 8 * (COPIES * dim * draws + dense)


def begin(settings: Any, progress: Progress, states: States) -> Result:
    """Pool the scales that chains found in their gradients; use earlier draws, if there are any."""
    logs = np.log([state.leapfrog.factor[0] for state in states])
    starts = np.array([state.current.position for state in states])
    learned = parts.Learned(
        metric=scales_alone(np.exp(logs.mean(axis=0))), location=starts.mean(axis=0),
        stretch=parts.stretch_for(len(states)),
        fixed=parts.Fixed(parts.FIRST_STEP, 1, settings.target_accept),
    )  # fmt: skip
    chains = parts.Chains(starts, np.full(len(states), np.nan), np.zeros(len(states), bool))
    progress = progress._replace(learned=learned, chains=chains)
    progress, states = earlier_draws.begin_with_draws(settings, progress, states)
    return progress, ask_for_precision(settings, progress, states)


def prepare(density: Density, state: Any) -> Any:
    """Compute gradients at the places that a chain was given, and let it climb, if that is due."""
    return climb_further_if_due(density, climb_if_due(density, probe_if_due(density, state)))


def for_scales(settings: Any, before: Progress, progress: Progress, states: States) -> Progress:
    """Stop once metric, location and map are known, for another sampler.

    Chains on different levels of the log density continue with NUTS until they agree, like those of
    the default sampler: correlations cannot be learned from chains in two regions, and the other
    sampler may need more iterations to learn them than it has. If only scales are required, modes
    may be on different levels.
    """
    window = parts.window_of(before, states)
    apart = settings.metric == Metric.automatic and window.levels_differ()
    if progress.then == parts.TUNE_STEP and apart:
        return transitions.to_nuts(progress, UNDECIDED.reason)
    if len(states[0].probes.rows):  # the next stage shows if there is a block
        return progress
    if before.stage == parts.NUTS_METRIC and not apart and progress.then != parts.STRAIGHTEN:
        return progress.to(END, settled=True)
    known = progress.then in (parts.TUNE_STEP, parts.NUTS_STEP, parts.REST)
    return progress.to(END) if known else progress


def finish(settings: Any, progress: Progress, states: States) -> Result:
    """Give the memory of blocks back."""
    return progress, [
        state._replace(record=as_python(no_record)(state.record.positions.shape[1]))
        for state in states
    ]


COMPARED = parts.METRIC, parts.PILOT, parts.NUTS_METRIC, parts.NUTS_STEP, parts.NUTS_PILOT


def with_others(name: str, stage: Stage) -> Stage:
    """Let others learn before or after a stage: the function of each calls the one above it."""
    others = [
        *([moving.compare_levels_first] if name in COMPARED else []),
        seek_block_too,
        follow_climbs_first,
        *([earlier_draws.judge_block_then] if name == parts.EARLIER_BLOCK else []),
    ]
    for learn in others:
        stage = stage._replace(learn=partial(learn, stage.learn))
    return stage


WARMUP = Warmup(
    {name: with_others(name, stage) for name, stage in STAGES.items()}, parts.FIRST_WINDOW,
    begin, finish, without_room=parts.REST, prepare=prepare, for_scales=for_scales,
    review=Review(nuts_stages.REVIEWED, nuts_stages.review),
)  # fmt: skip
