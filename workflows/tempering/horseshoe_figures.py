"""Figures 6 and 9 of Nemeth et al. (2019): prediction of test rows, marginals of coefficients.

The CSV files hold what is drawn: quantiles, and histograms over all repeats of a method together.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from workflows.pictures import legend_outside, plt, saved
from workflows.tempering.runs import Chain

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
COEFFICIENTS, BINS = 6, 40  # coefficients at random, bins of their histograms
TAIL = 0.005  # share of draws that may lie on each side of the histogram


def write(folder: Path, chains: dict[str, list[Chain]], seed: int) -> list[Path]:
    """Write both files and draw both figures; return their paths."""
    tables = {"quantiles": quantiles(chains), "marginals": marginals(chains, seed)}
    paths = []
    for name, table in tables.items():
        paths.append(folder / f"horseshoe_{name}.csv")
        table.to_csv(paths[-1], index=False)
    return [
        *paths, draw_predictive(folder / "predictive.png", tables["quantiles"]),
        draw_marginals(folder / "marginals.png", tables["marginals"]),
    ]  # fmt: skip


def quantiles(chains: dict[str, list[Chain]]) -> pd.DataFrame:
    """Return quantiles of the log predictive density over the draws of all repeats together."""
    rows = []
    for name, repeats in chains.items():
        together = np.concatenate([chain.columns["log_predictive"] for chain in repeats])
        values = np.quantile(together, QUANTILES).round(4)
        rows.append(
            {"method": name, **{f"q{q:g}": v for q, v in zip(QUANTILES, values, strict=True)}}
        )
    return pd.DataFrame(rows)


def marginals(chains: dict[str, list[Chain]], seed: int) -> pd.DataFrame:
    """Return histograms of random coefficients, on bins that all methods share."""
    names = [name for name in next(iter(chains.values()))[0].columns if name.startswith("beta[")]
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.choice(len(names), min(COEFFICIENTS, len(names)), replace=False))
    rows = []
    for name in [names[i] for i in chosen]:
        draws = {
            method: np.concatenate([chain.columns[name] for chain in repeats])
            for method, repeats in chains.items()
        }
        ends = np.array([np.quantile(x, [TAIL, 1 - TAIL]) for x in draws.values()])
        edges = np.linspace(ends[:, 0].min(), ends[:, 1].max(), BINS + 1)
        middles = (0.5 * (edges[1:] + edges[:-1])).round(5)
        for method, x in draws.items():
            heights = np.histogram(x, edges)[0] / (len(x) * np.diff(edges))
            numbers = {"beta": middles, "density": heights.round(4)}
            rows.append(pd.DataFrame({"method": method, "coefficient": name, **numbers}))
    return pd.concat(rows, ignore_index=True)


def draw_predictive(path: Path, table: pd.DataFrame) -> Path:
    """Draw figure 6: log predictive density of each draw, one line per method."""
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.4 * len(table)), layout="constrained")
    for row, line in enumerate(table.itertuples(index=False)):
        lowest, low, middle, high, highest = line[1:]
        axes.hlines(row, lowest, highest, color="tab:blue", lw=1.5)
        axes.hlines(row, low, high, color="tab:blue", lw=6)
        axes.plot(middle, row, "o", color="white", ms=4)
    axes.set_yticks(range(len(table)), list(table["method"]))
    axes.invert_yaxis()
    axes.set_xlabel("log predictive density of the test rows at a draw: median, 50 %, 90 %")
    return saved(figure, path, 120)


def draw_marginals(path: Path, table: pd.DataFrame) -> Path:
    """Draw figure 9: densities of random coefficients, one line per method."""
    names = list(table["coefficient"].unique())
    across = 3
    figure, axes = plt.subplots(
        -(-len(names) // across), across, figsize=(13, 3.0 * -(-len(names) // across)),
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for panel, name in zip(axes.flat, names, strict=False):
        for method, lines in table[table["coefficient"] == name].groupby("method", sort=False):
            panel.plot(lines["beta"], lines["density"], drawstyle="steps-mid", lw=1, label=method)
        panel.set(title=name, yscale="log")
    for panel in axes.flat[len(names) :]:
        panel.axis("off")
    legend_outside(figure, axes[0, 0], 7)
    return saved(figure, path)
