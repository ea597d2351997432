"""One trial: a sampler runs for some seconds, and what it reached in them is measured.

Which samplers are worth a trial on a target, and which after the first trials.

Chains of a short trial that lie apart: in modes of their own, or not there yet?
"""

import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.missed_modes import is_stationary, separate_regions
from stanadapt.diagnostics.mixing import mixing, worst_columns
from stanadapt.diagnostics.modes import FEWEST, modes
from stanadapt.diagnostics.verdict import DO_NOT_USE, Verdict, verdict
from stanadapt.engine.console import slow_step
from stanadapt.errors import StanadaptError
from stanadapt.runs.choose_sampler import DEFAULT
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.sample import sample
from stanadapt.targets.target import Target

# programs of more parameters are spared what works with a dense matrix
MOST_FOR_GAD = 500
TEMPERING = "simulated_tempering", "parallel_tempering", "pseudo_extended"
CAREFUL = 0.95  # target acceptance rate where trajectories diverged


class Candidate(NamedTuple):
    """A sampler with the settings that a trial gives it."""

    sampler: str
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """Its row in the table."""
        chosen = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"{self.sampler}{chosen}"


def first_candidates(target: Target, without_gradient: str) -> list[Candidate]:
    """Samplers in the order of their trials.

    without_gradient says why the gradient is of no use; "" where it is.
    """
    if target.noise:
        names = ["am", "kameleon", "rwm"]
    elif without_gradient:
        names = ["am", "pooled_am", "kameleon"]
    elif target.dim > MOST_FOR_GAD:
        names = [DEFAULT, "nuts", "hmc"]
    else:
        names = [DEFAULT, "gad_hmc", "nuts", "gad_mala"]
    return [Candidate(name, {}) for name in names]


def for_many_modes(without_gradient: str) -> list[Candidate]:
    """Samplers for chains that stay in separate regions."""
    chosen = {"kernel": "random_walk"} if without_gradient else {}
    return [Candidate(name, dict(chosen)) for name in TEMPERING]


def for_divergences() -> list[Candidate]:
    """Samplers for trajectories that diverged: shorter steps."""
    return [Candidate("nuts", {"target_accept": CAREFUL})]


def is_answer(candidate: Candidate) -> bool:
    """Whether it is tried only because of what the trials before it showed."""
    return candidate.sampler in TEMPERING or candidate in for_divergences()


STARTS_PER_CHAIN = 4
LARGEST_R_HAT = 1.05  # of the halves of a chain that stays where it is


def separate_modes(target: Target, fit: Any, without_gradient: str = "") -> int:
    """Count the modes in which chains of a trial stay; 1 where there is no sign of several.

    Chains that have not converged lie apart too, in regions of which each misses most of the other.
    From draws of theirs the log density is therefore climbed. Regions count where different maxima,
    between which the density dips, have the largest share of the draws of chains; a region without
    a maximum, as in the neck of a funnel, does not.

    Parameters
    ----------
    target
        Without noise.
    fit
        Draws of several chains.
    without_gradient
        Why the gradient is of no use; "" where it is. Without gradient there is no climbing, and
        regions count if the halves of every chain agree: a chain on its way drifts.

    """
    columns = results.columns(fit, wanted=results.parameters(fit))
    regions = separate_regions(columns)
    if regions < 2:
        return 1
    chains = len(next(iter(columns.values())))
    if without_gradient:
        each = ({name: x[c : c + 1] for name, x in columns.items()} for c in range(chains))
        return regions if all(is_stationary(one, LARGEST_R_HAT) for one in each) else 1
    try:
        table = modes(target, fit, starts=max(FEWEST, STARTS_PER_CHAIN * chains), show=False)
    except StanadaptError:  # too few draws to climb from
        return 1
    return max(len(_homes(table, chains)), 1)


def _homes(table: Any, chains: int) -> set[int]:
    """Rows that hold the largest share of a chain, and have a maximum."""
    weights = table[[f"weight_{c}" for c in range(1, chains + 1)]].to_numpy()
    largest = {int(row) for row in np.argmax(weights, axis=0)}
    return {row for row in largest if np.isfinite(table["log_density"].iloc[row])}


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
            with slow_step(show_progress, f"Trying {candidate.sampler}"):
                fit = sample(
                    target, candidate.sampler, chains=chains, seed=seed,
                    # chains advance together, so that a trial that is stopped has draws of each
                    parallel_chains=chains, show_progress=stop, **candidate.settings,
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
