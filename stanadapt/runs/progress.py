"""Progress of a run, as the user's progress function sees it, which may stop the run."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from stanadapt.diagnostics.mixing import Efficiency, efficiency
from stanadapt.engine.chain import Chain
from stanadapt.engine.every_iteration import NAMES
from stanadapt.errors import Message
from stanadapt.targets.target import Target, variable_name

# the work of the chains of a pre-run
LEARNING = "learning the scales"


class ChainProgress(NamedTuple):
    """Progress of one chain."""

    n_done: int  # iterations done and planned, warm-up included
    n_total: int
    warming_up: bool
    draws: int  # number of draws kept after warm-up
    acceptance_rate: float  # mean over the last chunk of iterations; NaN before the first
    failed: int  # number of evaluations without a finite density
    # number of divergent iterations among the draws; 0 for samplers without divergences
    divergences: int
    # iterations of sampling that were thrown away, since too many of them diverged
    thrown_away: int = 0


class RunProgress:
    """Progress of a run, which `sample` gives to a function in `show_progress`.

    `smallest_ess()` and `largest_r_hat()` are computed from all draws so far.

    Attributes
    ----------
    chains
        One `ChainProgress` per chain.
    draws
        Number of draws that every chain has after warm-up.
    task
        "learning the scales" while a pre-run learns scales for the run; "" during the run itself.
    seconds
        Time since chains began to move, those of the pre-run included, without compilation.
    processor_seconds
        Processor time of all chains so far, including the pre-run that learns scales; it does not
        depend on the load of the machine.
    calls
        Number of gradients and densities that all chains have evaluated so far.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> def has_enough(progress):
    ...     return progress.draws >= 100
    >>> fit = sa.sample(target, seed=1, iter_sampling=10**5, show_progress=has_enough)
    >>> 100 <= fit["posterior"].sizes["draw"] < 10**5
    True
    """

    def __init__(self, target: Target, chains: list[Chain], seconds: float, task: str = "") -> None:
        self._target, self._chains, self.seconds, self.task = target, chains, seconds, task
        self.processor_seconds = sum(
            chain.warmup_processor_seconds + chain.sampling_processor_seconds for chain in chains
        )
        self.calls = sum(c.calls["values"] + c.calls["gradients"] for c in chains)
        self.chains = [_progress_of(chain) for chain in chains]
        self._summary: Efficiency | None = None

    @property
    def draws(self) -> int:
        """Number of draws that every chain has after warm-up."""
        return min(chain.draws for chain in self.chains)

    def smallest_ess(self) -> float:
        """Smallest bulk or tail effective sample size of the parameters; 0 before four draws.

        It is computed from all draws so far, so if these are many, do not call it every time.
        """
        summary = self._efficiency()
        sizes = [*summary.ess_bulk, *summary.ess_tail] if summary else []
        return float(np.min(sizes)) if sizes else 0.0

    def largest_r_hat(self) -> float:
        """Largest R-hat of the parameters; NaN before four draws, or if there is one chain."""
        summary = self._efficiency()
        return float(np.max(summary.r_hat)) if summary and summary.names else np.nan

    def _efficiency(self) -> Efficiency | None:
        if self._summary is None and self.draws >= 4:
            self._summary = efficiency(parameters_so_far(self._target, self._chains))
        return self._summary


def _progress_of(chain: Chain) -> ChainProgress:
    rows, divergences = chain.sampling.rows, 0
    if "diverging" in chain.stat_names:
        divergences = int(chain.sampling.stats[:rows, chain.stat_names.index("diverging")].sum())
    if chain.plan.thin > 1:
        divergences = int(chain.totals[NAMES.index("diverging")])
    return ChainProgress(
        chain.n_done, chain.n_total, chain.warming_up, rows, float(chain.acceptance_rate),
        chain.calls["failed"], divergences, chain.thrown_away.iterations,
    )  # fmt: skip


def parameters_so_far(target: Target, chains: list[Chain]) -> dict[str, np.ndarray]:
    """Draws that all chains have, shape (chain, draw), of each parameter with finite draws only."""
    rows = min(chain.sampling.rows for chain in chains)
    columns = {
        name: np.stack([chain.sampling.constrained[:rows, column] for chain in chains])
        for column, name in enumerate(target.column_names)
        if variable_name(name) in target.parameters
    }
    return {name: x for name, x in columns.items() if np.isfinite(x).all()}


class Watch:
    """Stops a run at its time limit, or when the user's function returns True.

    It is called between chunks of iterations. The function receives a `RunProgress` about ten times
    a second; compilation does not count as time.
    """

    def __init__(
        self,
        target: Target,
        on_progress: Callable[[RunProgress], Any] | None = None,
        max_minutes: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._on_progress, self._max_minutes = target, on_progress, max_minutes
        self._clock = clock
        self._began: float | None = None
        # whether the user's function stopped the run, by returning True or by an error; the result
        # then has exactly the draws that the function saw: those of all chains
        self.stopped_by_user = False
        self.note: Message | None = None  # why the run was stopped, if it was
        self._task = ""

    @contextlib.contextmanager
    def during(self, task: str) -> Iterator[None]:
        """Give the chains' work a name while the body runs."""
        self._task = task
        try:
            yield
        finally:
            self._task = ""

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Leave the time of the body out: it compiles."""
        began = self._clock()
        try:
            yield
        finally:
            if self._began is not None:
                self._began += self._clock() - began

    def __call__(self, chains: list[Chain]) -> None:
        """Check time and chains; raise KeyboardInterrupt, as Ctrl-C does, once to stop them."""
        if self.note:
            return
        seconds = self._check_time()
        if not self.note and self._on_progress is not None:
            self.note = self._ask(RunProgress(self._target, chains, seconds, self._task))
        if self.note and not all(chain.finished for chain in chains):
            raise KeyboardInterrupt

    def before_chains(self) -> None:
        """Check the time alone, while there are no chains yet; raise as above."""
        self._check_time()
        if self.note:
            raise KeyboardInterrupt

    def _check_time(self) -> float:
        """Return the seconds so far, and note it if they exceed the limit."""
        self._began = self._clock() if self._began is None else self._began
        seconds = self._clock() - self._began
        if self._max_minutes is not None and seconds > 60.0 * self._max_minutes:
            text = f"stopped after {self._max_minutes:g} minutes, the time limit."
            self.note = Message("stopped_on_request", text)
        return seconds

    def _ask(self, progress: RunProgress) -> Message | None:
        """Call the user's function; return why the run is to stop, if it is."""
        if self._on_progress is None:
            return None
        text = f"stopped by the progress function after {progress.seconds:.3g} s."
        try:
            stop = self._on_progress(progress)
            # comparisons of NumPy's numbers are no `bool`
            self.stopped_by_user = isinstance(stop, bool | np.bool_) and bool(stop)
        except Exception as error:  # an error in the user's function must not cost the draws
            self.stopped_by_user = True
            text = f"stopped because the progress function raised {type(error).__name__}: {error}"
        return Message("stopped_on_request", text) if self.stopped_by_user else None
