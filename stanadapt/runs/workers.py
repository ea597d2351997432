"""Chains on the workers of an executor: the loop of `chain.run`, without threads of this process.

A worker is given a chain's checkpoint and some seconds, and returns the next checkpoint with the
draws in between. The executor is one of Python's, or a client of Dask.
"""

import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import KINDS, Chain, ChainDesign, Keeper
from stanadapt.engine.warmup import next_block
from stanadapt.errors import StanadaptError
from stanadapt.runs.chains import Start, randomness
from stanadapt.runs.checkpoint import checkpoint_of, move_to, resumed
from stanadapt.runs.folder import PHASES
from stanadapt.runs.spec import RunSpec, require_sendable
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.target import Samplable, Target


def require_executor(given: Any) -> None:
    """Raise StanadaptError unless it is None, an executor, or a client of Dask."""
    if given is not None and not callable(getattr(given, "submit", None)):
        raise StanadaptError(
            "not_an_executor",
            "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(), or a "
            f"client of Dask; got {given!r}.",
        )


def as_executor(given: Any) -> Executor:
    """Return an executor whose futures are Python's; a client of Dask has its own."""
    require_executor(given)
    # "pure": a slice that is sent again is to be computed again
    return given.get_executor(pure=False) if hasattr(given, "get_executor") else given


class Slice(NamedTuple):
    """What a worker returns: the new checkpoint, and by phase and kind the rows recorded."""

    held: dict[str, np.ndarray]
    rows: dict[str, dict[str, np.ndarray]]


# runs for which a worker keeps the chains
KEPT = 4


class Reference:
    """The program under prior-only data, the reference of a tempering sampler, if there are such.

    It is kept as long as the chains that hold its handle, which is 0 without it.
    """

    def __init__(self, target: Target, data: str | None) -> None:
        self.handle = 0
        if data is not None:
            self._target = target.with_prior_data(data)
            self._density = self._target.density()
            self.handle = self._density.handle


class Made(NamedTuple):
    """Objects that a worker has made for a run, and whether it has compiled the sampler."""

    start: Start
    design: ChainDesign
    reference: Reference
    compiled: threading.Event


_made: OrderedDict[str, Made] = OrderedDict()
_lock = threading.Lock()


def made_for(key: str, spec: RunSpec | None) -> Made | None:
    """Return the target and the design of a run; made once in each process.

    None if they are not made yet, and `spec` is not given.

    Raises StanadaptError if this worker has another version of the package or of the sampler, or
    cannot make the target.
    """
    with _lock:
        if key not in _made:
            if spec is None:
                return None
            _made[key] = _make(spec)
            while len(_made) > KEPT:
                _made.popitem(last=False)
        _made.move_to_end(key)
        return _made[key]


def _make(spec: RunSpec) -> Made:
    here = version("stanadapt")
    if here != spec.stanadapt:
        raise StanadaptError(
            "worker_version",
            f"a worker has stanadapt {here}, the run {spec.stanadapt}: install the same version.",
        )
    spec.find_sampler()  # the quickest to fail
    target = spec.make_target()
    nowhere = [np.zeros(target.dim)] * spec.plan.chains  # a checkpoint has the positions
    start, reference = Start.free(target, nowhere, {}), Reference(target.target, spec.prior_data)
    return Made(start, spec.make_design(target.target), reference, threading.Event())


def advance_slice(
    key: str, spec: RunSpec | None, number: int, held: dict[str, np.ndarray], seconds: float
) -> Slice | None:
    """Advance a chain for some seconds, or until it is done or waits for the others.

    Runs on a worker. It depends on its arguments alone: name and description of the run, number of
    the chain and its checkpoint. If a worker is lost, another can be given the same; one that lacks
    a description that was left out answers None. Compilation is not counted, neither here nor as
    time of the chain.
    """
    if (made := made_for(key, spec)) is None:
        return None
    start, design, reference, compiled = made
    resume = partial(resumed, held, start, design, number=number, prior_handle=reference.handle)
    if not compiled.is_set():
        # on a chain for this alone: compiling may draw random numbers and change arrays in place
        resume(source=randomness(design.plan)[number]).compile()
        compiled.set()
    chain = resume(source=randomness(design.plan)[number])
    before = {phase: getattr(chain, phase).rows for phase in PHASES}
    chain.advance(1)  # also in a slice of no time
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


