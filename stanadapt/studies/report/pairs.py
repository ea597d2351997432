"""The picture of draws of the two parameters that differ most, with divergences."""

from typing import Any

import numpy as np

from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit
from stanadapt.studies.report.forest import most_different

MOST_POINTS, MOST_DIVERGENCES = 1600, 300  # draws of all runs together
PER_ROW = 3  # panels
FEWEST_POINTS = 100
FARTHEST = 12.0  # standard deviations of the reference


def draw(
    runs: list[ReportedFit], reference: ReportedFit, places: dict[str, int]
) -> canvas.Picture | None:
    """Draw a panel per run over draws of the reference; return None if a panel lacks an axis."""
    names = most_different(runs, reference)[:2]
    able = [
        run
        for run in runs
        if all(n in run.columns and np.isfinite(run.columns[n]).all() for n in names)
    ]
    if len(names) < 2 or not able:
        return None
    columns = 2 if len(able) in (2, 4) else min(len(able), PER_ROW)
    rows = -(-len(able) // columns)
    figure = canvas.new_figure(0.4 + rows * canvas.WIDTH / max(columns, 2) * 0.85)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(able) :]:
        axes.set_axis_off()
    share = max(FEWEST_POINTS, MOST_POINTS // len(able))
    for axes, run in zip(grid.flat, able, strict=False):
        if run is not reference:
            x, y, _ = _points(reference, names, share // 2)
            axes.plot(x, y, ".", ms=3, color=canvas.MUTED, alpha=0.5, mew=0)
        x, y, diverging = _points(run, names, share)
        axes.plot(x, y, ".", ms=3.5, color=canvas.hue(places[run.name]), alpha=0.6, mew=0)
        _draw_divergences(axes, run, names, diverging)
        axes.set_title(canvas.shorten(run.label))
    for axes in grid.flat[max(0, len(able) - columns) : len(able)]:
        axes.tick_params(labelbottom=True)
    cut = _limit_axes(grid[0, 0], reference, names)
    grid[0, 0].locator_params(axis="x", nbins=4)  # long numbers would touch
    figure.supxlabel(canvas.shorten(names[0]), fontsize=9)
    figure.supylabel(canvas.shorten(names[1]), fontsize=9)
    caption = _caption(runs, reference, able) + cut
    description = f"Draws of {names[0]} and {names[1]}, a panel per sampler"
    return canvas.picture(
        figure, "pairs", "The two parameters that differ most", caption, description
    )


def _points(
    run: ReportedFit, names: list[str], most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return evenly thinned draws of both, and the indices of all divergent draws."""
    x, y = (run.columns[name].reshape(-1) for name in names)
    at = np.unique(np.linspace(0, x.size - 1, min(most, x.size)).round().astype(int))
    diverging = run.statistics.get("diverging", np.zeros(0))
    return x[at], y[at], np.flatnonzero(diverging)


def _draw_divergences(axes: Any, run: ReportedFit, names: list[str], at: np.ndarray) -> None:
    if not len(at):
        return
    at = at[np.linspace(0, len(at) - 1, min(len(at), MOST_DIVERGENCES)).round().astype(int)]
    x, y = (run.columns[name].reshape(-1)[at] for name in names)
    axes.plot(x, y, "x", ms=4, mew=1.1, color=canvas.INK)


def _limit_axes(axes: Any, reference: ReportedFit, names: list[str]) -> str:
    """Cut off draws very far from the reference, which would shrink all others to a dot."""
    cut = ""
    for name, get, put in (
        (names[0], axes.get_xlim, axes.set_xlim),
        (names[1], axes.get_ylim, axes.set_ylim),
    ):
        i = reference.measured.names.index(name)
        mean, sd = reference.measured.mean[i], reference.measured.sd[i]
        low, high = get()
        if low < mean - FARTHEST * sd or high > mean + FARTHEST * sd:
            cut = f" Draws more than {FARTHEST:.0f} standard deviations away are cut off."
            put(max(low, mean - FARTHEST * sd), min(high, mean + FARTHEST * sd))
    return cut


def _caption(runs: list[ReportedFit], reference: ReportedFit, able: list[ReportedFit]) -> str:
    behind = f", grey: those of {reference.label}" if len(able) > 1 else ""
    crosses = (
        " Crosses are divergences: if they cluster, a region may be missing there."
        if any(run.statistics.get("diverging", np.zeros(1)).any() for run in able)
        else " No fit reports a divergence."
    )
    why = (
        "chosen by the largest difference in Monte Carlo standard errors"
        if len(runs) > 1
        else "chosen by the smallest effective sample size"
    )
    return f"Draws, thinned{behind}; {why}. Clouds should look alike.{crosses}"
