"""Squared errors times cost against the number of pseudo-samples, in gradients and in seconds.

As in figures 7 and 8 of Nemeth et al. (2019). The product does not depend on the length of a run,
if it is long: an error that halves at four times the cost leaves it as it was.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from workflows.pictures import legend_outside, plt, saved

COSTS = {"gradients": "gradients", "seconds": "seconds"}
_COUNTED = re.compile(r"(?P<family>.+), N = (?P<count>\d+)$")


def products(rows: pd.DataFrame, orders: tuple[str, ...]) -> pd.DataFrame:
    """Return the mean squared error times cost, and its standard error over repeats.

    rows
        One per repeat: `method`, `gradients`, `seconds`, and a squared error for each of `orders`.

    Returns
    -------
    A row per method, order and cost: `family`, the method without its number of pseudo-samples;
    `count`, that number, or NaN; `product`; `error`, NaN for one repeat.
    """
    found = []
    for method, group in rows.groupby("method", sort=False):
        match = _COUNTED.match(str(method))
        family, count = (match["family"], int(match["count"])) if match else (method, np.nan)
        for order in orders:
            for cost in COSTS:
                values = group[order] * group[cost].mean()
                found.append({
                    "method": method, "family": family, "count": count, "order": order,
                    "cost": cost, "product": values.mean(),
                    "error": values.std() / np.sqrt(len(values)),
                })  # fmt: skip
    return pd.DataFrame(found)


def draw(path: Path, rows: pd.DataFrame, orders: tuple[str, ...], title: str) -> Path:
    """Draw a panel per order and cost: families of N as lines, other methods at the right."""
    table = products(rows, orders)
    figure, axes = plt.subplots(
        len(COSTS), len(orders), figsize=(5 * len(orders) + 2.5, 3.4 * len(COSTS)),
        layout="constrained", squeeze=False, sharex=True,
    )  # fmt: skip
    counts = sorted(table["count"].dropna().unique())
    colors = {name: f"C{n % 10}" for n, name in enumerate(table["family"].unique())}
    for row, cost in zip(axes, COSTS, strict=True):
        for panel, order in zip(row, orders, strict=True):
            part = table[(table["cost"] == cost) & (table["order"] == order)]
            if counts:
                panel.set(xscale="log", xlim=(counts[0] / 1.3, counts[-1] * 1.3))
            for family, lines in part.groupby("family", sort=False):
                _line(panel, family, lines, colors[family])
            panel.set(yscale="log", title=order, ylabel=f"squared error × {COSTS[cost]}")
            if counts:
                panel.set_xticks(counts, [f"{count:g}" for count in counts])
                panel.minorticks_off()
    for panel in axes[-1]:
        panel.set_xlabel("pseudo-samples N")
    legend_outside(figure, axes[0, 0])
    figure.suptitle(title)
    return saved(figure, path)


def _line(panel, family: str, lines: pd.DataFrame, color: str) -> None:
    if lines["product"].isna().any():
        return  # a cost that is not known
    if lines["count"].isna().any():
        panel.axhline(lines["product"].iloc[0], ls="--", lw=1, color=color, label=family)
        return
    lines = lines.sort_values("count")
    # a bar that reached below 0 would have no end on this axis
    below = np.minimum(lines["error"], 0.9 * lines["product"])
    panel.errorbar(
        lines["count"], lines["product"], [below, lines["error"]], marker="o", ms=4, color=color,
        label=family,
    )  # fmt: skip
