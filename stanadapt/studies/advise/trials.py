"""Trials: which samplers are worth one, how one is run, and whether its chains found modes."""

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.missed_modes import is_stationary, separate_regions
from stanadapt.diagnostics.mixing import R_HAT_UNUSABLE, mixing
from stanadapt.diagnostics.modes import FEWEST, modes
from stanadapt.diagnostics.ranked import size_of_mean
from stanadapt.diagnostics.reasons import DO_NOT_USE
from stanadapt.diagnostics.sampler_checks import FEW_DIVERGENCES, divergent_share
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.diagnostics.verdict import Verdict, verdict
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import usable_cores
from stanadapt.errors import Message, StanadaptError
from stanadapt.runs.choose_sampler import DEFAULT
from stanadapt.runs.progress import RunProgress
from stanadapt.runs.sample import sample
from stanadapt.samplers import registered
from stanadapt.targets.target import Target

FAILED = "failed"  # the verdict of a trial without draws

# --- candidates ----------------------------------------------------------------------------------

MOST_FOR_GAD = 500  # parameters; samplers with a dense matrix are too slow above it
PSEUDO = "pseudo_extended"
TEMPERING = "simulated_tempering", "parallel_tempering", PSEUDO
# from this number of modes on, these numbers of pseudo-samples are tried besides the default, 2
MANY_MODES, MORE_PSEUDO_SAMPLES = 3, (5, 10)
CAREFUL = 0.95  # target acceptance rate after divergences


class Candidate(NamedTuple):
    """A sampler and the settings that a trial gives it."""

    sampler: str
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The label of its row in the table."""
        settings = "".join(f", {name}={value}" for name, value in self.settings.items())
        return f"{self.sampler}{settings}"


def first_candidates(target: Target, gradient_problem: str) -> list[Candidate]:
    """List samplers in the order of their trials.

    `gradient_problem` is why the gradient cannot be used; "" if it can.
    """
    if target.noise:
        names = ["am", "kameleon", "rwm"]
    elif gradient_problem:
        names = ["am", "pooled_am", "kameleon"]
    elif target.dim > MOST_FOR_GAD:
        names = [DEFAULT, "nuts", "hmc"]
    else:
        names = [DEFAULT, "gad_hmc", "nuts", "gad_mala"]
    return _registered(Candidate(name, {}) for name in names)


def _registered(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Leave out samplers of families that have been deleted."""
    return [candidate for candidate in candidates if candidate.sampler in registered()]


def tempering_candidates(gradient_problem: str, modes: int = 2) -> list[Candidate]:
    """List samplers to try if chains stay in separate regions; `modes` is their number."""
    settings = {"kernel": "random_walk"} if gradient_problem else {}
    more = MORE_PSEUDO_SAMPLES if modes >= MANY_MODES else ()
    return _registered([
        *(Candidate(name, dict(settings)) for name in TEMPERING),
        *(Candidate(PSEUDO, {**settings, "pseudo_samples": n}) for n in more),
    ])  # fmt: skip


def careful_candidates() -> list[Candidate]:
    """List samplers with shorter steps, to try if trajectories diverge."""
    return _registered([Candidate("nuts", {"target_accept": CAREFUL})])


def is_follow_up(candidate: Candidate) -> bool:
    """Return whether a candidate is tried only because of the results of earlier trials."""
    return candidate.sampler in TEMPERING or candidate in careful_candidates()


# --- modes ---------------------------------------------------------------------------------------

STARTS_PER_CHAIN = 4


def separate_modes(target: Target, fit: Any, gradient_problem: str = "") -> int:
    """Count the modes in which chains of a trial stay; 1 if there is no sign of several.

    Chains that have not converged also lie apart, each in a region that misses most of the others.
    The log density is therefore climbed from some of their draws. A region counts if it has its own
    maximum, separated from the others by a dip of the density, and the largest share of the draws
    of a chain. A region without a maximum, as in the neck of a funnel, does not count. Without
    gradient there is no climb, and regions count if the halves of every chain agree: a chain that
    is still moving drifts.
    """
    columns = results.columns(fit, wanted=results.parameters(fit))
    regions = separate_regions(columns)
    if regions < 2:
        return 1
    chains = len(next(iter(columns.values())))
    if gradient_problem:
        each = ({name: x[c : c + 1] for name, x in columns.items()} for c in range(chains))
        return regions if all(is_stationary(one, R_HAT_UNUSABLE) for one in each) else 1
    try:
        table = modes(fit, target, starts=max(FEWEST, STARTS_PER_CHAIN * chains))
    except StanadaptError:  # too few draws to climb from
        return 1
    weights = table[[f"weight_{c}" for c in range(1, chains + 1)]].to_numpy()
    largest = table["log_density"].iloc[np.unique(np.argmax(weights, axis=0))]
    return max(int(np.isfinite(largest).sum()), 1)  # NaN in a region without a maximum


