"""The HTML page of a repeated comparison: recommendation, table, picture, and origin."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stanadapt.errors import Message
from stanadapt.studies.repeats.picture import PANELS, color_numbers, cost_of, draw_repeats
from stanadapt.studies.repeats.summary import doubts, intervals, labels
from stanadapt.studies.repeats.table import cells
from stanadapt.studies.report.canvas import as_svg, report_style
from stanadapt.studies.report.conclusion import choose
from stanadapt.studies.report.page import render

TITLE = "Repeated comparison"
GENERATOR = "stanadapt compare_repeats"
DESCRIPTION = "Median effective sample size per second and per gradient, with intervals, by sampler"


def is_repeats_page(path: Path) -> bool:
    """Return whether a file is such a page, which may be rewritten after further repeats."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return f'content="{GENERATOR}"' in file.read(1000)


class Line(NamedTuple):
    """A sampler on one target; `place` is the number of its color."""

    name: str
    label: str
    place: int
    usable: bool
    cells: Sequence[list[str]]
    doubts: list[Message]


class Group(NamedTuple):
    """The samplers on one target, with a recommendation; `winner` is "" without one."""

    target: str
    choice: Message
    winner: str
    lines: list[Line]


def repeats_page(
    rows: pd.DataFrame,
    summary: pd.DataFrame,
    heading: list[str],
    command: str,
    origin: dict[str, Any],
) -> str:
    """Return the page as HTML; the heading has lines on targets, version and seed."""
    figure = draw_repeats(rows, summary)
    with report_style():
        svg = as_svg(figure, "repeats", DESCRIPTION)
    columns = cells(summary)
    groups = _group_by_target(rows, summary, list(zip(*columns.values(), strict=True)))
    return render(
        "repeats.html", title=_title(origin, groups), several=len(groups) > 1, titles=list(columns),
        groups=groups, doubtful=[line for group in groups for line in group.lines if line.doubts],
        intervals=intervals(summary), heading=heading, svg=svg, command=command,
        generator=GENERATOR,
        settings=json.dumps({n: origin[n] for n in ("settings", "samplers", "versions")}, indent=1),
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )  # fmt: skip


def _title(origin: dict[str, Any], groups: list[Group]) -> str:
    if len(groups) > 1:
        return f"{TITLE} on {len(groups)} targets"
    return f"{next(iter(origin['targets'].values()))['model']}: {TITLE.lower()}"


def _group_by_target(
    rows: pd.DataFrame, summary: pd.DataFrame, cells: list[tuple[list[str], ...]]
) -> list[Group]:
    several = isinstance(summary.index, pd.MultiIndex)
    colors, names, doubtful = color_numbers(summary), labels(summary), doubts(rows, summary)
    by_target: dict[str, list[Line]] = {}
    for i, key in enumerate(summary.index):
        target, sampler = key if several else ("", key)
        usable = summary["fine"].iloc[i] == summary["asked"].iloc[i]
        line = Line(str(sampler), names[i], colors[i], bool(usable), cells[i], doubtful[i])
        by_target.setdefault(str(target), []).append(line)
    groups = []
    for target, lines in by_target.items():
        choice, winner = _choose(lines, summary.loc[target] if several else summary)
        groups.append(Group(target, choice, winner, lines))
    return groups


def _choose(lines: list[Line], part: pd.DataFrame) -> tuple[Message, str]:
    """Recommend the fastest sampler of those with fine repeats only."""
    usable = [line.name for line in lines if line.usable]
    if not usable:
        text = "No sampler can be recommended: none converged in every repeat."
        return Message("no_recommendation", text), ""
    seconds, gradients = (
        {name: cost_of(part.loc[name], measure) for name in usable} for measure in PANELS
    )
    choice, winner = choose(seconds, gradients, alone=len(lines) == 1)
    return choice, winner or ""
