"""A slice of a chain's time, spent by a worker: from one checkpoint to the next."""

import time
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain
from stanadapt.runs.checkpoint import PHASES, checkpoint_of, move_to, resumed
from stanadapt.runs.folder import KINDS
from stanadapt.runs.make_chains import randomness
from stanadapt.runs.worker_recipe import Recipe, made


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
