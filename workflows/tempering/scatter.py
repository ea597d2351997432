"""Figures of draws in the plane, one panel per method."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

ACROSS = 4  # panels


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


def scatter(path: Path, points: dict[str, np.ndarray], title: str, marks: Any = None) -> Path:
    """Draw points, shape (draw, 2), by the name of their panel; marks are circles in each panel."""
    figure, axes = panels(len(points))
    for panel, (name, x) in zip(axes, points.items(), strict=True):
        if marks is not None:
            panel.plot(*np.transpose(marks), "o", mfc="none", mec="0.6", ms=9)
        panel.plot(x[:, 0], x[:, 1], ".", color="tab:blue", ms=1.5, alpha=0.4)
        panel.set_title(f"{name}\n{len(x):,} draws", fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.supxlabel("x[1]")
    figure.supylabel("x[2]")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
