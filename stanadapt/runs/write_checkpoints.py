"""While chains run, their states go to disk every few seconds, written by a thread of its own."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stanadapt.engine.chain import Chain, Keeper
from stanadapt.runs.checkpoint import checkpoint_of, summary_of
from stanadapt.runs.folder import RunFolder

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
