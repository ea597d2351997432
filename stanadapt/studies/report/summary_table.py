"""The rows of the report's table: one per name, repeats summed up."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.verdict import FINE, NOT_EXACT, ORDER
from stanadapt.studies.report.conclusion import Cost, number, per_gradient, per_second
from stanadapt.studies.report.fits import Run, Standing

TITLES = {
    "ESS/s": "smallest bulk effective sample size per second of one core, warm-up included",
    "ESS/grad": "the same per gradient",
    "min ESS": "smallest bulk effective sample size, over all quantities",
    "tail ESS": "smallest effective sample size in the tails",
    "R-hat": "largest",
    "divergent": "draws that come from a divergent trajectory",
    "z mean": "largest difference of a mean from the reference, in joint Monte Carlo errors",
    "z sd": "the same for standard deviations",
    "missed": "share of another fit's draws that lie where this one has none",
    "warm-up s": "seconds of one core",
    "sampling s": "seconds of one core",
    "compile s": "seconds; not counted as cost",
    "gradients": "warm-up included",
    "median": "median bulk effective sample size",
}


class Line(NamedTuple):
    """A row: name, its place among the colors, verdict, and cells of (text, range or "")."""

    name: str
    place: int
    verdict: str
    usable: bool
    cells: list[tuple[str, str]]


def lines(runs: list[Run], judged: Standing) -> list[Line]:
    """Return one row per name: medians over repeats; the worst R-hat, z and share missed."""
    names = list(dict.fromkeys(run.name for run in runs))
    found = []
    for place, name in enumerate(names):
        own = [run for run in runs if run.name == name]
        worst = max((str(run.row["verdict"]) for run in own), key=ORDER.index)
        words = [judged.objections[run.label] for run in own if judged.objections[run.label]]
        shown = worst if worst not in (FINE, NOT_EXACT) or not words else words[0]
        found.append(Line(name, place, shown, not words, _cells(runs, own, judged)))
    return found


def _cells(runs: list[Run], own: list[Run], judged: Standing) -> list[tuple[str, str]]:
    def row(column: str, form: str, over: Callable = np.median) -> tuple[str, str]:
        return _cell([float(run.row[column]) for run in own], form, over)

    name = own[0].name
    z = [judged.z[run.label] for run in own]
    diverging = [run.statistics.get("diverging") for run in own]
    return [
        _cost(per_second(runs, name)),
        _cost(per_gradient(runs, name)),
        row("ess_bulk_min", "{:,.0f}"),
        row("ess_tail_min", "{:,.0f}"),
        row("r_hat_max", "{:.3f}", np.max),
        _cell([np.nan if d is None else float(d.sum()) for d in diverging], "{:,.0f}", np.max),
        _cell([pair[0] for pair in z], "{:.1f}", np.max),
        _cell([pair[1] for pair in z], "{:.1f}", np.max),
        row("missed", "{:.0%}", np.max),
        *(row(f"seconds_{what}", "{:.2f}") for what in ("warmup", "sampling")),
        row("seconds_compile", "{:.1f}"),
        row("gradients", "{:,.0f}"),
        row("ess_bulk_median", "{:,.0f}"),
    ]


def _cell(values: list[float], form: str, over: Callable) -> tuple[str, str]:
    finite = [value for value in values if np.isfinite(value)]
    return (form.format(over(finite)), "") if finite else ("–", "")


def _cost(cost: Cost) -> tuple[str, str]:
    several = cost.repeats > 1
    return number(
        cost.median
    ), f"{number(cost.lowest)} to {number(cost.highest)}" if several else ""
