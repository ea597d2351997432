"""Which sampler, which settings, how long: the function users call."""

import time
from typing import Any

import numpy as np
from rich.console import Console

from stanadapt import results
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.missed_modes import missed
from stanadapt.diagnostics.mixing import worst_columns
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import LARGEST_SEED
from stanadapt.errors import StanadaptError, is_real, require_flag, require_whole
from stanadapt.runs.choose_sampler import without_gradient
from stanadapt.studies.advise.advice import Advice
from stanadapt.studies.advise.trials import (
    LARGEST_R_HAT,
    Candidate,
    Trial,
    first_candidates,
    for_divergences,
    for_many_modes,
    run_trial,
    separate_modes,
)
from stanadapt.targets.target import Target, require_samplable

# a trial that is no longer than this shows nothing
SHORTEST_TRIAL = 0.5
MOST_COLUMNS = 300


def advise(
    target: Target,
    *,
    minutes: float = 1.0,
    ess: float = 1000.0,
    chains: int = 4,
    seed: int = 1,
    show: bool = True,
    show_progress: bool = True,
) -> Advice:
    """Try several samplers on a target, and say which to use, and for how long.

    The default comes first, then what may be faster. Where chains end in separate modes, samplers
    for many modes are tried; where trajectories diverge, shorter steps. Each trial is a run with
    the sampler's defaults that is stopped when its share of the time is over. Trials are compared
    by processor time, which does not depend on what else the machine does.

    Parameters
    ----------
    target
        A Stan program with its data.
    minutes
        Time for all trials together, of as many cores as there are chains; up to twice as long by
        the clock where the machine is busy. Compilation is not counted: once for each sampler, up
        to two minutes.
    ess
        Wanted effective sample size: of the bulk, the tails and the squared deviations from the
        mean, of every parameter.
    chains, seed
        Of each trial. Lengths of trials are measured in time: two calls may differ where samplers
        are about equally fast.
    show
        Also print the trials and the recommendation.
    show_progress
        Bars in a terminal, lines elsewhere.

    Returns
    -------
    Advice
        `sa.sample(target, **advice.arguments)` does what it says.

    Raises
    ------
    StanadaptError
        Stage "settings" for a time or an effective sample size that is not above zero;
        "initialization" where no chain can start.

    """
    program = require_samplable(target).target
    if program is not target:
        raise StanadaptError("settings", f"advise takes the Target itself, got {target!r}.")
    shown = require_flag("show", show)
    minutes, ess = _positive("minutes", minutes), _positive("ess", ess)
    common = {
        "chains": require_whole("chains", chains, 2, 1000),
        "show_progress": require_flag("show_progress", show_progress),
        "seed": require_whole("seed", seed, 0, LARGEST_SEED),
    }  # fmt: skip
    found = _Trials(target, 60.0 * minutes, common).made()
    advice = found.advice(ess)
    if shown:
        advice.show(Console())
    return advice


def _positive(name: str, value: Any) -> float:
    if not is_real(value) or not 0 < value < np.inf:
        raise StanadaptError("settings", f"{name} must be a number above zero, got {value!r}.")
    return float(value)


