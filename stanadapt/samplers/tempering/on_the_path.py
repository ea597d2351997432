"""Samplers that begin with parallel tempering: their state, and their common parts.

The first part of warm-up learns the reference and a ladder by parallel tempering. Then each sampler
puts its own rows (`State.engine`) in the place of the chains, and moves these. `Parts` holds what
differs between the samplers; compiled code finds it by the class of the settings, as
`engine/protocol` finds `step`.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from stanadapt.engine import registry
from stanadapt.engine.compiled.jit import OVERLOAD_OPTIONS, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.density import Density
from stanadapt.engine.points import ValuePoint
from stanadapt.engine.protocol import Tempering
from stanadapt.engine.warmup import Progress, Stage, Warmup, all_left
from stanadapt.samplers.tempering import settings as common
from stanadapt.samplers.tempering import swaps
from stanadapt.samplers.tempering import warmup_rounds as rounds
from stanadapt.samplers.tempering.moves import HMC, RANDOM_WALK, Options, with_worker
from stanadapt.samplers.tempering.path import TemperingPath

# share of warm-up that the parallel tempering takes
PATH_SHARE = 0.6
# of `State.phase`
ON_THE_PATH, LEARNING, FROZEN = range(3)


class State(NamedTuple):
    """The rows of a sampler, the parallel tempering before them, and the latest draw."""

    current: ValuePoint
    engine: Any  # which the sampler moves: `Parts.make`
    tempering: swaps.Tempering
    design: rounds.WarmupDesign
    phase: int  # ON_THE_PATH, LEARNING (the rows are tuned) or FROZEN
    parity: int  # of the pairs of the parallel tempering that swap next: even (0) or odd (1)


class Parts(NamedTuple):
    """What differs between samplers that begin with parallel tempering: names in their files."""

    make: Callable  # Python function, (path, options, settings, tempering) -> engine
    # Python function, (settings, state): puts the engine in the place of the chains
    place: Callable
    move: Callable  # compiled, (settings, state, learning, rng) -> (current, info): one iteration
    # compiled, (settings, done, tempering) -> info, `done` being that of a sweep
    on_path: Callable
    # Python function, (settings, dim, learns_reference) -> (`Options` of the moves on the path,
    # WarmupDesign)
    design_of_path: Callable[[Any, int, bool], tuple[Options, rounds.WarmupDesign]] = (
        common.design_of_path
    )
    path_share: float = PATH_SHARE
    # it begins with draws of the reference, so that the path has only to learn one
    draws_reference: bool = False


# fields of `State.tempering` that a step rewrites, or that share arrays with those of the engine
PATH_WORKSPACE = tuple(
    f"tempering.{name}"
    for name in (
        "replicas", "order", "statistics", "mover", "path.target", "path.reference.work",
    )
)  # fmt: skip
# by the class of the settings
PARTS: dict[type, Parts] = {}


# --- a chain --------------------------------------------------------------------------------------


def init(density: Density, settings: Any, position: np.ndarray, rng: np.random.Generator) -> State:
    """Start the parallel tempering, the first of its chains at position, shape (dim,)."""
    path = common.first_path(density, settings)
    return init_from_path(density, settings, position, rng, path, True)


def init_from_path(
    density: Density, settings: Any, position: np.ndarray, rng: np.random.Generator,
    path: TemperingPath, learns_reference: bool,
) -> State:  # fmt: skip
    """As `init`, on a path with a given reference, which is not learned."""
    parts = PARTS[type(settings)]
    options, design = parts.design_of_path(settings, density.dim, learns_reference)
    tempering, current = rounds.begin(
        path, options, design.levels, settings.step_size, position, rng
    )
    placed = parts.draws_reference and not learns_reference
    return State(
        current=current,
        engine=parts.make(path, options, settings, tempering),
        tempering=tempering,
        design=design,
        phase=LEARNING if placed else ON_THE_PATH,
        parity=0,
    )


@jit
def step(density, settings, state, rng):
    """Move the sampler's rows; in the first part of warm-up, temper in parallel."""
    tempering = state.tempering
    if state.phase == ON_THE_PATH:
        done = swaps.sweep(tempering, state.design.target_accept, state.parity, True, rng)
        current = swaps.coldest_point(tempering, state.current.position)
        info = on_path(settings, done, tempering)
    else:
        current, info = move(settings, state, state.phase == LEARNING, rng)
    return replace(state, current=current, parity=1 - state.parity), info


