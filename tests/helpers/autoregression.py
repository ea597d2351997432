"""Chains with a known memory."""

import numpy as np
from scipy.signal import lfilter


def autoregression(memory, shape, seed=0):
    """Return x[t] = memory x[t-1] + noise along the last axis, stationary and of variance 1."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1.0 - memory**2) * rng.standard_normal(shape)
    noise[..., 0] = rng.standard_normal(shape[:-1])  # starts in its stationary distribution
    return lfilter([1.0], [1.0, -memory], noise, axis=-1)
