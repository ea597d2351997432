"""One chain between two chunks of iterations: all that decides how it goes on.

While chains run, their states go to disk every few seconds, written by a thread of its own.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign, Keeper
from stanadapt.errors import StanadaptError
from stanadapt.runs.chains import Randomness, Start, make_chain
from stanadapt.runs.folder import PHASES, RunFolder
from stanadapt.runs.tree import Fresh, packed, unpacked

COUNTS = (
    "n_done", "stopped", "acceptance_rate", "iter_warmup", "warming_up", "pause",
    "warmup_seconds", "sampling_seconds", "warmup_processor_seconds", "sampling_processor_seconds",
    "constrain_seconds", "failed_quantities", "warmup_calls",
)  # fmt: skip
SUMMARY = "summary"


class Checkpoint(NamedTuple):
    """What is kept of a chain.

    counts
        Attributes of `Chain` that are numbers.
    rng
        State of its generator.
    calls, failed_position
        Of its density.
    rows
        By phase, how many draws have been recorded.
    quantities
        By phase, what its constrainer needs to go on.
    progress, state
        Of a pooled warm-up, and of the sampler.

    """

    counts: dict[str, Any]
    rng: dict[str, Any]
    calls: np.ndarray
    failed_position: np.ndarray
    rows: dict[str, int]
    quantities: dict[str, Any]
    progress: Any
    state: Any


def checkpoint_of(chain: Chain, generation: int) -> dict[str, np.ndarray]:
    """Return arrays from which `resumed` makes an equal chain; the chain must not be moving.

    generation is how often chains have been pooled. `summary_of` reads it, and how far the chain
    was, without the rest.
    """
    recordings: Any = {phase: getattr(chain, phase) for phase in PHASES}
    rows = {phase: recording.rows for phase, recording in recordings.items()}
    summary = {"generation": generation, "rows": rows, "done": chain.n_done}
    summary["total"] = chain.n_total
    summary |= {"stopped": bool(chain.stopped), "warming_up": bool(chain.warming_up)}
    arrays = packed(
        Checkpoint(
            {name: getattr(chain, name) for name in COUNTS},
            dict(chain.rng.bit_generator.state),
            chain.density.calls,
            chain.density.failed_position,
            rows,
            {phase: recording.constrain.state() for phase, recording in recordings.items()},
            chain.progress,
            chain.state,
        )
    )
    return {SUMMARY: np.frombuffer(json.dumps(summary).encode(), np.uint8), **arrays}


def summary_of(held: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """How far a chain was: generation, rows by phase, done, stopped, warming_up."""
    try:
        return json.loads(held[SUMMARY].tobytes())
    except (KeyError, ValueError) as error:
        raise StanadaptError("files", f"a checkpoint cannot be read: {error!r}.") from None


def resumed(
    held: dict[str, np.ndarray], start: Start, design: ChainDesign, source: Randomness,
    number: int, prior_handle: int = 0,
) -> Chain:  # fmt: skip
    """Return the chain of a checkpoint; what it had recorded is still to be given to it.

    Parameters
    ----------
    held
        From `checkpoint_of`.
    start, design, source, number
        As of the chain that was written; `design.plan` may have more iterations.
    prior_handle
        Handle of the program's model under prior-only data, where the chain tempers from it.

    """
    found: list[Checkpoint] = []

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        found.append(unpacked(held, Fresh(density, prior_handle)))
        return found[0].state

    chain = make_chain(start, design._replace(init=init), source, number)
    _set(chain, found[0])
    return chain


def move_to(chain: Chain, held: dict[str, np.ndarray], prior_handle: int = 0) -> None:
    """Bring a chain to a checkpoint of itself that another process has made."""
    _set(chain, unpacked(held, Fresh(chain.density, prior_handle)))


def _set(chain: Chain, checkpoint: Checkpoint) -> None:
    for name, value in checkpoint.counts.items():
        setattr(chain, name, value)
    chain.state, chain.progress = checkpoint.state, checkpoint.progress
    chain.rng.bit_generator.state = checkpoint.rng
    chain.density.calls[:] = checkpoint.calls
    chain.density.failed_position[:] = checkpoint.failed_position
    for phase in PHASES:
        recording: Any = getattr(chain, phase)
        recording.rows = checkpoint.rows[phase]
        recording.constrain.resume(checkpoint.quantities[phase])


SECONDS = 5.0
# of a processor's time that checkpoints may take
SHARE = 0.02
TOGETHER = "chains.npz"


class WriteCheckpoints(Keeper):
    """Takes down where chains are, in their own threads, and writes it in one of its own.

    A chain's own file counts only if it was written since the chains were pooled last: chains that
    learn from each other go on from the same pooling, or from none.

    Parameters
    ----------
    folder
        Of the run.
    chains
        In their order.
    generation
        How often they have been pooled.

    Attributes
    ----------
    trouble
        What the last attempt to write met with.

    """

    def __init__(self, folder: RunFolder, chains: list[Chain], generation: int = 0) -> None:
        self.folder, self.generation = folder, generation
        self._number = {id(chain): number for number, chain in enumerate(chains)}
        self.trouble: list[str] = []
        self._due = [time.monotonic() + SECONDS] * len(chains)
        self._seconds = 0.0  # of the processor, for the last that was written
        self._lock = threading.Lock()
        # by name of the file: what is to be written; a newer one takes the place of an older
        self._waiting: dict[str, Mapping[str, np.ndarray]] = {}
        # where all chains were when they were pooled last, until it is to be written
        self._together: Mapping[str, np.ndarray] | None = None
        self._writer, self._finished = ThreadPoolExecutor(1), False

    def chunk_done(self, chain: Chain) -> None:
        """Write a chain whose last checkpoint is some seconds old."""
        number = self._number[id(chain)]
        if time.monotonic() >= self._due[number]:
            began = time.thread_time()
            self.write(chain)
            self._due[number] = self._next(time.thread_time() - began)

    def _next(self, seconds: float) -> float:
        """Return when to write again what took these seconds to take down."""
        return time.monotonic() + max(SECONDS, (seconds + self._seconds) / SHARE)

    def write(self, chain: Chain) -> None:
        """Let one chain be written; what goes wrong ends no run, but is told at its end."""
        with self._remembered():
            self._hand_over(
                chain_file(self._number[id(chain)]), checkpoint_of(chain, self.generation)
            )

    def pooled(self, chains: list[Chain]) -> None:
        """Let all chains be written into one file: after a crash, all go on from here or none.

        Where they were pooled a moment ago, it waits until a chain is due: few seconds are lost.
        """
        self.generation += 1
        with self._remembered():
            began = time.thread_time()
            self._together = self._where(chains)
            if time.monotonic() >= min(self._due):
                self._hand_over()
                self._due = [self._next(time.thread_time() - began)] * len(chains)

    def write_together(self, chains: list[Chain]) -> None:
        """Write all chains into one file, at once; StanadaptError, stage "files", if that fails."""
        self.folder.write_arrays(TOGETHER, self._where(chains))

    def _where(self, chains: list[Chain]) -> dict[str, np.ndarray]:
        found = [checkpoint_of(chain, self.generation) for chain in chains]
        return {
            f"{i}.{name}": array for i, held in enumerate(found) for name, array in held.items()
        }

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While the body runs chains, no other process writes the folder; all is written after."""
        with self.folder.lock():
            try:
                yield
            finally:
                self.finish()

    def finish(self) -> None:
        """Return when all that was handed over has been written; nothing is from then on."""
        with self._lock:
            self._finished = True
        self._writer.shutdown()

    def _hand_over(self, name: str = "", arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Let a file be written, after the chains together, without which it does not count."""
        with self._lock:
            if self._finished:  # a chain that was abandoned comes too late
                return
            if self._together is not None:
                self._waiting[TOGETHER], self._together = self._together, None
            if arrays is not None:
                self._waiting[name] = arrays
            self._writer.submit(self._write_waiting)

    def _write_waiting(self) -> None:
        with self._lock:
            files, self._waiting = self._waiting, {}
        if not files:  # the call before this one has written them
            return
        began = time.thread_time()
        with self._remembered():
            self.folder.flush()  # a checkpoint must not count draws that the disk lacks
            for name, arrays in files.items():
                self.folder.write_arrays(name, arrays)
            self.trouble = []
        self._seconds = time.thread_time() - began

    @contextlib.contextmanager
    def _remembered(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever it is, it must not cost the draws
            said = getattr(error, "message", f"{type(error).__name__}: {error}")
            self.trouble = [f"the run cannot be resumed from here: {said}"]


def chain_file(number: int) -> str:
    """Name of the file of a chain; numbers count from 0, files from 1."""
    return f"chain_{number + 1}.npz"


def newest(folder: RunFolder, chains: int) -> list[dict[str, np.ndarray]]:
    """Return the last checkpoint of each chain.

    One that was written before the chains were pooled last does not count.
    """
    whole, found = folder.read_arrays(TOGETHER), []
    for number in range(chains):
        prefix = f"{number}."
        found.append({n.removeprefix(prefix): a for n, a in whole.items() if n.startswith(prefix)})
    for number, together in enumerate(found):
        if (folder.path / chain_file(number)).exists():
            own = folder.read_arrays(chain_file(number))
            if summary_of(own)["generation"] == summary_of(together)["generation"]:
                found[number] = own
    return found
