"""The picture of a repeated comparison: a dot with an interval per sampler and target."""

import io
from typing import Any

import numpy as np
import pandas as pd

from stanadapt.studies.repeats.summary import select_repeats
from stanadapt.studies.report import canvas

PANELS = {"ess_per_second": "ESS per second", "ess_per_gradient": "ESS per gradient"}
LINE = 0.26  # height of a sampler in inches
LONGEST_TITLE = 48  # characters of a target, written over the panel


def draw_repeats(rows: pd.DataFrame, summary: pd.DataFrame, for_page: bool = False) -> Any:
    """Draw medians with intervals, and every repeat as a faint dot, on logarithmic axes.

    Colors for a page are placeholders, which its style sheet replaces.
    """
    places, titles = _heights(summary)
    shown = [name for name in PANELS if np.isfinite(summary[name].to_numpy(float)).any()]
    with canvas.report_style():
        figure = canvas.new_figure(0.9 + LINE * (max(places) + 1))
        axes = np.atleast_1d(figure.subplots(1, max(len(shown), 1), sharey=True))
        for axis, name in zip(axes, shown, strict=False):
            _draw_panel(axis, name, rows, summary, places, for_page)
        axes[0].set_yticks(places, [canvas.shorten(name) for name in _sampler_names(summary)])
        for place, title in titles.items():
            axes[0].text(
                0.015, place, canvas.shorten(title, LONGEST_TITLE), fontweight="bold", va="center",
                transform=axes[0].get_yaxis_transform(), color=canvas.INK if for_page else "black",
            )  # fmt: skip
        axes[0].set_ylim(max(places) + 0.6, -0.6)
        if not shown:
            axes[0].set_title("no repeat has a number to show")
    return figure


def as_pdf(figure: Any) -> bytes:
    """Return a figure as PDF: the same bytes for the same repeats."""
    buffer = io.BytesIO()
    with canvas.report_style():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def _heights(summary: pd.DataFrame) -> tuple[list[float], dict[float, str]]:
    """Return heights of the lines, and of the targets, each above the lines of its samplers."""
    if not isinstance(summary.index, pd.MultiIndex):
        return [float(i) for i in range(len(summary))], {}
    places: list[float] = []
    titles: dict[float, str] = {}
    height, last = 0.0, None
    for target, _ in summary.index:
        if target != last:
            titles[height], last = str(target), target
            height += 1.0
        places.append(height)
        height += 1.0
    return places, titles


def _sampler_names(summary: pd.DataFrame) -> list[str]:
    return [str(key[-1] if isinstance(key, tuple) else key) for key in summary.index]


def color_numbers(summary: pd.DataFrame) -> list[int]:
    """Return the number of the color of each line: one per sampler, the same on all targets."""
    names = _sampler_names(summary)
    order = list(dict.fromkeys(names))
    return [order.index(name) for name in names]


def _draw_panel(
    axis: Any,
    name: str,
    rows: pd.DataFrame,
    summary: pd.DataFrame,
    places: list[float],
    for_page: bool,
) -> None:
    axis.set_xscale("log")
    entries = zip(places, color_numbers(summary), summary.iterrows(), strict=True)
    for place, number, (key, line) in entries:
        color = canvas.hue(number) if for_page else canvas.LIGHT[number % len(canvas.LIGHT)]
        values = select_repeats(rows, key, int(line["asked"]))[name].to_numpy(float)
        values = values[np.isfinite(values) & (values > 0.0)]
        axis.plot(values, np.full(values.size, place), "o", color=color, alpha=0.3, markersize=3.5)
        middle, low, high = (float(line[f"{name}{end}"]) for end in ("", "_low", "_high"))
        if not middle > 0.0:
            continue
        style = canvas.dash(number)
        axis.plot([low, high], [place, place], color=color, linewidth=1.6, linestyle=style)
        fine = line["fine"] == line["asked"]
        face = color if fine else "none"
        axis.plot([middle], [place], "o", color=color, markerfacecolor=face, markersize=6.5)
    axis.set_title(PANELS[name], color=canvas.INK if for_page else "black")
    axis.grid(axis="x", color=canvas.MUTED if for_page else "0.6", alpha=0.3, linewidth=0.6)
    canvas.label_log_axis(axis.xaxis)
    if not for_page:
        axis.tick_params(which="both", colors="black", labelcolor="black")
        for spine in axis.spines.values():
            spine.set_color("black")
