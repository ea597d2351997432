"""The advice that follows from trials: a sampler, its settings, its length, and the reasons."""

import json
import math
import shlex
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.printed_tables import Printed, PrintedTable
from stanadapt.errors import Message, codes_of
from stanadapt.runs.choose_sampler import DEFAULT
from stanadapt.studies.advise.trials import Candidate, Trial, careful_candidates, is_follow_up

# the default, which diagnoses itself best, is kept unless another sampler is faster by this factor
WORTH_A_CHANGE = 1.25
FEWEST_DRAWS = 500  # per chain: fewer hardly show whether chains agree


class Advice:
    """The recommended sampler, and the trials behind it.

    It shows itself as a table of the trials with the recommendation below.

    Attributes
    ----------
    sampler, settings, iter_sampling
        The recommendation; iter_sampling is None if the sampler's default length suffices.
    messages
        The reasons and further findings: a list of `Message`.
    table
        DataFrame, one row per trial, the fastest first: verdict, ess (the smallest of bulk, tails
        and squares over parameters), seconds_warmup and seconds_sampling of processor time, and
        seconds_needed for the requested effective sample size, NaN if that is unknown.
    candidates
        The samplers that were tried, each with its settings, in the order of the trials.
    fits
        The draws of each trial, by row.
    facts
        Facts about the posterior, by name.
    seed
        The seed of the trials.
    """

    def __init__(
        self,
        trials: list[Trial],
        excluded: dict[str, Message],
        until_ess: float,
        facts: dict[str, Any],
        messages: list[Message],
        seed: int,
    ) -> None:
        self._ess, self.facts, self.seed = until_ess, facts, seed
        self.candidates = [trial.candidate for trial in trials]
        self.fits = {t.candidate.name: t.fit for t in trials if t.fit is not None}
        self.table = _tabulate(trials, excluded, until_ess)
        by_name = {trial.candidate.name: trial for trial in trials}
        usable = [by_name[str(name)] for name in self.table.index[self.table["seconds_needed"] > 0]]
        ranked = _drop_divergent(usable, until_ess)
        self._best = _prefer(ranked, until_ess) if ranked else None
        candidate = self._best.candidate if self._best else _fallback(trials)
        self.sampler, self.settings = candidate.sampler, dict(candidate.settings)
        self.iter_sampling = _length(self._best, until_ess) if self._best else None
        self.messages = [self._recommendation(ranked), *messages]
        dropped = [trial.candidate.name for trial in usable if trial not in ranked]
        if dropped:
            names = ", ".join(dropped)
            text = f"Not recommended, since such steps made trajectories diverge: {names}."
            self.messages.insert(1, Message("passed_over", text))

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `sample`: `sa.sample(target, **advice.arguments)`."""
        length = {} if self.iter_sampling is None else {"iter_sampling": self.iter_sampling}
        return {"sampler": self.sampler, **length, **self.settings}

    def command(
        self, model: str, data: str | None = None, posteriordb: PathLike | None = None
    ) -> str:
        """Return the command that runs the recommendation; arguments as for `stanadapt advise`."""
        parts = ["stanadapt", "sample", model]
        parts += ["--data", data] if data else []
        parts += ["--posteriordb", str(posteriordb)] if posteriordb else []
        parts += ["--sampler", self.sampler]
        if self.iter_sampling is not None:
            parts += ["--iter-sampling", str(self.iter_sampling)]
        for name, value in self.settings.items():
            parts += ["--set", f"{name}={value}"]
        return shlex.join(parts)

    def _recommendation(self, ranked: list[Trial]) -> Message:
        name = Candidate(self.sampler, self.settings).name
        if self._best is None:
            return Message(
                "no_usable_trial",
                f"No trial gave usable draws. {name} is the most promising: run it longer and read "
                "its verdict.",
            )
        seconds = self._best.seconds_to(self._ess)
        length = "its default length"
        if self.iter_sampling is not None:
            length = f"iter_sampling={self.iter_sampling}"
        text = (
            f"Use {name} with {length}: about {_duration(seconds)} of one core for "
            f"{self._ess:,.0f} effective draws"
        )
        others = [trial for trial in ranked if trial is not self._best]
        if not others:
            return Message("recommended", f"{text}. No other trial gave usable draws.")
        other = others[0]
        time = _duration(other.seconds_to(self._ess))
        return Message("recommended", f"{text}; {other.candidate.name} would take {time}.")

    def to_json(self) -> str:
        """Return everything but the fits as JSON."""
        table = json.loads(self.table.to_json(orient="index"))
        contents = {
            **self.arguments, "messages": self.messages, "codes": codes_of(self.messages),
            "facts": self.facts, "seed": self.seed, "trials": table,
        }  # fmt: skip
        return json.dumps(contents, indent=2)

    def __repr__(self) -> str:
        return self._printed().as_text()

    def _repr_html_(self) -> str:
        return self._printed().as_html()

    def _printed(self) -> Printed:
        numbers = {
            "min ESS": "ess", "warm-up s": "seconds_warmup", "sampling s": "seconds_sampling",
            f"s to {self._ess:,.0f}": "seconds_needed",
        }  # fmt: skip
        cells = {title: [_number(x) for x in self.table[name]] for title, name in numbers.items()}
        cells = {"verdict": [str(verdict) for verdict in self.table["verdict"]], **cells}
        table = PrintedTable("sampler", [str(name) for name in self.table.index], cells, {})
        why = [f"{name}: {row['why']}" for name, row in self.table.iterrows() if row["why"]]
        facts = [f"{name}: {value}" for name, value in self.facts.items()]
        return Printed([table], [*why, *self.messages], facts)


def _tabulate(trials: list[Trial], excluded: dict[str, Message], ess: float) -> pd.DataFrame:
    rows = {}
    for trial in trials:
        name, (verdict, reasons) = trial.candidate.name, trial.verdict
        why = str(excluded.get(name, ""))
        if not why and not trial.usable:
            why = str(next(iter(reasons), ""))
        rows[name] = {
            "verdict": verdict,
            "ess": trial.ess,
            "seconds_warmup": trial.warmup_seconds,
            "seconds_sampling": trial.sampling_seconds,
            "seconds_needed": np.nan if name in excluded else trial.seconds_to(ess),
            "why": why,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.sort_values("seconds_needed", kind="stable")


def _drop_divergent(usable: list[Trial], ess: float) -> list[Trial]:
    """Drop trajectories with ordinary steps if the best of them diverged and shorter steps did not.

    All of them are dropped: those without a divergence in a trial diverge in longer runs. Samplers
    that do not record divergences stay, but are no evidence that shorter steps help.
    """
    shorter = [t for t in usable if t.candidate in careful_candidates() and t.divergent == 0]
    if not shorter or not _prefer(usable, ess).divergent > 0:
        return usable
    return [t for t in usable if t in shorter or np.isnan(t.divergent)]


def _prefer(ranked: list[Trial], ess: float) -> Trial:
    """Return the fastest trial, or the default's if it is not much slower."""
    for trial in ranked:
        if trial.candidate == Candidate(DEFAULT, {}):
            close = trial.seconds_to(ess) <= WORTH_A_CHANGE * ranked[0].seconds_to(ess)
            return trial if close else ranked[0]
    return ranked[0]


def _fallback(trials: list[Trial]) -> Candidate:
    """Return the last follow-up to failed trials, or the first candidate if there was none."""
    follow_ups = [
        t.candidate
        for t in trials
        if is_follow_up(t.candidate) and "pseudo_samples" not in t.candidate.settings
    ]
    return follow_ups[-1] if follow_ups else trials[0].candidate


def _length(trial: Trial, ess: float) -> int | None:
    """Return iter_sampling with two digits; None if the sampler's default is about right."""
    default = int(results.attribute(trial.fit, "iter_sampling"))
    draws = results.dataset(trial.fit, "posterior").sizes["draw"]
    needed = max(draws * (ess / trial.ess), FEWEST_DRAWS)
    if 0.5 * default <= needed <= default:
        return None
    unit = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return math.ceil(needed / unit) * unit


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.2g} s"
    return f"{seconds / 60.0:.2g} min" if seconds < 5400.0 else f"{seconds / 3600.0:.2g} h"


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}"
