"""Chains of a short trial that lie apart: in modes of their own, or not there yet?"""

from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.missed_modes import is_stationary, separate_regions
from stanadapt.diagnostics.modes import FEWEST, modes
from stanadapt.errors import StanadaptError
from stanadapt.targets.target import Target

STARTS_PER_CHAIN = 4
LARGEST_R_HAT = 1.05  # of the halves of a chain that stays where it is


def separate_modes(target: Target, fit: Any, without_gradient: str = "") -> int:
    """Count the modes in which chains of a trial stay; 1 where there is no sign of several.

    Chains that have not converged lie apart too, in regions of which each misses most of the other.
    From draws of theirs the log density is therefore climbed. Regions count where different maxima,
    between which the density dips, have the largest share of the draws of chains; a region without
    a maximum, as in the neck of a funnel, does not.

    Parameters
    ----------
    target
        Without noise.
    fit
        Draws of several chains.
    without_gradient
        Why the gradient is of no use; "" where it is. Without gradient there is no climbing, and
        regions count if the halves of every chain agree: a chain on its way drifts.

    """
    columns = results.columns(fit, wanted=results.parameters(fit))
    regions = separate_regions(columns)
    if regions < 2:
        return 1
    chains = len(next(iter(columns.values())))
    if without_gradient:
        each = ({name: x[c : c + 1] for name, x in columns.items()} for c in range(chains))
        return regions if all(is_stationary(one, LARGEST_R_HAT) for one in each) else 1
    try:
        table = modes(target, fit, starts=max(FEWEST, STARTS_PER_CHAIN * chains), show=False)
    except StanadaptError:  # too few draws to climb from
        return 1
    return max(len(_homes(table, chains)), 1)


def _homes(table: Any, chains: int) -> set[int]:
    """Rows that hold the largest share of a chain, and have a maximum."""
    weights = table[[f"weight_{c}" for c in range(1, chains + 1)]].to_numpy()
    largest = {int(row) for row in np.argmax(weights, axis=0)}
    return {row for row in largest if np.isfinite(table["log_density"].iloc[row])}
