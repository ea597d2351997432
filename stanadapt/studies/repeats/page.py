"""The page of a repeated comparison: which sampler, table, picture, and how it was made."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stanadapt.studies.repeats.picture import colors, draw_repeats
from stanadapt.studies.repeats.summary import doubts, intervals, labels
from stanadapt.studies.repeats.table import cells_of
from stanadapt.studies.report.canvas import as_svg, own_settings
from stanadapt.studies.report.conclusion import Cost, choose
from stanadapt.studies.report.html import page

TITLE = "Repeated comparison"
GENERATOR = "stanadapt compare_repeats"
SAID = "Median effective sample size per second and per gradient, with intervals, by sampler"


def is_repeats_page(path: Path) -> bool:
    """Whether a file is such a page: one that may be written anew when repeats go on."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return f'content="{GENERATOR}"' in file.read(1000)


class Line(NamedTuple):
    """A sampler on one target; `place` is its number among the colors."""

    name: str
    label: str
    place: int
    usable: bool
    cells: list[list[str]]
    doubts: list[str]


class Group(NamedTuple):
    """The samplers on one target, and which of them to use; `winner` is "" without one."""

    target: str
    choice: str
    winner: str
    lines: list[Line]


def repeats_page(
    rows: pd.DataFrame,
    summary: pd.DataFrame,
    heading: list[str],
    command: str,
    origin: dict[str, Any],
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    rows, summary
        See `repeats_summary`.
    heading
        What the targets, the version and the seed are.
    command
        That made it; "" from Python.
    origin
        Settings and versions, as plain values.

    """
    figure = draw_repeats(rows, summary, for_page=True)
    with own_settings():
        svg = as_svg(figure, "repeats", SAID)
    titles, columns = cells_of(summary)
    cells = [[column[i] for column in columns] for i in range(len(summary))]
    groups = _groups(rows, summary, cells)
    return page(
        "repeats.html", title=_title(origin, groups), several=len(groups) > 1, titles=titles,
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


def _groups(rows: pd.DataFrame, summary: pd.DataFrame, cells: list[list[list[str]]]) -> list[Group]:
    several = isinstance(summary.index, pd.MultiIndex)
    places, names, doubtful = colors(summary), labels(summary), doubts(rows, summary)
    found: dict[str, list[Line]] = {}
    for i, key in enumerate(summary.index):
        target, sampler = key if several else ("", key)
        usable = summary["fine"].iloc[i] == summary["asked"].iloc[i]
        line = Line(str(sampler), names[i], places[i], bool(usable), cells[i], doubtful[i])
        found.setdefault(str(target), []).append(line)
    groups = []
    for target, lines in found.items():
        choice, winner = _choice(lines, summary.loc[target] if several else summary)
        groups.append(Group(target, choice, winner, lines))
    return groups


def _choice(lines: list[Line], part: pd.DataFrame) -> tuple[str, str]:
    """Which sampler is fastest of those all of whose repeats are fine."""
    usable = [line.name for line in lines if line.usable]
    if not usable:
        return "No sampler can be recommended: of none are all repeats fine.", ""
    seconds, gradients = (
        {name: _cost(part.loc[name], measure) for name in usable}
        for measure in ("ess_per_second", "ess_per_gradient")
    )
    choice, winner = choose(seconds, gradients, alone=len(lines) == 1)
    return choice, winner or ""


def _cost(line: pd.Series, measure: str) -> Cost:
    middle, low, high = (float(line[f"{measure}{end}"]) for end in ("", "_low", "_high"))
    return Cost(middle, low, high, int(line["repeats"]))
