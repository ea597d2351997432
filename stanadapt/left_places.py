"""Places that warm-up found and the draws never came back to: what tempering loses without a word.

A mode that is much narrower than others has next to no mass at the temperatures at which states
travel: tempering leaves it and does not find it again, with all diagnostics in order. The short
chains of warm-up, from starts of their own, may have ended in it.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

# draws that stand for all, and the quantile of their distances to the next draw of another part
# beyond which a place lies apart
DRAWS, QUANTILE = 2000, 0.999
# a place counts if its log density is above that of so many of the draws: the others, on their way
# from a start far out, had not arrived anywhere
ARRIVED = 0.05
# and if the log density dips by so much on the straight line to the next draw, looked at here
DIP, LINE = 5.0, np.linspace(0.1, 0.9, 9)


def left(
    places: np.ndarray,
    lp: np.ndarray,
    draws: np.ndarray,
    draws_lp: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> int:
    """Count the places of high density that lie apart from all draws.

    Parameters
    ----------
    places, lp
        Shape (place, dim) and (place,): where short chains ended, and the log density there.
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
    distance, nearest = cKDTree(draws / scale).query(places / scale)
    apart = np.flatnonzero(arrived & (distance > usual))
    return sum(_dips(places[i], draws[nearest[i]], log_density) for i in apart)


def _dips(one: np.ndarray, other: np.ndarray, log_density: Callable) -> bool:
    """Whether a valley lies between two positions."""
    between = [log_density(one + share * (other - one)) for share in LINE]
    return min(between) < min(log_density(one), log_density(other)) - DIP


def sentence(name: str, count: int, total: int) -> list[str]:
    """Tell how many of the short chains ended where no draw lies."""
    if not count:
        return []
    return [
        f"{name}: {count} of the {total} short chains of warm-up ended in places of high density "
        "where the run has no draw. If these are modes, they have little weight, or they are too "
        "narrow for tempering to find again: begin chains there (inits), and compare."
    ]
