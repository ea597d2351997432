"""Figures 4, 5 and 8 of Nemeth et al. (2019): the Boltzmann machine, relaxed."""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.pictures import legend_outside, plt, saved
from workflows.tempering import cost_figures
from workflows.tempering.published import BOLTZMANN_FIXED
from workflows.tempering.runs import Chain
from workflows.tempering.scatter import save, scatter

FIXED = "NUTS, b = "
GIVEN = ", widths given"
TRUTH = "independent draws"
SHOWN = 10_000  # draws of the first chain
ORDERS = {"rmse": "first moments", "rmse_second": "second moments"}


def fixed_temperatures(path: Path, rows: pd.DataFrame, with_published: bool) -> Path:
    """Figure 5: RMSE of both moments against the fixed b; other methods are horizontal lines."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    for panel, (column, title) in zip(axes, ORDERS.items(), strict=True):
        median = rows.groupby("method", sort=False)[column].median()
        fixed = {float(name.removeprefix(FIXED)): v for name, v in median.items() if is_fixed(name)}
        panel.plot(fixed.keys(), fixed.values(), "o-", color="k", label="here: fixed b, N = 2")
        if with_published and column == "rmse":
            points = BOLTZMANN_FIXED
            panel.plot(points.keys(), points.values(), "D-", color="0.6", label="paper: fixed b")
        others = [name for name in median.index if not is_fixed(name)]
        for number, name in enumerate(others):
            style = {"ls": ("--", ":", "-.")[number // 10 % 3], "color": f"C{number % 10}"}
            panel.axhline(median[name], **style, lw=1.2, label=f"here: {name}")
        panel.set(yscale="log", xlabel="fixed inverse temperature b", title=title)
    axes[0].set_ylabel("RMSE over coordinates, median over repeats")
    legend_outside(figure, axes[0], 7)
    return saved(figure, path)


def is_fixed(method: str) -> bool:
    """Return whether a method has a fixed inverse temperature."""
    return method.startswith(FIXED)


def is_given(method: str) -> bool:
    """Return whether the widths of the posterior are given to a method."""
    return method.endswith(GIVEN)


def projections(
    folder: Path, independent: np.ndarray, chains: dict[str, list[Chain]]
) -> tuple[Path, Path]:
    """Figure 4: independent draws, and those of one chain per method; also saved as CSV."""
    shown = {TRUTH: independent}
    shown |= {
        name: repeats[0].vector()[:SHOWN] for name, repeats in chains.items() if not is_fixed(name)
    }
    saved = save(folder / "boltzmann_projections.csv", shown)
    return saved, draw_projections(folder / "projections.png", shown)


def draw_projections(path: Path, shown: dict[str, np.ndarray]) -> Path:
    """Draw points by panel in the two widest coordinates."""
    shown = {name: x for name, x in shown.items() if not is_given(name)}
    return scatter(path, shown, "one chain per method, in the two widest coordinates")


def costs(path: Path, rows: pd.DataFrame) -> Path:
    """Figure 8: squared error times cost against N, without fixed temperatures or given widths."""
    rows = rows[~rows["method"].map(is_fixed) & ~rows["method"].map(is_given)]
    squared = rows.assign(**{title: rows[column] ** 2 for column, title in ORDERS.items()})
    return cost_figures.draw(path, squared, tuple(ORDERS.values()), "Boltzmann machine")
