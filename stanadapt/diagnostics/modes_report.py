"""Messages on a table of modes, and its printed form."""

import sys
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from stanadapt.diagnostics.efficiency import ess_of_chain

RARE = 0.01  # a chain may miss a mode lighter than this without making the weights suspect
LARGEST_Z = 4.0  # between a chain and the others, largest over chains and modes
LARGEST_DOUBT = 0.02
SHOWN_COLUMNS, SHOWN_CHAINS = 6, 8
NOT_TRUSTED = "the weights cannot be trusted"
NO_PROOF = "No diagnostic proves that all modes were found: only visited ones can be listed."


def on_regions(table: pd.DataFrame) -> list[str]:
    """Sentences on rows that are not modes."""
    return [
        f"row {number} is a region, not a mode: from its draws (weight {row['weight']:.3f}) the "
        "density rises until it leaves the neighbourhood of all draws, as in a funnel, or where it "
        "has no maximum."
        for number, row in table.iterrows()
        if np.isnan(row["log_density"])
    ]


def on_chains(visited: np.ndarray) -> list[str]:
    """Sentences on whether chains agree.

    Parameters
    ----------
    visited
        Whether a draw belongs to a mode, shape (mode, chain, draw), NaN for draws left out.

    """
    weight = np.nanmean(visited, axis=2)
    modes, chains = weight.shape
    if chains == 1:
        return [
            f"one chain, {_counted(modes)}: run several chains, from different starting points, "
            "to see whether they agree."
        ]
    if modes == 1:
        return [f"all {chains} chains stayed in the same region, the only row of the table."]
    if np.all((weight == 0) | (weight == 1)):
        return [
            f"no chain ever left its mode: {NOT_TRUSTED}, as they only reflect where the chains "
            "started. Use a sampler for multimodal posteriors."
        ]
    messages = [_on_absent(m, weight[m]) for m in range(modes) if not weight[m].all()]
    z = max(_largest_z(visits) for visits in np.nan_to_num(visited))
    start = "" if messages else f"all {chains} chains visited all {modes} modes; "
    end = f": {NOT_TRUSTED}" if z > LARGEST_Z else ""
    return [*messages, f"{start}largest difference of a chain from the others: z = {z:.1f}{end}."]


def on_doubt(share: float) -> list[str]:
    """Sentence on draws that may have been assigned to the wrong mode."""
    if share <= LARGEST_DOUBT:
        return []
    return [
        f"{share:.0%} of the climbed draws are nearest to one of another mode: the modes touch, "
        "and weights may be wrong by as much."
    ]


def _counted(modes: int) -> str:
    return "one mode" if modes == 1 else f"{modes} modes"


def _on_absent(mode: int, weight: np.ndarray) -> str:
    """Sentence on the chains that never visited a mode; `weight` of the mode by chain."""
    absent = [str(c + 1) for c in np.flatnonzero(weight == 0)]
    who = f"chain {absent[0]}" if len(absent) == 1 else f"chains {', '.join(absent)}"
    others = weight[weight > 0].mean()
    trust = f": {NOT_TRUSTED}" if others >= RARE else ", too few to rule out chance"
    plural = "chain's" if (weight > 0).sum() == 1 else "chains'"
    return f"{who} never visited mode {mode + 1}, which holds {others:.2g} of the other {plural} " \
        f"draws{trust}."  # fmt: skip


def _largest_z(visits: np.ndarray) -> float:
    """Largest difference of a chain's weight from the others', in joint standard errors.

    `visits` has shape (chain, draw). The variance is that of all chains together, as if they
    agreed: a chain with one visit cannot estimate its own.
    """
    ess = np.array([ess_of_chain(chain) for chain in visits])
    # a chain that never moved is taken to be like the others
    ess = np.where(np.isfinite(ess), ess, np.nanmedian(ess) if np.isfinite(ess).any() else 1.0)
    weight, sd = visits.mean(axis=1), visits.std()
    if sd == 0:
        return 0.0
    z = []
    for chain in range(len(visits)):
        others = np.delete(ess, chain)
        rest = np.average(np.delete(weight, chain), weights=others)
        z.append(abs(weight[chain] - rest) / (sd * np.sqrt(1 / ess[chain] + 1 / others.sum())))
    return float(max(z))


def show_modes(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a table of modes and its messages, with the first few parameters only."""
    console = console or Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width: long lines are better than broken words
    positions = [_scalars(position) for position in table["position"]]
    names = list(dict.fromkeys(name for position in positions for name in position))
    chains = [name for name in table.columns if name.startswith("weight_")][:SHOWN_CHAINS]
    shown = Table(box=None, header_style="bold")
    titles = ["mode", "weight", "error", *(c.replace("weight_", "chain ") for c in chains)]
    for title in [*titles, "log density", *names[:SHOWN_COLUMNS]]:
        shown.add_column(title.replace("[", r"\["), justify="right")
    for (number, row), position in zip(table.iterrows(), positions, strict=True):
        cells = [str(number), *(f"{row[name]:.3f}" for name in ("weight", "error", *chains))]
        cells.append("" if np.isnan(row["log_density"]) else f"{row['log_density']:.2f}")
        cells += [f"{position[n]:.4g}" if n in position else "" for n in names[:SHOWN_COLUMNS]]
        shown.add_row(*cells)
    console.print(shown)
    for sentence in table.attrs["messages"]:
        console.print(sentence, highlight=False)


def with_scalar_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with one column per scalar parameter in place of `position`, for a file."""
    positions = pd.DataFrame([_scalars(p) for p in table["position"]], index=table.index)
    return table.drop(columns="position").join(positions)


def _scalars(position: dict[str, Any]) -> dict[str, Any]:
    """Scalars by Stan's names, "w[2]"."""
    found = {}
    for name, value in position.items():
        for index in np.ndindex(np.shape(value)):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            found[label] = np.asarray(value)[index]
    return found
