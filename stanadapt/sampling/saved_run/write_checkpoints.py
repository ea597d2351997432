"""While chains run, their states go to disk: every few seconds, and whenever they were pooled."""

import contextlib
import time
from collections.abc import Iterator

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.sampling.chain import Chain, Keeper
from stanadapt.sampling.saved_run.checkpoint import PHASES, checkpoint_of, summary_of
from stanadapt.sampling.saved_run.folder import KINDS, RunFolder

SECONDS = 5.0
# checkpoints may take this share of a chain's time
SHARE = 0.02
TOGETHER = "chains.npz"


class WriteCheckpoints(Keeper):
    """Writes each chain in its own thread, and all of them when they have been pooled.

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

    """

    def __init__(self, folder: RunFolder, chains: list[Chain], generation: int = 0) -> None:
        self.folder, self.generation = folder, generation
        self._number = {id(chain): number for number, chain in enumerate(chains)}
        self.trouble: list[str] = []
        self._due = [time.monotonic() + SECONDS] * len(chains)

    def chunk_done(self, chain: Chain) -> None:
        """Write a chain whose last checkpoint is some seconds old."""
        number = self._number[id(chain)]
        began = time.monotonic()
        if began < self._due[number]:
            return
        self.write(chain)
        took = time.monotonic() - began
        self._due[number] = time.monotonic() + max(SECONDS, took / SHARE)

    def write(self, chain: Chain) -> None:
        """Write one chain; what goes wrong ends no run, but is told at its end."""
        with self._remembered():
            flush(chain)
            name = chain_file(self._number[id(chain)])
            self.folder.write_arrays(name, checkpoint_of(chain, self.generation))

    def pooled(self, chains: list[Chain]) -> None:
        """Write all chains into one file: after a crash, either all go on from here or none."""
        self.generation += 1
        with self._remembered():
            self.write_together(chains)

    def write_together(self, chains: list[Chain]) -> None:
        """Write all chains into one file."""
        together: dict[str, np.ndarray] = {}
        for number, chain in enumerate(chains):
            flush(chain)
            arrays = checkpoint_of(chain, self.generation)
            together |= {f"{number}.{name}": array for name, array in arrays.items()}
        self.folder.write_arrays(TOGETHER, together)

    @contextlib.contextmanager
    def _remembered(self) -> Iterator[None]:
        try:
            yield
        except StanadaptError as error:
            self.trouble = [f"the run cannot be resumed from here: {error.message}"]
        else:
            self.trouble = []


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


def flush(chain: Chain) -> None:
    """Hand what a chain has recorded to the disk: a checkpoint must not count draws it lacks."""
    for phase in PHASES:
        for kind in KINDS:
            array = getattr(getattr(chain, phase), kind)
            if isinstance(array, np.memmap):
                array.flush()
