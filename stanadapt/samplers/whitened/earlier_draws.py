"""A warm-up that begins with draws of an earlier fit: its metric and map are the first candidates.

Each chain computes gradients at some of the draws, and records them as its first block. Metric and
map are learned from these blocks, as from those of any window; there are as many draws as in the
last window of METRIC, and they are independent. The stage EARLIER then judges them on fresh draws.
If the log density there has the level of the earlier draws, the stages that they replace are left
out; otherwise, for example under other data, warm-up continues as if this were its first window. A
chain that begins in a heavy tail may stay there for the window, so that the mean over chains is
compared, and each chain with the range of the earlier draws. Bounds for a Gaussian let half of the
warm-ups of a Cauchy distribution begin again.

If the draws are far from a Gaussian, each chain first computes gradients around them during a few
iterations. A Gaussian block that these show is judged by the draws, and one that is nearly Gaussian
by fresh ones, too. How far from normal the few coordinates outside of it are, the draws show better
than a window of dependent ones.
"""

from typing import Any

import numpy as np

from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.density import Density
from stanadapt.engine.points import start_at
from stanadapt.engine.warmup import Change, Progress, Result, States
from stanadapt.samplers.whitened import map_stages, transitions, travel_stages
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block_structure import MOST_COORDINATES
from stanadapt.samplers.whitened.choose_trajectory import ASKED_FOR, Trajectory
from stanadapt.samplers.whitened.fixed_stages import NEARLY_GAUSSIAN
from stanadapt.samplers.whitened.gaussian_block import (
    ask_if_wanted,
    has_good_map,
    in_block,
    is_closer,
)
from stanadapt.samplers.whitened.straighten import LEAST_DRAWS, SETTLED
from stanadapt.samplers.whitened.straightened import UNCHANGED, distance_of
from stanadapt.samplers.whitened.window import (
    LOG_DENSITY,
    Record,
    Window,
    make_room,
    make_window,
    no_record,
)

# draws of each chain, and the length of the window that judges the scales learned from them
DRAWS, LENGTH = parts.METRIC_WINDOWS[-1], 15
# times that a metric is learned from them, each in the coordinates of the last
WINDOWS = 3


def init_from_draws(
    density: Density, settings: Any, state: Any, positions: np.ndarray, rng: np.random.Generator
) -> Any:
    """Record some draws of an earlier fit, shape (n, dim), with their gradients."""
    chosen = rng.choice(len(positions), min(DRAWS, len(positions)), replace=False)
    points = [start_at(density, np.ascontiguousarray(positions[k])) for k in chosen]
    points = [p for p in points if np.isfinite(p.log_density) and np.isfinite(p.gradient).all()]
    state = make_room(state, len(points))
    for row, point in enumerate(points):
        state.record.positions[row] = point.position
        state.record.gradients[row] = point.gradient
        state.record.numbers[row] = 0.0
        state.record.numbers[row, LOG_DENSITY] = point.log_density
    state.record.rows[0] = len(points)
    return state


def begin_with_draws(settings: Any, progress: Progress, states: States) -> Result:
    """Learn from the draws, if there are enough of them."""
    window = make_window(states)
    if window.log_density.size < LEAST_DRAWS:
        return progress, states
    for _ in range(WINDOWS):
        progress = parts.learn_metric(settings, progress, window)
    progress = map_stages.straighten_if(settings, progress, states, map_stages.FAR_FROM_GAUSSIAN)
    if progress.learned.straightened.map_is_used:
        exact = _exact_block(settings, progress, states)
        progress = exact or map_stages.with_metric_of_map(settings, progress, states)
    known = progress.learned.straightened.block_is_used or has_good_map(progress)
    if not known and window.positions.shape[2] <= MOST_COORDINATES:
        asked, given = ask_if_wanted(settings, progress.to(parts.EARLIER_BLOCK), states)
        if asked.learned.probes_seek_block:
            return _put_aside(asked, given)
    return _to_earlier(progress, states)


def _to_earlier(progress: Progress, states: States) -> Result:
    """Judge the scales and the map learned from the draws by fresh draws."""
    window = parts.window_of(progress, states)
    metric = parts.metric_for_nuts(progress.learned.metric, window.within_modes)
    levels = window.log_density
    level = np.full(len(states), levels.mean())
    progress = progress._replace(chains=progress.chains._replace(level=level))
    found = progress.learned.straightened
    known = None if found.map_is_used or found.block_is_used else metric
    lowest, highest = float(levels.min()), float(levels.max())
    earlier = parts.Earlier(float(levels.mean()), lowest, highest, known)
    return progress.to(parts.EARLIER, earlier=earlier), states


