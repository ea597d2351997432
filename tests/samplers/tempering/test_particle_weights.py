"""Weights of particles, against NumPy and by their properties."""

import numpy as np
import pytest
from scipy.special import logsumexp

from stanadapt.samplers.tempering.particles import (
    conditional_ess,
    next_temperature,
    reweigh,
    systematic,
)

N = 400


def particles(seed, dead=0):
    """Delta and log weights of particles, some without density."""
    rng = np.random.default_rng(seed)
    delta, log_weights = 30.0 * rng.standard_normal(N) - 1000.0, 0.5 * rng.standard_normal(N)
    delta[:dead] = -np.inf
    return delta, log_weights


@pytest.mark.parametrize("dead", [0, 250])
def test_the_effective_sample_size_is_that_of_the_formula(dead):
    delta, log_weights = particles(1, dead)
    weights = np.exp(log_weights[dead:] - logsumexp(log_weights[dead:]))
    v = np.exp(0.02 * (delta[dead:] + 1000.0))
    expected = (weights @ v) ** 2 / (weights @ v**2)
    assert conditional_ess(delta, log_weights, 0.02) == pytest.approx(expected, rel=1e-10)
    assert conditional_ess(delta, log_weights + 5.0, 0.0) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.95])
def test_a_stage_goes_just_as_far_as_the_threshold_allows(threshold):
    delta, log_weights = particles(2, 300)
    b = next_temperature(delta, log_weights, 0.1, threshold)
    assert 0.1 < b < 1.0
    assert conditional_ess(delta, log_weights, b - 0.1) == pytest.approx(threshold, rel=1e-6)
    assert next_temperature(delta / 1e4, log_weights, 0.1, threshold) == 1.0
    # no step is short enough, but there is one, and the loop over stages ends
    delta[399] = 1e300
    assert next_temperature(delta, log_weights, 0.1, threshold) > 0.1


def test_the_rise_is_the_log_of_the_weighted_mean_and_counts_the_dead():
    delta, log_weights = particles(3, 100)
    before = log_weights.copy()
    rise = reweigh(delta, log_weights, 0.01)
    expected = logsumexp(before + 0.01 * delta) - logsumexp(before)
    assert rise == pytest.approx(expected, rel=1e-12)
    assert rise < logsumexp(before[100:] + 0.01 * delta[100:]) - logsumexp(before[100:]) - 0.1
    assert (log_weights[:100] == -np.inf).all()
    # particles with zero weight keep it, even if their density is positive now
    assert reweigh(np.ones(N), log_weights, 0.5) == pytest.approx(0.5)
    assert (log_weights[:100] == -np.inf).all()


def test_systematic_resampling_is_unbiased_and_no_density_has_no_mean():
    log_weights = np.zeros(N)
    assert reweigh(np.full(N, -np.inf), log_weights, 0.5) == -np.inf
    weights, total = np.array([0.0, 0.2, 1.3, 0.0, 0.05, 0.45]), np.zeros(6)
    for uniform in (np.arange(1000) + 0.5) / 1000:
        chosen = np.zeros(6, np.int64)
        systematic(weights, uniform, chosen)
        total += np.bincount(chosen, minlength=6)
    np.testing.assert_allclose(total / 1000, 6 * weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("uniform", [0.0, 0.3, np.nextafter(1.0, 0.0)])
def test_systematic_resampling_takes_each_in_proportion_to_its_weight(uniform):
    """N w rounded down or up; never one of weight 0, even if sums are rounded."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        weights = rng.exponential(size=N) ** 3 * (rng.random(N) < 0.7)
        weights[-rng.integers(1, 30) :] = 0.0
        chosen = np.full(N, -1)
        systematic(weights, uniform, chosen)
        counts, expected = np.bincount(chosen, minlength=N), N * weights / weights.sum()
        assert (np.diff(chosen) >= 0).all()
        assert (weights[chosen] > 0).all()
        assert (np.abs(counts - expected) < 1 + 1e-9).all()
