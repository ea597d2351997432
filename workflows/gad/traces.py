"""What the figures of a study are drawn from: traces of the first repeat, and the factors learned.

The paper's figures 3 to 6 show the log density along all iterations, by method; figure 2 the trace
of the last coordinate and the diagonal of L, on Neal's Gaussian; figure 7 that diagonal as an
image. A trace is thinned to `POINTS` iterations and has five digits: the files are small.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results

POINTS = 250
# data with traces in a figure, and those with traces of the last coordinate
DRAWN, LAST = ("neal", "german", "caravan", "digits"), ("neal",)


class Trace(NamedTuple):
    """One chain: iterations, log density and last coordinate at these, and L; arrays or None."""

    iteration: np.ndarray
    lp: np.ndarray
    last: np.ndarray
    factor: np.ndarray | None


def trace_of(fit: Any, target: sa.Target) -> Trace:
    """Return the trace of a fit with one chain, with its warm-up if that was saved.

    Densities that come with a gradient lack constants. Here all have them, so that methods with and
    without gradients can be compared.
    """
    constant = target.dropped_constant(np.zeros(target.dim)) if fit.attrs["n_gradients"] else 0.0
    groups = results.group_names(fit)
    phases = [prefix for prefix in ("warmup_", "") if f"{prefix}sample_stats" in groups]
    lp = np.concatenate([_first_chain(fit, f"{phase}sample_stats", "lp") for phase in phases])
    last = np.concatenate([_last_column(fit, f"{phase}posterior") for phase in phases])
    each = np.unique(np.linspace(0, len(lp) - 1, POINTS).astype(int))
    factor = None
    if "proposal_factor" in groups:
        factor = _first_chain(fit, "proposal_factor", "factor")
    return Trace(each + 1, lp[each] + constant, last[each], factor)


def _first_chain(fit: Any, group: str, variable: str) -> np.ndarray:
    return results.dataset(fit, group)[variable].values[0]


def _last_column(fit: Any, group: str) -> np.ndarray:
    draws = next(iter(results.dataset(fit, group).values())).values[0]
    return draws.reshape(len(draws), -1)[:, -1]


def diagonal(factor: np.ndarray) -> np.ndarray:
    """Return the diagonal of L, which may be stored as one."""
    return factor if factor.ndim == 1 else factor.diagonal()


def write(folder: Path, stem: str, traces: dict[tuple[str, str], Trace]) -> list[Path]:
    """Write traces, and diagonals of L, as two CSV files with a row per point; return the paths."""
    points, diagonals = [], []
    for (data, method), trace in traces.items():
        named = {"data": data, "method": method}
        if data in DRAWN:
            last = trace.last if data in LAST else np.nan
            columns = {"iteration": trace.iteration, "lp": trace.lp, "last": last}
            points.append(pd.DataFrame({**named, **columns}))
        if trace.factor is not None:
            values = diagonal(trace.factor)
            diagonals.append(
                pd.DataFrame({**named, "coordinate": np.arange(1, len(values) + 1), "L": values})
            )
    paths = []
    for name, frames in (("traces", points), ("factors", diagonals)):
        if frames:
            path = folder / f"{stem}_{name}.csv"
            pd.concat(frames, ignore_index=True).to_csv(path, index=False, float_format="%.5g")
            paths.append(path)
    return paths
