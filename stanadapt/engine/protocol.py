"""What a sampler is.

1. A sampler is one file. Its docstring says what it is for (the first sentence is what
   `stanadapt samplers` prints) and where its formulas come from.
2. It defines three NamedTuples: `Settings`, what a user chooses, with defaults, fields of type
   float, int, bool or an IntEnum, whose members the user names; `State`, all that the next step
   needs, tuning included; `Info`, what one iteration reports, under ArviZ names,
   `acceptance_rate` among them.
3. `State.current` is a NamedTuple with at least `position`, shape (dim,), and `log_density`.
   A State is built by keyword and changed by `replace(state, scale=...)`.
4. `check(settings)` is plain Python and raises StanadaptError for values out of range.
5. `init`, `step`, `adapt`, `freeze` are compiled (`jit`). They neither raise nor print: a
   failure is a value (`-inf` is a rejection, `diverging` is a field of Info).
6. `step` does not allocate. Arrays of `State` that hold the rejected point are written again in
   the next step; large tuning arrays are updated in place in `adapt`. Nothing else is edited.
7. Randomness comes from `rng` alone, a numpy Generator.
8. `adapt` runs during warm-up only, unless the theory allows otherwise (`adapts_forever`). A
   sampler that leaves this to the user has a setting of that name.
9. The last line of the file is `register(Sampler(...))`. Samplers of the package are imported by
   `samplers/__init__.py`; one of your own is imported by you.

`authoring` offers all of this in one import, with a worked example.

Compiled code calls `step` and `adapt` below, and Numba picks the sampler's own function by the
type of `settings`. (Passing functions as arguments works too, but is compiled anew in every
process: nothing of it is found in the cache.) After an edit of a sampler's file, or of one whose
compiled functions it calls, all that is compiled with it is compiled anew.
"""

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from numba.extending import overload

from stanadapt.engine.compiled.by_reference import by_reference, restored
from stanadapt.engine.compiled.jit import OPTIONS, jit


@jit
def never_adapt(density, settings, state, info, t, iter_warmup):
    """Leave the state as it is: for samplers without tuning."""
    return state


def no_matrices(settings: Any) -> int:
    """Of samplers whose memory does not grow with the square of the dimension."""
    return 0


@jit
def keep(settings, state):
    """Leave the state as it is at the end of warm-up."""
    return state


@jit
def no_extra_output(settings, state, out):
    """Write nothing: for samplers that keep nothing beside their draws."""


@jit
def no_task(settings, state, kind, slot):
    """Do nothing: for samplers that make one move after the other."""


class Threading(NamedTuple):
    """How several threads of one chain share moves that do not depend on each other.

    Nothing random is drawn in a task, so that draws do not depend on who runs it.

    make_worker
        (density, settings, state) -> (state, queue), compiled: the state with a worker's own
        memory, and the `work_queue` where tasks are offered.
    run_task
        (settings, state, kind, slot), compiled: runs one task.
    max_threads
        (settings) -> how many threads have something to do.

    """

    make_worker: Callable
    run_task: Callable
    max_threads: Callable[[Any], int]


class Tempering(NamedTuple):
    """Of a sampler that moves between a reference distribution and the target.

    init_from_path
        (density, settings, position, rng, path, learns_reference) -> state, compiled, in place of
        `init`: on a `TemperingPath` whose reference is given.
    learned
        Python function, (state) -> dict of arrays: what warm-up learned and sampling counted.
    draws_reference
        Whether it cannot do without draws of the reference, which prior-only data do not offer.

    """

    init_from_path: Callable
    learned: Callable[[Any], dict[str, Any]]
    draws_reference: bool = False


class ExtraOutput(NamedTuple):
    """What there is to keep of an iteration beside its draw, such as all pseudo-samples.

    write
        (settings, state, out), compiled: fills out, shape (size,).
    size
        (settings, dim) -> how many numbers that is.

    """

    write: Callable
    size: Callable[[Any, int], int]


class Memory(NamedTuple):
    """What a chain stores that may be large: the run is refused if it does not fit.

    dense_matrices
        settings -> number of arrays of shape (dim, dim) in State.
    storage
        (settings, dim) -> further bytes of each chain, dim being the number of parameters.
    name
        The name of that storage, for a message: "particles".
    settings
        Names of the settings that make it smaller.

    """

    dense_matrices: Callable[[Any], int] = no_matrices
    storage: Callable[[Any, int], int] | None = None
    name: str = ""
    settings: tuple[str, ...] = ()


