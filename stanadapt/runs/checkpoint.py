"""Checkpoints: the complete state of a chain between two chunks of iterations.

While chains run, a separate thread writes their states to disk every few seconds.
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
from stanadapt.errors import Message, StanadaptError
from stanadapt.runs.chains import Randomness, Start, make_chain
from stanadapt.runs.folder import PHASES, RunFolder
from stanadapt.runs.tree import Fresh, packed, unpacked

COUNTS = (
    "n_done", "stopped", "acceptance_rate", "iter_warmup", "warming_up", "pause",
    "warmup_seconds", "sampling_seconds", "warmup_processor_seconds", "sampling_processor_seconds",
    "constrain_seconds", "failed_quantities", "warmup_calls", "totals",
    "failed_in_warmup", "thrown_away",
)  # fmt: skip
SUMMARY = "summary"


class Checkpoint(NamedTuple):
    counts: dict[str, Any]  # attributes of `Chain` that are numbers
    rng: dict[str, Any]  # state of its random number generator
    # counters of its density, and the last position without a finite density
    calls: np.ndarray
    failed_position: np.ndarray
    rows: dict[str, int]  # number of draws recorded in each phase
    quantities: dict[str, Any]  # state of the constrainer in each phase
    progress: Any  # of a pooled warm-up
    state: Any  # of the sampler


def checkpoint_of(chain: Chain, generation: int) -> dict[str, np.ndarray]:
    """Return arrays from which `resumed` builds an equal chain; the chain must not be moving.

    generation is the number of times that chains have been pooled. `summary_of` reads it, and the
    progress of the chain, without the rest.
    """
    recordings: Any = {phase: getattr(chain, phase) for phase in PHASES}
    rows = {phase: recording.rows for phase, recording in recordings.items()}
    summary = {
        "generation": generation, "rows": rows, "done": chain.n_done, "total": chain.n_total,
        "stopped": bool(chain.stopped), "warming_up": bool(chain.warming_up),
        "totals": chain.totals.tolist(),
    }  # fmt: skip
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


def summary_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Progress of a chain: generation, rows by phase, done, total, stopped, warming_up."""
    try:
        return json.loads(arrays[SUMMARY].tobytes())
    except (KeyError, ValueError) as error:
        raise StanadaptError("run_unreadable", f"a checkpoint cannot be read: {error!r}.") from None


def resumed(
    arrays: dict[str, np.ndarray], start: Start, design: ChainDesign, source: Randomness,
    number: int, prior_handle: int = 0,
) -> Chain:  # fmt: skip
    """Return the chain of a checkpoint, without its recorded draws, which the caller adds.

    All but the arrays and the handle of the program under prior-only data are the arguments with
    which the chain was made; `design.plan` may have more iterations.
    """
    checkpoints: list[Checkpoint] = []

    def init(density: Any, settings: Any, position: np.ndarray, rng: Any) -> Any:
        checkpoints.append(unpacked(arrays, Fresh(density, prior_handle)))
        return checkpoints[0].state

    chain = make_chain(start, design._replace(init=init), source, number)
    _set(chain, checkpoints[0])
    return chain


def move_to(chain: Chain, arrays: dict[str, np.ndarray], prior_handle: int = 0) -> None:
    """Bring a chain to a checkpoint that another process has made of it."""
    _set(chain, unpacked(arrays, Fresh(chain.density, prior_handle)))


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


SECONDS, SHARE = 5.0, 0.02  # of `WriteCheckpoints`
TOGETHER = "chains.npz"


