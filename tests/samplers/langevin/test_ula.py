"""Langevin moves without a test: their stationary variance, and the report of their bias."""

import numpy as np
import pytest

from stanadapt.samplers import find
from tests.helpers.chains import column, finish
from tests.helpers.gaussian_target import Gaussian, make_chains_at
from tests.helpers.run_view import view_of

SDS = np.array([1.0, 2.0, 0.7])
DRAWS, CHAINS = 40_000, 4


@pytest.mark.parametrize("bias", [0.1, 0.4])
def test_the_stationary_variance_is_the_closed_form(bias):
    """An autoregression with coefficient 1 - h / (2 s^2): its effective size is known."""
    gaussian = Gaussian(np.array([3.0, -5.0, 0.1]), SDS)
    chosen = {"variance_bias": bias, "least_accept": 0.01}
    chains = finish(make_chains_at(gaussian, np.zeros((CHAINS, 3)), "ula", 500, DRAWS, **chosen))
    h = 4.0 * bias / (1.0 + bias)
    np.testing.assert_allclose(column(chains[0], "step_size"), np.sqrt(h))
    draws = np.concatenate([chain.sampling.constrained for chain in chains])
    wanted = SDS**2 / (1.0 - h / (4.0 * SDS**2))
    assert wanted[0] == pytest.approx(1.0 + bias)  # the rule, at unit scale
    square = (1.0 - h / (2.0 * SDS**2)) ** 2
    effective = CHAINS * DRAWS * (1.0 - square) / (1.0 + square)
    error = draws.var(axis=0) / wanted - 1.0
    assert np.all(np.abs(error) < 4.0 * np.sqrt(2.0 / effective))
    assert np.all(np.abs(wanted / SDS**2 - 1.0)[[0, 2]] > 8.0 * np.sqrt(2.0 / effective)[[0, 2]])


def test_steps_become_smaller_if_a_metropolis_test_would_reject():
    narrow = Gaussian(np.zeros(3), 0.1 * SDS)
    (chain,) = finish(make_chains_at(narrow, np.zeros((1, 3)), "ula", 4000, 4000))
    assert column(chain, "acceptance_rate").mean() == pytest.approx(0.9, abs=0.03)
    (chain,) = finish(make_chains_at(narrow, np.zeros((1, 3)), "ula", 0, 400))
    sampler, settings = find("ula")
    stats = {"acceptance_rate": column(chain, "acceptance_rate")}
    (note,) = sampler.report(view_of(settings, stats, 3)).messages
    assert note.code == "bias_above_setting"
    assert "variance_bias=0.02" in note
    assert f"{1.0 - stats['acceptance_rate'].mean():.0%}" in note
    fine = {"acceptance_rate": np.full((1, 400), 0.95)}
    assert sampler.report(view_of(settings, fine, 3)).messages == ()
