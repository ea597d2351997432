"""The picture of a repeated comparison: a dot with an interval per sampler and target."""

import io
from typing import Any

import pandas as pd

from stanadapt.studies.repeats.summary import select_repeats
from stanadapt.studies.report import canvas
from stanadapt.studies.report.conclusion import Cost
from stanadapt.studies.report.costs import Line, draw_lines

PANELS = {"ess_per_second": "ESS per second", "ess_per_gradient": "ESS per gradient"}


def draw_repeats(rows: pd.DataFrame, summary: pd.DataFrame) -> Any:
    """Return a figure of medians with intervals, and every repeat as a faint dot."""
    heights, groups = _heights(summary)
    names, colors, lines = _sampler_names(summary), color_numbers(summary), []
    for i, (key, line) in enumerate(summary.iterrows()):
        made = select_repeats(rows, key, int(line["asked"]))
        repeats = [made[measure].to_numpy(float) for measure in PANELS]
        usable = bool(line["fine"] == line["asked"])
        costs = [cost_of(line, measure) for measure in PANELS]
        lines.append(Line(names[i], heights[i], colors[i], usable, costs, repeats))
    with canvas.report_style():
        return draw_lines(lines, tuple(PANELS.values()), groups)


def cost_of(line: pd.Series, measure: str) -> Cost:
    """Return a measure of a line of a summary, with its interval."""
    middle, low, high = (float(line[f"{measure}{end}"]) for end in ("", "_low", "_high"))
    return Cost(middle, low, high, int(line["repeats"]))


def as_pdf(figure: Any) -> bytes:
    """Return a figure as PDF: the same bytes for the same repeats."""
    buffer = io.BytesIO()
    with canvas.report_style():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def _heights(summary: pd.DataFrame) -> tuple[list[float], dict[float, str]]:
    """Return heights of the lines, and of the targets, each above the lines of its samplers."""
    heights: list[float] = []
    groups: dict[float, str] = {}
    for key in summary.index:
        if isinstance(key, tuple) and key[0] not in groups.values():
            groups[float(len(heights) + len(groups))] = key[0]
        heights.append(float(len(heights) + len(groups)))
    return heights, groups


def _sampler_names(summary: pd.DataFrame) -> list[str]:
    return [str(key[-1] if isinstance(key, tuple) else key) for key in summary.index]


def color_numbers(summary: pd.DataFrame) -> list[int]:
    """Return the number of the color of each line: one per sampler, the same on all targets."""
    names = _sampler_names(summary)
    order = list(dict.fromkeys(names))
    return [order.index(name) for name in names]
