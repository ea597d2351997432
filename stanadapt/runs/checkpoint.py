"""One chain between two chunks of iterations: all that decides how it goes on."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.chain import Chain, ChainDesign
from stanadapt.errors import StanadaptError
from stanadapt.runs.make_chains import Randomness, Start, make_chain
from stanadapt.runs.tree import Fresh, packed, unpacked

COUNTS = (
    "n_done", "stopped", "acceptance_rate", "iter_warmup", "warming_up", "pause",
    "warmup_seconds", "sampling_seconds", "warmup_processor_seconds", "sampling_processor_seconds",
    "constrain_seconds", "failed_quantities", "warmup_calls",
)  # fmt: skip
PHASES = ("warmup", "sampling")
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
            {phase: recording.constrain.held() for phase, recording in recordings.items()},
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
