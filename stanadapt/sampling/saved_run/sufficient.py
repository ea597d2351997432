"""Whether a run may end: enough effective draws, and chains that agree."""

import numpy as np

from stanadapt.diagnostics.efficiency import efficiency
from stanadapt.sampling.chain import Chain
from stanadapt.sampling.run_progress import parameters_so_far
from stanadapt.targets.target import Target

LARGEST_R_HAT = 1.01  # as in the verdict
# by how much a run grows at a time
LEAST_GROWTH, MOST_GROWTH = 1.2, 3.0


def missing_growth(target: Target, chains: list[Chain], wanted: float) -> float:
    """By which factor a run should grow; 1 where it suffices, or no chain is left.

    wanted is the smallest bulk and tail effective sample size over all parameters.
    """
    kept = [chain for chain in chains if not chain.stopped]
    if not kept:
        return 1.0
    found = efficiency(parameters_so_far(target, kept))
    if not found.names:
        return 1.0
    smallest = min(found.ess_bulk.min(), found.ess_tail.min())
    agree = len(kept) == 1 or found.r_hat.max() < LARGEST_R_HAT
    if smallest >= wanted and agree:
        return 1.0
    return float(np.clip(1.1 * wanted / smallest, LEAST_GROWTH, MOST_GROWTH))
