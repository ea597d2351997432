"""Data types shared by the engines of Stan's NUTS: each engine is a file with a function `run`."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from stanadapt.engine.console import PLAIN_SECONDS, Report, meanwhile, silent
from stanadapt.engine.plan import Plan
from stanadapt.errors import Message

# forms of the Euclidean metric, with CmdStan's names: a diagonal that is learned, or the identity
METRICS = ("diag_e", "unit_e")


class NutsSettings(NamedTuple):
    """Settings of Stan's NUTS, with Stan's names and defaults."""

    adapt_delta: float = 0.8
    max_treedepth: int = 10
    metric: str = "diag_e"


class NutsRun(NamedTuple):
    """The result of an engine."""

    column_names: list[str]  # Stan's dotted names, without the statistics
    # of shape (chain, warm-up and sampling, column)
    draws: np.ndarray
    statistics: np.ndarray  # columns in the order of `cmdstan_csv.STATISTICS`
    # one number per chain
    warmup_seconds: list[float]
    sampling_seconds: list[float]
    compile_seconds: float  # zero if nothing had to be compiled
    engine: str  # name and version
    remarks: tuple[Message, ...] = ()
    # the diagonal of each chain, shape (chain, coordinate); None if it is not known
    inverse_metric: np.ndarray | None = None


def dotted(names: Iterable[str]) -> list[str]:
    """Return names with indices as Stan's column names: "x[1,2]" becomes "x.1.2"."""
    return [name.replace("[", ".").replace(",", ".").rstrip("]") for name in names]


@contextlib.contextmanager
def counted(report: Report, text: str, plan: Plan, done: Callable[[], int]) -> Iterator[None]:
    """Report a text, and every ten seconds how many iterations of all chains are `done()`."""
    total = plan.chains * (plan.iter_warmup + plan.iter_sampling)

    def count(over: threading.Event) -> None:
        while not over.wait(PLAIN_SECONDS):
            report(f"{text}: {min(max(done(), 0), total):,} of {total:,} iterations")

    report(text)
    with contextlib.nullcontext() if report is silent else meanwhile(count):
        yield
