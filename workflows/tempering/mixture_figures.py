"""Figures 3 and 7 of Nemeth et al. (2019): draws, and squared errors against pseudo-samples."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from workflows.tempering.published import MOMENTS
from workflows.tempering.runs import Chain
from workflows.tempering.scatter import save, scatter

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = 10_000  # draws of the first chain, as in the paper
ORDERS = {"first moments": MOMENTS[:2], "second moments": MOMENTS[2:]}


def draws(path: Path, chains: dict[str, list[Chain]], centers: np.ndarray, title: str) -> Path:
    """Draw the first chain of every method over the centers of the components, and save it."""
    shown = {name: repeats[0].vector()[:SHOWN] for name, repeats in chains.items()}
    save(path.with_suffix(".csv"), shown)
    return scatter(path, shown, f"{title}: one chain; circles: the components", centers)


def squared_errors(rows: pd.DataFrame, exact: np.ndarray) -> pd.DataFrame:
    """Squared error times gradients, the mean over repeats and over both coordinates."""
    errors = (rows[list(MOMENTS)] - exact) ** 2
    products = errors.mul(rows["gradients"], axis=0)
    means = pd.DataFrame({k: products[list(names)].mean(axis=1) for k, names in ORDERS.items()})
    return means.groupby(rows["method"], sort=False).mean()


def errors(path: Path, rows: pd.DataFrame, exact: np.ndarray, title: str) -> Path:
    """Draw squared error times gradients against N; other methods are horizontal lines."""
    table = squared_errors(rows, exact)
    ours = [name for name in table.index if name.startswith("pseudo_extended")]
    counts = [int(name.rsplit(" ", 1)[1]) for name in ours]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, order in zip(axes, ORDERS, strict=True):
        if ours:
            panel.plot(counts, table.loc[ours, order], "o-", label="pseudo_extended")
            panel.set_xscale("log")
        others = table.index.difference(ours, sort=False)
        for number, name in enumerate(others, 1):
            panel.axhline(table.loc[name, order], ls="--", color=f"C{number}", label=name)
        panel.set(yscale="log", xlabel="pseudo-samples N", title=order)
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.set_ylabel("squared error times gradients")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
