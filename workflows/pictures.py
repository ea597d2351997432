"""Pyplot without a screen, and the end of a figure."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")
import matplotlib.pyplot as plt

__all__ = ["legend_outside", "plt", "saved"]


def saved(figure: Figure, path: Path, dpi: int = 110) -> Path:
    """Write a figure, close it, and return the path."""
    figure.savefig(path, dpi=dpi)
    plt.close(figure)
    return path


def legend_outside(figure: Figure, panel: Axes, size: int = 8) -> None:
    """Put the legend of a panel to the right of all."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=size)
