"""Set up the next block of a pooled warm-up in all chains: kernel, metric, step size, length."""

from typing import Any

import numpy as np

from stanadapt.engine import adaptation, metric_factor
from stanadapt.engine.compiled.jit import as_python
from stanadapt.engine.triangular_map import with_memory
from stanadapt.samplers.whitened.block import Window, make_room
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED
from stanadapt.samplers.whitened.fisher_metric import diagonal_metric
from stanadapt.samplers.whitened.progress import CUT_SHORT, UNDECIDED, Progress, Stage

# iterations reserved for the last stage if iter_warmup cuts the others short
LAST, LAST_SHARE = 50, 4
# length of the windows of TRAVEL; depth of the trees in the first ones, their number, and the depth
# that later ones reach by one per window. A crude metric makes trees deep.
TRAVEL_WINDOW, TRAVEL_DEPTH, SHALLOW_WINDOWS, DEEPEST = 10, 4, 4, 8
# length of a block to find the step size of fixed trajectories, and the largest step to begin with
FIND_WINDOW, FIRST_STEP = 8, 1.2
# dual averaging of NUTS and of two-stage steps is centered at these multiples of the first step
NUTS_CENTER, TWO_STAGE_CENTER = 2.0, 1.3

States = list[Any]


def set_up_nuts(
    progress: Progress,
    states: States,
    length: int,
    *,
    center: float = NUTS_CENTER,
    max_treedepth: int = 0,
    stretched: bool = True,
) -> tuple[Progress, States]:
    """Let every chain search for its own step size, and tune it during a block of NUTS.

    If max_treedepth is 0, that of the settings is used.
    """
    progress = _set_length(progress, length * (progress.stretch if stretched else 1.0))
    return progress, _prepare_nuts(progress, states, center, max_treedepth)


def set_own_scales(states: States, window: Window, former: list[np.ndarray] | None) -> States:
    """Give each chain scales from its own draws or, if `former` is None, scales of 1.

    former are the factors used for these draws. Scales of 1 help if the log density falls by many
    orders of magnitude on the way, as with exponentials of exponentials: the gradients at one
    point then carry no information about the scales at the next.
    """
    dim, changed = window.positions.shape[2], []
    for chain, state in enumerate(states):
        factor = np.ones((1, dim))
        if former is not None:
            positions, gradients = window.positions[chain], window.gradients[chain]
            rows = metric_factor.written_out(former[chain], dim)
            scales = np.sqrt((rows * rows).sum(axis=1))
            factor = diagonal_metric(positions, gradients, scales).factor
        changed.append(state._replace(leapfrog=state.leapfrog._replace(factor=factor)))
    return changed


def set_up_two_stage(
    progress: Progress, states: States, length: int, *, learns: bool = False
) -> tuple[Progress, States]:
    """Let all chains make two-stage trajectories with the step size in `progress`."""
    progress = _set_length(progress, length * progress.stretch)
    if progress.stage is Stage.NUTS_STEP:  # no iterations are left for this block
        return progress, _prepare_nuts(progress, states, NUTS_CENTER, 0)
    step_size = progress.step_size
    averaging = as_python(adaptation.centered)(step_size, TWO_STAGE_CENTER)
    return progress, [
        _prepare(
            state, progress, two_stage=True, learns_step=learns, step_size=step_size,
            n_steps=progress.n_steps, averaging=averaging, search=0.0,
        )
        for state in states
    ]  # fmt: skip


def begin_travel(progress: Progress, states: States) -> tuple[Progress, States]:
    """Begin the next window on the way to the typical set."""
    depth = DEEPEST
    if len(progress.location) <= LARGEST_COMPOSED:
        later = max(progress.traveled - SHALLOW_WINDOWS + 1, 0)
        depth = min(TRAVEL_DEPTH + later, DEEPEST)
    progress = progress._replace(stage=Stage.TRAVEL)
    return set_up_nuts(progress, states, TRAVEL_WINDOW, max_treedepth=depth)


def begin_find_step(progress: Progress, states: States) -> tuple[Progress, States]:
    """Let all chains find the size of one two-stage step on the present metric."""
    step_size = min(progress.step_size, FIRST_STEP)
    progress = progress._replace(stage=Stage.FIND_STEP, step_size=step_size, n_steps=1)
    return set_up_two_stage(progress, states, FIND_WINDOW, learns=True)


def _set_length(progress: Progress, length: float) -> Progress:
    """Set the length of the next block; begin the last stage if the ceiling is near."""
    left = progress.ceiling - progress.used
    block = round(length * progress.shrink)
    if progress.stage is Stage.NUTS_STEP:
        return progress._replace(block=min(max(block, 1), left))
    reserved = max(min(LAST, progress.ceiling // LAST_SHARE), 1)
    if max(block, 4) <= left - reserved:
        return progress._replace(block=max(block, 4))
    choice = CUT_SHORT if progress.choice == UNDECIDED else progress.choice
    return progress._replace(stage=Stage.NUTS_STEP, block=left, choice=choice)


def _prepare_nuts(progress: Progress, states: States, center: float, max_treedepth: int) -> States:
    return [
        _prepare(
            state, progress, two_stage=False, learns_step=True, search=center,
            max_treedepth=_depth(state, progress, max_treedepth),
        )
        for state in states
    ]  # fmt: skip


def _depth(state: Any, progress: Progress, max_treedepth: int) -> int:
    allowed = len(state.tree.stack)
    if max_treedepth and progress.stage is not Stage.NUTS_STEP:
        return min(allowed, max_treedepth)
    return allowed


def _prepare(state: Any, progress: Progress, **tuning: Any) -> Any:
    """Give a chain the metric, its tuning, and room for the block."""
    leapfrog = state.leapfrog._replace(factor=metric_factor.twofold(progress.metric.factor))
    straightening = with_memory(progress.straightened.straightening, len(state.current.position))
    return make_room(state, progress.block)._replace(
        leapfrog=leapfrog, straightening=straightening,
        tuning=state.tuning._replace(force_known=False, **tuning),
    )  # fmt: skip
