"""The last stages of a warm-up that chose NUTS: a step size for each chain, and a pilot of it.

While a step size is tuned it is too long at times, and trajectories diverge on posteriors on which
they will not later: on a hierarchy 1 % in the windows of warm-up, and 0.02 % of the draws. So a
pilot with the final steps decides. It is left out if no trajectory diverged before. Trajectories
that end where the density is zero or cannot be computed do not count: at a hard edge no step is
short enough.

A file of its own, since `schedule` would be too long with it. The rule and its lengths are ours,
measured on the programs of `benchmarks.verdict_study`.
"""

from typing import Any

import numpy as np

from stanadapt.samplers.whitened.block import STEEP, Window, make_room
from stanadapt.samplers.whitened.next_block import States, set_up_nuts
from stanadapt.samplers.whitened.progress import Progress, Stage

# lengths of the last window of NUTS, and of its pilot
NUTS_LAST, NUTS_PILOT = 50, 100
# acceptance rate that NUTS is tuned to if trajectories diverged in the pilot
SHORTER = 0.95


def begin_nuts_step(
    settings: Any, progress: Progress, states: States, length: int
) -> tuple[Progress, States]:
    """Let each chain find its step size."""
    progress = progress._replace(stage=Stage.NUTS_STEP)
    return set_up_nuts(progress, states, length, stretched=False)


def after_nuts_step(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Keep each chain's step: a pooled one is too long for a chain in the neck of a funnel."""
    steps = [float(np.exp(state.tuning.averaging.log_mean)) for state in states]
    states = [
        state._replace(tuning=state.tuning._replace(step_size=step_size, learns_step=False))
        for state, step_size in zip(states, steps, strict=True)
    ]
    if _may_be_shorter(settings, progress) and max(progress.steep_share, window.steep_share) > 0.0:
        progress = progress._replace(stage=Stage.NUTS_PILOT, block=NUTS_PILOT)
        return progress, [make_room(state, NUTS_PILOT) for state in states]
    return finish(progress, states)


def _may_be_shorter(settings: Any, progress: Progress) -> bool:
    """Whether steps were tuned but once, and there are iterations left to do so again."""
    room = progress.used + NUTS_PILOT + NUTS_LAST <= progress.ceiling
    lower = settings.nuts_target_accept < SHORTER
    return settings.shorten and lower and room and not progress.shortened


def after_nuts_pilot(
    settings: Any, progress: Progress, states: States, window: Window
) -> tuple[Progress, States]:
    """Tune the steps once more, to a higher acceptance rate, if trajectories diverged."""
    if not window.numbers[:, :, STEEP].any():
        return finish(progress, states)
    progress = progress._replace(shortened=True)
    states = [
        state._replace(tuning=state.tuning._replace(nuts_target_accept=SHORTER)) for state in states
    ]
    return begin_nuts_step(settings, progress, states, NUTS_LAST)


def finish(progress: Progress, states: States) -> tuple[Progress, States]:
    """End warm-up, and give the memory of blocks back."""
    return progress._replace(stage=Stage.DONE, block=0), [make_room(s, 0) for s in states]
