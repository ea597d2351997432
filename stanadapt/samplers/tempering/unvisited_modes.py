"""Modes that warm-up found and the draws never visited: tempering may lose them unnoticed.

A mode much narrower than the others has almost no mass at the temperatures at which states
travel: tempering leaves it and does not find it again, and no other diagnostic shows it. The short
chains of warm-up, each from its own start, may have ended in it.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

# draws that represent all, and the quantile of the distances from the draws of one half to the
# nearest of the other beyond which a position lies apart
DRAWS, QUANTILE = 2000, 0.999
# a position counts if its log density exceeds this quantile of that of the draws: below it, a short
# chain was still on its way from a remote start
ARRIVED = 0.05
# and if the log density dips by this much on the straight line to the nearest draw, evaluated here
DIP, LINE = 5.0, np.linspace(0.1, 0.9, 9)


def count_unvisited(
    positions: np.ndarray,
    lp: np.ndarray,
    draws: np.ndarray,
    draws_lp: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> int:
    """Count the positions of high density that lie apart from all draws.

    Parameters
    ----------
    positions, lp
        Shape (position, dim) and (position,): where short chains ended, and the log density there.
    draws, draws_lp
        Shape (draw, dim) and (draw,), in the order in which they were drawn.
    log_density
        Of a position, shape (dim,), up to a constant.

    """
    arrived = lp > np.quantile(draws_lp, ARRIVED)
    spread = draws.std(axis=0)
    if not arrived.any() or not spread.any() or len(draws) < 4:
        return 0
    scale = np.where(spread > 0, spread, np.inf)
    half = len(draws) // 2
    usual = np.quantile(cKDTree(draws[:half] / scale).query(draws[half:] / scale)[0], QUANTILE)
    distance, nearest = cKDTree(draws / scale).query(positions / scale)
    apart = np.flatnonzero(arrived & (distance > usual))
    return sum(_dips(positions[i], draws[nearest[i]], log_density) for i in apart)


def _dips(one: np.ndarray, other: np.ndarray, log_density: Callable) -> bool:
    """Whether the log density dips between two positions."""
    between = [log_density(one + share * (other - one)) for share in LINE]
    return min(between) < min(log_density(one), log_density(other)) - DIP


def messages(name: str, count: int, total: int) -> list[str]:
    """Report, in one sentence, short chains that ended where there are no draws; else nothing."""
    if not count:
        return []
    return [
        f"{name}: {count} of the {total} short chains of warm-up ended in regions of high density "
        "where the run has no draws. If these are modes, they have little weight, or are too "
        "narrow for tempering to find again: start chains there (inits), and compare."
    ]
