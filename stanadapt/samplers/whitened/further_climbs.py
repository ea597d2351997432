"""Climbs from further starts, which show a mode that all chains have missed.

If chains begin where nearly all climbs end in a minor mode, such as flat populations of predators
and prey with large errors, all may end there, and nothing in their draws shows it. So when chains
have arrived, each climbs from a few more points, beside its moves, which stay the same. The points
are uniform within the range of the chains' own starts: if these were given, so are its limits. On
the metric of the chains a climb takes some ten gradients where it ends among them. Where it ends
elsewhere, not far below, differences show the volume around the end. Climbs begin from the highest
starts, and end when they have taken a share of the chain's gradients: from far below most take
long, and hardly any arrive.

A chain goes to such an end if it is both higher than the chain, and in more mass by far, as
Laplace's method estimates it (`arrival`): either alone may be so in the neck of a funnel, or in a
flat tail. Chains then travel from there. Modes of similar mass are left to the chains that found
them. The number of climbs and the bounds are ours.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.density import GRADIENT_CALLS, Density
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.points import GradientPoint
from stanadapt.engine.warmup import Change, Progress, Result, States
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.arrival import (
    Newton,
    differences_are_made,
    mean_metric,
    newton_from,
    sides_for,
)
from stanadapt.samplers.whitened.climb import climb, evaluate, no_climb
from stanadapt.samplers.whitened.probes import NO_PROBES
from stanadapt.samplers.whitened.window import make_window, unit_of_levels

# climbs of all chains together
CLIMBS = 16
# share of a chain's gradients that its climbs may take, and the number of gradients that a chain
# takes after them at least, by default
SHARE, STILL_TO_COME = 0.03, 2400
# a climb from a log density lower by this ends halfway: regressions in raw units have such starts
TOO_FAR = 1e6
# distance of an end from its chain, in standard deviations of a coordinate, that is elsewhere
ELSEWHERE = 6.0
# how much lower than its chain an end may be for the volume around it to matter, how much higher it
# is if chains go there, and with how much more mass; in units of `unit_of_levels`
LOWER, HIGHER, MORE_MASS = 3.0, 1.0, 2.0
# largest difference of log masses of the same mode
ALIKE = 2.0


class Further(NamedTuple):
    """Starts of further climbs, shape (climb, dim), until a chain has made them, and their ends."""

    starts: np.ndarray
    ends: np.ndarray  # shape (climb, dim)
    log_density: np.ndarray  # -inf of an end that is not elsewhere, or far below the chain
    # curvature, force: as those of `Climb`, shapes (climb, dim, dim) and (climb, dim)
    curvature: np.ndarray
    force: np.ndarray


NO_FURTHER = Further(*(np.empty((0, *[0] * rank)) for rank in (1, 1, 0, 2, 1)))


def ask_for_climbs(settings: Any, progress: Progress, states: States) -> Result:
    """Give chains starts of further climbs, once, unless a map or earlier draws are used."""
    learned, starts = progress.learned, progress.chains.starts
    found = learned.straightened
    other = found.map_is_used or found.block_is_used or learned.earlier is not None
    if other or learned.travel.searched or not differences_are_made(settings, progress):
        return progress, states
    progress = progress.learning(travel=learned.travel._replace(searched=True))
    count = len(states)
    low, high = starts.min(axis=0), starts.max(axis=0)
    if count < 2 or not (high > low).any():
        return progress, states
    # by the expected range of this many uniform points
    middle, half = 0.5 * (low + high), 0.5 * (high - low) * (count + 1) / (count - 1)
    rng = np.random.default_rng(starts.ravel().view(np.uint64))  # of these starts, not of moves
    strata = rng.permuted(np.tile(np.arange(CLIMBS), (starts.shape[1], 1)), axis=1).T
    places = middle + half * (2.0 * (strata + rng.random(strata.shape)) / CLIMBS - 1.0)
    given = [NO_FURTHER._replace(starts=places[k::count].copy()) for k in range(count)]
    return progress, [state._replace(further=own) for state, own in zip(states, given, strict=True)]


def climb_further_if_due(density: Density, state: Any) -> Any:
    """Let a chain climb from the starts that it was given, if any, and keep its position."""
    positions, n, factor = state.further.starts, density.dim, state.leapfrog.factor
    if not len(positions):
        return state
    here, count, scales = state.current, len(positions), metric_factor.scales(factor, n)
    found = Further(
        np.empty((0, 0)), positions.copy(), np.full(count, -np.inf), np.full((count, n, n), np.nan),
        np.empty((count, n)),
    )  # fmt: skip
    calls, elsewhere = density.calls, []
    most = calls[GRADIENT_CALLS] + int(SHARE * (calls[GRADIENT_CALLS] + STILL_TO_COME))
    with np.errstate(all="ignore"):
        starts = [GradientPoint(row, *evaluate(density, row)) for row in positions]
    plan = no_climb()._replace(enough=max(n, 4) / 2, newton=True)
    for row in sorted(range(count), key=lambda row: -starts[row].log_density):
        left = int(most - calls[GRADIENT_CALLS])
        if left <= 0 or not starts[row].log_density > here.log_density - TOO_FAR:
            break
        end, _ = climb(density, starts[row], factor, plan._replace(gradients=left))
        if not end.log_density > here.log_density - LOWER * unit_of_levels(n):
            continue
        found.ends[row], found.log_density[row] = end.position, end.log_density
        if (np.abs(end.position - here.position) > ELSEWHERE * scales).any():
            elsewhere.append((row, end))
    plan = no_climb()._replace(sides=sides_for(n))
    # from the highest down, as far as gradients last, but one in any case
    for row, end in sorted(elsewhere, key=lambda at: -at[1].log_density):
        if calls[GRADIENT_CALLS] < most or np.isnan(found.curvature).all():
            _, ended = climb(density, end, factor, plan)
            found.curvature[row], found.force[row] = ended.curvature, ended.force
        else:
            found.log_density[row] = -np.inf
    return state._replace(further=found)


def follow_climbs_first(learn: Change, settings: Any, progress: Progress, states: States) -> Result:
    """Let a stage first see whether further climbs ended in more mass."""
    if not any(len(state.further.ends) for state in states):
        return learn(settings, progress, states)
    moved = _move(settings, progress, states)
    states = [state._replace(further=NO_FURTHER) for state in states]
    if moved is None:
        return learn(settings, progress, states)
    return moved, [state._replace(probes=NO_PROBES) for state in states]


def _move(settings: Any, progress: Progress, states: States) -> Progress | None:
    """Return a warm-up that begins again, with chains at ends in far more mass, if any."""
    dim, level = progress.learned.dim, make_window(states).log_density.mean(axis=1)
    masses = level + [
        np.log(np.abs(metric_factor.diagonal(state.leapfrog.factor, dim))).sum() for state in states
    ]
    unit, ends = unit_of_levels(dim), []
    higher, more = HIGHER * unit, MORE_MASS * unit
    for state in states:
        found, former = state.further, metric_factor.written_out(state.leapfrog.factor, dim)
        for row in np.flatnonzero(found.log_density > -np.inf):
            with one_blas_thread():
                newton = newton_from(found.curvature[row], found.force[row], former)
            newton = newton or Newton(former, 0.0)
            if np.isfinite(newton.log_volume):
                height = float(found.log_density[row])
                ends.append((height + newton.log_volume, height, found.ends[row], newton.root))
    if not ends:
        return None
    ends.sort(key=lambda end: -end[0])
    mass, height = ends[0][:2]
    left = (masses < mass - more) & (level < height - higher)
    # an end in less mass than a chain has around it is no goal
    if not left.any() or mass < masses.max() - unit:
        return None
    best = [end for end in ends if end[0] >= mass - unit and end[1] >= height - unit]
    goals = [best[k % len(best)] for k in np.cumsum(left) - 1]
    plans = tuple(
        parts.back_to(position)._replace(factor=metric_factor.twofold(root)) if moves else None
        for moves, (_, _, position, root) in zip(left, goals, strict=True)
    )
    learned = parts.anew(settings, progress.learned, alone=plans)
    if left.all():
        metric = mean_metric([goal[3] for goal in goals])
        learned = learned._replace(metric=metric or learned.metric)
    reached = np.concatenate([masses[level > height - unit], [end[0] for end in ends]])
    count = int(np.sum(reached > mass - ALIKE))
    travel = learned.travel._replace(moved=int(left.sum()), reached=count)
    level = np.where(left, [goal[1] for goal in goals], level)
    progress = progress._replace(learned=learned, chains=progress.chains._replace(level=level))
    return progress.to(parts.TRAVEL, travel=travel)
