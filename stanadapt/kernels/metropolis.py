"""The Metropolis-Hastings decision, safe against every value a log ratio can take."""

import numpy as np

from stanadapt._numba.jit import inlined


@inlined
def acceptance_probability(log_ratio):
    """Return min(1, exp(log_ratio)); zero where the ratio is NaN or the proposal failed."""
    if log_ratio >= 0.0:
        return 1.0
    if log_ratio > -np.inf:
        return np.exp(log_ratio)
    return 0.0
