"""The picture of effective draws per second and per gradient, with the range over repeats."""

from typing import Any

import numpy as np

from stanadapt.studies.report import canvas
from stanadapt.studies.report.conclusion import Cost, number, per_gradient, per_second
from stanadapt.studies.report.fits import ReportedFit


def draw(runs: list[ReportedFit], refused: list[str]) -> canvas.Picture | None:
    """Draw a row per name and a panel per cost, or nothing if no cost was recorded.

    Marks of names that are refused are hollow.
    """
    names = list(dict.fromkeys(run.name for run in runs))
    costs = {
        "per second": [per_second(runs, name) for name in names],
        "per gradient": [per_gradient(runs, name) for name in names],
    }
    if not any(np.isfinite(cost.median) for panel in costs.values() for cost in panel):
        return None
    figure = canvas.new_figure(0.75 + 0.3 * len(names))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (title, panel) in zip(panels, costs.items(), strict=True):
        _draw_panel(axes, title, panel, [name in refused for name in names])
    panels[0].set_yticks(range(len(names)), [canvas.shorten(name) for name in names])
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    description = "Smallest effective sample size per second and per gradient, by sampler"
    return canvas.picture(figure, "costs", "Cost", _caption(runs, refused), description)


def _draw_panel(axes: Any, title: str, costs: list[Cost], hollow: list[bool]) -> None:
    counted = [cost for cost in costs if cost.median > 0]
    axes.set_title(f"smallest ESS {title}")
    if not counted:
        axes.set_xticks([])
        return
    low, high = (f([c for cost in counted for c in cost[1:3]]) for f in (min, max))
    axes.set_xscale("log")
    # room for the numbers on the right
    span = max(high / low, 10.0)
    axes.set_xlim(low / span**0.15, high * span**0.35)
    canvas.label_log_axis(axes.xaxis)
    for i, cost in enumerate(costs):
        if not cost.median > 0:
            axes.text(
                0.02, i, "not counted", color=canvas.MUTED, va="center",
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
            continue
        fill = "none" if hollow[i] else canvas.hue(i)
        if cost.highest > cost.lowest:
            axes.plot([cost.lowest, cost.highest], [i, i], color=canvas.hue(i), lw=2)
        axes.plot(cost.median, i, "o", ms=6, mfc=fill, mec=canvas.hue(i), mew=1.5)
        axes.annotate(
            number(cost.median), (cost.highest, i), (8, 0), textcoords="offset points", va="center"
        )


def _caption(runs: list[ReportedFit], refused: list[str]) -> str:
    several = any(run.repeat for run in runs)
    spread = (
        "Dots are medians over repeats, and lines show their range: if lines overlap, the order "
        "is not certain."
        if several
        else "Further right is better; without repeats there is no range, and small differences "
        "are not meaningful."
    )
    hollow = " A hollow dot is a fit that cannot be used." if refused else ""
    return f"{spread}{hollow} Warm-up is included, compilation is not."
