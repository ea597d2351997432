"""Statistics of all iterations of a chain, if only some of them are kept as draws.

Divergences, trees that were cut, rejected trajectories and energies between two kept draws count as
much as those of the draws: a fit that is thinned must not look better than the same fit in full.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

# a fixed trajectory with a smaller acceptance probability counts as rejected
REJECTED = 0.01
# sums over iterations; the energies' number, mean and sum of squares around it; sum of squared
# jumps of the energy, and the last one
NAMES = (
    "iterations", "diverging", "cut_trees", "rejected", "acceptance",
    "energies", "energy_mean", "energy_squares", "energy_jumps", "last_energy",
)  # fmt: skip


def no_iterations() -> np.ndarray:
    """Return the totals of no iterations."""
    return np.zeros(len(NAMES))


def add(totals: np.ndarray, stats: np.ndarray, names: Sequence[str], settings: Any) -> None:
    """Add the statistics of some iterations, shape (iteration, name), in their order."""
    of = dict(zip(names, stats.T, strict=True))
    none = np.zeros(len(stats))
    deepest = getattr(settings, "max_treedepth", np.inf)
    cut = of.get("reached_max_treedepth", of.get("tree_depth", none) >= deepest)
    accepted = of.get("acceptance_rate", none)
    sums = (none == 0.0, of.get("diverging", none), cut, accepted < REJECTED, accepted)
    totals[: len(sums)] += [np.sum(values) for values in sums]
    if "energy" in of and len(stats):
        _add_energies(totals[len(sums) :], of["energy"])


@np.errstate(all="ignore")  # energies that are not finite are reported by the verdict
def _add_energies(totals: np.ndarray, energy: np.ndarray) -> None:
    count, mean, squares, jumps, last = totals
    more, center = len(energy), energy.mean()
    shift, both = center - mean, count + more
    squares += np.sum((energy - center) ** 2) + shift**2 * count * more / both
    jumps += np.sum(np.diff(energy) ** 2) + ((energy[0] - last) ** 2 if count else 0.0)
    totals[:] = both, mean + shift * more / both, squares, jumps, energy[-1]


@np.errstate(all="ignore")
def described(chains: Sequence[np.ndarray]) -> dict[str, list[float]]:
    """Return the totals of each chain by name, with its acceptance rate and E-BFMI."""
    totals = dict(zip(NAMES, np.array(chains).T, strict=True))
    count, energies = totals["iterations"], totals["energies"]
    jumps = totals["energy_jumps"] / (energies - 1.0)
    found = {name: totals[name] for name in ("iterations", "diverging", "cut_trees", "rejected")}
    found["acceptance_rate"] = totals["acceptance"] / count
    found["bfmi"] = jumps / (totals["energy_squares"] / energies)
    # rounding depends on the sizes of chunks, which depend on the time they take
    return {name: [float(f"{x:.6g}") for x in values] for name, values in found.items()}
