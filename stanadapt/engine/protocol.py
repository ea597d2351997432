"""The protocol of samplers.

1. A sampler is one file. Its docstring gives the purpose (its first line is listed by
   `stanadapt samplers`) and the sources of its formulas.
2. It defines three NamedTuples: `Settings`, which a user chooses, with defaults, fields of type
   float, int, bool, `Numbers` (several numbers) or an IntEnum with members that the user names,
   each with its range (`engine/settings.py`) and a comment that explains it; `State`, all that the
   next step needs, tuning included; `Info`, the statistics of one iteration, under ArviZ names,
   `acceptance_rate` among them.
3. `State.current` is a NamedTuple with at least `position`, shape (dim,), and `log_density`.
   A State is built by keyword and changed by `replace(state, scale=...)`.
4. `check(settings)`, if it is defined, is plain Python and raises StanadaptError for settings that
   contradict each other.
5. `step` and `adapt` are compiled (`jit`). They neither raise nor print: a failure is a value
   (`-inf` is a rejection, `diverging` is a field of Info), since an exception ends the run. `init`
   and `freeze` may be compiled: Python calls them once per chain, and short ones would take longer
   to compile than to run.
6. `step` does not allocate. Arrays of `State` that hold the rejected point are overwritten in
   the next step; large tuning arrays are updated in place in `adapt`. Nothing else is edited.
7. Randomness comes from `rng` alone, a numpy Generator.
8. `adapt` runs during warm-up only, unless the theory allows otherwise (`adapts_forever`). A
   sampler that leaves this to the user has a setting of that name.
9. The last line of the file is `register(__name__)`, with what differs from the defaults of
   `Sampler`: functions and classes are found by their names. Samplers of the package are imported
   when they are looked up; import the file of your own sampler yourself.

`authoring` offers all of this in one import, with a worked example.

Compiled code calls `step` and `adapt` below, and Numba picks the sampler's function by the type of
`settings`. (Passing functions as arguments works too, but then every process compiles, and finds
nothing in the cache.) After an edit of a sampler's file, or of a file with compiled functions that
it calls, everything that is compiled with it is recompiled.
"""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, overload

from stanadapt.engine.compiled.by_reference import referring, restoring
from stanadapt.engine.compiled.dependencies import CHOSEN_BY_CLASS
from stanadapt.engine.compiled.jit import OVERLOAD_OPTIONS, jit
from stanadapt.engine.compiled.replace import NAMED_TUPLES, shown
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.warmup import Warmup

# keyword by which a user chooses a preset, and the name for whichever sampler suits the target
PRESET, AUTO = "preset", "auto"
SamplerName = Literal[  # for editors, which complete them; any other that is registered works too
    "auto", "am", "continuous_tempering", "equi_energy", "gad_hmc", "gad_mala", "gad_rwm", "hmc",
    "hvi", "kameleon", "mala", "nice", "nuts", "parallel_tempering", "pooled_am", "pseudo_extended",
    "repelling_attracting", "rwm", "sgld", "simulated_tempering", "smc", "ula", "variational_mcmc",
    "walnuts", "whitened_hmc",
]  # fmt: skip

# --- settings -------------------------------------------------------------------------------------


class Preset(NamedTuple):
    """Published settings of a sampler, which a user chooses by the name of the paper."""

    settings: Mapping[str, Any]  # settings by name; those that the user gives too are the user's
    # further ones: functions of the number of parameters
    by_dimension: Mapping[str, Callable[[int], Any]] = MappingProxyType({})
    standardize: str = "no"  # coordinates, as `Sampler.standardize`


# --- defaults -------------------------------------------------------------------------------------


@jit
def never_adapt(density, settings, state, info, t, iter_warmup):
    """Leave the state as it is: for samplers without tuning."""
    return state


def accept(settings: Any, *run: Any) -> None:
    """Accept settings whose values are in their ranges, for any run."""


def keep(settings, state):
    """Leave the state as it is at the end of warm-up."""
    return state


@jit
def no_extra_output(settings, state, out):
    """Write nothing: for samplers that keep only their draws."""


@jit
def no_task(settings, state, kind, slot):
    """Do nothing: for samplers that make one move after the other."""


# --- the parts of a sampler -----------------------------------------------------------------------


class Threading(NamedTuple):
    """Tasks by which several threads of one chain share independent moves.

    Nothing random is drawn in a task, so that draws do not depend on the thread that runs it.

    make_worker
        (density, settings, state) -> (state, queue), compiled: the state with memory for one
        worker, and the `work_queue` that offers tasks.
    run_task
        (settings, state, kind, slot), compiled: runs one task.
    max_threads
        (settings) -> the largest number of threads that can share the work.
    """

    make_worker: Callable
    run_task: Callable
    max_threads: Callable[[Any], int]


