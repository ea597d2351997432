"""Short trials of several samplers, and the advice that follows from them."""

import time
from typing import Any

import numpy as np
from rich.console import Console

from stanadapt import results
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.missed_modes import missed_share
from stanadapt.diagnostics.mixing import R_HAT_UNUSABLE
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.engine.console import slow_step
from stanadapt.engine.plan import choose_seed
from stanadapt.errors import (
    Message,
    StanadaptError,
    answers_other_words,
    is_real,
    require_flag,
    require_whole,
)
from stanadapt.runs.choose_sampler import without_gradient
from stanadapt.studies.advise.advice import Advice
from stanadapt.studies.advise.trials import (
    PSEUDO,
    Candidate,
    Trial,
    careful_candidates,
    first_candidates,
    run_trial,
    separate_modes,
    tempering_candidates,
)
from stanadapt.studies.shape import measure_shape
from stanadapt.targets.target import Target, require_samplable

SHORTEST_TRIAL = 0.5  # seconds; a shorter one would show nothing
MOST_COLUMNS = 300
FEWEST_CALLS = 100  # of the density, to measure the time that one takes


@answers_other_words
def advise(
    target: Target,
    *,
    max_minutes: float = 1.0,
    until_ess: float = 1000.0,
    chains: int = 4,
    seed: int | None = None,
    show_progress: bool = True,
) -> Advice:
    """Try several samplers on a target, and recommend one with its settings and its length.

    The default sampler is tried first, then others that may be faster. If chains end in separate
    modes, tempering samplers are tried next, and `pseudo_extended` with 2, 5 and 10 pseudo-samples
    at about the same number of gradients if there are three modes or more. If trajectories diverge,
    shorter steps are tried. Each trial is a run with the sampler's defaults that stops at the end
    of its share of the time. Trials are compared by processor time, which depends little on other
    programs on the machine.

    Parameters
    ----------
    target : Target
        A Stan program with its data.
    max_minutes : float
        Time for all trials together, on as many cores as there are chains; on a busy machine, the
        elapsed time may be twice as long. Compilation is not included; it is needed once per
        sampler, and takes up to two minutes.
    until_ess : float
        Effective sample size to reach for every parameter: the smallest of bulk, tails and squared
        deviations from the mean.
    chains : int
        Number of chains of each trial, at least 2.
    seed : int, optional
        Seed of the trials, 0 to 2**32 - 1; default: a random one, recorded in the result. Trials
        are limited by time, so two calls with the same seed may recommend different samplers if
        these are about equally fast.
    show_progress : bool
        Whether to show bars in a terminal, and lines elsewhere.

    Returns
    -------
    Advice
        `sa.sample(target, **advice.arguments)` follows it.

    Raises
    ------
    StanadaptError
        Stage "settings" for a time or an effective sample size that is not positive;
        "initialization" if no chain can start.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> advice = sa.advise(target, max_minutes=0.02, seed=1, show_progress=False)
    >>> advice.facts["parameters (unconstrained)"], "sampler" in advice.arguments
    (1, True)
    >>> fit = sa.sample(target, **advice.arguments, seed=1, show_progress=False)
    """
    program = require_samplable(target).target
    if program is not target:
        raise StanadaptError(
            "not_a_plain_target", f"advise takes the Target itself, got {target!r}."
        )
    options = require_trials(
        max_minutes=max_minutes, until_ess=until_ess, chains=chains, seed=seed,
        show_progress=show_progress,
    )  # fmt: skip
    trials = _TrialSeries(target, 60.0 * float(max_minutes), options)
    trials.run()
    return trials.advice(float(until_ess))


def require_trials(
    *, max_minutes: Any, until_ess: Any, chains: Any, seed: Any, show_progress: Any
) -> dict[str, Any]:
    """Check all arguments but the target; return those of each trial."""
    _require_positive("max_minutes", max_minutes)
    _require_positive("until_ess", until_ess)
    return {
        "chains": require_whole("chains", chains, 2, 1000),
        "show_progress": require_flag("show_progress", show_progress),
        "seed": choose_seed(seed),
    }


def _require_positive(name: str, value: Any) -> None:
    if not is_real(value) or not 0 < value < np.inf:
        raise StanadaptError("out_of_range", f"{name} must be a number above zero, got {value!r}.")


