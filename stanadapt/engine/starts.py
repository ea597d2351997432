"""How chains begin, if not as their sampler would: what `sample` takes for it.

An earlier fit, `warm_start`, serves every sampler. A family whose samplers can begin from something
else, such as a trained network, registers a keyword of `sample` for it:

    register_start("network", StartOption(chain_init=begin_with_network, used_by=has_network))

It does so in a file without compiled code, so that an edit recompiles nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import Message


class Cost(NamedTuple):
    """What it cost to find out how chains begin; it counts as warm-up."""

    # numbers of values, gradients and failures, shape (3,)
    calls: np.ndarray = np.zeros(3, np.int64)
    # seconds, processor_seconds, compile_seconds: time by the clock, processor time of all threads,
    # and time of compilation
    seconds: float = 0.0
    processor_seconds: float = 0.0
    compile_seconds: float = 0.0


class ChainInit(NamedTuple):
    """How every chain begins."""

    init: Callable | None  # used in place of the sampler's own `init`, unless it is None
    description: dict[str, Any]  # attributes of the result
    # JSON: states hold the handle of the program under these data; see `PRIOR_HANDLES`
    prior_data: str | None = None
    cost: Cost = Cost()  # of the preparation
    notes: tuple[Message, ...] = ()  # of the result


class StartOption(NamedTuple):
    """A keyword of `sample` from which chains of some samplers begin."""

    # (target, sampler, settings, plan, given) -> `ChainInit`. Raises StanadaptError if chains
    # cannot begin from what is given.
    chain_init: Callable[[Any, Any, Any, Any, Any], ChainInit]
    used_by: Callable[[Any], Any]  # (sampler) -> whether it can begin from this
    users: str = ""  # what these samplers are called, for messages; "" for their names alone
    # (given) -> whether it is the file or the run folder of a fit, to be read first
    is_fit_file: Callable[[Any], bool] = lambda given: False
    # whether `warm_start` may be given too: chains then start at its draws
    joins_warm_start: bool = False
    # (fit) -> what the fit in `warm_start` was given under this keyword, to be used again if
    # nothing else is given; or None
    kept: Callable[[Any], Any] | None = None
    # (target, source, **options) -> what `sample` would make of a source, for users who want to see
    # it first; None if there is nothing to make
    make: Callable[..., Any] | None = None
    # (target) -> something to give for a target, with which `stanadapt compile` compiles what
    # chains then begin with; None if that is compiled for another keyword
    trial: Callable[[Any], Any] | None = None


# options by their keyword
START_OPTIONS: dict[str, StartOption] = {}  # of the families that are imported

# classes of a state that hold the handle of the program under `ChainInit.prior_data`, and the name
# of the field; a process that reads the state puts its own handle there
PRIOR_HANDLES: dict[type, str] = {}


def register_start(keyword: str, option: StartOption) -> None:
    """Let `sample` take a keyword from which chains begin."""
    START_OPTIONS[keyword] = option
