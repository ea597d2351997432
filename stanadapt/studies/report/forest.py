"""The picture of posterior intervals, in units of the reference's standard deviations."""

import numpy as np

from stanadapt.diagnostics.compare import differences
from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit, parameters

MOST = 16  # parameters
WIDEST = 6.0  # standard deviations beyond which the axis is cut
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


def most_different(runs: list[ReportedFit], reference: ReportedFit) -> list[str]:
    """Sort the parameters of the reference, those with the largest differences from it first.

    The order is by the largest z of means and sds over all runs; without another run, by the
    smallest ESS.
    """
    measured = reference.measured
    scores = dict.fromkeys(parameters(reference), 0.0)
    ess = dict(zip(measured.names, measured.ess_bulk, strict=True))
    for run in runs:
        if run is not reference:
            names, z = differences(run.measured, measured)
            largest = np.where(np.isfinite(z), z, 0.0).max(axis=0).tolist()
            for name, one in zip(names, largest, strict=True):
                if name in scores:
                    scores[name] = max(scores[name], one)
    return sorted(scores, key=lambda name: (-scores[name], np.nan_to_num(ess[name]), name))


def draw(
    runs: list[ReportedFit], reference: ReportedFit, places: dict[str, int]
) -> canvas.Picture | None:
    """Draw a row per parameter and a line per run; return None if no parameter can be drawn."""
    ordered = most_different(runs, reference)
    most = set(ordered[:MOST])
    names = [name for name in reference.measured.names if name in most]
    if not names:
        return None
    step, measured = 0.8 / len(runs), reference.measured
    figure = canvas.new_figure(0.8 + len(names) * max(0.24, 0.11 * len(runs)))
    axes = figure.subplots()
    for j in range(len(names)):
        if j % 2:
            axes.axhspan(j - 0.5, j + 0.5, color=canvas.MUTED, alpha=0.1, lw=0)
    for k, run in enumerate(runs):
        for j, name in enumerate(names):
            if name in run.columns and np.isfinite(run.columns[name]).all():
                i, place = measured.names.index(name), places[run.name]
                quantiles = np.quantile(run.columns[name], PROBABILITIES)
                low, quarter, median, upper, high = (quantiles - measured.mean[i]) / measured.sd[i]
                at, color = [j - 0.4 + step * (k + 0.5)], canvas.hue(place)
                axes.plot([low, high], at * 2, color=color, lw=1, ls=canvas.dash(place))
                axes.plot([quarter, upper], at * 2, color=color, lw=2.6, solid_capstyle="butt")
                axes.plot(median, at, "o", color=color, ms=3.5)
    for value in (-1.645, 0.0, 1.645):
        axes.axvline(value, color=canvas.MUTED, lw=0.7, ls=(0, (3, 2)), zorder=0)
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, -WIDEST), min(right, WIDEST))
    axes.set_yticks(range(len(names)), [canvas.shorten(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("distance from the mean of the reference, in its standard deviations")
    caption = _caption(len(names), len(ordered))
    description = "Medians and intervals of each parameter by each sampler"
    return canvas.picture(figure, "forest", "Posterior by each sampler", caption, description)


def _caption(shown: int, count: int) -> str:
    which = (
        f"The {shown} parameters of {count:,} on which the samplers differ most in Monte Carlo "
        "standard errors"
        if shown < count
        else "Every parameter"
    )
    return (
        f"{which}: median, half and 90% of the posterior by each sampler. Lines of one row should "
        "agree in place and length; the dashed lines mark those of a normal posterior."
    )
