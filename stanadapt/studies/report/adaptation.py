"""The picture of acceptance rates and step sizes along the iterations."""

from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit

BLOCKS = 60  # means per phase that are drawn


def draw(runs: list[ReportedFit], places: dict[str, int]) -> canvas.Picture | None:
    """Draw a row per run with acceptance rates or step sizes; return None if no run has any."""
    shown = [run for run in runs if {"acceptance_rate", "step_size"} & run.statistics.keys()]
    if not shown:
        return None
    figure = canvas.new_figure(0.5 + 1.15 * len(shown))
    grid = figure.subplots(len(shown), 2, squeeze=False)
    for (left, right), run in zip(grid, shown, strict=True):
        color = canvas.hue(places[run.name])
        _draw_panel(left, run, "acceptance_rate", color)
        left.set_ylim(0, 1.02)
        left.set_title(f"{canvas.shorten(run.label)}: acceptance rate")
        if "step_size" in run.statistics:
            _draw_panel(right, run, "step_size", color)
            right.set_title("step size")
        else:
            right.set_axis_off()
    for axes in grid[-1]:
        axes.set_xlabel("iteration; sampling begins after 0")
    caption = _caption(runs, shown)
    description = "Acceptance rates and step sizes along the iterations, by sampler"
    return canvas.picture(figure, "adaptation", "Adaptation", caption, description)


def _draw_panel(axes: Any, run: ReportedFit, name: str, color: str) -> None:
    warmup, sampling = (
        results.statistics(run.fit, group).get(name, np.zeros((1, 0)))
        for group in ("warmup_sample_stats", "sample_stats")
    )
    thin = int(run.fit.attrs.get("thin", 1))
    drawn = []
    for values, first in ((warmup, -warmup.shape[1]), (sampling, 0)):
        if not values.shape[1]:
            continue
        size = max(1, values.shape[1] // BLOCKS)
        count = values.shape[1] // size
        blocks = values[:, : count * size].reshape(len(values), count, size).mean(axis=2)
        at = (first + (np.arange(count) + 0.5) * size) * thin
        drawn.append(blocks)
        for row, opacity in zip(blocks, canvas.opacities(len(blocks)), strict=True):
            axes.plot(at, row, color=color, lw=0.9, alpha=opacity)
    canvas.label_iterations(axes.xaxis)
    if warmup.shape[1]:
        axes.axvline(0, color=canvas.MUTED, lw=0.8, ls=(0, (3, 2)))
    if name == "step_size":
        positive = np.concatenate([b[np.isfinite(b) & (b > 0)] for b in drawn])
        if len(positive) and positive.max() > 20 * positive.min():
            axes.set_yscale("log")
            canvas.label_log_axis(axes.yaxis)


def _caption(runs: list[ReportedFit], shown: list[ReportedFit]) -> str:
    text = (
        "Means over blocks of iterations, one line per chain. Warm-up is left of the dashed line; "
        "right of it, lines should be alike and stay at one level."
    )
    unsaved = [run.label for run in shown if not results.statistics(run.fit, "warmup_sample_stats")]
    if unsaved:
        text += f" Warm-up was not saved (save_warmup=True) by {', '.join(unsaved)}."
    without = [run.label for run in runs if run not in shown]
    if without:
        text += f" Without statistics to show: {', '.join(without)}."
    return text