class Tempering(NamedTuple):
    """Functions of a sampler that moves between a reference distribution and the target.

    init_from_path
        (density, settings, position, rng, path, learns_reference) -> state: replaces `init`
        if a `TemperingPath` with its reference is given.
    learned
        Python function, (state) -> dict of arrays that warm-up learned or sampling counted.
    draws_reference
        Whether it needs draws of the reference, which prior-only data cannot provide.
    """

    init_from_path: Callable
    learned: Callable[[Any], dict[str, Any]]
    draws_reference: bool = False


class ExtraOutput(NamedTuple):
    """Numbers to keep of an iteration in addition to its draw.

    They are kept in `sampling.extra` of each chain: the gradient with save="gradient"
    (`KEEP_GRADIENT`), others with save="pseudo"; the hook `report` makes a group of them.

    write
        (settings, state, out), compiled: fills out, shape (size,).
    size
        (settings, dim) -> number of entries of out.
    """

    write: Callable
    size: Callable[[Any, int], int]


@jit
def _write_gradient(settings, state, out):
    """Write the gradient at the current point."""
    copy(state.current.gradient, out)


# for samplers with a `GradientPoint` of the given density as `current`
KEEP_GRADIENT = ExtraOutput(_write_gradient, lambda settings, dim: dim)


class Memory(NamedTuple):
    """Storage of a chain that may be large: a run is refused if it does not fit into memory.

    dense_matrices
        settings -> number of arrays of shape (dim, dim) in State.
    storage
        (settings, dim) -> further bytes of each chain, dim being the number of parameters.
    pooled
        (settings, dim, chains) -> further bytes of all chains together.
    name
        Name of that storage, for a message: "particles".
    settings
        Names of the settings that can be lowered to reduce it. Without any, the storage is an
        estimate from above, for which no run is refused.
    """

    dense_matrices: Callable[[Any], int] = lambda settings: 0
    storage: Callable[[Any, int], int] | None = None
    pooled: Callable[[Any, int, int], int] = lambda settings, dim, chains: 0
    name: str = ""
    settings: tuple[str, ...] = ()


# without a default, Python would raise a TypeError before `register` can name the missing part
MISSING: Any = None
# parts that `register` finds in the module of a sampler, and their names there
PARTS = {
    "settings": "Settings", "state": "State", "info": "Info", "init": "init", "step": "step",
    "adapt": "adapt", "freeze": "freeze", "check": "check", "check_run": "check_run",
    "report": "report", "warmup": "warmup",
}  # fmt: skip


@functools.lru_cache(maxsize=256)  # asked for each chain
def declared_types(named_tuple: type) -> dict[str, Any]:
    """Return the declared type of each field of a NamedTuple."""
    return typing.get_type_hints(named_tuple)


