"""Effective sample sizes of the papers: closed forms, and chains that are stuck."""

import numpy as np
import pytest

from workflows.gad.published import ess_of_chain
from workflows.learned.known_moments_ess import ess_known_moments


def test_an_autoregression_has_its_integrated_time():
    """Correlations 0.8^s; those above 0.05 end at s = 13."""
    rng, rho = np.random.default_rng(1), 0.8
    x = rng.standard_normal((50, 4000, 2)) * [1.0, np.sqrt(1 - rho**2)]
    for t in range(1, x.shape[1]):
        x[:, t, 1] += rho * x[:, t - 1, 1]
    lags = np.arange(1, 14)
    expected = 4000 / (1 + 2 * np.sum((1 - lags / 4000) * rho**lags))
    found = ess_known_moments(3.0 + 2.0 * x, np.array([3.0, 3.0]), np.array([2.0, 2.0]))
    # of 200,000 draws, each correlation has an error of about 0.005
    assert found[0] == 4000.0
    assert found[1] == pytest.approx(expected, rel=0.06)


def test_a_chain_in_one_mode_has_one_effective_draw():
    stuck, sd = np.random.default_rng(1).normal([5, 0], 0.5, size=(4, 1000, 2)), [5.0249378, 0.5]
    found = ess_known_moments(stuck, np.zeros(2), np.array(sd))
    assert found[0] == pytest.approx(1.0, abs=0.1)
    # the sum continues while any coordinate is correlated, and accumulates noise of the others
    assert found[1] < 900
    assert ess_known_moments(stuck[..., 1:], np.zeros(1), np.array(sd[1:]))[0] > 900


def test_ess_of_chain_ignores_location_and_scale():
    x = np.random.default_rng(6).normal(size=2000)
    assert ess_of_chain(5 - 1e3 * x) == pytest.approx(ess_of_chain(x), rel=1e-9)
    assert np.isnan(ess_of_chain(np.full(100, 0.25)))  # it never moved


@pytest.mark.parametrize("n", [10, 11])
def test_ess_of_chain_by_hand(n):
    x = np.random.default_rng(5).standard_normal(n)
    c = x - x.mean()
    covariance = [np.sum(c[: n - k] * c[k:]) / n for k in range(n)]
    total, smallest = 0.0, np.inf
    for k in range(0, n // 2 * 2, 2):
        pair = covariance[k] + covariance[k + 1]
        if pair <= 0:
            break
        smallest = min(smallest, pair)
        total += smallest
    expected = n * covariance[0] / (2 * total - covariance[0])
    assert ess_of_chain(x) == pytest.approx(expected)
