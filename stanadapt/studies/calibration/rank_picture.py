"""The picture of ranks: distribution functions minus the uniform, with simultaneous bands."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from stanadapt.studies.calibration.uniform_ranks import RankBands

PROBABILITY = 0.95  # that a band holds the whole function


def draw_ranks(ranks: Mapping[str, np.ndarray], bands: RankBands) -> Figure:
    """Draw ranks by quantity, each of shape (count,), in panels with common axes."""
    columns = min(4, len(ranks))
    rows = -(-len(ranks) // columns)
    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(2.6 * columns, 2.2 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for axis, (name, of_one) in zip(axes, ranks.items(), strict=False):
            _panel(axis, name, of_one, bands)
        for axis in axes[len(ranks) :]:
            axis.set_axis_off()
        figure.supxlabel("rank of the truth, as a share")
        figure.supylabel("ranks below, minus uniform")
    return figure


def _panel(axis: Any, name: str, ranks: np.ndarray, bands: RankBands) -> None:
    share = bands.below
    low, high = (limit / bands.count - share for limit in bands.limits(PROBABILITY))
    below = bands.numbers_below(ranks) / bands.count - share
    axis.fill_between(share, low, high, color="0.85", step="mid", linewidth=0)
    axis.step(share, below, where="mid", color="C0", linewidth=1.2)
    axis.set_title(name, fontsize=8)