class Traits(NamedTuple):
    """Properties that few samplers have.

    arrays_in_place
        `step` and `adapt` leave each array of State in its place, and all tuples in it but
        `current` as they are. The loop then hands on pointers (`by_reference`), which is faster
        for dozens of arrays.
    samples_batches
        With each gradient it draws the batch of rows that the gradient is made of: the entries of
        a position after those that are moved, uniform on [0, 1); see `Minibatches`.
    extends
        Chains of default length continue if that is likely to make a fit usable. Not if further
        draws come from the same particles. Chains of a sampler that is not exact never do.
    exact_on_estimates
        Without gradients, it leaves the target invariant if the density is an estimate with noise:
        it does if it evaluates one proposal per iteration, by `proposed`.
    starts_at_draws
        It learns from the draws of an earlier fit, and its chains start at some of them all the
        same: from far out in the tails an independent proposal may never be accepted.

    """

    arrays_in_place: bool = False
    samples_batches: bool = False
    extends: bool = True
    exact_on_estimates: bool = True
    starts_at_draws: bool = False


class Pooling(NamedTuple):
    """How chains learn from each other: in blocks of warm-up, after each of which they are pooled.

    All are Python functions that see the states of all chains, in their order, and no clock, so
    that draws depend on the number of chains, but not on threads. Chains that were stopped are left
    out. Warm-up may end early: `iter_warmup` is then a ceiling.

    begin
        (settings, states, iter_warmup) -> (progress, states), before the first iteration. Progress
        is a NamedTuple with at least `block`, the iterations until the chains are pooled, 0 at the
        end of warm-up, and `label`, what these are for.
    pool
        (settings, progress, states) -> (progress, states), after each block.
    pool_for_scales
        As `pool`, but warm-up ends as soon as progress has `location`, shape (dim,), and `metric`,
        a `FisherMetric`: of a sampler that learns these for others too.

    """

    begin: Callable[[Any, list, int], tuple[Any, list]]
    pool: Callable[[Any, Any, list], tuple[Any, list]]
    pool_for_scales: Callable[[Any, Any, list], tuple[Any, list]] | None = None


class Sampler(NamedTuple):
    """The parts of a sampler; a plain one gives the first six, and `adapt` if it tunes.

    settings, state, info
        NamedTuple classes: what the user chooses; what the next step needs; what each iteration
        reports.
    check
        Python function, raises StanadaptError for values out of range.
    init
        (density, settings, position, rng) -> state
    step
        (density, settings, state, rng) -> (state, info)
    adapt
        (density, settings, state, info, t, iter_warmup) -> state, after iteration t = 0, 1, ...
        of warm-up. The density is there for rules that need one more derivative.
    freeze
        (settings, state) -> state, once, at the end of warm-up.
    iter_warmup, iter_sampling
        Numbers of iterations per chain where the user gives none.
    uses_gradient
        Whether it calls the gradient (else only values); or a function of the settings.
    adapts_forever
        Whether `adapt` also runs while draws are kept (diminishing adaptation). `find` sets it
        from the setting of that name, where there is one.
    init_from
        Compiled functions that begin from something else, by the argument of `sample` that it comes
        from: "warm_start": (density, settings, state, positions, rng) -> state, once, before the
        first iteration, for a sampler that can learn from the draws of an earlier fit, positions
        having shape (n, dim); "network": (density, settings, position, rng, network) -> state, in
        place of `init`, for a sampler that proposes from a trained network, a `CompiledNetwork`.
    workspace
        Fields of State that are rewritten in every step ("noise", "tuning.left"): all others but
        `current` and `scratch` stay as they are after warm-up.
    standardize
        In which coordinates `sample` runs it unless told otherwise: "full", standardized by
        location, scales and correlations that a pre-run learns; "diagonal", by location and scales,
        from starts as dispersed as they were, for samplers that look for many modes; "no", for
        those that learn scales on their own. Where it is asked for, tempering is "diagonal". Or a
        function of the settings.
    when_standardized
        Defaults of settings that differ in standardized coordinates, by name: functions of the
        number of parameters. A value that the user chooses holds in any coordinates.
    memory
        What it stores that may be large.
    exact
        Whether it leaves the target invariant, so that means over ever more draws are those of the
        target; or a function of the settings. Where it does not, results say so, `compare` shows
        their bias, and `check_sampler` asks for everything but invariance.
    after_run
        (view) -> `Findings`: what it reports after a run, given a `RunView`.
    traits
        Properties that few samplers have.
    threading, tempering, extra_output, pooling
        Optional groups; None without them.
    setting_aliases
        Names that settings have elsewhere, accepted too: adapt_delta of Stan's NUTS.

    """

    settings: Any
    state: Any
    info: Any
    check: Callable[[Any], None]
    init: Callable
    step: Callable
    adapt: Callable = never_adapt
    freeze: Callable = keep
    iter_warmup: int = 20_000
    iter_sampling: int = 20_000
    uses_gradient: bool | Callable[[Any], bool] = True
    adapts_forever: bool = False
    init_from: Mapping[str, Callable] = MappingProxyType({})
    workspace: tuple[str, ...] = ()
    standardize: str | Callable[[Any], str] = "full"
    when_standardized: Mapping[str, Callable[[int], Any]] = MappingProxyType({})
    exact: bool | Callable[[Any], bool] = True
    memory: Memory = Memory()
    after_run: Callable[[Any], Any] | None = None
    traits: Traits = Traits()
    threading: Threading | None = None
    tempering: Tempering | None = None
    extra_output: ExtraOutput | None = None
    pooling: Pooling | None = None
    setting_aliases: Mapping[str, str] = MappingProxyType({})

    @property
    def init_from_draws(self) -> Callable | None:
        """`init_from["warm_start"]`, or None."""
        return self.init_from.get("warm_start")

    @property
    def init_from_network(self) -> Callable | None:
        """`init_from["network"]`, or None."""
        return self.init_from.get("network")

    @property
    def name(self) -> str:
        """Name of the sampler: that of its file."""
        return self.settings.__module__.rpartition(".")[2]

    @property
    def documentation(self) -> str:
        """Docstring of the sampler's file."""
        return inspect.getdoc(sys.modules[self.settings.__module__]) or ""

    @property
    def setting_types(self) -> dict[str, type]:
        """Declared type of each setting."""
        return typing.get_type_hints(self.settings)

    @property
    def info_types(self) -> dict[str, type]:
        """Declared type of each field of `Info`."""
        return typing.get_type_hints(self.info)

    @property
    def compiled_parts(self) -> tuple[Callable, ...]:
        """Functions that are compiled into the loop of a chain."""
        return self.step, self.adapt, self.write_extra

    @property
    def write_extra(self) -> Callable:
        """`extra_output.write`, or what writes nothing."""
        return no_extra_output if self.extra_output is None else self.extra_output.write

    @property
    def run_task(self) -> Callable:
        """`threading.run_task`, or what does nothing."""
        return no_task if self.threading is None else self.threading.run_task