class Sampler(NamedTuple):
    """The parts of a sampler: those that `register` finds by name, and what differs from these.

    Functions that are called in every iteration are compiled; see the rules above.
    """

    # --- found by name: `Settings`, ..., `check_run`, `report`

    settings: Any = MISSING  # choices of the user, a NamedTuple class
    state: Any = MISSING  # input of the next step
    info: Any = MISSING  # statistics of one iteration
    init: Callable = MISSING  # (density, settings, position, rng) -> state
    step: Callable = MISSING  # (density, settings, state, rng) -> (state, info)
    # (density, settings, state, info, t, iter_warmup) -> state, after iteration t = 0, 1, ... of
    # warm-up; the density is for rules that need one more derivative
    adapt: Callable = never_adapt
    freeze: Callable = keep  # (settings, state) -> state, once, at the end of warm-up
    # raises StanadaptError for settings that do not go together; each range is declared with its
    # setting
    check: Callable[[Any], None] = accept
    # (settings, dim, standardized), raises StanadaptError for settings that do not fit the number
    # of coordinates, or standardized ones
    check_run: Callable[[Any, int, bool], None] = accept
    # (view) -> `Findings`: report after a run, given a `RunView`
    report: Callable[[Any], Any] | None = None

    # --- defaults of a run

    iter_warmup: int = 20_000  # per chain, like the next
    iter_sampling: int = 20_000
    # coordinates in which `sample` runs it, or a function of the settings: "full", standardized by
    # location, scales and correlations that a pre-run learns; "diagonal", by location and scales,
    # from starts as dispersed as they were, for samplers that look for many modes; "no", for
    # samplers that learn scales themselves. If it is requested for a sampler that tempers, it is
    # "diagonal".
    standardize: str | Callable[[Any], str] = "full"
    # defaults of settings that differ in standardized coordinates, by name: functions of the number
    # of parameters. A value that the user chooses holds in any coordinates.
    when_standardized: Mapping[str, Callable[[int], Any]] = MappingProxyType({})
    # with diagonal standardization, parameters up to this factor wider or narrower than their
    # geometric mean keep their relative scales; only what lies beyond it is removed
    kept_ratio: float = 1.0
    # published settings, by the first author and the year of the paper ("titsias2019")
    presets: Mapping[str, Preset] = MappingProxyType({})
    # other accepted names of settings, such as adapt_delta of Stan's NUTS
    setting_aliases: Mapping[str, str] = MappingProxyType({})
    # chains of default length continue if that is likely to make a fit usable. False if further
    # draws come from the same particles. Chains of a sampler that is not exact never continue.
    extends: bool = True

    # --- claims

    # whether it calls the gradient (otherwise only values); or a function of the settings
    uses_gradient: bool | Callable[[Any], bool] = True
    # whether `adapt` also runs while draws are kept (diminishing adaptation). `find` sets it from
    # the setting of that name, if there is one.
    adapts_forever: bool = False
    # whether it leaves the target invariant, so that means over more and more draws converge to
    # those of the target; or a function of the settings. If it does not, results record this,
    # `compare` shows their bias, and `check_sampler` omits the check of invariance.
    exact: bool | Callable[[Any], bool] = True
    # without gradients, it leaves the target invariant if the density is an estimate with noise:
    # it evaluates one proposal per iteration, by `proposed`
    exact_on_estimates: bool = True
    # with each gradient it draws the batch of rows for that gradient: the last entries of a
    # position, uniform on [0, 1); see `Minibatches`
    samples_batches: bool = False
    # fields of State that are rewritten in every step ("noise", "tuning.left"). All others but
    # `current` and `scratch` do not change after warm-up.
    workspace: tuple[str, ...] = ()
    # `step` and `adapt` leave each array of State in place, and all tuples in it but `current`
    # unchanged, except in the fields named here. The loop then passes pointers (`by_reference`),
    # which is faster for dozens of arrays, and takes less time to compile. None: no such claim.
    in_place_except: tuple[str, ...] | None = None

    # --- parts of few samplers

    # compiled functions for other ways to begin, by the argument of `sample`. "warm_start":
    # (density, settings, state, positions, rng) -> state, once, before the first iteration, for a
    # sampler that can learn from the draws of an earlier fit, positions of shape (n, dim). An
    # argument that a family registers as a `StartOption`: whatever that family calls.
    init_from: Mapping[str, Callable] = MappingProxyType({})
    # its chains start at some draws of the earlier fit from which it learns: far out in the tails
    # an independent proposal may never be accepted
    starts_at_draws: bool = False
    memory: Memory = Memory()  # storage that may be large
    threading: Threading | None = None
    tempering: Tempering | None = None
    extra_output: ExtraOutput | None = None
    # a table of stages, for a sampler that learns in Python between blocks of iterations: found by
    # its name `warmup`
    warmup: Warmup | None = None

    @property
    def init_from_draws(self) -> Callable | None:
        """`init_from["warm_start"]`, or None."""
        return self.init_from.get("warm_start")

    @property
    def learns_scales(self) -> bool:
        """Whether it learns location and scales itself, and could do so for others."""
        return self.warmup is not None and self.warmup.for_scales is not None

    @property
    def name(self) -> str:
        """Name of the sampler, which is that of its file."""
        return self.settings.__module__.rpartition(".")[2]

    @property
    def documentation(self) -> str:
        """Docstring of the sampler's file."""
        return inspect.getdoc(sys.modules[self.settings.__module__]) or ""

    @property
    def info_types(self) -> dict[str, type]:
        """Declared type of each field of `Info`."""
        return declared_types(self.info)

    @property
    def compiled_parts(self) -> tuple[Callable, ...]:
        """Functions that are compiled into the loop of a chain."""
        return self.step, self.adapt, self.write_extra

    @property
    def chosen_by_class(self) -> tuple:
        """What is compiled for the class of its settings, and stays with that class."""
        return *self.compiled_parts, self.run_task, self.in_place_except

    @property
    def write_extra(self) -> Callable:
        """`extra_output.write`, or a function that writes nothing."""
        return no_extra_output if self.extra_output is None else self.extra_output.write

    @property
    def run_task(self) -> Callable:
        """`threading.run_task`, or a function that does nothing."""
        return no_task if self.threading is None else self.threading.run_task


