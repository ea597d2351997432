"""Figures of draws in the plane, one panel per method."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workflows.pictures import plt, saved

ACROSS = 4  # panels
SAVED, DECIMALS = 250, 3  # points of a panel in a file


def panels(count: int) -> tuple[Any, list[Any]]:
    """Make a figure of `count` panels that share their axes."""
    across = min(count, ACROSS)
    down = -(-count // across)
    figure, axes = plt.subplots(
        down, across, figsize=(3.1 * across, 3.2 * down), sharex=True, sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for panel in axes.flat[count:]:
        panel.axis("off")
    return figure, list(axes.flat[:count])


def scatter(
    path: Path, points: dict[str, np.ndarray], title: str, marks: Any = None, line: bool = False
) -> Path:
    """Draw points, shape (draw, 2), by the name of their panel; marks are circles in each panel.

    With `line`, a line leads from each point to the next.
    """
    figure, axes = panels(len(points))
    for panel, (name, x) in zip(axes, points.items(), strict=True):
        if marks is not None:
            panel.plot(*np.transpose(marks), "o", mfc="none", mec="0.6", ms=9)
        if line:
            panel.plot(x[:, 0], x[:, 1], "-", color="0.7", lw=0.3)
        panel.plot(x[:, 0], x[:, 1], ".", color="tab:blue", ms=1.5, alpha=0.4)
        panel.set_title(f"{name}\n{len(x):,} draws", fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.supxlabel("x[1]")
    figure.supylabel("x[2]")
    return saved(figure, path, 120)


def save(path: Path, points: dict[str, np.ndarray], in_a_row: bool = False) -> Path:
    """Write some of the points of each panel: the first, or equally far apart in their order."""
    parts = []
    for name, x in points.items():
        last = SAVED if in_a_row else len(x)
        places = np.linspace(0, min(last, len(x)) - 1, min(SAVED, len(x))).astype(int)
        chosen = x[np.unique(places), :2]
        parts.append(pd.DataFrame(chosen.round(DECIMALS), columns=["x1", "x2"]).assign(panel=name))
    pd.concat(parts)[["panel", "x1", "x2"]].to_csv(path, index=False)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the points by panel that `save` wrote."""
    table = pd.read_csv(path)
    return {
        name: part[["x1", "x2"]].to_numpy() for name, part in table.groupby("panel", sort=False)
    }
