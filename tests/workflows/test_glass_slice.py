"""The widths of Glass's scales given latent values: against SciPy's densities and a fine grid."""

import numpy as np
import pytest
from scipy import stats

from workflows.kameleon.glass_slice import PRIOR_VARIANCE, Classification


@pytest.fixture
def model():
    rng = np.random.default_rng(3)
    return Classification(rng.standard_normal((14, 2)), rng.integers(0, 2, 14))


def log_joint(model, theta, f):
    known = stats.multivariate_normal(np.zeros(len(f)), model.covariance(theta)).logpdf(f)
    return known + stats.norm.logpdf(theta, 0, np.sqrt(PRIOR_VARIANCE)).sum()


def test_the_conditional_density_is_that_of_two_normals(model):
    f = np.random.default_rng(4).standard_normal(14)
    one, other = np.array([0.4, -1.0]), np.array([1.5, 0.2])
    ours = model.log_conditional(one, f) - model.log_conditional(other, f)
    assert ours == pytest.approx(log_joint(model, one, f) - log_joint(model, other, f))


def test_the_width_is_that_of_a_fine_grid(model):
    rng = np.random.default_rng(5)
    theta = np.array([0.4, -1.0])
    f = model.latent(theta, rng)
    values = np.linspace(-9, 9, 1801)
    logs = np.array([model.log_conditional(np.array([0.4, value]), f) for value in values])
    share = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    exact = np.sqrt(share @ (values - share @ values) ** 2)
    # the sums cut off what is beyond three standard deviations
    assert model.width(theta, f, 1, 1.3) == pytest.approx(exact, rel=0.1)
    assert exact > 0.1


@pytest.mark.slow
def test_latent_values_lean_to_the_labels(model):
    """Their mean is the mode: its gradient, labels - p - K^-1 f, is 0 there."""
    rng, theta = np.random.default_rng(6), np.array([1.0, 1.0])
    draws = np.array([model.latent(theta, rng) for _ in range(4000)])
    mode = draws.mean(axis=0)
    p = 1 / (1 + np.exp(-mode))
    expected = model.covariance(theta) @ (model.labels - p)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    # both sides have Monte Carlo error
    assert (np.abs(mode - expected) < 6 * error).all()
