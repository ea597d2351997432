"""One trial: a sampler runs for some seconds, and what it reached in them is measured."""

import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.mixing import mixing
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.diagnostics.verdict import DO_NOT_USE, Verdict, verdict
from stanadapt.errors import StanadaptError
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.sample import sample
from stanadapt.studies.advise.candidates import Candidate
from stanadapt.targets.target import Target

BUSY = 2.0


class Trial(NamedTuple):
    """What a sampler reached.

    candidate
        The sampler.
    fit
        Its draws; None where there are none.
    verdict
        That of the fit; "failed" without one, and why.
    ess
        Smallest effective sample size over parameters, of the bulk, the tails and the squared
        deviations from the mean; NaN without a fit.
    warmup_seconds, sampling_seconds
        Of processor time, summed over chains: a busy machine does not lengthen it.
    seconds
        Of the time for all trials: processor time over the cores that chains share.

    """

    candidate: Candidate
    fit: Any
    verdict: Verdict
    ess: float
    warmup_seconds: float
    sampling_seconds: float
    seconds: float

    @property
    def usable(self) -> bool:
        """Whether its figures mean anything: chains that agree, or are too short to tell."""
        return self.verdict.verdict != DO_NOT_USE and self.ess > 0.0

    @property
    def divergences(self) -> float:
        """Number of draws whose trajectories diverged; NaN where that is not recorded."""
        stats = {} if self.fit is None else results.dataset(self.fit, "sample_stats")
        return float(stats["diverging"].sum()) if "diverging" in stats else np.nan

    def seconds_to(self, ess: float) -> float:
        """Processor seconds, warm-up counted, to so many effective draws; NaN if unusable."""
        if not self.usable:
            return np.nan
        return self.warmup_seconds + self.sampling_seconds * ess / self.ess

    def times_as_long(self, ess: float) -> float:
        """By which factor sampling would have to be longer to reach so many effective draws."""
        return ess / self.ess


def run_trial(
    target: Target,
    candidate: Candidate,
    seconds: float,
    *,
    chains: int,
    seed: int,
    show_progress: bool,
) -> Trial:
    """Run a sampler with its own lengths, and stop it after so many seconds of the cores it uses.

    On a busy machine these take longer, but no longer than BUSY times as long by the clock.
    """
    took, cores = 0.0, min(chains, os.cpu_count() or 1)

    def stop(progress: RunProgress) -> bool:
        nonlocal took
        took = progress.processor_seconds / cores
        return took > seconds or progress.seconds > BUSY * seconds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in the table
        try:
            fit = sample(
                target, candidate.sampler, chains=chains, seed=seed, on_progress=stop,
                # all chains get on alike, so that a trial that is stopped has draws of each
                parallel_chains=chains, show_progress=show_progress, **candidate.settings,
            )  # fmt: skip
        except StanadaptError as error:
            why = error.message.partition(": there are no draws")[0]
            return Trial(candidate, None, Verdict("failed", [why]), np.nan, np.nan, np.nan, took)
    if results.attribute(fit, "interrupted") == 1:
        raise KeyboardInterrupt
    warmup, sampling = (
        float(np.sum(results.attribute(fit, name)))
        for name in ("warmup_processor_seconds", "sampling_processor_seconds")
    )
    return Trial(candidate, fit, verdict(fit), smallest_ess(fit), warmup, sampling, took)


def smallest_ess(fit: Any) -> float:
    """Smallest ESS of bulk, tails and squares over the parameters; 0 where one has none."""
    arviz = results.arviz_module()
    columns = results.columns(fit, wanted=results.parameters(fit))
    columns = {name: x.astype(float) for name, x in columns.items() if np.ptp(x) > 0.0}
    smallest = np.inf
    for name in worst_columns(columns):
        x = columns[name]
        if x.shape[1] < 4 or not np.isfinite(x).all():
            return 0.0
        squares = (x - x.mean()) ** 2
        mixed, of_squares = mixing(x), arviz.ess(squares, method="mean")
        for found in (mixed.ess_bulk, mixed.ess_tail, of_squares):
            smallest = min(smallest, float(found) if np.isfinite(found) else 0.0)
    return smallest if np.isfinite(smallest) else 0.0