# samplers by the class of their settings, by which Numba finds their functions
REGISTRY: dict[type, Sampler] = {}


def _chosen_by(kind: type) -> tuple:
    """Return what is compiled for the settings of a sampler, on which its code depends."""
    return REGISTRY[kind].chosen_by_class if kind in REGISTRY else ()


CHOSEN_BY_CLASS.append(_chosen_by)


# --- dispatch in compiled code --------------------------------------------------------------------


def step(density, settings, state, rng):
    """Only for compiled code: one iteration of the sampler that `settings` belongs to."""
    raise NotImplementedError("only for compiled code")


def adapt(density, settings, state, info, t, iter_warmup):
    """Only for compiled code: one update of the tuning of the sampler of `settings`."""
    raise NotImplementedError("only for compiled code")


def write_extra(settings, state, out):
    """Only for compiled code: write the extra output of the sampler of `settings`."""
    raise NotImplementedError("only for compiled code")


def run_task(settings, state, kind, slot):
    """Only for compiled code: one task of the sampler of `settings`, by a worker thread."""
    raise NotImplementedError("only for compiled code")


# Intrinsics: functions would be compiled for each sampler, and the pointers refer to the frame of
# the loop, not to that of a function that has returned.
@intrinsic
def state_by_reference(typing: Any, settings: Any, state: Any) -> Any:
    """Only for compiled code: the state for a loop, by reference if the sampler allows."""
    replaced = REGISTRY[settings.instance_class].in_place_except
    if replaced is None:
        return state(settings, state), _emit_state
    passed, emit = referring(state, replaced)
    return passed(settings, state), _without_settings(emit)


@intrinsic
def restored_state(typing: Any, settings: Any, state: Any, owned: Any) -> Any:
    """Only for compiled code: undo `state_by_reference` of `owned` at the end of a loop."""
    replaced = REGISTRY[settings.instance_class].in_place_except
    if replaced is None:
        return state(settings, state, owned), _emit_state
    _, emit = restoring(owned, replaced)
    return owned(settings, state, owned), _without_settings(emit)


@intrinsic
def require_step(typing: Any, settings: Any, moved: Any) -> Any:
    """Only for compiled code: refuse what `step` returns; nothing is done at run time."""
    remedy = "write `return state, info`"
    info = REGISTRY[settings.instance_class].info
    if isinstance(moved, types.Optional):
        raise TypingError(f"`step` must return (state, info) in every case: {remedy}.")
    parts = () if isinstance(moved, NAMED_TUPLES) else tuple(getattr(moved, "types", ()))
    if len(parts) != 2:
        raise TypingError(f"`step` must return (state, info), got {shown(moved)}: {remedy}.")
    if getattr(parts[-1], "instance_class", None) is not info:
        got = shown(parts[-1])
        raise TypingError(f"`step` must return {info.__name__} second, got {got}: {remedy}.")
    return types.none(settings, moved), _emit_nothing


def _emit_nothing(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_dummy_value()


def _without_settings(emit: Callable) -> Callable:
    return lambda context, builder, signature, arguments: emit(
        context, builder, signature, arguments[1:]
    )


def _emit_state(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return impl_ret_borrowed(context, builder, signature.return_type, arguments[1])


# The sampler's source is compiled in place of these functions: if they called it, all code below
# would be optimized once more. Not strict: a sampler may name its arguments as it likes.
@overload(write_extra, strict=False, jit_options=OVERLOAD_OPTIONS)
def _write_extra(settings, state, out):
    return _source(REGISTRY[settings.instance_class].write_extra)


@overload(run_task, strict=False, jit_options=OVERLOAD_OPTIONS)
def _run_task(settings, state, kind, slot):
    return _source(REGISTRY[settings.instance_class].run_task)


@overload(step, strict=False, jit_options=OVERLOAD_OPTIONS)
def _step(density, settings, state, rng):
    if not isinstance(state, NAMED_TUPLES):  # Numba has unified the state with what `adapt` returns
        name = REGISTRY[settings.instance_class].state.__name__
        raise TypingError(
            f"`adapt` must return a {name} in every case, and `step` a {name} first: "
            f"write `return`, got {shown(state)}."
        )
    return _source(REGISTRY[settings.instance_class].step)


@overload(adapt, strict=False, jit_options=OVERLOAD_OPTIONS)
def _adapt(density, settings, state, info, t, iter_warmup):
    return _source(REGISTRY[settings.instance_class].adapt)


def _source(function: Callable) -> Callable:
    return getattr(function, "py_func", function)
