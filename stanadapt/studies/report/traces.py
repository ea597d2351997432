"""The picture of traces and ranks of the three worst parameters of one fit."""

from typing import Any

import numpy as np
import scipy

from stanadapt.diagnostics.mixing import R_HAT
from stanadapt.studies.report import canvas
from stanadapt.studies.report.fits import ReportedFit, parameters

WORST, BINS = 3, 20
MOST_POINTS = 1200  # of a trace, all chains together
MOST_CHAINS = 8  # of a rank plot
TALLEST = 4.0  # bar of a rank plot, relative to equal chains; higher ones are cut


def worst_parameters(run: ReportedFit) -> list[str]:
    """Return the three with the largest R-hat above 1.01, then with the smallest ESS."""
    measured, moving = run.measured, set(parameters(run))
    scores = {}
    for name, r_hat, *ess in zip(
        measured.names, measured.r_hat, measured.ess_bulk, measured.ess_tail, strict=True
    ):
        if name in moving:
            excess = r_hat if r_hat > R_HAT else (np.inf if np.isinf(r_hat) else 0.0)
            scores[name] = (-excess, float(np.nan_to_num(min(ess), nan=0.0)))
    return sorted(scores, key=scores.__getitem__)[:WORST]


def draw(run: ReportedFit, place: int) -> canvas.Picture | None:
    """Draw a row per parameter: trace, and ranks by chain; return None if no parameter moves."""
    names = worst_parameters(run)
    if not names:
        return None
    figure = canvas.new_figure(0.5 + 1.45 * len(names))
    grid = figure.subplots(len(names), 2, squeeze=False, width_ratios=(2, 1))
    for (left, right), name in zip(grid, names, strict=True):
        _draw_trace(left, run.columns[name], canvas.hue(place))
        _draw_ranks(right, run.columns[name], canvas.hue(place))
        left.set_title(_title(run, name))
    grid[0, 1].set_title("ranks by chain")
    grid[-1, 0].set_xlabel("draw")
    grid[-1, 1].set_xlabel("rank among all draws")
    title = f"Traces and ranks: {run.label}"
    description = f"Trace, and ranks by chain, of {', '.join(names)} by {run.label}"
    return canvas.picture(figure, f"traces{place}", title, _caption(run, names), description)


def _title(run: ReportedFit, name: str) -> str:
    i = run.measured.names.index(name)
    r_hat, ess = run.measured.r_hat[i], run.measured.ess_bulk[i]
    shown = f"R-hat {r_hat:.3f}, " if np.isfinite(r_hat) else ""
    return f"{canvas.shorten(name)}: {shown}bulk ESS {ess:,.0f}"


def _draw_trace(axes: Any, draws: np.ndarray, color: str) -> None:
    chains, length = draws.shape
    count = min(length, max(50, MOST_POINTS // chains))
    at = np.unique(np.linspace(0, length - 1, count).round().astype(int))
    for row, opacity in zip(draws, canvas.opacities(chains), strict=True):
        axes.plot(at + 1, row[at], color=color, lw=0.7, alpha=opacity)
    axes.margins(x=0)
    canvas.label_iterations(axes.xaxis)


def _draw_ranks(axes: Any, draws: np.ndarray, color: str) -> None:
    """Draw a histogram per chain; the dashed line is the height of equal chains."""
    means = draws.mean(axis=1)
    unusual = np.argsort(-np.abs(means - np.median(means)), kind="stable")
    chains = sorted(unusual[:MOST_CHAINS].tolist())
    ranks = scipy.stats.rankdata(draws).reshape(draws.shape) / draws.size
    expected = draws.shape[1] / BINS
    counts = {c: np.histogram(ranks[c], BINS, (0, 1))[0] / expected for c in chains}
    tallest = min(TALLEST, max(1.5, *(count.max() for count in counts.values())))
    edges = np.linspace(0, 1, BINS + 1)
    for level, c in enumerate(chains):
        floor = len(chains) - 1 - level
        heights = floor + 0.9 * np.minimum(counts[c] / tallest, 1)
        axes.stairs(heights, edges, baseline=floor, fill=True, color=color, alpha=0.75)
        axes.plot([0, 1], [floor + 0.9 / tallest] * 2, color=canvas.INK, lw=0.6, ls=(0, (3, 2)))
        axes.axhline(floor, color=canvas.MUTED, lw=0.5)
    levels = [len(chains) - 1 - level + 0.4 for level in range(len(chains))]
    axes.set_yticks(levels, [f"chain {c + 1}" for c in chains])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["lowest", "", "highest"])
    axes.set_ylim(0, len(chains))


def _caption(run: ReportedFit, names: list[str]) -> str:
    which = {1: "The only parameter", 2: "The two parameters"}.get(len(names), "The three worst")
    chains = run.row["chains"]
    shown = f" (the {MOST_CHAINS} least usual of {chains})" if chains > MOST_CHAINS else ""
    return (
        f"{which}, by R-hat if it is above {R_HAT:g}, then by effective sample size: traces of "
        "good chains lie on top of each other without drift or flat stretches, and the ranks of "
        f"every chain{shown} are spread evenly, at the height of the dashed line."
    )
