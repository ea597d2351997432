"""The tables of the report: estimates, and a row per name, with repeats summarized."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics import summary
from stanadapt.diagnostics.reasons import FINE, NOT_EXACT, ORDER
from stanadapt.studies.report.assessment import Assessment
from stanadapt.studies.report.conclusion import Cost, number, per_gradient, per_second
from stanadapt.studies.report.fits import Repeats, ReportedFit

MOST_ESTIMATED = 200  # elements; each takes some 10 ms

TITLES = {
    "ESS/s": "smallest bulk effective sample size per second of one core, warm-up included",
    "ESS/grad": "the same per gradient",
    "bulk ESS": "smallest bulk effective sample size, over all quantities",
    "tail ESS": "smallest effective sample size in the tails",
    "R-hat": "largest",
    "divergent": "draws from divergent trajectories",
    "z mean": "largest difference of a mean from the reference, in joint Monte Carlo errors",
    "z sd": "the same for standard deviations",
    "missed": "share of another fit's draws in regions without draws of this one",
    "warm-up s": "seconds of one core",
    "sampling s": "seconds of one core",
    "compile s": "seconds; not counted as cost",
    "gradients": "warm-up included",
    "median": "median bulk effective sample size",
}


class Line(NamedTuple):
    """A row: name, number of its color, verdict, and cells of (text, range or "")."""

    name: str
    place: int
    verdict: str
    usable: bool
    cells: list[tuple[str, str]]


def table_lines(runs: list[ReportedFit], assessment: Assessment) -> list[Line]:
    """Return one row per name: medians over repeats, but the worst R-hat, z and share missed."""
    names = list(dict.fromkeys(run.name for run in runs))
    lines = []
    for place, name in enumerate(names):
        repeats = [run for run in runs if run.name == name]
        worst = max((str(run.row["verdict"]) for run in repeats), key=ORDER.index)
        objections = [o for run in repeats if (o := assessment.objections[run.label])]
        shown = worst if worst not in (FINE, NOT_EXACT) or not objections else str(objections[0])
        cells = _cells(runs, repeats, assessment)
        lines.append(Line(name, place, shown, not objections, cells))
    return lines


def _cells(
    runs: list[ReportedFit], repeats: list[ReportedFit], assessment: Assessment
) -> list[tuple[str, str]]:
    def row(column: str, form: str, over: Callable = np.median) -> tuple[str, str]:
        return _cell([float(run.row[column]) for run in repeats], form, over)

    name = repeats[0].name
    z = [assessment.z[run.label] for run in repeats]
    diverging = [run.statistics.get("diverging") for run in repeats]
    return [
        _cost_cell(per_second(runs, name)),
        _cost_cell(per_gradient(runs, name)),
        row("ess_bulk_min", "{:,.0f}"),
        row("ess_tail_min", "{:,.0f}"),
        row("r_hat_max", "{:.3f}", np.max),
        _cell([np.nan if d is None else float(d.sum()) for d in diverging], "{:,.0f}", np.max),
        _cell([pair[0] for pair in z], "{:.1f}", np.max),
        _cell([pair[1] for pair in z], "{:.1f}", np.max),
        row("missed", "{:.0%}", np.max),
        row("seconds_warmup", "{:.2f}"),
        row("seconds_sampling", "{:.2f}"),
        row("seconds_compile", "{:.1f}"),
        row("gradients", "{:,.0f}"),
        row("ess_bulk_median", "{:,.0f}"),
    ]


def _cell(values: list[float], form: str, over: Callable) -> tuple[str, str]:
    finite = [value for value in values if np.isfinite(value)]
    return (form.format(over(finite)), "") if finite else ("–", "")


def _cost_cell(cost: Cost) -> tuple[str, str]:
    spread = f"{number(cost.lowest)} to {number(cost.highest)}" if cost.repeats > 1 else ""
    return number(cost.median), spread


class Estimates(NamedTuple):
    """Estimates of a fit: its label; titles of columns, with whether phones lack room; rows."""

    label: str
    titles: list[tuple[str, bool]]
    rows: list[tuple[str, tuple[str, ...]]]
    others: int  # elements that are not shown


def estimates(fits: Repeats, run: ReportedFit) -> Estimates:
    """Return the estimates of a run, in the units of the program; long arrays are in one row."""
    table, others = summary.whole_variables(fits[run.name][run.repeat], MOST_ESTIMATED)
    names, shown = summary.cells(table)
    rows = zip(names, zip(*shown.values(), strict=True), strict=True)
    ranks = summary.printed_titles(table).values()
    return Estimates(run.label, [(t, rank > 0) for t, rank in ranks], list(rows), others)