# --- one trial -----------------------------------------------------------------------------------

BUSY = 2.0  # a trial on a busy machine takes at most this many times its share of wall time


class Trial(NamedTuple):
    """The outcome of a trial."""

    candidate: Candidate
    fit: Any  # its draws; None if there are none
    verdict: Verdict  # on the fit; "failed" with the reason if there is no fit
    # smallest effective sample size over parameters, of bulk, tails and squared deviations from the
    # mean; NaN without a fit
    ess: float
    # processor time summed over chains: it does not depend on other load of the machine
    warmup_seconds: float
    sampling_seconds: float
    # share of the total time that the trial used: processor time over the cores of its chains
    seconds: float

    @property
    def usable(self) -> bool:
        """Whether its numbers are meaningful: its chains agree, or are too short."""
        return self.verdict.verdict != DO_NOT_USE and self.ess > 0.0

    @property
    def calls(self) -> int:
        """Number of gradients and densities; 0 without a fit."""
        names = ("n_gradients", "n_density") if self.fit is not None else ()
        return sum(int(results.attribute(self.fit, name, 0)) for name in names)

    @property
    def divergent(self) -> float:
        """Share of draws from divergent trajectories; 0 if they are few, NaN if not recorded."""
        share = np.nan if self.fit is None else divergent_share(self.fit)
        return 0.0 if share <= FEW_DIVERGENCES else share

    def seconds_to(self, ess: float) -> float:
        """Return the processor seconds, with warm-up, to reach an ESS; NaN if unusable."""
        if not self.usable:
            return np.nan
        return self.warmup_seconds + self.sampling_seconds * ess / self.ess


def run_trial(
    target: Target,
    candidate: Candidate,
    seconds: float,
    *,
    chains: int,
    seed: int,
    show_progress: bool,
    calls: int = 0,
) -> Trial:
    """Run a sampler with its default lengths, and stop it after a time.

    Seconds are processor time over the number of cores in use; by wall time it is at most BUSY
    times as long. It also stops after `calls` gradients or densities, unless that is 0.
    KeyboardInterrupt is raised after Ctrl-C, with or without draws.
    """
    took, stopped, cores = 0.0, False, min(chains, usable_cores())

    def stop(progress: RunProgress) -> bool:
        nonlocal took, stopped
        took = progress.processor_seconds / cores
        stopped = took > seconds or progress.seconds > BUSY * seconds
        stopped |= 0 < calls <= progress.calls
        return stopped

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table has the verdict
        try:
            with slow_step(show_progress, f"Trying {candidate.sampler}"):
                fit = sample(
                    target, candidate.sampler, chains=chains, seed=seed,
                    # chains advance together, so that a trial that is stopped has draws of each
                    parallel_chains=chains, show_progress=stop, **candidate.settings,
                )  # fmt: skip
        except StanadaptError as error:
            if error.code == "interrupted":
                raise KeyboardInterrupt from None
            reason = Message(error.code, error.message)
            if error.code == "no_draws" and stopped:
                text = "It was still in warm-up when the trial ended."
                reason = Message("unfinished_trial", text)
            failure = Verdict(FAILED, [reason])
            return Trial(candidate, None, failure, np.nan, np.nan, np.nan, took)
    if results.attribute(fit, "interrupted") == 1:
        raise KeyboardInterrupt
    warmup, sampling = (
        float(np.sum(results.attribute(fit, name)))
        for name in ("warmup_processor_seconds", "sampling_processor_seconds")
    )
    return Trial(candidate, fit, verdict(fit), smallest_ess(fit), warmup, sampling, took)


def smallest_ess(fit: Any) -> float:
    """Return the smallest ESS of bulk, tails and squares over parameters; 0 if one has none."""
    columns = results.columns(fit, wanted=results.parameters(fit))
    columns = {name: x.astype(float) for name, x in columns.items() if np.ptp(x) > 0.0}
    smallest = np.inf
    for name in worst_columns(columns):
        x = columns[name]
        if x.shape[1] < 4 or not np.isfinite(x).all():
            return 0.0
        squares = (x - x.mean()) ** 2
        bulk_and_tail, ess_squares = mixing(x), size_of_mean(squares)
        for ess in (bulk_and_tail.ess_bulk, bulk_and_tail.ess_tail, ess_squares):
            smallest = min(smallest, float(ess) if np.isfinite(ess) else 0.0)
    return smallest if np.isfinite(smallest) else 0.0
