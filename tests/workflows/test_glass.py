"""Classification of Glass: widths given latent values, and Gibbs and joint steps, are exact."""

import numpy as np
import pytest
from scipy import stats

from workflows.gad.published import ess_of_chain
from workflows.kameleon import glass_gibbs
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


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    return Classification(2.0 * rng.standard_normal((8, 1)), np.array([0, 1, 1, 0, 1, 0, 0, 1]))


def test_weights_have_the_mean_of_the_likelihood_over_the_prior(small):
    """Both are estimates of p(y | theta), by Laplace's approximation and by the prior of f."""
    rng, theta = np.random.default_rng(5), np.array([0.5])
    ours = np.exp([small.weighted_latent(theta, rng)[1] for _ in range(2_000)])
    prior = rng.multivariate_normal(np.zeros(8), small.covariance(theta), 40_000)
    plain = np.exp([small.log_likelihood(f) for f in prior])
    error = np.hypot(ours.std() / np.sqrt(len(ours)), plain.std() / np.sqrt(len(plain)))
    assert abs(ours.mean() - plain.mean()) < 4.5 * error
    assert ours.std() < 0.1 * plain.std()


def test_slices_have_the_law_of_latent_values(small):
    """Their mean, against that of draws of the prior, weighed by the likelihood."""
    rng, theta = np.random.default_rng(6), np.array([0.5])
    prior = rng.multivariate_normal(np.zeros(8), small.covariance(theta), 40_000)
    weights = np.exp([small.log_likelihood(f) for f in prior])
    weights /= weights.sum()
    mean, f, draws = weights @ prior, prior[0], []
    for _ in range(4_000):
        f = glass_gibbs.slice_step(small, theta, f, rng)
        draws.append(f)
    draws = np.array(draws)
    ess = min(ess_of_chain(column) for column in draws.T)
    error = draws.std(axis=0) * np.sqrt(1 / ess + (weights**2).sum())
    assert (np.abs(draws.mean(axis=0) - mean) < 4.5 * error).all()
    assert np.abs(mean).max() > 10 * error.max()


@pytest.mark.slow
@pytest.mark.parametrize("method", glass_gibbs.STEPS)
def test_both_have_the_posterior_of_theta(small, method):
    """Mean and standard deviation against a grid with p(y | theta) by weights."""
    rng = np.random.default_rng(7)
    grid = np.linspace(-9, 9, 61)
    weights = [np.mean([np.exp(small.weighted_latent(np.array([t]), rng)[1]) for _ in range(60)])
               for t in grid]  # fmt: skip
    share = np.array(weights) * stats.norm.pdf(grid, 0, np.sqrt(PRIOR_VARIANCE))
    share /= share.sum()
    mean = share @ grid
    sd = np.sqrt(share @ (grid - mean) ** 2)
    start = glass_gibbs.joint_point(small, np.array([mean]), rng)
    found = glass_gibbs.walk(
        small, glass_gibbs.STEPS[method], np.array([sd]), start, (300, 6_000), rng
    )
    assert abs(found.accepted - glass_gibbs.TARGET_ACCEPT) < 0.08
    error = sd / np.sqrt(ess_of_chain(found.draws[:, 0]))
    assert abs(found.draws.mean() - mean) < 4.5 * error
    squares = (found.draws[:, 0] - mean) ** 2
    assert abs(squares.mean() - sd**2) < 4.5 * squares.std() / np.sqrt(ess_of_chain(squares))


def test_numbers_are_those_of_all_chains():
    """The smallest of nine ESS per 1,000 draws; all of them independent but the last."""
    rng = np.random.default_rng(8)
    draws = rng.standard_normal((2, 1_000, 9))
    draws[..., 8] = np.repeat(draws[:, ::10, 8], 10, axis=1)
    row = glass_gibbs.measured(
        "one",
        [glass_gibbs.Walk(each, 0.2, scale) for each, scale in zip(draws, (1, 3), strict=True)],
        7,
    )
    assert row["scale"] == 2
    assert row["ess_median_per_1000"] > 800
    assert row["ess_min_per_1000"] == pytest.approx(100, rel=0.3)