class WriteCheckpoints(Keeper):
    """Copies the states of chains in their threads, and writes them in a separate thread.

    The file of a single chain counts only if it was written after the last pooling: chains that
    learn from each other must all continue from the same pooling. `generation` is the number of
    times that they have been pooled. Between two checkpoints of a chain there are at least some
    seconds, and checkpoints take no more than a share of a processor's time.
    """

    def __init__(
        self,
        folder: RunFolder,
        chains: list[Chain],
        generation: int = 0,
        seconds: float = SECONDS,
        share: float = SHARE,
    ) -> None:
        self.folder, self.generation = folder, generation
        self._least, self._share = seconds, share
        self._number = {id(chain): number for number, chain in enumerate(chains)}
        # why the last attempt to write failed: one message or none
        self.trouble: list[Message] = []
        self._due = [time.monotonic() + seconds] * len(chains)
        self._seconds = 0.0  # processor time of the last write
        self._lock = threading.Lock()
        # arrays to be written, by file name; a newer checkpoint replaces an older one
        self._waiting: dict[str, Mapping[str, np.ndarray]] = {}
        # states of all chains at the last pooling, until they are written
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
        """Return when a checkpoint that took these seconds to copy is due again."""
        return time.monotonic() + max(self._least, (seconds + self._seconds) / self._share)

    def write(self, chain: Chain) -> None:
        """Schedule the writing of one chain; a failure does not end the run, but is recorded."""
        with self._recorded_trouble():
            self._hand_over(chain_file(self._number[id(chain)]), self.state_of(chain))

    def state_of(self, chain: Chain) -> dict[str, np.ndarray]:
        return checkpoint_of(chain, self.generation)

    def pooled(self, chains: list[Chain]) -> None:
        """Schedule the writing of all chains into one file, so that they resume together.

        It is written once a chain is due, so frequent poolings cost little and a crash loses only a
        few seconds. If draws are to begin again, it is written now, since new draws take the place
        of those that earlier states count; the run ends if that fails.
        """
        self.generation += 1
        replaced = any(chain.warming_up and chain.thrown_away.iterations for chain in chains)
        with self._recorded_trouble():
            began = time.thread_time()
            self._together = self._states(chains)
            if replaced or time.monotonic() >= min(self._due):
                self._hand_over()
                self._due = [self._next(time.thread_time() - began)] * len(chains)
            if replaced:
                self._writer.submit(int).result()  # the one writer has then written it
        if replaced and self.trouble:
            text = "sampling ended before its draws began again with shorter steps, since the run "
            self.ended = Message("ended_early", text + "folder could not be written.")

    def write_together(self, chains: list[Chain]) -> None:
        """Write all chains into one file now; StanadaptError, stage "files", if that fails."""
        self.folder.write_arrays(TOGETHER, self._states(chains))

    def _states(self, chains: list[Chain]) -> dict[str, np.ndarray]:
        states = enumerate(map(self.state_of, chains))
        return {f"{i}.{name}": array for i, state in states for name, array in state.items()}

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Exclude other writers while the body runs chains, then write everything scheduled."""
        with self.folder.lock():
            try:
                yield
            finally:
                self.finish()

    def finish(self) -> None:
        """Wait until everything scheduled is written; ignore later requests."""
        with self._lock:
            self._finished = True
        self._writer.shutdown()

    def _hand_over(self, name: str = "", arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Schedule a file; the file of all chains, if it is due, comes first so that both count."""
        with self._lock:
            if self._finished:  # an abandoned chain comes too late
                return
            if self._together is not None:
                self._waiting[TOGETHER], self._together = self._together, None
            if arrays is not None:
                self._waiting[name] = arrays
            self._writer.submit(self._write_waiting)

    def _write_waiting(self) -> None:
        with self._lock:
            files, self._waiting = self._waiting, {}
        if not files:  # an earlier call has written them
            return
        began = time.thread_time()
        with self._recorded_trouble():
            try:
                self.folder.flush()  # a checkpoint must not count draws that the disk lacks
                for name in list(files):
                    self.folder.write_arrays(name, files[name])
                    del files[name]
            finally:
                # other files are tried again: without the states of all chains at the last pooling,
                # no later file of a chain counts
                with self._lock:
                    self._waiting = {**files, **self._waiting}
                    all_written = not self._waiting
            if all_written:
                self.trouble = []
        self._seconds = time.thread_time() - began

    @contextlib.contextmanager
    def _recorded_trouble(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # no error here may cost the draws
            reason = getattr(error, "message", f"{type(error).__name__}: {error}")
            text = f"the run cannot be resumed from here: {reason}"
            self.trouble = [Message("checkpoint_failed", text)]


def chain_file(number: int) -> str:
    """Name of a chain's file; chains count from 0, files from 1."""
    return f"chain_{number + 1}.npz"


def newest(folder: RunFolder, chains: int) -> list[dict[str, np.ndarray]]:
    """Return the last checkpoint of each chain that was written after the last pooling."""
    whole, last = folder.read_arrays(TOGETHER), []
    for number in range(chains):
        prefix = f"{number}."
        last.append({n.removeprefix(prefix): a for n, a in whole.items() if n.startswith(prefix)})
    for number, together in enumerate(last):
        if (folder.path / chain_file(number)).exists():
            later = folder.read_arrays(chain_file(number))
            if summary_of(later)["generation"] == summary_of(together)["generation"]:
                last[number] = later
    return last
