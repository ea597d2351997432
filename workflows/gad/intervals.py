"""Figures of a study: intervals of effective sample sizes, ours and the published ones."""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.gad.published import PUBLISHED
from workflows.pictures import plt, saved

OURS, THEIRS = "tab:blue", "0.55"
SHIFT = 0.17  # half the distance between our line and the published one, in rows


def draw(table: pd.DataFrame, data: str, title: str, path: Path) -> Path:
    """Draw one data set of a summary: ESS over parameters, and smallest ESS per second."""
    lines = table.loc[data]
    lines = lines[lines["repeats"] > 0]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10.5, 1.9 + 0.42 * len(lines)), sharey=True, layout="constrained",
        gridspec_kw={"width_ratios": [1.4, 1]},
    )  # fmt: skip
    for row, (method, line) in enumerate(lines.iterrows()):
        _ours(left, right, row, line)
        if method in PUBLISHED.get(data, {}):
            _theirs(left, right, row, PUBLISHED[data][method])
    left.set_yticks(range(len(lines)), [_label(method, line) for method, line in lines.iterrows()])
    left.set_ylim(len(lines) - 0.5, -0.5)
    left.set_xlabel("effective sample size of one chain (draws; paper's estimator)")
    left.set_title("smallest, median (dot) and largest over parameters", fontsize=10)
    right.set_xlabel("smallest ESS per second (1/s)")
    right.set_title("warm-up included; median and range over repeats", fontsize=10)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.grid(axis="x", alpha=0.3)
    figure.suptitle(title)
    handles, labels = left.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=2, frameon=False)
    return saved(figure, path, 150)


def _label(method: str, line: pd.Series) -> str:
    return f"{method} ({line['draws'] / 1000:g}k draws)"


def _ours(left, right, row: int, line: pd.Series) -> None:
    y = row - SHIFT
    left.plot([line["ess_min"], line["ess_max"]], [y, y], color=OURS, lw=2, label="stanadapt")
    left.plot(line["ess_median"], y, "o", color=OURS, ms=5)
    rate = line["min_ess_per_second"]
    below, above = rate - line["min_ess_per_second_low"], line["min_ess_per_second_high"] - rate
    spread = np.array([[below], [above]])
    right.errorbar(rate, y, xerr=spread, fmt="o", color=OURS, ms=5, capsize=3)


def _theirs(left, right, row: int, known) -> None:
    y = row + SHIFT
    name = "Titsias and Dellaportas (2019), 20k draws, their machine"
    left.plot([known.ess_min, known.ess_max], [y, y], color=THEIRS, lw=2, label=name)
    left.plot(known.ess_median, y, "D", color=THEIRS, ms=4)
    right.plot(known.min_ess_per_second, y, "D", color=THEIRS, ms=4)
