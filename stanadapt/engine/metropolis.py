"""The Metropolis-Hastings decision, safe against every value a log ratio can take.

And the best size of a move for n standard normal coordinates, n large: RANDOM_WALK_SCALE n^(-1/2)
for a random walk (Roberts, Gelman and Gilks 1997), LANGEVIN_SCALE n^(-1/6) for a Langevin step
(Roberts and Rosenthal 1998).
"""

import numpy as np

from stanadapt.engine.compiled.jit import inlined

RANDOM_WALK_SCALE, LANGEVIN_SCALE = 2.38, 1.65


@inlined
def acceptance_probability(log_ratio):
    """Return min(1, exp(log_ratio)); zero where the ratio is NaN or the proposal failed."""
    if log_ratio >= 0.0:
        return 1.0
    if log_ratio > -np.inf:
        return np.exp(log_ratio)
    return 0.0
