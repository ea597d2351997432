"""The picture of effective draws per second and per gradient, with the range over repeats."""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.studies.report import canvas
from stanadapt.studies.report.conclusion import Cost, number, per_gradient, per_second
from stanadapt.studies.report.fits import ReportedFit

LONGEST_TITLE = 48  # characters of a group, written over the panel


class Line(NamedTuple):
    """A sampler, with a cost for each panel."""

    name: str
    height: float  # its place, from the top
    color: int
    usable: bool  # a hollow dot if not
    costs: list[Cost]
    repeats: list[np.ndarray]  # the numbers behind the medians of costs


def draw(runs: list[ReportedFit], refused: list[str]) -> canvas.Picture | None:
    """Draw a line per name, or nothing if no cost was recorded."""
    lines = []
    for i, name in enumerate(dict.fromkeys(run.name for run in runs)):
        own = [run for run in runs if run.name == name]
        repeats = [run.ess_per_second for run in own], [run.row["ess_per_gradient"] for run in own]
        costs = [per_second(runs, name), per_gradient(runs, name)]
        usable = name not in refused
        lines.append(Line(name, float(i), i, usable, costs, [np.array(x, float) for x in repeats]))
    if not any(np.isfinite(cost.median) for line in lines for cost in line.costs):
        return None
    figure = draw_lines(lines, ("smallest ESS per second", "smallest ESS per gradient"), {})
    description = "Smallest effective sample size per second and per gradient, by sampler"
    return canvas.picture(figure, "costs", "Cost", _caption(runs, refused), description)


def draw_lines(lines: list[Line], titles: tuple[str, ...], groups: dict[float, str]) -> Any:
    """Return a figure with a panel for each cost that was counted; groups: titles by height."""
    counted = [
        k for k in range(len(titles)) if any(np.isfinite(line.costs[k].median) for line in lines)
    ]
    heights = [line.height for line in lines]
    figure = canvas.new_figure(0.9 + 0.28 * (max(heights) + 1))
    panels = np.atleast_1d(figure.subplots(1, max(len(counted), 1), sharey=True))
    for axes, k in zip(panels, counted, strict=False):
        axes.set_title(titles[k])
        _draw_panel(axes, [(line, line.costs[k], line.repeats[k]) for line in lines])
    panels[0].set_yticks(heights, [canvas.shorten(line.name) for line in lines])
    for height, title in groups.items():
        panels[0].text(
            0.015, height, canvas.shorten(title, LONGEST_TITLE), fontweight="bold", va="center",
            transform=panels[0].get_yaxis_transform(),
        )  # fmt: skip
    panels[0].set_ylim(max(heights) + 0.6, -0.6)
    if not counted:
        panels[0].set_title("no repeat has a number to show")
    return figure


def _draw_panel(axes: Any, lines: list[tuple[Line, Cost, np.ndarray]]) -> None:
    """Draw medians with their ranges, and every repeat as a faint dot, on a logarithmic axis."""
    axes.set_xscale("log")
    axes.grid(axis="x", color=canvas.MUTED, alpha=0.3, lw=0.6)
    for line, cost, repeats in lines:
        color, at = canvas.hue(line.color), [line.height]
        if not cost.median > 0.0:
            axes.text(
                0.02, line.height, "not counted", color=canvas.MUTED, va="center",
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
            continue
        if cost.highest > cost.lowest:
            made = repeats[np.isfinite(repeats) & (repeats > 0.0)]
            axes.plot(made, at * made.size, "o", color=color, alpha=0.3, ms=3.5)
            ends = [cost.lowest, cost.highest]
            axes.plot(ends, at * 2, color=color, lw=1.8, ls=canvas.dash(line.color))
        face = color if line.usable else "none"
        axes.plot([cost.median], at, "o", color=color, ms=6.5, mfc=face, mew=1.5)
        axes.annotate(
            number(cost.median), (cost.highest, line.height), (8, 0), va="center",
            textcoords="offset points",
        )  # fmt: skip
    ends = [end for _, cost, _ in lines if cost.median > 0.0 for end in cost[1:3] if end > 0.0]
    if ends:  # with room for the numbers on the right
        span = max(max(ends) / min(ends), 10.0)
        axes.set_xlim(min(ends) / span**0.15, max(ends) * span**0.35)
    canvas.label_log_axis(axes.xaxis)


def _caption(runs: list[ReportedFit], refused: list[str]) -> str:
    several = any(run.repeat for run in runs)
    spread = (
        "Large dots are medians over repeats, and lines show their range: if lines overlap, the "
        "order is not certain."
        if several
        else "Further right is better; without repeats there is no range, and small differences "
        "are not meaningful."
    )
    hollow = " A hollow dot is a fit that cannot be used." if refused else ""
    return f"{spread}{hollow} Warm-up is included, compilation is not."
