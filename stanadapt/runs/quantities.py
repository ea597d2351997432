"""The columns of a program at given positions, in chunks that Ctrl-C and a time limit can end.

Priors, predictions, and draws of programs without parameters are computed here.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stanadapt.engine.chain import CHUNK_SECONDS, LARGEST_CHUNK
from stanadapt.engine.console import status
from stanadapt.engine.interrupts import in_threads
from stanadapt.engine.plan import LARGEST_SEED, usable_cores
from stanadapt.errors import Message
from stanadapt.runs.failures import quoted
from stanadapt.targets.constrainer import BLOCK
from stanadapt.targets.target import Target

REPORTED = 5.0  # seconds between two lines of progress


class Computed(NamedTuple):
    """Columns of all chains; some rows may be missing, or have failed."""

    columns: np.ndarray  # shape (chain, draw, column)
    stopped: str  # why rows are missing; "" if none are
    failed: int  # rows in which computed quantities are NaN, because they threw
    stan: str  # Stan's message for one of these

    def failure(self, draws: str, remedy: str = "") -> list[Message]:
        """Return the note on these rows, if there are any, which are some of these draws."""
        if not self.failed:
            return []
        text = (
            f"transformed parameters or generated quantities failed at {self.failed} {draws}, and "
            f"are NaN there{quoted(self.stan)} {remedy}"
        )
        return [Message("failed_quantities", text.rstrip())]


def streams(seed: int, purpose: int, chains: int) -> list[int]:
    """Return a seed of Stan's generator for each chain; `purpose` distinguishes kinds of draws."""
    sources = np.random.SeedSequence([seed, purpose]).spawn(chains)
    return [int(source.generate_state(1)[0]) % LARGEST_SEED for source in sources]


def compute(
    target: Target,
    positions: Callable[[int, slice], np.ndarray],
    draws: int,
    seeds: Sequence[int],
    *,
    first: int = 0,
    max_minutes: float | None = None,
    threads: int | None = None,
    show_progress: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Computed:
    """Return the columns at the positions that a function gives by chain and rows.

    There is one seed per chain. Rows begin with `first`, as a computation that ended there would
    continue. Raises KeyboardInterrupt if no row is done; otherwise, the rows so far are returned.
    """
    chains = len(seeds)
    columns = np.empty((chains, draws - first, len(target.column_names)))
    constrainers = [target.constrainer(seed, chain) for chain, seed in enumerate(seeds)]
    for chain, constrain in enumerate(constrainers if first else ()):
        block = positions(chain, slice(first - first % BLOCK, first))
        constrain.resume({"row": first, "block": block, "failed_position": block[:0]})
    failed = np.zeros(chains, int)
    began, rows, size, stopped = clock(), first, 1, ""
    reported = began
    with status(show_progress) as report:
        try:
            while rows < draws and not stopped:
                part, started = slice(rows, min(rows + size, draws)), clock()

                def work(chain: int, part: slice = part) -> int:
                    own = np.ascontiguousarray(positions(chain, part))
                    out = columns[chain, part.start - first : part.stop - first]
                    return constrainers[chain](own, out)

                failed += in_threads(work, chains, threads=threads or usable_cores())
                rows, now = part.stop, clock()
                pace = CHUNK_SECONDS / max(now - started, 1e-6)
                size = int(np.clip(size * min(pace, 4.0), 1, LARGEST_CHUNK))
                if now - reported > REPORTED:
                    report(f"Computing quantities: {rows:,} of {draws:,} draws per chain")
                    reported = now
                if max_minutes is not None and now - began > 60.0 * max_minutes and rows < draws:
                    stopped = f"stopped after {max_minutes:g} minutes, the time limit"
        except KeyboardInterrupt:
            if rows == first:
                raise
            stopped = "interrupted"
    stan = ""
    if failed.any():
        stan = " ".join(constrainers[int(failed.argmax())].explain().split())
    return Computed(columns[:, : rows - first], stopped, int(failed.sum()), stan)
