"""Adaptive Metropolis: the update of mean and factor against the formula, for every form."""

import numpy as np
import pytest

from stanadapt.samplers import find
from tests.helpers.targets import Awkward

RATE, DECAY = 0.1, 50.0


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("mean_rate", [0.0, 0.3])
def test_mean_and_factor_follow_the_formula(diagonal, mean_rate):
    """L <- L + rho_t L [z z^T - I]_lower, z = L^-1 (x - mu) with the mean before its own step."""
    sampler, settings = find(
        "am", covariance_rate=RATE, decay=DECAY, mean_rate=mean_rate, diagonal=diagonal
    )
    density, rng = Awkward().density(), np.random.default_rng(3)
    state = sampler.init(density, settings, np.array([0.4, 1.2, -3.0]), rng)
    factor = np.array([[0.9, 0, 0], [0.1, 0.3, 0], [-0.5, 1.0, 2.5]])
    if diagonal:
        factor = np.diag(factor.diagonal())
    state.factor[:] = factor.diagonal() if diagonal else factor
    state.mean[:] = mean = np.array([0.1, -0.2, 1.0])
    state, info = sampler.step(density, settings, state, rng)
    for t in (0, 50, 51):
        x, rho = state.current.position.copy(), RATE / (1 + t / DECAY)
        z = np.linalg.solve(factor, x - mean)
        lower = np.tril(np.outer(z, z) - np.eye(3))
        factor = factor + rho * factor @ (np.diag(lower.diagonal()) if diagonal else lower)
        mean = mean + (mean_rate or rho) * (x - mean)
        state = sampler.adapt(density, settings, state, info, t, 200)
        ours = np.diag(state.factor[0]) if diagonal else np.tril(state.factor)
        np.testing.assert_allclose(ours, factor, rtol=1e-12)
        np.testing.assert_allclose(state.mean, mean, rtol=1e-12)
