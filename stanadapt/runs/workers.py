"""Chains run elsewhere: the loop of `chain.run`, with an executor's workers in place of threads.

What users may give as `executor`: one of Python's, or a client of Dask.

A slice of a chain's time, spent by a worker: from one checkpoint to the next.
"""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign, Keeper, pool_chains
from stanadapt.errors import StanadaptError
from stanadapt.runs.chains import randomness
from stanadapt.runs.checkpoint import checkpoint_of, move_to, resumed
from stanadapt.runs.folder import KINDS, PHASES
from stanadapt.runs.progress import Watch
from stanadapt.runs.spec import Prior, Recipe, made, recipe_of
from stanadapt.targets.target import Samplable


def require_executor(given: Any) -> None:
    """Raise StanadaptError unless it is None, an executor, or a client of Dask."""
    if given is not None and not callable(getattr(given, "submit", None)):
        raise StanadaptError(
            "settings",
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(), or a "
            f"client of Dask; got {given!r}.",
        )


def as_executor(given: Any) -> Executor:
    """Return an executor whose futures are Python's: those of a client of Dask are its own."""
    require_executor(given)
    # "pure": a slice that is sent again is to be computed again
    return given.get_executor(pure=False) if hasattr(given, "get_executor") else given


class Slice(NamedTuple):
    """What a worker returns: the new checkpoint, and by phase and kind the rows recorded."""

    held: dict[str, np.ndarray]
    rows: dict[str, dict[str, np.ndarray]]


def carry_on(recipe: Recipe, number: int, held: dict[str, np.ndarray], seconds: float) -> Slice:
    """Advance a chain for some seconds, or until it is done or waits for the others.

    Runs on a worker. It depends on its arguments alone: where a worker is lost, another may be
    given the same.

    Parameters
    ----------
    recipe
        Of the run.
    number
        Of the chain, 0, 1, ...
    held
        Its checkpoint.
    seconds
        How long; compilation is not counted.

    """
    start, design, prior = made(recipe)
    source, handle = randomness(design.plan)[number], prior.handle if prior else 0
    chain = resumed(held, start, design, source, number, handle)
    before = {phase: getattr(chain, phase).rows for phase in PHASES}
    chain.advance(1)  # compiles, where this has not been done
    end = time.monotonic() + seconds
    while not (chain.finished or chain.waiting) and time.monotonic() < end:
        chain.advance()
    rows = {phase: _rows(getattr(chain, phase), first) for phase, first in before.items()}
    return Slice(checkpoint_of(chain, 0), rows)


def _rows(recording: Any, first: int) -> dict[str, np.ndarray]:
    arrays = {kind: getattr(recording, kind) for kind in KINDS}
    return {
        kind: np.ascontiguousarray(array[first : recording.rows])
        for kind, array in arrays.items()
        if array is not None
    }


def follow(chain: Chain, found: Slice, prior_handle: int) -> None:
    """Bring a chain to where a worker has taken it."""
    for phase, kinds in found.rows.items():
        recording = getattr(chain, phase)
        for kind, rows in kinds.items():
            getattr(recording, kind)[recording.rows : recording.rows + len(rows)] = rows
    # only now do they count: Ctrl-C may come at any time
    move_to(chain, found.held, prior_handle)


# of the first slice of a chain, and of later ones, each twice as long as the one before
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 20.0
# a slice is given to so many workers before the run ends
TRIES = 3
PAUSE = 0.1  # seconds between two looks at what has been done


