"""Warm-up as a table of stages: blocks of iterations, between which Python learns.

Compiled code runs a block; `adapt` keeps only the work of every iteration, such as recording
draws. After the block, `learn` of its stage sees the states of the chains. It is plain Python, may
use any library, and is called once per block. It returns its findings, and may choose the
stage that follows; `set_up` of that stage then prepares the states for its block.

This sampler learns a scale from the draws of all chains, and then tunes its step size:

    def record(settings, progress, states):  # `adapt` fills the rows of draws
        shape = progress.block, len(states[0].scale)
        return progress, [s._replace(draws=np.empty(shape), rows=0) for s in states]

    def learn_scale(settings, progress, states):
        scale = np.concatenate([s.draws for s in states]).std(axis=0)
        return progress, [s._replace(scale=scale, draws=s.draws[:0]) for s in states]

    warmup = Warmup(first="scale", stages={
        "scale": Stage("learning the scale", 200, set_up=record, learn=learn_scale, then="step"),
        "step": Stage("tuning the step size", all_left),
    })

    register(__name__, warmup=warmup)

All functions of the table see the states of all chains in their order, and no clock, so that draws
depend on the number of chains, but not on threads. Chains that were stopped are left out. With
`together=False` each chain learns from itself alone, at its own pace, and waits for no other.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from stanadapt.engine.compile_errors import running
from stanadapt.engine.compiled.replace import shown
from stanadapt.engine.interrupts import uninterrupted
from stanadapt.errors import StanadaptError, did_you_mean

END = ""  # in place of the name of a stage: the end of warm-up
NO_BOUNDS = np.empty((0, 4))
# bits of `flags.num` of an array that its Numba type depends on: contiguous in C, aligned,
# writeable; and contiguous in Fortran, unless it is so in C
C_ORDER, TYPED_FLAGS, F_ORDER = 0x1, 0x1 | 0x100 | 0x400, 0x2
LARGEST_INTEGER = 2**63 - 1  # beyond which an int has another Numba type


class Progress(NamedTuple):
    """Where a warm-up is, and its memory: it is kept with a run, and sent to workers.

    So `learned` and `chains` are named tuples of numbers, texts, tuples and arrays.
    """

    ceiling: int  # largest number of iterations
    then: str  # the stage that follows, unless `learn` chooses another one with `to`
    stage: str = END  # the stage at hand
    label: str = ""  # its purpose
    block: int = 0  # its number of iterations; 0 after warm-up
    window: int = 0  # number of blocks of the same stage immediately before this one
    used: int = 0  # iterations so far
    learned: Any = ()  # memory that the stages of a sampler share
    chains: Any = ()  # the same by chain: arrays with a row for each chain that still runs
    # of `targets.declared_bounds`: coordinates that the program declares with bounds, if the
    # sampler may use them and moves in these coordinates
    bounds: np.ndarray = NO_BOUNDS

    @property
    def left(self) -> int:
        """Number of iterations that are left, with the block at hand."""
        return self.ceiling - self.used

    def learning(self, **changes: Any) -> "Progress":
        """Return the progress with some fields of `learned` replaced."""
        return self._replace(learned=self.learned._replace(**changes))

    def to(self, stage: str, **changes: Any) -> "Progress":
        """Return the progress with this stage to follow, and some fields of `learned` replaced."""
        return (self.learning(**changes) if changes else self)._replace(then=stage)


class Sampled(NamedTuple):
    """What a chain has sampled so far, or all that still run together."""

    iterations: int = 0
    diverging: int = 0  # trajectories that diverged
    failed: int = 0  # evaluations without a finite density

    @classmethod
    def together(cls, chains: Iterable["Sampled"]) -> "Sampled":
        """Return the sums of several chains."""
        return cls(*map(sum, zip(*chains, strict=True)))


States = list[Any]
Result = tuple[Progress, States]
Change = Callable[[Any, Progress, States], Result]  # (settings, progress, states) -> both of these


def unchanged(settings: Any, progress: Progress, states: States) -> Result:
    """Return progress and states as they are."""
    return progress, states


def all_left(settings: Any, progress: Progress) -> int:
    """Return the length of a stage that takes all iterations that are left."""
    return progress.left


class Stage(NamedTuple):
    """A stage of a warm-up, which consists of one block, or of several if it follows itself."""

    label: str  # its purpose, in words for a progress bar
    length: int | Callable[[Any, Progress], int]  # iterations; or (settings, progress) -> that
    set_up: Change = unchanged  # prepares the states before a block
    learn: Change = unchanged  # learns from the states after it
    then: str = END  # name of the stage that follows, unless `learn` returns `progress.to(another)`


class Review(NamedTuple):
    """A look at the first draws, for which chains wait for each other.

    `judge` may choose a stage with `to`: the draws are then thrown away, and begin again after it,
    once. It does not see the length of the run, which may grow.
    """

    after: tuple[int, ...]  # numbers of iterations of sampling
    # (settings, progress, sampled, log densities, shape (chain, draw)) -> progress
    judge: Callable[[Any, Progress, Sampled, np.ndarray], Progress]


class Warmup(NamedTuple):
    """The stages of a sampler's warm-up, by name, and the work before and after them.

    Warm-up ends after a stage that none follows, or when no iterations are left. It may thus end
    early: `iter_warmup` is an upper limit.
    """

    stages: Mapping[str, Stage]
    first: str  # name of the first stage
    begin: Change = unchanged  # before the first stage: sets `learned` and `chains`
    finish: Change = unchanged  # after the last one
    without_room: str = END  # name of the stage that replaces one of length 0
    # whether chains wait for each other after every block; if not, each learns from itself alone,
    # and the functions above see a single state
    together: bool = True
    # (density, state) -> state: work of each chain alone, in its thread, before its next
    # iterations, if its state asks for any. For work that is too rare to be a part of `step`
    prepare: Callable[[Any, Any], Any] | None = None
    # (settings, before, progress, states) -> progress: as `revise`, for a sampler that learns
    # `location`, shape (dim,), and `metric`, a `FisherMetric`, for other samplers, too: it ends
    # warm-up as soon as these are in `learned`
    for_scales: Callable[[Any, Progress, Progress, States], Progress] | None = None
    # changes `progress.then`, given the progress before and after `learn`
    revise: Callable[[Any, Progress, Progress, States], Progress] | None = None
    review: Review | None = None  # of the first draws

    def start(
        self, settings: Any, states: States, iter_warmup: int, bounds: np.ndarray = NO_BOUNDS
    ) -> Result:
        """Set up the first block."""
        progress = Progress(iter_warmup, self.first, bounds=bounds)
        progress, states = _changed(self, "begin", settings, progress, states)
        return self._enter(settings, self._next(settings, progress), states)

    def after_block(self, settings: Any, progress: Progress, states: States) -> Result:
        """Learn from a block, and set up the next one."""
        before = progress._replace(used=progress.used + progress.block)
        stage = self.stages[progress.stage]
        progress, states = _changed(stage, "learn", settings, before, states)
        following = self._next(settings, progress)
        if self.revise is not None:
            progress = progress._replace(then=following.stage)
            following = self._next(settings, self.revise(settings, before, progress, states))
        return self._enter(settings, following, states)

    def after_draws(
        self,
        settings: Any,
        progress: Progress,
        states: States,
        sampled: Sampled,
        log_density: np.ndarray,
    ) -> Result:
        """Look at the first draws; the progress has a block if they are to begin again."""
        if self.review is None:
            return progress, states
        progress = self.review.judge(settings, progress, sampled, log_density)
        following = self._next(settings, progress)
        return self._enter(settings, following, states) if following.block else (progress, states)

    def _next(self, settings: Any, progress: Progress) -> Progress:
        """Return the progress at the beginning of the stage that follows, or after warm-up."""
        for name in (progress.then, self.without_room):
            if name == END or not progress.left:
                break
            if name not in self.stages:
                text = f"{name!r} cannot follow: there are {', '.join(map(repr, self.stages))}."
                raise _invalid(progress, text + did_you_mean(str(name), self.stages))
            stage, window = self.stages[name], progress.window + 1
            begun = progress._replace(
                stage=name, label=stage.label, then=stage.then,
                window=window if name == progress.stage else 0,
            )  # fmt: skip
            length = stage.length(settings, begun) if callable(stage.length) else stage.length
            if not isinstance(length, Integral) or isinstance(length, bool):
                raise _invalid(begun, f"its length must be a whole number, got {length!r}.")
            if length > 0:
                return begun._replace(block=min(length, progress.left))
        return progress._replace(stage=END, label="done", then=END, block=0, window=0)

    def _enter(self, settings: Any, progress: Progress, states: States) -> Result:
        if not progress.block:
            return _changed(self, "finish", settings, progress, states)
        return _changed(self.stages[progress.stage], "set_up", settings, progress, states)


# --- what functions of the table return -----------------------------------------------------------


def _changed(owner: Warmup | Stage, part: str, settings: Any, *given: Any) -> Result:
    """Call a function of the table; StanadaptError unless it returns what the loop can take."""
    change = getattr(owner, part)
    made = change(settings, *given)
    problem = _misreturned(made, *given)
    if problem:
        name = f" ({change.__qualname__})" if hasattr(change, "__qualname__") else ""
        raise _invalid(given[0], f"`{part}`{name} must return {problem}.")
    return made


def _invalid(progress: Progress, text: str) -> StanadaptError:
    stage = f"stage {progress.stage!r} of warm-up" if progress.stage else "warm-up"
    return StanadaptError("invalid_warmup", f"{stage}: {text}")


def _misreturned(made: Any, former: Progress, states: States) -> str:
    kinds = [type(part) for part in made] if type(made) is tuple else [type(made)]
    if len(kinds) != 2 or kinds[0] is not Progress or kinds[1] not in (list, tuple):
        got = ", ".join(kind.__name__ for kind in kinds)
        return f"progress and a list of states, `return progress, states`, got {got}"
    progress, after = made
    if len(after) != len(states):
        return f"a state for each of {len(states)} chains, in their order, got {len(after)}"
    if any(np.shape(rows)[:1] != (len(states),) for rows in progress.chains):
        return f"progress.chains as arrays with a row for each of {len(states)} chains"
    if list(map(_shape, after)) != list(map(_shape, states)):
        return "states with current.position in the same shape as before"
    if all(map(_is_alike, states, after)):
        return ""
    changes = (_other_type("State", old, new) for old, new in zip(states, after, strict=True))
    change = next(filter(None, changes), "")
    return change and f"states with fields of the same types as before, but {change}"


def _other_type(name: str, old: Any, new: Any) -> str:
    """Return a text for the first field for which the loop would be compiled again; "" for none.

    A part that is None until it is needed may be: the code without it is compiled in less time.
    """
    if hasattr(old, "_fields") and type(old) is type(new):
        fields = (_other_type(f"{name}.{f}", getattr(old, f), getattr(new, f)) for f in old._fields)
        return next(filter(None, fields), "")
    if old is None or new is None or _is_alike(old, new):
        return ""
    kinds = _kind(old), _kind(new)
    return "" if kinds[0] == kinds[1] else f"{name} is {shown(kinds[1])}, and was {shown(kinds[0])}"


def _is_alike(old: Any, new: Any) -> bool:
    """Whether two values surely have one type, without asking Numba, which takes longer."""
    if old is new:
        return True
    kind = type(old)
    if isinstance(old, float) and isinstance(new, float):  # NumPy's are, too
        return True
    if kind is not type(new):
        return False
    if kind is np.ndarray:
        flags = old.flags.num
        typed = TYPED_FLAGS if flags & C_ORDER else TYPED_FLAGS | F_ORDER
        differ = (flags ^ new.flags.num) & typed
        return old.dtype == new.dtype and old.ndim == new.ndim and not differ
    if kind is int:
        return max(abs(old), abs(new)) <= LARGEST_INTEGER
    if kind is bool:
        return True
    return hasattr(old, "_fields") and all(map(_is_alike, old, new))


def _shape(state: Any) -> tuple:
    return np.shape(getattr(getattr(state, "current", None), "position", ()))


def _kind(value: Any) -> Any:
    try:
        return typeof(value)
    except ValueError:  # Numba cannot compile it
        return type(value).__name__


@np.errstate(all="ignore")  # numbers that are too large are checked there
def next_block(chains: list[Any], begun: Callable[[list[Any]], Any] = lambda chains: None) -> None:
    """Let those chains that wait learn from a block, and begin the next one.

    All of them wait at the same iteration; chains that were stopped are left out. The time that
    this takes is divided equally among the others. Those that sample look at their draws instead.
    Ctrl-C ends the learning, or waits until all of them have begun and `begun` has been called.
    """
    waiting = [chain for chain in chains if chain.pausing]
    began, used, first = time.perf_counter(), time.thread_time(), waiting[0]
    warmup, settings, progress = first.sampler.warmup, first.compiled_settings, first.progress
    states, samples = [chain.state for chain in waiting], not first.warming_up
    with running(first.sampler, progress.stage if progress else END):
        if progress is None:
            progress, states = warmup.start(settings, states, first.iter_warmup, first.bounds)
        else:
            # those of the last block: blocks are not empty, so that others were stopped at an
            # earlier pause
            former = [chain for chain in chains if chain.pause == first.pause]
            rows = [row for row, chain in enumerate(former) if chain.pausing]
            known = progress.chains
            kept = known and type(known)(*(each[rows] for each in known))
            progress = progress._replace(chains=kept)
            if samples:
                sampled = Sampled.together(chain.sampled for chain in waiting)
                values = np.stack(
                    [chain.sampling.stats[: chain.sampling.rows, 0] for chain in waiting]
                )
                progress, states = warmup.after_draws(settings, progress, states, sampled, values)
            else:
                progress, states = warmup.after_block(settings, progress, states)
    with uninterrupted() as pressed:
        for chain, state in zip(waiting, states, strict=True):
            chain.state, chain.progress = state, progress
            if samples and not progress.block:
                chain.wait_for_review()
                continue
            if samples:
                chain.throw_draws_away()
            chain.pause = chain.n_done + progress.block
            if not progress.block:
                chain.end_warmup()
        seconds, used = time.perf_counter() - began, time.thread_time() - used
        for chain in waiting:
            chain.count_as_warmup(seconds / len(waiting), used / len(waiting))
        begun(chains)
    if pressed:
        raise KeyboardInterrupt
