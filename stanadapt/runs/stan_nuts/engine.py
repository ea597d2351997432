"""Data types shared by the engines of Stan's NUTS: each engine is a file with a function `run`."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stanadapt.errors import Message

# Stan's name of each sampler statistic, ArviZ's name, and its type
STATISTICS = {
    "lp__": ("lp", np.float64),
    "accept_stat__": ("acceptance_rate", np.float64),
    "stepsize__": ("step_size", np.float64),
    "treedepth__": ("tree_depth", np.int64),
    "n_leapfrog__": ("n_steps", np.int64),
    "divergent__": ("diverging", bool),
    "energy__": ("energy", np.float64),
}


class NutsSettings(NamedTuple):
    """Settings of Stan's NUTS, with Stan's names and defaults."""

    adapt_delta: float = 0.8
    max_treedepth: int = 10


class NutsRun(NamedTuple):
    """The result of an engine.

    column_names
        Stan's dotted names, without the statistics.
    draws, statistics
        Arrays of shape (chain, warm-up and sampling, column); the columns of the statistics are in
        the order of STATISTICS.
    warmup_seconds, sampling_seconds
        One number per chain.
    compile_seconds
        Zero if nothing had to be compiled.
    engine
        Name and version of the engine.
    remarks
        Messages for the user.

    """

    column_names: list[str]
    draws: np.ndarray
    statistics: np.ndarray
    warmup_seconds: list[float]
    sampling_seconds: list[float]
    compile_seconds: float
    engine: str
    remarks: tuple[Message, ...] = ()


def dotted(names: Iterable[str]) -> list[str]:
    """Return names with indices as Stan's column names: "x[1,2]" becomes "x.1.2"."""
    return [name.replace("[", ".").replace(",", ".").rstrip("]") for name in names]