@np.errstate(all="ignore")
def freeze(settings: Any, state: State) -> State:
    """Stop tuning; without warm-up, end the path."""
    return _leave(settings, state)._replace(phase=FROZEN)


def _leave(settings: Any, state: State) -> State:
    """End the path; the rows begin at the coldest chain, which is the latest draw."""
    if state.phase == ON_THE_PATH:
        PARTS[type(settings)].place(settings, state)
    return state._replace(phase=LEARNING)


@jit
def make_worker(density, settings, state):
    """Return the state for a worker thread, with its own density, and the queue of tasks."""
    tempering, engine = state.tempering, with_worker(density, state.engine)
    tempering = with_worker(density, tempering)
    return replace(state, engine=engine, tempering=tempering), tempering.mover.queue


# --- warm-up --------------------------------------------------------------------------------------


class Sweeps(NamedTuple):
    """What the stages of warm-up know."""

    total: int  # on the path


def _begin(settings: Any, progress: Progress, states: list) -> tuple[Progress, list]:
    (state,) = states
    progress = progress._replace(
        learned=Sweeps(max(int(PARTS[type(settings)].path_share * progress.ceiling), 1)),
        then="path" if state.phase == ON_THE_PATH else "rows",
    )
    return progress, states


def _end_round(settings: Any, progress: Progress, states: list) -> tuple[Progress, list]:
    """Tune at the end of a round; after the last one, continue with the sampler's rows."""
    (state,), total = states, progress.learned.total
    if progress.used < total:
        rounds.end_round(state.tempering, state.design, progress.used, total)
        return progress, states
    return progress._replace(then="rows"), [_leave(settings, state)]


WARMUP = Warmup(
    first="path",
    begin=_begin,
    stages={
        "path": Stage(
            "tempering in parallel",
            lambda settings, progress: rounds.left_of_round(progress.used, progress.learned.total),
            learn=_end_round,
            then="path",
        ),
        "rows": Stage("tuning", all_left),
    },
    together=False,
)


# --- dispatch in compiled code --------------------------------------------------------------------


def move(settings, state, learning, rng):
    """Only for compiled code: `Parts.move` of the settings."""
    raise NotImplementedError("only for compiled code")


def on_path(settings, done, tempering):
    """Only for compiled code: `Parts.on_path` of the settings."""
    raise NotImplementedError("only for compiled code")


@overload(move, strict=False, jit_options=OVERLOAD_OPTIONS)
def _move(settings, state, learning, rng):
    return PARTS[settings.instance_class].move.py_func


@overload(on_path, strict=False, jit_options=OVERLOAD_OPTIONS)
def _on_path(settings, done, tempering):
    return PARTS[settings.instance_class].on_path.py_func


# --- registration ---------------------------------------------------------------------------------


def register(
    name: str,
    *,
    workspace: tuple[str, ...],
    path_share: float = PATH_SHARE,
    draws_reference: bool = False,
    **options: Any,
) -> None:
    """Register the sampler of a file; its parts are found by their names, those of `Parts` too.

    workspace names fields of the engine that every step rewrites; options are further fields of the
    `Sampler`.
    """
    names = vars(sys.modules[name])
    found = {part: names[part] for part in Parts._fields if part in names}
    PARTS[names["Settings"]] = Parts(
        **found, path_share=path_share, draws_reference=draws_reference
    )
    defaults: dict[str, Any] = {
        "iter_warmup": 3_000,
        "iter_sampling": 5_000,
        "uses_gradient": lambda settings: getattr(settings, "kernel", HMC) != RANDOM_WALK,
    }
    registry.register(
        name,
        state=State,
        init=init,
        step=step,
        freeze=freeze,
        warmup=WARMUP,
        workspace=(*PATH_WORKSPACE, "parity", *(f"engine.{field}" for field in workspace)),
        standardize="no",
        tempering=Tempering(init_from_path, names["learned"], draws_reference),
        in_place_except=(),
        **{**defaults, **options},
    )
