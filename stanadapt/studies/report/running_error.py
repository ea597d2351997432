"""The picture of the error of the running means against the gradients spent."""

from typing import Any

import numpy as np

from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit, parameters

POINTS = 80  # of a line


def running_error(run: ReportedFit, reference: ReportedFit) -> tuple[np.ndarray, np.ndarray]:
    """Return evaluations spent, warm-up included, and the largest error of a mean by then.

    Means are over all chains, errors in standard deviations of the reference. Evaluations are
    spread evenly over the draws, since only the totals of warm-up and sampling are recorded. The
    reference ends at its own mean, so only its first half is returned.
    """
    place, own = {n: i for i, n in enumerate(reference.measured.names)}, set(parameters(run))
    names = [name for name in parameters(reference) if name in own]
    i = [place[name] for name in names]
    mean, sd = reference.measured.mean[i], reference.measured.sd[i]
    table = np.stack([run.columns[name].mean(axis=0) for name in names], axis=1)
    length = len(table)
    last = length // 2 if run is reference else length
    at = np.unique(np.geomspace(1, max(last, 1), POINTS).round().astype(int))
    means = np.cumsum(table, axis=0)[at - 1] / at[:, np.newaxis]
    warmup, total = evaluations(run)
    return warmup + (total - warmup) * at / length, np.max(np.abs(means - mean) / sd, axis=1)


def evaluations(run: ReportedFit) -> tuple[float, float]:
    """Return gradients and densities of warm-up, and of the whole run; zero if unknown."""

    def count(name: str) -> float:
        return float(run.fit.attrs.get(name, 0))

    return (
        count("n_gradients_warmup") + count("n_density_warmup"),
        count("n_gradients") + count("n_density"),
    )


def draw(
    runs: list[ReportedFit], reference: ReportedFit, sound: bool, places: dict[str, int]
) -> canvas.Picture | None:
    """Draw a line per run with counted evaluations; return None if there is no such run."""
    shown = [
        run
        for run in runs
        if evaluations(run)[1] > 0 and set(parameters(run)) & set(parameters(reference))
    ]
    if not shown:
        return None
    figure = canvas.new_figure(3.4)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    through = (np.nan, np.nan)
    for run in shown:
        x, y = running_error(run, reference)
        place = places[run.name]
        color, label = canvas.hue(place), canvas.shorten(run.label)
        axes.plot(x, y, color=color, ls=canvas.dash(place), lw=1.6, label=label)
        if run is reference or not np.isfinite(through[0]):
            through = (float(x[-1]), float(y[-1]))
    _draw_slope(axes, through)
    density = any(run.fit.attrs.get("n_density", 0) for run in shown)
    counted = "gradients, or densities of samplers without," if density else "gradients,"
    axes.set_xlabel(f"{counted} of all chains, warm-up included")
    axes.set_ylabel("largest error, in posterior sd")
    axes.legend(fontsize=8)
    caption = _caption(runs, shown, reference, sound)
    description = "Largest error of the means against gradients spent, a line per sampler"
    return canvas.picture(figure, "error", "Error of the means", caption, description)


def _draw_slope(axes: Any, through: tuple[float, float]) -> None:
    """Draw a line of slope -1/2 through a point."""
    x, y = through
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    at = np.geomspace(left, right, 50)
    axes.plot(at, y * np.sqrt(x / at), color=canvas.MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    canvas.label_log_axis(axes.xaxis)
    canvas.label_log_axis(axes.yaxis)


def _caption(
    runs: list[ReportedFit], shown: list[ReportedFit], reference: ReportedFit, sound: bool
) -> str:
    measured = "the mean" if sound else "the mean, itself in doubt,"
    text = (
        f"Largest distance of a running mean from {measured} of {reference.label}: lower and "
        "further left is better, and the dashed line shows how errors of independent draws shrink. "
        "Near the end, the error of the reference matters too."
    )
    if reference in shown:
        text += " Its line ends at half of its draws."
    left_out = [run.label for run in runs if run not in shown]
    if left_out:
        text += f" Not shown, because their evaluations were not counted: {', '.join(left_out)}."
    return text