def follow(chain: Chain, done: Slice, prior_handle: int) -> None:
    """Put a chain into the state to which a worker has taken it."""
    for phase, kinds in done.rows.items():
        recording = getattr(chain, phase)
        for kind, rows in kinds.items():
            getattr(recording, kind)[recording.rows : recording.rows + len(rows)] = rows
    # only now do they count: Ctrl-C may come at any time
    move_to(chain, done.held, prior_handle)


# seconds of the first slice of a chain, and the most of later ones, each twice as long as the one
# before
SLICES = (1.0, 20.0)
# number of workers that try a slice before the run ends
TRIES = 3
PAUSE = 0.1  # seconds between two looks at what has been done


def unguarded_script(main: Any = None) -> str:
    """Say that the script starts processes when these import it, as they do; "" if it does not."""
    file = getattr(main or sys.modules["__main__"], "__file__", None)
    try:
        text = Path(file).read_text(encoding="utf-8") if file else "__main__"
    except (OSError, UnicodeError):
        return ""
    if "__main__" in text or "ProcessPool" not in text:
        return ""
    return (
        f"each worker imports {Path(str(file)).name}, which then starts workers again: put the "
        'statements of the script below `if __name__ == "__main__":`.'
    )


def submit(executor: Any, function: Callable, *arguments: Any) -> Future:
    """Send work to an executor; the future of one that takes none has its error."""
    try:
        return executor.submit(function, *arguments)
    except RuntimeError as error:  # it was shut down, or is broken
        future: Future = Future()
        future.set_exception(error)
        return future


def workers_failed(error: Exception) -> StanadaptError:
    """Return the error of a run or a study whose workers raised another one, or died."""
    why = f"{type(error).__name__}: {str(error).rstrip('.')}"
    return StanadaptError(
        "workers_failed",
        (isinstance(error, BrokenProcessPool) and unguarded_script())
        or f"the workers of the executor failed: {why}. What is kept in a folder (`run`) can be "
        "continued with other workers.",
    )


class RunOnWorkers:
    """Advances chains by slices of time on an executor's workers.

    The chains here are moved to each checkpoint that comes back, so that pooling, progress and
    run folders work as with threads. What a worker was doing when it was lost is done again.
    `slices` are the seconds of the first slice of a chain, and the most of later ones.
    """

    def __init__(
        self, executor: Any, target: Samplable, spec: RunSpec, slices: tuple[float, float] = SLICES
    ) -> None:
        require_sendable(target, spec)
        self._executor, self._slices = as_executor(executor), slices
        # by which a worker finds the objects that it made for this run
        self._key, self._spec = secrets.token_hex(8), spec
        # in this process, if it is the program under other data
        self._reference = Reference(target.target, spec.prior_data)
        self.name = type(executor).__name__
        self._chains: list[Chain] = []
        self._running: dict[Future, int] = {}
        self._seconds: list[float] = []
        self._tries: list[int] = []
        self._sent: set[int] = set()  # chains with which the description was sent
        self.trouble: StanadaptError | None = None  # why the run ended early: the error of a worker

    def run(
        self, chains: list[Chain], on_progress: Callable[[list[Chain]], Any], keeper: Keeper
    ) -> bool:
        """Advance every chain to its end; return whether the run ended before.

        Raises StanadaptError if workers fail before there is a draw.
        """
        self._chains, self._seconds = chains, [self._slices[0]] * len(chains)
        self._tries = [0] * len(chains)
        try:
            while not keeper.ended and self._advanced(on_progress, keeper):
                if not any(chain.waiting for chain in chains):
                    break
                next_block(chains, keeper.pooled)
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
        data, known = self._spec.data, number in self._sent
        omitted = known and isinstance(data, CheckedData) and data.is_large
        self._sent.add(number)
        work = advance_slice, self._key, None if omitted else self._spec, number, held, seconds
        self._running[submit(self._executor, *work)] = number

    def _taken(self, number: int, future: Future) -> bool:
        """Move a chain to where its worker has taken it; return False if no worker can.

        A chain of a lost worker keeps its state.
        """
        try:
            done = future.result()
        except StanadaptError as error:
            self.trouble = error
        except Exception as error:
            self._tries[number] += 1
            if not isinstance(error, BrokenExecutor) and self._tries[number] < TRIES:
                return True
            self.trouble = workers_failed(error)
        else:
            if done is None:
                self._sent.discard(number)
                return True
            follow(self._chains[number], done, self._reference.handle)
            self._tries[number] = 0
            self._seconds[number] = min(2.0 * self._seconds[number], self._slices[1])
            return True
        return False
