"""Figures 3 and 7 of Nemeth et al. (2019): draws, and squared errors against pseudo-samples."""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.tempering import cost_figures
from workflows.tempering.published import MOMENTS
from workflows.tempering.runs import Chain
from workflows.tempering.scatter import save, scatter

SHOWN = 10_000  # draws of the first chain, as in the paper
ORDERS = {"first moments": MOMENTS[:2], "second moments": MOMENTS[2:]}


def draws(path: Path, chains: dict[str, list[Chain]], centers: np.ndarray, title: str) -> Path:
    """Draw the first chain of every method over the centers of the components, and save it."""
    shown = {name: repeats[0].vector()[:SHOWN] for name, repeats in chains.items()}
    save(path.with_suffix(".csv"), shown)
    return scatter(path, shown, f"{title}: one chain; circles: the components", centers)


def squared_errors(rows: pd.DataFrame, exact: np.ndarray) -> pd.DataFrame:
    """Return the rows with the mean over both coordinates of squared errors, by order."""
    errors = (rows[list(MOMENTS)] - exact) ** 2
    return rows.assign(**{k: errors[list(names)].mean(axis=1) for k, names in ORDERS.items()})


def errors(path: Path, rows: pd.DataFrame, exact: np.ndarray, title: str) -> Path:
    """Draw squared error times cost against N."""
    return cost_figures.draw(path, squared_errors(rows, exact), tuple(ORDERS), title)
