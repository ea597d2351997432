"""How far a run is: what the function given as `on_progress` is told, and how it stops a run."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import Efficiency, efficiency
from stanadapt.engine.chain import Chain
from stanadapt.targets.target import Target, variable_name


class ChainProgress(NamedTuple):
    """One chain: iterations done and asked for, and what happened in them.

    draws
        Kept draws after warm-up.
    acceptance_rate
        Mean over the last chunk of iterations; NaN before the first.
    failed
        Evaluations without a finite density.
    divergences
        Among the kept draws; 0 for samplers without them.

    """

    n_done: int
    n_total: int
    warming_up: bool
    draws: int
    acceptance_rate: float
    failed: int
    divergences: int


class RunProgress:
    """What a run has done so far.

    Attributes
    ----------
    chains
        A `ChainProgress` each.
    seconds
        Since chains began to move: compilation is not counted.
    processor_seconds
        Spent on all chains so far, learning the scales included; what other programs take of the
        machine does not count.

    """

    def __init__(self, target: Target, chains: list[Chain], seconds: float) -> None:
        self._target, self._chains, self.seconds = target, chains, seconds
        self.processor_seconds = sum(
            chain.warmup_processor_seconds + chain.sampling_processor_seconds for chain in chains
        )
        self.chains = [_progress_of(chain) for chain in chains]
        self._found: Efficiency | None = None

    @property
    def draws(self) -> int:
        """Kept draws that every chain has."""
        return min(chain.draws for chain in self.chains)

    def smallest_ess(self) -> float:
        """Smallest bulk and tail effective sample size of the parameters; 0 before four draws.

        Computed when asked for, over all draws so far: not at each call where these are many.
        """
        found = self._efficiency()
        sizes = [*found.ess_bulk, *found.ess_tail] if found else []
        return float(np.min(sizes)) if sizes else 0.0

    def largest_r_hat(self) -> float:
        """Largest R-hat of the parameters; NaN before four draws, and of one chain."""
        found = self._efficiency()
        return float(np.max(found.r_hat)) if found and found.names else np.nan

    def _efficiency(self) -> Efficiency | None:
        if self._found is None and self.draws >= 4:
            self._found = efficiency(parameters_so_far(self._target, self._chains))
        return self._found


def _progress_of(chain: Chain) -> ChainProgress:
    rows, divergences = chain.sampling.rows, 0
    if "diverging" in chain.stat_names:
        divergences = int(chain.sampling.stats[:rows, chain.stat_names.index("diverging")].sum())
    return ChainProgress(
        chain.n_done, chain.n_total, chain.warming_up, rows, float(chain.acceptance_rate),
        chain.calls["failed"], divergences,
    )  # fmt: skip


def parameters_so_far(target: Target, chains: list[Chain]) -> dict[str, np.ndarray]:
    """Draws of each parameter that all chains have, shape (chain, draw), where all are finite."""
    rows = min(chain.sampling.rows for chain in chains)
    columns = {
        name: np.stack([chain.sampling.constrained[:rows, column] for chain in chains])
        for column, name in enumerate(target.column_names)
        if variable_name(name) in target.parameters
    }
    return {name: x for name, x in columns.items() if np.isfinite(x).all()}


class Watch:
    """Is called between chunks of a run; stops it when time is up, or the user's function says so.

    Parameters
    ----------
    target
        The program.
    on_progress
        Is given a `RunProgress` about ten times a second; the run ends if it returns True.
    max_minutes
        Of running, compilation not counted.

    Attributes
    ----------
    note
        Why the run was stopped; "" if it was not.
    stopped_by_user
        Whether the user's function stopped it, by its answer or by an error: the result then has
        the draws that the function saw, of all chains.

    """

    def __init__(
        self,
        target: Target,
        on_progress: Callable[[RunProgress], Any] | None = None,
        max_minutes: float | None = None,
    ) -> None:
        self._target, self._on_progress, self._max_minutes = target, on_progress, max_minutes
        self._began: float | None = None
        self.stopped_by_user = False
        self.note = ""

    def __call__(self, chains: list[Chain]) -> None:
        """Look at the chains; raises KeyboardInterrupt, as Ctrl-C does, once to stop them."""
        if self.note:
            return
        self._began = time.monotonic() if self._began is None else self._began
        seconds = time.monotonic() - self._began
        if self._max_minutes is not None and seconds > 60.0 * self._max_minutes:
            self.note = f"stopped after {self._max_minutes:g} minutes, as asked for."
        elif self._on_progress is not None:
            self.note = self._answer(RunProgress(self._target, chains, seconds))
        if self.note and not all(chain.finished for chain in chains):
            raise KeyboardInterrupt

    def _answer(self, progress: RunProgress) -> str:
        if self._on_progress is None:
            return ""
        try:
            stop = self._on_progress(progress)
        except Exception as error:  # it is the user's, and must not cost the draws
            self.stopped_by_user = True
            return f"stopped since the progress function raised {type(error).__name__}: {error}"
        self.stopped_by_user = stop is True
        return (
            f"stopped by on_progress after {progress.seconds:.3g} s."
            if self.stopped_by_user
            else ""
        )
