"""Data types shared by the engines of Stan's NUTS: each engine is a file with a function `run`."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stanadapt.errors import Message

# forms of the Euclidean metric, with CmdStan's names: a diagonal that is learned, or the identity
METRICS = ("diag_e", "unit_e")


class NutsSettings(NamedTuple):
    """Settings of Stan's NUTS, with Stan's names and defaults."""

    adapt_delta: float = 0.8
    max_treedepth: int = 10
    metric: str = "diag_e"


class NutsRun(NamedTuple):
    """The result of an engine.

    column_names
        Stan's dotted names, without the statistics.
    draws, statistics
        Arrays of shape (chain, warm-up and sampling, column); the columns of the statistics are in
        the order of `cmdstan_csv.STATISTICS`.
    warmup_seconds, sampling_seconds
        One number per chain.
    compile_seconds
        Zero if nothing had to be compiled.
    engine
        Name and version of the engine.
    remarks
        Messages for the user.
    inverse_metric
        The diagonal of each chain, shape (chain, coordinate); None if it is not known.

    """

    column_names: list[str]
    draws: np.ndarray
    statistics: np.ndarray
    warmup_seconds: list[float]
    sampling_seconds: list[float]
    compile_seconds: float
    engine: str
    remarks: tuple[Message, ...] = ()
    inverse_metric: np.ndarray | None = None


def dotted(names: Iterable[str]) -> list[str]:
    """Return names with indices as Stan's column names: "x[1,2]" becomes "x.1.2"."""
    return [name.replace("[", ".").replace(",", ".").rstrip("]") for name in names]
