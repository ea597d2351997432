"""What trials of several samplers say: one of them, how long to run it, and why."""

import io
import json
import math
import shlex
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from stanadapt import results
from stanadapt.runs.choose_sampler import DEFAULT
from stanadapt.studies.advise.trials import Candidate, Trial, for_divergences, is_answer

# the default, which judges itself best, is kept unless another is this many times as fast
WORTH_A_CHANGE = 1.25
FEWEST_DRAWS = 500  # per chain: fewer say little on whether chains agree
WIDTH = 100


class Advice:
    """Which sampler to use, and the trials that led to it.

    Attributes
    ----------
    sampler, settings, iter_sampling
        What is recommended; iter_sampling is None where the sampler's default suffices.
    sentences
        Why, and what else was seen.
    table
        DataFrame, one row per trial, the fastest first: verdict, ess (the smallest of bulk, tails
        and squares over parameters), seconds_warmup and seconds_sampling of processor time, and
        seconds_needed for the effective draws asked for, NaN where that cannot be told.
    candidates
        What was tried, each a sampler with its settings, in the order of the trials.
    fits
        The draws of each trial by row.
    facts
        What was found out about the posterior, by name.

    """

    def __init__(
        self,
        trials: list[Trial],
        excluded: dict[str, str],
        ess: float,
        facts: dict[str, Any],
        sentences: list[str],
    ) -> None:
        self._ess, self.facts = ess, facts
        self.candidates = [trial.candidate for trial in trials]
        self.fits = {t.candidate.name: t.fit for t in trials if t.fit is not None}
        self.table = _table(trials, excluded, ess)
        by_name = {trial.candidate.name: trial for trial in trials}
        usable = [by_name[str(name)] for name in self.table.index[self.table["seconds_needed"] > 0]]
        ranked = _undiverged(usable, ess)
        self._chosen = _preferred(ranked, ess) if ranked else None
        chosen = self._chosen.candidate if self._chosen else _fallback(trials)
        self.sampler, self.settings = chosen.sampler, dict(chosen.settings)
        self.iter_sampling = _length(self._chosen, ess) if self._chosen else None
        self.sentences = [self._recommendation(ranked), *_passed_over(usable, ranked), *sentences]

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `sample`: `sa.sample(target, **advice.arguments)`."""
        length = {} if self.iter_sampling is None else {"iter_sampling": self.iter_sampling}
        return {"sampler": self.sampler, **length, **self.settings}

    def command(
        self, model: str, data: str | None = None, posteriordb: PathLike | None = None
    ) -> str:
        """Return the command that runs what is recommended; arguments as given to `advise`."""
        parts = ["stanadapt", "sample", model]
        parts += ["--data", data] if data else []
        parts += ["--posteriordb", str(posteriordb)] if posteriordb else []
        parts += ["--sampler", self.sampler]
        if self.iter_sampling is not None:
            parts += ["--iter-sampling", str(self.iter_sampling)]
        for name, value in self.settings.items():
            parts += ["--set", f"{name}={value}"]
        return shlex.join(parts)

    def _recommendation(self, ranked: list[Trial]) -> str:
        named = Candidate(self.sampler, self.settings).name
        if self._chosen is None:
            return (
                f"No trial could be used. {named} is the most likely to serve: run it longer, and "
                "look at its verdict."
            )
        needed = self._chosen.seconds_to(self._ess)
        length = "its default length"
        if self.iter_sampling is not None:
            length = f"iter_sampling={self.iter_sampling}"
        text = (
            f"Use {named} with {length}: about {_seconds(needed)} of one core for "
            f"{self._ess:,.0f} effective draws"
        )
        others = [trial for trial in ranked if trial is not self._chosen]
        if not others:
            return f"{text}. No other trial could be used."
        other = others[0]
        return f"{text}; {other.candidate.name} would take {_seconds(other.seconds_to(self._ess))}."

    def to_json(self) -> str:
        """Return everything but the fits as JSON."""
        table = json.loads(self.table.to_json(orient="index"))
        return json.dumps(
            {**self.arguments, "sentences": self.sentences, "facts": self.facts, "trials": table},
            indent=2,
        )

    def __repr__(self) -> str:
        stream = io.StringIO()
        self.show(Console(file=stream, width=WIDTH, force_jupyter=False))
        return stream.getvalue().rstrip("\n")

    def show(self, console: Console) -> None:
        """Print facts, trials and the recommendation."""
        for name, value in self.facts.items():
            console.print(f"{name}: {value}", highlight=False, markup=False)
        needed = f"s to {self._ess:,.0f}"
        printed = Table("sampler", "verdict", box=None, header_style="bold", pad_edge=False)
        for title in ("min ESS", "warm-up s", "sampling s", needed):
            printed.add_column(title, justify="right")
        for name, row in self.table.iterrows():
            figures = (
                _number(row[column])
                for column in ("ess", "seconds_warmup", "seconds_sampling", "seconds_needed")
            )
            printed.add_row(str(name), str(row["verdict"]), *figures)
        console.print(printed)
        for name, row in self.table.iterrows():
            if row["why"]:
                console.print(f"{name}: {row['why']}", highlight=False, markup=False)
        for sentence in self.sentences:
            console.print(sentence, highlight=False, markup=False, style="bold")


def _table(trials: list[Trial], excluded: dict[str, str], ess: float) -> pd.DataFrame:
    rows = {}
    for trial in trials:
        name = trial.candidate.name
        why = excluded.get(name, "")
        if not why and not trial.usable:
            why = next(iter(trial.verdict.sentences), "")
        rows[name] = {
            "verdict": trial.verdict.verdict,
            "ess": trial.ess,
            "seconds_warmup": trial.warmup_seconds,
            "seconds_sampling": trial.sampling_seconds,
            "seconds_needed": np.nan if name in excluded else trial.seconds_to(ess),
            "why": why,
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.sort_values("seconds_needed", kind="stable")


def _undiverged(usable: list[Trial], ess: float) -> list[Trial]:
    """Leave out trajectories with the usual steps where the best diverged and shorter ones did not.

    All of them: those that had no divergence in a trial have some in longer runs. Samplers that
    cannot tell stay, but do not count as ones that did not diverge.
    """
    shorter = [t for t in usable if t.candidate in for_divergences() and t.divergences == 0]
    if not shorter or not _preferred(usable, ess).divergences > 0:
        return usable
    return [t for t in usable if t in shorter or np.isnan(t.divergences)]


def _passed_over(usable: list[Trial], ranked: list[Trial]) -> list[str]:
    names = [trial.candidate.name for trial in usable if trial not in ranked]
    if not names:
        return []
    return [f"Passed over, since trajectories with such steps diverged: {', '.join(names)}."]


def _preferred(ranked: list[Trial], ess: float) -> Trial:
    """Return the fastest, or the default where it is not much slower."""
    for trial in ranked:
        if trial.candidate == Candidate(DEFAULT, {}):
            close = trial.seconds_to(ess) <= WORTH_A_CHANGE * ranked[0].seconds_to(ess)
            return trial if close else ranked[0]
    return ranked[0]


def _fallback(trials: list[Trial]) -> Candidate:
    """Return what was tried last because the others did not serve; else what was tried first."""
    answers = [trial.candidate for trial in trials if is_answer(trial.candidate)]
    return answers[-1] if answers else trials[0].candidate


def _length(trial: Trial, ess: float) -> int | None:
    """Iterations to ask for, of two digits; None where the sampler's own number is about right."""
    asked = int(results.attribute(trial.fit, "iter_sampling"))
    needed = results.dataset(trial.fit, "posterior").sizes["draw"] * trial.times_as_long(ess)
    needed = max(needed, FEWEST_DRAWS)
    if 0.5 * asked <= needed <= asked:
        return None
    unit = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return math.ceil(needed / unit) * unit


def _seconds(value: float) -> str:
    if value < 90.0:
        return f"{value:.2g} s"
    return f"{value / 60.0:.2g} min" if value < 5400.0 else f"{value / 3600.0:.2g} h"


def _number(value: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}"