class _TrialSeries:
    """Trials of one target, one after the other, within a time limit."""

    def __init__(self, target: Target, seconds: float, options: dict[str, Any]) -> None:
        self.target, self.seconds_left, self.options = target, seconds, options
        self.gradient_problem = without_gradient(target)
        self.trials: list[Trial] = []
        self.modes = 1

    def run(self) -> None:
        """Run the trials; the first ones decide which follow."""
        waiting = first_candidates(self.target, self.gradient_problem)
        careful = careful_candidates()
        while waiting and (not self.trials or self.seconds_left > SHORTEST_TRIAL):
            trial = self._try(waiting.pop(0), len(waiting) + 1)
            if self.modes == 1 and self._has_separate_modes(trial):
                waiting = self._add_tempering(waiting)
            elif careful and self._diverged(trial):
                waiting, careful = [*waiting, *careful], []

    def _add_tempering(self, waiting: list[Candidate]) -> list[Candidate]:
        """Return the candidates to try next if chains stay in separate modes."""
        tempering = tempering_candidates(self.gradient_problem, self.modes)
        # the modes may have negligible weight
        if not tempering or any(trial.usable for trial in self.trials):
            return [*waiting, *tempering]
        # chains of other samplers for one mode would lie apart too
        return tempering

    def _try(self, candidate: Candidate, waiting: int) -> Trial:
        share = max(self.seconds_left / waiting, SHORTEST_TRIAL)
        if self.options["show_progress"]:
            Console(stderr=True).print(
                f"Trial of {candidate.name}, up to {share:.3g} s", highlight=False
            )
        trial = run_trial(
            self.target, candidate, share, calls=self._calls_of_default(candidate), **self.options
        )
        self.seconds_left -= trial.seconds
        self.trials.append(trial)
        return trial

    def _calls_of_default(self, candidate: Candidate) -> int:
        """Return the calls of the trial with two pseudo-samples, for one with more; 0: no limit."""
        if "pseudo_samples" not in candidate.settings:
            return 0
        return max((t.calls for t in self.trials if t.candidate.sampler == PSEUDO), default=0)

    def _has_separate_modes(self, trial: Trial) -> bool:
        if trial.fit is None or self.target.noise:
            return False
        row = compare({"trial": trial.fit})
        if not row["r_hat_max"].iloc[0] > R_HAT_UNUSABLE:
            return False
        began = time.thread_time()
        with slow_step(self.options["show_progress"], "Telling modes from slow chains"):
            modes = separate_modes(self.target, trial.fit, self.gradient_problem)
        self.seconds_left -= time.thread_time() - began
        self.modes = max(self.modes, modes)
        return modes > 1

    def _diverged(self, trial: Trial) -> bool:
        return not self.gradient_problem and trial.divergent > 0

    def advice(self, until_ess: float) -> Advice:
        """Compare the trials."""
        return Advice(
            self.trials, self._excluded(), until_ess, self._facts(), self._messages(),
            self.options["seed"],
        )  # fmt: skip

    def _excluded(self) -> dict[str, Message]:
        """Return the fits that missed a region that another one found, with the reason."""
        columns = {t.candidate.name: _parameters(t.fit) for t in self.trials if t.usable}
        excluded = {}
        for name, draws in columns.items():
            for other, other_draws in columns.items():
                if other != name and missed_share(other_draws, draws).clear:
                    text = f"It missed a region with many draws of {other}."
                    excluded[name] = Message("missed_in_trial", text)
        # two that miss each other are two halves of an answer: the longer run may have both
        return excluded if len(excluded) < len(columns) else {}

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"parameters (unconstrained)": self.target.dim}
        if self.gradient_problem:
            facts["gradient"] = f"not usable: {self.gradient_problem}"
        usable = [trial for trial in self.trials if trial.usable]
        if not usable:
            return facts
        fit = max(usable, key=lambda trial: trial.ess).fit
        facts |= _cost_of_a_call(usable)
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

    def _messages(self) -> list[Message]:
        messages = []
        if self.modes > 1:
            text = (
                f"Chains ended in {self.modes} separate regions, and the density is lower between "
                "them: there are several modes. `stanadapt modes` estimates their weights."
            )
            messages.append(Message("several_modes", text))
        messages += self._numbers_of_pseudo_samples()
        shape = self._shape()
        if shape:
            messages.append(shape)
        elif any(self._diverged(trial) for trial in self.trials):
            text = (
                "Trajectories diverged. If a scale can be near zero, a noncentered "
                "parameterization helps more than any sampler."
            )
            messages.append(Message("divergent_trials", text))
        return messages

    def _numbers_of_pseudo_samples(self) -> list[Message]:
        """Compare numbers of pseudo-samples, tried at about the same cost, if any were usable."""
        tried = [t for t in self.trials if t.candidate.sampler == PSEUDO]
        if len(tried) < 2 or not any(t.usable for t in tried):
            return []
        sizes = [
            f"{t.candidate.settings.get('pseudo_samples', 2)}: "
            + (f"{1e5 * t.ess / t.calls:.3g}" if t.usable else t.verdict.verdict)
            for t in tried
        ]
        text = (
            "Effective draws of pseudo_extended per 100,000 gradients or densities, warm-up "
            f"included, by the number of its pseudo-samples, {', '.join(sizes)}."
        )
        return [Message("numbers_of_pseudo_samples", text)]

    def _shape(self) -> Message | None:
        """Return what scales or moves with other parameters, if a trial shows that any do.

        It has the lines of the noncentered program.
        """
        usable = [trial for trial in self.trials if trial.usable]
        if self.gradient_problem or self.target.noise_size or not usable:
            return None
        straightened = any(results.attribute(t.fit, "straightening") for t in usable)
        if not straightened and not any(self._diverged(trial) for trial in self.trials):
            return None
        with slow_step(self.options["show_progress"], "Measuring the shape of the posterior"):
            shape = measure_shape(self.target, max(usable, key=lambda trial: trial.ess).fit)
        if not shape.found.map_is_used:
            return None
        return next((m for m in shape.messages if m.code == "far_from_gaussian"), None)


def _cost_of_a_call(trials: list[Trial]) -> dict[str, str]:
    """Return the time per gradient or density, in the trial with the least."""
    for attribute, name in (("n_gradients", "gradient"), ("n_density", "density")):
        costs = [
            1e6 * (trial.warmup_seconds + trial.sampling_seconds) / calls
            for trial in trials
            if (calls := results.attribute(trial.fit, attribute, 0)) > FEWEST_CALLS
        ]
        if costs:
            return {f"time of a {name}, sampler included": f"{min(costs):.3g} microseconds"}
    return {}


def _parameters(fit: Any) -> dict[str, np.ndarray]:
    return results.columns(fit, wanted=results.parameters(fit))