# by the class of their settings: how Numba finds the functions of a sampler
REGISTRY: dict[type, Sampler] = {}


def step(density, settings, state, rng):
    """Only for compiled code: one iteration of the sampler that `settings` belongs to."""
    raise NotImplementedError("only for compiled code")


def adapt(density, settings, state, info, t, iter_warmup):
    """Only for compiled code: one update of the tuning of the sampler of `settings`."""
    raise NotImplementedError("only for compiled code")


def write_extra(settings, state, out):
    """Only for compiled code: what the sampler of `settings` keeps beside draws."""
    raise NotImplementedError("only for compiled code")


def run_task(settings, state, kind, slot):
    """Only for compiled code: one task of the sampler of `settings`, by a worker thread."""
    raise NotImplementedError("only for compiled code")


def state_by_reference(settings, state):
    """Only for compiled code: the state for a loop, by reference if the sampler allows."""
    raise NotImplementedError("only for compiled code")


def restored_state(settings, state, owned):
    """Only for compiled code: undo `state_by_reference` of `owned` at the end of a loop."""
    raise NotImplementedError("only for compiled code")


# inline: what is handed on lies in the frame of the loop, not of a function that has returned
@overload(state_by_reference, inline="always")
def _state_by_reference(settings, state):
    if REGISTRY[settings.instance_class].traits.arrays_in_place:
        return lambda settings, state: by_reference(state)
    return lambda settings, state: state


@overload(restored_state, inline="always")
def _restored_state(settings, state, owned):
    if REGISTRY[settings.instance_class].traits.arrays_in_place:
        return lambda settings, state, owned: restored(state, owned)
    return lambda settings, state, owned: state


# The sampler's own source is compiled in place of these: a function that only called it would have
# all that lies below optimized once more. Not strict: a sampler may name its arguments as it likes.
@overload(write_extra, strict=False, jit_options=OPTIONS)
def _write_extra(settings, state, out):
    return _source(REGISTRY[settings.instance_class].write_extra)


@overload(run_task, strict=False, jit_options=OPTIONS)
def _run_task(settings, state, kind, slot):
    return _source(REGISTRY[settings.instance_class].run_task)


@overload(step, strict=False, jit_options=OPTIONS)
def _step(density, settings, state, rng):
    return _source(REGISTRY[settings.instance_class].step)


@overload(adapt, strict=False, jit_options=OPTIONS)
def _adapt(density, settings, state, info, t, iter_warmup):
    return _source(REGISTRY[settings.instance_class].adapt)


def _source(function: Callable) -> Callable:
    return getattr(function, "py_func", function)