class RunOnWorkers:
    """Advances chains by slices of time on an executor's workers.

    The chains here are moved to each checkpoint that comes back, so that pooling, progress and
    run folders work as with threads. What a worker was doing when it was lost is done again.

    Parameters
    ----------
    executor
        As `sample` takes it.
    recipe
        Of the run.
    prior
        The reference in this process, where it is the program under other data.

    Attributes
    ----------
    name
        Of the executor's class.
    trouble
        Why the run ended early: what a worker raised.

    """

    def __init__(self, executor: Any, recipe: Recipe, prior: Prior | None = None) -> None:
        self._executor = as_executor(executor)
        self._recipe, self._prior = recipe, prior
        self.name = type(executor).__name__
        self._chains: list[Chain] = []
        self._running: dict[Future, int] = {}
        self._seconds: list[float] = []
        self._tries: list[int] = []
        self.trouble: StanadaptError | None = None

    def run(
        self, chains: list[Chain], on_progress: Callable[[list[Chain]], Any], keeper: Keeper
    ) -> bool:
        """Advance every chain to its end; return whether the run ended before.

        Raises
        ------
        StanadaptError
            Where workers fail before there is a draw.

        """
        self._chains, self._seconds = chains, [FIRST_SECONDS] * len(chains)
        self._tries = [0] * len(chains)
        try:
            while self._advanced(on_progress, keeper):
                together = [chain for chain in chains if chain.waiting]
                if not together:
                    break
                pool_chains(together)
                keeper.pooled(chains)
        except KeyboardInterrupt:
            pass
        finally:
            for future in self._running:
                future.cancel()
            self._running = {}
        if self.trouble is not None and not any(chain.sampling.rows for chain in chains):
            raise self.trouble
        on_progress(chains)
        return not all(chain.finished for chain in chains)

    def _advanced(self, on_progress: Callable[[list[Chain]], Any], keeper: Keeper) -> bool:
        """Advance chains until all are done or wait; return False if that failed."""
        for number, chain in enumerate(self._chains):
            if not (chain.finished or chain.waiting):
                self._submit(number)
        while self._running:
            done, _ = wait(self._running, timeout=PAUSE, return_when=FIRST_COMPLETED)
            for future in done:
                number = self._running.pop(future)
                if not self._taken(number, future):
                    return False
                chain = self._chains[number]
                keeper.chunk_done(chain)
                if not (chain.finished or chain.waiting):
                    self._submit(number)
            on_progress(self._chains)
        return True

    def _submit(self, number: int) -> None:
        held, seconds = checkpoint_of(self._chains[number], 0), self._seconds[number]
        try:
            future = self._executor.submit(carry_on, self._recipe, number, held, seconds)
        except RuntimeError as error:  # it was shut down, or is broken
            future = Future()
            future.set_exception(error)
        self._running[future] = number

    def _taken(self, number: int, future: Future) -> bool:
        """Move a chain to where its worker has taken it; return False if no worker can.

        A chain whose worker was lost stays where it was.
        """
        try:
            found = future.result()
        except StanadaptError as error:
            self.trouble = error
        except Exception as error:
            self._tries[number] += 1
            if not isinstance(error, BrokenExecutor) and self._tries[number] < TRIES:
                return True
            self.trouble = StanadaptError(
                "sampling",
                f"the workers of the executor failed: {type(error).__name__}: {error}. A run "
                "that is kept in a folder (`run`) can be resumed with other workers.",
            )
        else:
            follow(self._chains[number], found, self._prior.handle if self._prior else 0)
            self._tries[number] = 0
            self._seconds[number] = min(2.0 * self._seconds[number], LONGEST_SECONDS)
            return True
        return False


def on_workers(
    executor: Any, target: Samplable, design: ChainDesign, prior_data: str | None
) -> RunOnWorkers | None:
    """Return what runs chains on an executor's workers; None without an executor."""
    if executor is None:
        return None
    prior = None if prior_data is None else Prior(target.target, prior_data)
    return RunOnWorkers(executor, recipe_of(target, design, prior_data), prior)


def outcome(
    watch: Watch, workers: RunOnWorkers | None, interrupted: bool, known: dict[str, Any]
) -> dict[str, Any]:
    """Attributes on the end of a run, and on who has run it."""
    notes = [*known.get("notes", ())]
    if workers is None:
        return watch.outcome(interrupted, notes)
    if workers.trouble is not None:
        notes.append(f"the run ended early. {workers.trouble.message}")
    return {**watch.outcome(interrupted, notes), "executor": workers.name}
