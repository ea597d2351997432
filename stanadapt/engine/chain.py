"""The loop that every sampler runs in, and chains: alone, pooled, and in parallel.

Compiled code advances a chain by a chunk of iterations without the GIL. Between chunks Python is in
charge: it constrains the new draws, reports progress and notices Ctrl-C. Between blocks of warm-up
it learns from the draws of a chain, or of all chains, which then wait for each other (`warmup`).
Draws depend neither on the size of chunks nor on the number of threads.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import Context
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import every_iteration, protocol
from stanadapt.engine.breaches import require_state
from stanadapt.engine.compile_errors import running
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import write_fields
from stanadapt.engine.density import (
    FAILED_CALLS,
    FAILED_IN_A_ROW,
    GRADIENT_CALLS,
    RECORDED_CALLS,
    VALUE_CALLS,
    Density,
)
from stanadapt.engine.interrupts import wait_for
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.plan import Plan
from stanadapt.engine.settings import as_compiled
from stanadapt.engine.threads import ThreadPool
from stanadapt.engine.warmup import NO_BOUNDS, Sampled, next_block
from stanadapt.errors import Message

Constrain = Callable[[np.ndarray, np.ndarray], int]

# number of failed evaluations in a row after which a chain is stopped: it learns nothing from them
FAILURES_BEFORE_STOP = 1000
# at most a quarter of a second, and no more draws than stay in the processor's cache until they
# are constrained: fresh memory for a large chunk costs more than the calls it saves
CHUNK_SECONDS, FIRST_CHUNK, LARGEST_CHUNK = 0.25, 4, 1024
# numbers: a chunk of long positions is shorter, so that it takes no more than 16 MB
LARGEST_BUFFER = 2_000_000
NEVER = -1  # in place of an iteration
PATIENCE = 0.4  # seconds that Ctrl-C waits for unfinished chunks
# seconds of all chains to their next pause that are not worth threads
BRIEF = 2e-3


# --- records of a chain ---------------------------------------------------------------------------


KINDS = "constrained", "stats", "unconstrained", "extra"  # of numbers that are recorded


class Recording:
    """Draws and statistics of one phase of a chain, warm-up or sampling, shape (row, column)."""

    def __init__(self, rows: int, constrain: Constrain, widths: tuple[int, int, int, int]) -> None:
        n_constrained, n_stats, dim, n_extra = widths
        # writes draws on the constrained scale, and returns how many generated quantities threw
        self.constrain = constrain
        self.constrained = np.empty((rows, n_constrained))
        self.stats = np.empty((rows, n_stats))
        self.unconstrained = np.empty((rows, dim)) if dim else None
        self.extra = np.empty((rows, n_extra))  # the sampler's `extra_output`
        self.rows = 0  # number of rows that are filled
        self._whole: dict[str, Any] = {}  # what `trim` has made shorter

    def grow(self, rows: int) -> None:
        """Make room for `rows` rows in total; those that are filled stay."""
        for name in KINDS:
            array = getattr(self, name)
            if array is not None and len(array) < rows:
                longer = np.empty((rows, array.shape[1]))
                longer[: self.rows] = array[: self.rows]
                setattr(self, name, longer)

    def trim(self) -> None:
        """Leave the rows out that are not filled, since warm-up may end early."""
        self._whole = {name: getattr(self, name) for name in KINDS}
        for name in KINDS:
            array = getattr(self, name)
            if array is not None:
                setattr(self, name, array[: self.rows])

    def untrim(self) -> None:
        """Take those rows back."""
        for name, array in self._whole.items():
            setattr(self, name, array)


# --- the compiled loop ----------------------------------------------------------------------------


class Span(NamedTuple):
    """The iterations to run: t, ..., stop - 1 of the phase that began at `start`.

    Iterations start, start + thin, ... are recorded.
    """

    start: int
    t: int
    stop: int
    iter_warmup: int
    thin: int


@jit
def _advance(density, settings, owned, rng, span, adapting, out):
    """Run the iterations of a Span.

    `out` is (draws, stats), of shapes (row, size or more) and (iteration, 2 + fields of Info): the
    first two statistics are those of recorded iterations alone. Without rows, nothing is recorded.
    Returns the state, the next iteration, which is `stop` unless the density failed too often in a
    row, and the sum of acceptance rates.
    """
    draws, stats = out
    row, accepted, state = 0, 0.0, protocol.state_by_reference(settings, owned)
    for i in range(span.t, span.stop):
        moved = protocol.step(density, settings, state, rng)
        protocol.require_step(settings, moved)  # types alone, as this is compiled
        state, info = moved
        accepted += info.acceptance_rate
        if adapting:
            state = protocol.adapt(density, settings, state, info, i, span.iter_warmup)
        at = i - span.t
        if at < stats.shape[0]:
            write_fields(info, stats, at, 2)
        if row < draws.shape[0] and (i - span.start) % span.thin == 0:
            calls = density.calls[VALUE_CALLS] + density.calls[GRADIENT_CALLS]
            copy(state.current.position, draws[row, : density.size])
            if draws.shape[1] > density.size:
                protocol.write_extra(settings, state, draws[row, density.size :])
            stats[at, 0] = state.current.log_density
            stats[at, 1] = calls - density.calls[RECORDED_CALLS]
            density.calls[RECORDED_CALLS] = calls
            row += 1
        if density.calls[FAILED_IN_A_ROW] >= FAILURES_BEFORE_STOP:
            return protocol.restored_state(settings, state, owned), i + 1, accepted
    return protocol.restored_state(settings, state, owned), span.stop, accepted


# --- a chain --------------------------------------------------------------------------------------


class ChainDesign(NamedTuple):
    """Properties that all chains of a run share."""

    # sampler, settings: from `registry.find`
    sampler: protocol.Sampler
    settings: Any
    plan: Plan  # numbers of iterations, and which of them are kept
    n_constrained: int  # numbers per draw on the constrained scale
    # keep_unconstrained, keep_extra: also record unconstrained positions; the sampler's
    # `extra_output`
    keep_unconstrained: bool = False
    keep_extra: bool = False
    init: Callable | None = None  # replaces the sampler's `init`, unless it is None
    bounds: np.ndarray = NO_BOUNDS  # of `Progress`


def compiled_functions(sampler: protocol.Sampler) -> tuple[Callable, ...]:
    """Return the compiled functions that Python calls for a chain."""
    called = (sampler.init, sampler.freeze, *sampler.compiled_parts)
    return _advance, *(function for function in called if hasattr(function, "py_func"))


class Chain:
    """One chain: its state, its records and its costs.

    Parameters
    ----------
    design
        Properties that it shares with the other chains of its run.
    density
        Density of this chain alone, since it counts evaluations.
    position
        Starting point, shape (size,), with a finite density.
    rng
        numpy Generator, the chain's only source of randomness.
    make_constrain
        Called with True for warm-up and with False for sampling, so that neither changes the random
        numbers of the other. Returns a function (positions, out) -> number of rows in which
        generated quantities threw, to be called for the kept draws in order.
    workers
        Densities of further threads that share the moves of this chain.
    """

    def __init__(
        self,
        design: ChainDesign,
        density: Density,
        position: np.ndarray,
        rng: np.random.Generator,
        make_constrain: Callable[[bool], Constrain],
        workers: Sequence[Density] = (),
    ) -> None:
        sampler, settings, plan = design.sampler, design.settings, design.plan
        self.sampler, self.settings, self.density = sampler, settings, density
        # for compiled functions; `settings` are as the user gave them
        self.compiled_settings = as_compiled(settings)
        self._advance = _advance
        self.plan, self.rng, self.bounds = plan, rng, design.bounds
        self.stat_names = ("lp", "n_evaluations", *sampler.info._fields)
        dim = density.dim if design.keep_unconstrained else 0
        widths = design.n_constrained, len(self.stat_names), dim
        n_extra = extra_size(design, density.dim)
        self.warmup = Recording(plan.warmup_draws, make_constrain(True), (*widths, 0))
        self.sampling = Recording(plan.draws, make_constrain(False), (*widths, n_extra))
        init = design.init or sampler.init
        with running(sampler):
            self.state = init(density, self.compiled_settings, position, rng)
        require_state(sampler, self.state, density.size)
        self.thread_pool = ThreadPool(sampler, self.compiled_settings, self.state, workers)
        self.n_done, self.stopped, self.acceptance_rate = 0, False, np.nan
        self.abandoned, self._recording = False, threading.Lock()
        # a warm-up in stages: its progress, and the iteration at which a block of it ends
        self.progress: Any = None
        self.iter_warmup, self.warming_up = plan.iter_warmup, True
        self.pause = 0 if sampler.warmup else plan.iter_warmup
        self.warmup_seconds = self.sampling_seconds = self.constrain_seconds = 0.0
        # processor time of its threads, which does not depend on other programs
        self.warmup_processor_seconds = self.sampling_processor_seconds = 0.0
        self.failed_quantities = self.failed_in_warmup = 0
        self.thrown_away = Sampled()  # the draws after which it returned to warm-up, if it did
        self.warmup_calls = np.zeros(3, np.int64)
        # of sampling, if it is thinned, or while draws are looked at
        self.totals = every_iteration.no_iterations()
        self._chunk, self._pace = FIRST_CHUNK, np.inf  # _pace: seconds of its last iterations, each
        self._width = density.size + n_extra
        self._draws = np.empty((0, self._width))
        self._stats = np.empty((0, len(self.stat_names)))
        if plan.iter_warmup == 0:
            self.end_warmup()

    @property
    def pausing(self) -> bool:
        """Whether it is between two blocks of its warm-up, before the first, or at a review."""
        return not self.stopped and self.n_done == self.pause

    @property
    def waiting(self) -> bool:
        """Whether it can continue only after it has learned together with the other chains."""
        return self.pausing and self.sampler.warmup is not None and self.sampler.warmup.together

    @property
    def n_total(self) -> int:
        """Number of iterations of both phases; a pooled warm-up may turn out to be shorter."""
        return self.iter_warmup + self.plan.iter_sampling

    @property
    def finished(self) -> bool:
        """Whether all iterations are done, or the chain was stopped."""
        return self.stopped or self.n_done == self.n_total

    @property
    def seconds_ahead(self) -> float:
        """About how long it takes from here to the next pause, or to the end."""
        end = self.pause if self.pause > self.n_done else self.n_total
        return 0.0 if self.finished or self.waiting else self._pace * (end - self.n_done)

    def compile(self) -> float:
        """Compile, or load from the cache, without moving; returns seconds."""
        began = time.perf_counter()
        self._run(0, 0, 0, True, None)
        if self.sampler.freeze in compiled_functions(self.sampler):
            # a state is replaced, not changed: the result is not needed
            self.sampler.freeze(self.compiled_settings, self.state)
        nothing = np.empty((0, self.density.size))
        self.sampling.constrain(nothing, self.sampling.constrained[:0])
        return time.perf_counter() - began

    def advance(self, chunk: int | None = None) -> None:
        """Run a chunk of iterations, to the end of a phase or block at most, and record them."""
        if self.waiting:
            raise RuntimeError("a chain that waits continues only after chains have been pooled")
        if self.pausing:  # before the first block of a chain that learns alone
            next_block([self])
        warming_up, warmup = self.warming_up, self.sampler.warmup
        start = 0 if warming_up else self.iter_warmup
        # a run may be so short that it ends before the next review
        end = self.pause if warming_up or self.n_done < self.pause < self.n_total else self.n_total
        recording = self.warmup if warming_up else self.sampling
        from_here = self.n_done
        stop, thin = min(from_here + (chunk or self._chunk), end), self.plan.thin
        first, last = (-(-(i - start) // thin) for i in (self.n_done, stop))
        rows = last - first if len(recording.constrained) else None

        began, used = time.perf_counter(), self._processor_seconds()
        if warming_up and warmup and warmup.prepare:
            self.state = warmup.prepare(self.density, self.state)
        draws, stats, done = self._run(start, self.n_done, stop, warming_up, rows)
        with self._recording:
            if self.abandoned:
                return
            self.stopped = done < stop or self._only_failures()
            stats, until = stats[: done - self.n_done], start + first * thin - self.n_done
            if (thin > 1 or self.pause != NEVER) and not warming_up:
                every_iteration.add(self.totals, stats, self.stat_names, self.settings)
            self.n_done = done
            kept = stats[until::thin]
            self._record(recording, draws[: len(kept)], kept)
            if warming_up and self.n_done == end and warmup is None:
                self.end_warmup()
            used, seconds = self._processor_seconds() - used, time.perf_counter() - began
            self._account(seconds, used, warming_up, done - from_here)
            if self.pausing and not self.waiting:
                next_block([self])

    def _processor_seconds(self) -> float:
        return time.thread_time() + self.thread_pool.processor_seconds

    def abandon(self) -> None:
        """Discard the chunk that another thread is running: the draws so far are final.

        That thread still uses the state of the chain, which therefore cannot be continued.
        """
        with self._recording:
            self.abandoned = True

    def _only_failures(self) -> bool:
        return bool(self.density.calls[FAILED_IN_A_ROW] >= FAILURES_BEFORE_STOP)

    def _run(self, start: int, t: int, stop: int, warming_up: bool, rows: int | None) -> tuple:
        """Run iterations and record some rows, and statistics of all; None records nothing."""
        iterations, rows = 0 if rows is None else stop - t, rows or 0
        if iterations > len(self._stats):
            self._stats = np.empty((iterations, len(self.stat_names)))
        if rows > len(self._draws):
            self._draws = np.empty((rows, self._width))
        draws, stats = self._draws[:rows], self._stats[:iterations]
        adapting = warming_up or self.sampler.adapts_forever
        span = Span(start, t, stop, self.iter_warmup, self.plan.thin)
        with running(self.sampler), self.thread_pool.running():
            self.state, done, accepted = self._advance(
                self.density, self.compiled_settings, self.state, self.rng, span, adapting,
                (draws, stats),
            )  # fmt: skip
        if done > t:
            self.acceptance_rate = accepted / (done - t)
        return draws, stats, done

    def _record(self, recording: Recording, draws: np.ndarray, stats: np.ndarray) -> None:
        rows = slice(recording.rows, recording.rows + len(draws))
        began = time.perf_counter()
        positions = np.ascontiguousarray(draws[:, : self.density.size])
        self.failed_quantities += recording.constrain(positions, recording.constrained[rows])
        self.constrain_seconds += time.perf_counter() - began
        recording.stats[rows] = stats
        log_jacobians = getattr(recording.constrain, "log_jacobians", None)
        mapped = log_jacobians(positions) if log_jacobians else None
        if mapped is not None:  # `lp` is that of the program's own coordinates
            recording.stats[rows, 0] -= mapped
        if recording.unconstrained is not None:
            recording.unconstrained[rows] = draws[:, : self.density.dim]
        recording.extra[rows] = draws[:, self.density.size :][:, : recording.extra.shape[1]]
        recording.rows = rows.stop

    def count_as_warmup(self, seconds: float, processor_seconds: float) -> None:
        """Add time that was spent on the chain outside it: by the clock, and of a processor."""
        self.warmup_seconds += seconds
        self.warmup_processor_seconds += processor_seconds

    def end_warmup(self) -> None:
        """Begin sampling, with the tuning as it is now."""
        self.iter_warmup, self.warming_up = self.n_done, False
        self.warmup.trim()
        self.failed_in_warmup = self.failed_quantities
        self.wait_for_review()
        with running(self.sampler):
            self.state = self.sampler.freeze(self.compiled_settings, self.state)
        # draws are constrained from now on, which may take much longer than moves
        self._chunk, self._pace = 1, np.inf
        self.warmup_calls[:] = self.density.calls[:3]
        self.density.calls[RECORDED_CALLS] = self.warmup_calls[:2].sum()

    def wait_for_review(self) -> None:
        """Set the iteration after which draws are looked at next, if they are once more."""
        review = self.sampler.warmup.review if self.sampler.warmup else None
        reviews = [self.iter_warmup + n for n in (review.after if review else ())]
        later = [iteration for iteration in reviews if iteration > self.n_done]
        self.pause = NEVER if self.thrown_away.iterations or not later else later[0]

    @property
    def sampled(self) -> Sampled:
        """What it has sampled so far."""
        diverging = self.totals[every_iteration.NAMES.index("diverging")]
        failed = self.calls["failed"] - int(self.warmup_calls[2])
        return Sampled(self.n_done - self.iter_warmup, int(diverging), failed)

    def throw_draws_away(self) -> None:
        """Return to warm-up; what the draws have cost counts as a part of it."""
        self.thrown_away = self.sampled
        self.n_done, self.warming_up = self.iter_warmup, True
        self.iter_warmup = self.plan.iter_warmup
        self.failed_quantities = self.failed_in_warmup
        self.totals[:] = 0.0
        self.sampling.rows = 0
        self.warmup.untrim()
        self.count_as_warmup(self.sampling_seconds, self.sampling_processor_seconds)
        self.sampling_seconds = self.sampling_processor_seconds = 0.0

    def recall_draws(self) -> None:
        """Take the draws back that were thrown away; there must be no others."""
        self.sampling.rows = self.plan.thinned(self.thrown_away.iterations)
        self.thrown_away = Sampled()

    def _account(
        self, seconds: float, processor_seconds: float, warming_up: bool, iterations: int
    ) -> None:
        if warming_up:
            self.count_as_warmup(seconds, processor_seconds)
        else:
            self.sampling_seconds += seconds
            self.sampling_processor_seconds += processor_seconds
        self._pace = seconds / max(iterations, 1)
        pace = CHUNK_SECONDS / max(seconds, 1e-6)
        largest = max(1, min(LARGEST_CHUNK, LARGEST_BUFFER // self._width))
        self._chunk = int(np.clip(self._chunk * min(pace, 4.0), 1, largest))

    @property
    def calls(self) -> dict[str, int]:
        """Evaluations so far: values, gradients, and those without a finite density."""
        names = {"values": VALUE_CALLS, "gradients": GRADIENT_CALLS, "failed": FAILED_CALLS}
        return {name: int(self.density.calls[column]) for name, column in names.items()}


def extra_size(design: ChainDesign, dim: int) -> int:
    """Return how many numbers per draw a sampler keeps in addition to position and statistics."""
    output = design.sampler.extra_output
    return output.size(design.settings, dim) if design.keep_extra and output else 0


# --- several chains -------------------------------------------------------------------------------


def advance_together(chains: list[Chain], chunk: int | None = None) -> None:
    """Pool the chains that wait, then advance every chain by a chunk, one after the other."""
    if any(chain.waiting for chain in chains):
        next_block(chains)
    for chain in chains:
        chain.advance(chunk)


class Keeper:
    """Callbacks between chunks, for checkpointing. The base class does nothing."""

    ended: Message | None = None  # why the run is to end, if it is

    def chunk_done(self, chain: Chain) -> None:
        """Respond to a chunk of a chain, in the chain's thread."""

    def pooled(self, chains: list[Chain]) -> None:
        """Respond when chains have learned from each other, before any of them continues."""