class _Trials:
    """Trials of one target, one after the other, within a time."""

    def __init__(self, target: Target, seconds: float, common: dict[str, Any]) -> None:
        self.target, self.left, self.common = target, seconds, common
        self.problem = without_gradient(target)
        self.trials: list[Trial] = []
        self.modes = 1

    def made(self) -> "_Trials":
        """Make the trials; what the first ones show decides on the later ones."""
        waiting = first_candidates(self.target, self.problem)
        tempering, careful = for_many_modes(self.problem), for_divergences()
        while waiting and self.left > SHORTEST_TRIAL:
            trial = self._try(waiting.pop(0), len(waiting) + 1)
            if tempering and self._apart(trial):
                waiting, tempering = self._with(tempering, waiting), []
            elif careful and self._diverged(trial):
                waiting, careful = [*waiting, *careful], []
        return self

    def _with(self, tempering: list[Candidate], waiting: list[Candidate]) -> list[Candidate]:
        """Return what to try next where chains stay in modes of their own."""
        if any(trial.usable for trial in self.trials):  # the modes may be of no weight
            return [*waiting, *tempering]
        # chains of other samplers for one mode would lie apart too
        return tempering

    def _try(self, candidate: Candidate, waiting: int) -> Trial:
        share = max(self.left / waiting, SHORTEST_TRIAL)
        if self.common["show_progress"]:
            Console(stderr=True).print(
                f"Trial of {candidate.name}, up to {share:.3g} s", highlight=False
            )
        trial = run_trial(self.target, candidate, share, **self.common)
        self.left -= trial.seconds
        self.trials.append(trial)
        return trial

    def _apart(self, trial: Trial) -> bool:
        if trial.fit is None or self.target.noise:
            return False
        row = compare({"trial": trial.fit}, show=False)
        if not row["r_hat_max"].iloc[0] > LARGEST_R_HAT:
            return False
        began = time.thread_time()
        with slow_step(self.common["show_progress"], "Climbing, to tell modes from slow chains"):
            found = separate_modes(self.target, trial.fit, self.problem)
        self.left -= time.thread_time() - began
        self.modes = max(self.modes, found)
        return found > 1

    def _diverged(self, trial: Trial) -> bool:
        return not self.problem and trial.divergences > 0

    def advice(self, ess: float) -> Advice:
        """Weigh the trials."""
        return Advice(self.trials, self._excluded(), ess, self._facts(), self._sentences())

    def _excluded(self) -> dict[str, str]:
        """Fits that missed what another one found, with the reason."""
        columns = {t.candidate.name: _parameters(t.fit) for t in self.trials if t.usable}
        excluded = {}
        for name, own in columns.items():
            for other, theirs in columns.items():
                if other != name and missed(theirs, own).clear:
                    excluded[name] = f"it missed where {other} found much of its draws."
        # two that miss each other are two halves of an answer: the longer run may have both
        return excluded if len(excluded) < len(columns) else {}

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"parameters (unconstrained)": self.target.dim}
        if self.problem:
            facts["gradient"] = f"none that can be used: {self.problem}"
        usable = [trial for trial in self.trials if trial.usable]
        if not usable:
            return facts
        fit = max(usable, key=lambda trial: trial.ess).fit
        facts |= _cost(usable)
        columns = _parameters(fit)
        names = list(columns) if len(columns) <= MOST_COLUMNS else worst_columns(columns)
        table = np.stack([columns[name].ravel() for name in names])
        table = table[table.std(axis=1) > 0.0]
        if len(table) > 1:
            sds, correlations = table.std(axis=1), np.corrcoef(table)
            np.fill_diagonal(correlations, 0.0)
            largest = float(np.abs(correlations).max())
            facts["standard deviations"] = f"{sds.min():.3g} to {sds.max():.3g}"
            facts["largest correlation"] = f"{largest:.2f}"
        return facts

    def _sentences(self) -> list[str]:
        found = []
        if self.modes > 1:
            found.append(
                f"Chains ended in {self.modes} separate regions, and the density is lower between "
                "them: there are several modes. See stanadapt modes for their weights."
            )
        if any(self._diverged(trial) for trial in self.trials):
            found.append(
                "Trajectories diverged: where a scale can be near zero, a non-centered "
                "parameterization helps more than any sampler."
            )
        return found


def _cost(trials: list[Trial]) -> dict[str, str]:
    """Time of a gradient or a density, in the trial where it was least."""
    least = {}
    for counted, name in (("n_gradients", "gradient"), ("n_density", "density")):
        costs = [
            1e6 * (trial.warmup_seconds + trial.sampling_seconds) / calls
            for trial in trials
            if (calls := results.attribute(trial.fit, counted, 0)) > 100
        ]
        if costs:
            least[f"time of a {name}, sampler included"] = f"{min(costs):.3g} microseconds"
            break
    return least


def _parameters(fit: Any) -> dict[str, np.ndarray]:
    return results.columns(fit, wanted=results.parameters(fit))
