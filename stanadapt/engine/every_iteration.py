"""Statistics of all iterations of a chain, if only some of them are kept as draws.

Divergences, trees that were cut, rejected trajectories and energies between two kept draws count as
much as those of the draws: a fit that is thinned must not look better than the same fit in full.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

# a fixed trajectory with a smaller acceptance probability counts as rejected
REJECTED = 0.01
# sums over iterations, of energies relative to the first, and of squared jumps of the energy
NAMES = (
    "iterations", "diverging", "cut_trees", "rejected", "acceptance",
    "energies", "energy_squares", "energy_jumps", "first_energy", "last_energy",
)  # fmt: skip


def no_iterations() -> np.ndarray:
    """Return the totals of no iterations."""
    return np.zeros(len(NAMES))


@np.errstate(all="ignore")  # energies that are not finite are reported by the verdict
def add(totals: np.ndarray, stats: np.ndarray, names: Sequence[str], settings: Any) -> None:
    """Add the statistics of some iterations, shape (iteration, name), in their order."""
    of = dict(zip(names, stats.T, strict=True))
    none = np.zeros(len(stats))
    deepest = getattr(settings, "max_treedepth", np.inf)
    cut = of.get("reached_max_treedepth", of.get("tree_depth", none) >= deepest)
    accepted = of.get("acceptance_rate", none)
    terms = [none == 0.0, of.get("diverging", none), cut, accepted < REJECTED, accepted]
    if "energy" in of and len(stats):
        energy = of["energy"]
        first, last = totals[-2:] if totals[0] else (energy[0], energy[0])
        away = energy - first
        terms += [away, away**2, np.diff(energy, prepend=last) ** 2]
        totals[-2:] = first, energy[-1]
    for i, values in enumerate(terms):
        # one after the other, so that the sum is the same for chunks of any size
        totals[i] = np.cumsum(np.concatenate([totals[i : i + 1], values]))[-1]


@np.errstate(all="ignore")
def described(chains: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """Return the totals of each chain by name, with its acceptance rate and E-BFMI."""
    totals = dict(zip(NAMES, np.array(chains).T, strict=True))
    count = totals["iterations"]
    jumps = totals["energy_jumps"] / (count - 1.0)
    variance = totals["energy_squares"] / count - (totals["energies"] / count) ** 2
    found = {name: totals[name] for name in ("iterations", "diverging", "cut_trees", "rejected")}
    found["acceptance_rate"] = totals["acceptance"] / count
    found["bfmi"] = jumps / variance
    return {name: values.tolist() for name, values in found.items()}