class Turns:
    """Chains of a run; each thread advances the one furthest behind."""

    def __init__(self, chains: list[Chain]) -> None:
        self._free, self._lock = list(chains), threading.Lock()
        self._taken: list[Chain] = []

    def take(self) -> Chain | None:
        """Return a chain that can advance and that no other thread has, or None."""
        with self._lock:
            ready = [chain for chain in self._free if not (chain.finished or chain.waiting)]
            if not ready:
                return None
            chain = min(ready, key=lambda chain: chain.n_done)
            self._free.remove(chain)
            self._taken.append(chain)
            return chain

    def give_back(self, chain: Chain) -> None:
        """Let other threads take a chain again."""
        with self._lock:
            self._taken.remove(chain)
            self._free.append(chain)

    def taken(self) -> list[Chain]:
        """Return the chains that threads have at the moment."""
        with self._lock:
            return list(self._taken)


def run(
    chains: list[Chain],
    parallel_chains: int,
    on_progress: Callable[[list[Chain]], Any] = lambda chains: None,
    chunk: int | None = None,
    keeper: Keeper | None = None,
) -> bool:
    """Advance every chain to its end, `parallel_chains` at a time.

    Chains take turns by chunks, so that all have about as many draws, whenever the run is stopped.
    Chains that learn from each other are pooled when all of them have reached the end of a block.
    Blocks that take about as long as a thread does to start run in the caller's, as they begin.
    After Ctrl-C each thread finishes its chunk if that takes less than 0.4 seconds. Otherwise the
    chunk is abandoned, since a single iteration may take minutes. Returns whether the run ended
    before its chains did.
    """
    keeper = keeper or Keeper()
    stop, turns = threading.Event(), Turns(chains)

    def work() -> None:
        while not stop.is_set() and (chain := turns.take()) is not None:
            try:
                chain.advance(chunk)
                if not chain.abandoned:
                    keeper.chunk_done(chain)
            finally:
                turns.give_back(chain)

    def begun(chains: list[Chain]) -> None:
        keeper.pooled(chains)
        if not keeper.ended and sum(chain.seconds_ahead for chain in chains) < BRIEF:
            Context().run(work)  # NumPy's settings for errors are those of a new thread, too

    interrupted, running = False, set()
    pool = ThreadPoolExecutor(parallel_chains)
    try:
        while not keeper.ended:
            if all(chain.waiting or chain.finished for chain in chains):
                on_progress(chains)
            else:
                running = {pool.submit(work) for _ in range(min(parallel_chains, len(chains)))}
                wait_for(running, lambda: on_progress(chains))
            if not any(chain.waiting for chain in chains):
                break
            next_block(chains, begun)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stop.set()
        pool.shutdown(wait=not interrupted, cancel_futures=True)
    if interrupted:
        _abandon_slow(running, turns)
    on_progress(chains)
    return not all(chain.finished for chain in chains)


def _abandon_slow(running: set[Future], turns: Turns) -> None:
    """Wait a moment for unfinished chunks, then abandon them; a second Ctrl-C ends the wait."""
    with contextlib.suppress(KeyboardInterrupt):
        wait(running, timeout=PATIENCE)
    for chain in turns.taken():
        chain.abandon()