def _put_aside(progress: Progress, states: States) -> Result:
    """Keep the draws while chains compute the gradients that show a block."""
    earlier = parts.Earlier(0.0, 0.0, 0.0, None, tuple(state.record for state in states))
    empty = as_python(no_record)(len(progress.learned.location))
    states = [state._replace(record=Record(*(each.copy() for each in empty))) for state in states]
    return progress.to(parts.EARLIER_BLOCK, earlier=earlier), states


def put_back(settings: Any, progress: Progress, states: States) -> Result:
    """Let the draws be the last window again, by which a block is judged."""
    records = progress.learned.earlier.records
    states = [state._replace(record=own) for state, own in zip(states, records, strict=True)]
    return progress.to(parts.EARLIER_BLOCK, earlier=None), states


def judge_block_then(learn: Change, settings: Any, progress: Progress, states: States) -> Result:
    """Let a stage compute further gradients that it was asked for; then judge the block."""
    progress, states = learn(settings, progress, states)
    if progress.learned.probes_seek_block:
        return _put_aside(progress, states)
    if progress.learned.straightened.block_is_used:
        least = map_stages.FAR_FROM_GAUSSIAN
        progress = map_stages.straighten_if(settings, progress, states, least)
        if progress.learned.straightened.map_is_used:
            progress = map_stages.with_metric_of_map(settings, progress, states)
    return _to_earlier(progress, states)


def _exact_block(settings: Any, progress: Progress, states: States) -> Progress | None:
    """Return a warm-up in a Gaussian block that leaves nearly nothing, where a map leaves more.

    Other warm-ups find it on their way, before there are draws from which a map is learned.
    """
    found, rows = progress.learned.straightened, make_window(states).pooled
    if found.distance < SETTLED:
        return None
    if rows[0].shape[1] > MOST_COORDINATES:
        return None
    inside = in_block(settings, progress, np.stack(rows, axis=1), found.distance_before, found.part)
    if inside is None:
        return None
    window = parts.window_of(inside, states)
    if distance_of(*window.pooled)[0] > map_stages.STRAIGHT_ENOUGH:
        return None
    return parts.learn_metric(settings, inside, window)


def judge_earlier(settings: Any, progress: Progress, states: States) -> Result:
    """Leave out the stages that the earlier draws replace, if fresh ones agree with them."""
    window = parts.window_of(progress, states)
    if not (_has_level(window, progress.learned.earlier) and _block_holds(progress, states)):
        forgotten = progress.to(
            parts.TRAVEL, earlier=None, straightened=UNCHANGED, attempts=0, block_sought=False
        )
        return travel_stages.learn_first_window(settings, forgotten, states)
    progress = progress.learning(settled=True)
    if progress.learned.straightened.map_is_used:
        return progress.to(parts.STRAIGHTEN), states
    if settings.trajectory == Trajectory.nuts:
        return transitions.to_nuts(progress, ASKED_FOR), states
    found = progress.learned.straightened
    if found.block_is_used and not found.exact:
        progress = progress.learning(earlier=None)
        if not map_stages.much_remains(settings, progress):
            return progress.to(parts.FIND_STEP), states
    if _is_gaussian(progress, window):
        return transitions.to_tune_step(progress), states
    # one window of METRIC, in place of those that the earlier draws replace and of a longer one; it
    # also judges how far from normal the few coordinates outside of a block are
    windows = (*parts.METRIC_WINDOWS, parts.METRIC_WINDOWS[-1])
    fixed = progress.learned.fixed._replace(windows=windows, done=len(windows) - 1)
    return progress.to(parts.FIND_STEP, fixed=fixed), states


def _has_level(window: Window, earlier: parts.Earlier) -> bool:
    """Whether log densities are those of the earlier draws; margins are those of `settled`."""
    means, margin = window.log_density.mean(axis=1), np.sqrt(window.positions.shape[2] / 2) + 1.0
    inside = (means > earlier.lowest - margin) & (means < earlier.highest + margin)
    return bool(inside.all() and abs(means.mean() - earlier.mean) < margin)


def _block_holds(progress: Progress, states: States) -> bool:
    """Whether fresh draws are much closer to a Gaussian in a block that is nearly one, too."""
    found = progress.learned.straightened
    if found.exact or not found.block_is_used:
        return True
    return is_closer(progress.learning(straightened=found.without_map()), progress, states)


def _is_gaussian(progress: Progress, window: Window) -> bool:
    """Whether the whitened posterior is nearly a standard normal, by earlier and by fresh draws."""
    learned, (positions, gradients) = progress.learned, window.pooled
    z, b = learned.metric.whiten(
        positions - positions.mean(axis=0), gradients - gradients.mean(axis=0)
    )
    distance = float(np.mean((z + b) ** 2))
    earlier = learned.straightened.distance
    measured = earlier if np.isfinite(earlier) else 0.0  # one coordinate has none
    return max(distance, measured) < NEARLY_GAUSSIAN
