"""How fast chains approach a benchmark: two distances over iterations, burn-in included."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workflows.kameleon.discrepancy import Polynomial, mean_between, mean_within, norm_of_mean
from workflows.pictures import plt, saved

KERNEL = Polynomial(3, 1.0)  # (1 + <x, y>)^3: all mixed moments up to order 3
TENTHS = 10
# a chain and the benchmark are thinned to these numbers of rows: the cost of the MMD is quadratic
CHAIN_ROWS, BENCHMARK_ROWS = 1_000, 4_000
NOTE = (
    "Curves: each chain from its first iteration to the one shown, burn-in included; means over "
    "chains with sd / sqrt(chains). Norm: of the mean minus the benchmark's mean. MMD: kernel "
    "(1 + <x, y>)^3, the unbiased estimate of its square, which may be negative, for chains "
    f"thinned to {CHAIN_ROWS:,} draws; root: the signed root of the square. The draws of a chain "
    "are dependent, which increases the square."
)


class Benchmark(NamedTuple):
    """The benchmark of the chains: mean of all draws, thinned draws, MMD term within these."""

    mean: np.ndarray
    draws: np.ndarray
    within: float


def benchmark(draws: np.ndarray) -> Benchmark:
    """Compute the benchmark that all chains share; draws have shape (chain, draw, dim)."""
    pooled = draws.reshape(-1, draws.shape[-1])
    thinned = _thinned(pooled, BENCHMARK_ROWS)
    return Benchmark(pooled.mean(axis=0), thinned, mean_within(thinned, KERNEL))


def benchmark_error(coordinates: pd.DataFrame) -> float:
    """Return the norm of the standard errors of the benchmark's mean."""
    lines = coordinates[coordinates["method"] == "benchmark"]
    return float(np.sqrt((lines["sd"] ** 2 / lines["bulk ESS"]).sum()))


def whole(fit: Any) -> np.ndarray:
    """Join warm-up and draws of theta, shape (chain, iteration, dim)."""
    groups = ("warmup_posterior", "posterior")
    return np.concatenate([fit[group]["theta"].values for group in groups], axis=1)


def _thinned(draws: np.ndarray, rows: int) -> np.ndarray:
    return draws[:: max(1, len(draws) // rows)]


def mmd_squared(draws: np.ndarray, known: Benchmark) -> float:
    """`discrepancy.mmd_squared`, with the benchmark's own term computed once for all chains."""
    between = mean_between(draws, known.draws, KERNEL)
    return mean_within(draws, KERNEL) + known.within - 2 * between


def curves(fits: Mapping[str, Any], known: Benchmark) -> pd.DataFrame:
    """Measure every chain at every tenth of its run; one row per method and tenth."""
    rows = []
    for method, fit in fits.items():
        chains = whole(fit)
        for tenth in range(1, TENTHS + 1):
            n = chains.shape[1] * tenth // TENTHS
            norms = norm_of_mean(chains[:, :n], known.mean)
            step = max(1, chains.shape[1] // CHAIN_ROWS)
            squares = np.array([mmd_squared(chain[:n:step], known) for chain in chains])
            roots = np.sign(squares) * np.sqrt(np.abs(squares))
            row = {"method": method, "iterations": n}
            for name, values in (("norm", norms), ("mmd_squared", squares), ("mmd_root", roots)):
                row |= {name: values.mean(), f"{name}_error": _error(values)}
            rows.append(row)
    return pd.DataFrame(rows)


def _error(values: np.ndarray) -> float:
    """Standard error of the mean over chains; NaN for one chain."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def draw(table: pd.DataFrame, title: str, warmup: int, error: float, path: Path) -> Path:
    """Draw both distances over iterations, one line per method.

    Norms below `error`, the standard error of the benchmark's mean, are noise of the benchmark.
    """
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    labels = {
        "norm": "norm of difference of means (units of theta)",
        "mmd_root": "MMD, kernel (1 + <x, y>)^3: signed root",
    }
    for panel, (name, label) in zip(panels, labels.items(), strict=True):
        for i, (method, line) in enumerate(table.groupby("method", sort=False)):
            # shifted, so that the bars do not overlap
            x = line["iterations"] * (1 + 0.006 * i)
            panel.errorbar(
                x, line[name], yerr=line[f"{name}_error"], fmt="o-", ms=3.5, lw=1.2, capsize=2,
                label=method,
            )  # fmt: skip
        panel.axvline(warmup, color="0.6", ls=":", label="end of warm-up")
        panel.set(xlabel="iterations, burn-in included", ylabel=label)
        panel.grid(alpha=0.3)
    panels[0].axhline(error, color="k", ls="--", lw=0.8, label="error of the benchmark's mean")
    panels[0].set_ylim(bottom=0)
    panels[1].axhline(0, color="k", lw=0.8)
    panels[0].legend(fontsize=8, frameon=False)
    figure.suptitle(title)
    return saved(figure, path, 150)
