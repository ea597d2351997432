"""Figures 1 and 2 of Nemeth et al. (2019): two Gaussians on a line.

The CSV files hold what is drawn, so that the page of reproductions draws the same.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from workflows.pictures import plt, saved

SHOWN, BINS = 3.0, 100  # half width of the figures; bins of the histograms
CONTOUR_POINTS = 80  # at most, along each axis
Density = Callable[[np.ndarray], np.ndarray]


def joint(axis: np.ndarray, density: np.ndarray) -> pd.DataFrame:
    """Return the density of two pseudo-samples on a part of its grid, one row per point."""
    inside = np.flatnonzero(np.abs(axis) < SHOWN)
    chosen = inside[:: max(1, -(-len(inside) // CONTOUR_POINTS))]
    first, second = np.meshgrid(axis[chosen], axis[chosen], indexing="ij")
    values = density[np.ix_(chosen, chosen)]
    return pd.DataFrame(
        {"x1": first.ravel(), "x2": second.ravel(), "density": values.ravel().round(6)}
    )


def marginals(axis: np.ndarray, density: np.ndarray, target: Density) -> pd.DataFrame:
    """Return the density of the target, and the marginal of a pseudo-sample."""
    inside = np.abs(axis) < SHOWN
    marginal = density.sum(axis=1) * (axis[1] - axis[0])
    return pd.DataFrame(
        {"x": axis[inside], "target": target(axis[inside]), "marginal": marginal[inside]}
    ).round(6)


def histograms(x: np.ndarray, weight: np.ndarray, target: Density) -> pd.DataFrame:
    """Return histograms of pseudo-samples, unweighted and weighted, and the target's density.

    They are normalized over all pseudo-samples, including those outside the figure.
    """
    x, weight = x.ravel(), weight.ravel()
    edges = np.linspace(-SHOWN, SHOWN, BINS + 1)
    middles = 0.5 * (edges[1:] + edges[:-1])
    table = pd.DataFrame({"x": middles, "target": target(middles)})
    for name, weights in {"unweighted": np.ones(x.size), "weighted": weight}.items():
        counts = np.histogram(x, edges, weights=weights)[0]
        table[name] = counts / weights.sum() / (edges[1] - edges[0])
    return table.round(6)


def draw_figure_1(path: Path, joint: pd.DataFrame, marginals: pd.DataFrame) -> Path:
    """Draw the density of two pseudo-samples, and its marginal with the target's density."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    grid = joint.pivot(index="x2", columns="x1", values="density")
    left.contour(grid.columns, grid.index, grid, levels=12)
    left.set(xlabel="pseudo-sample 1", ylabel="pseudo-sample 2", title="two pseudo-samples")
    right.plot(marginals["x"], marginals["target"], label="target")
    right.plot(marginals["x"], marginals["marginal"], label="marginal of a pseudo-sample")
    right.set(xlabel="x", ylabel="density")
    right.legend(frameon=False)
    return saved(figure, path, 120)


def draw_figure_2(path: Path, histograms: pd.DataFrame) -> Path:
    """Draw histograms of pseudo-samples with the target's density."""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharex=True, layout="constrained")
    width = 2 * SHOWN / len(histograms)
    for panel, name in zip(axes, ("unweighted", "weighted"), strict=True):
        panel.bar(histograms["x"], histograms[name], width, color="0.75", label="pseudo-samples")
        panel.plot(histograms["x"], histograms["target"], color="tab:blue", label="target")
        panel.set(title=name, xlabel="x")
    axes[0].set_ylabel("density")
    axes[0].legend(frameon=False)
    return saved(figure, path, 120)
