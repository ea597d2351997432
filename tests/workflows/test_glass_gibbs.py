"""Gibbs and joint steps on Gaussian process classification: both have the exact posterior."""

import numpy as np
import pytest
from scipy import stats

from workflows.gad.published import ess_of_chain
from workflows.kameleon import glass_gibbs
from workflows.kameleon.glass_slice import PRIOR_VARIANCE, Classification


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    return Classification(2.0 * rng.standard_normal((8, 1)), np.array([0, 1, 1, 0, 1, 0, 0, 1]))


def test_weights_have_the_mean_of_the_likelihood_over_the_prior(model):
    """Both are estimates of p(y | theta), by Laplace's approximation and by the prior of f."""
    rng, theta = np.random.default_rng(5), np.array([0.5])
    ours = np.exp([model.weighted_latent(theta, rng)[1] for _ in range(2_000)])
    prior = rng.multivariate_normal(np.zeros(8), model.covariance(theta), 40_000)
    plain = np.exp([model.log_likelihood(f) for f in prior])
    error = np.hypot(ours.std() / np.sqrt(len(ours)), plain.std() / np.sqrt(len(plain)))
    assert abs(ours.mean() - plain.mean()) < 4.5 * error
    assert ours.std() < 0.1 * plain.std()


def test_slices_have_the_law_of_latent_values(model):
    """Their mean, against that of draws of the prior, weighed by the likelihood."""
    rng, theta = np.random.default_rng(6), np.array([0.5])
    prior = rng.multivariate_normal(np.zeros(8), model.covariance(theta), 40_000)
    weights = np.exp([model.log_likelihood(f) for f in prior])
    weights /= weights.sum()
    mean, f, draws = weights @ prior, prior[0], []
    for _ in range(4_000):
        f = glass_gibbs.slice_step(model, theta, f, rng)
        draws.append(f)
    draws = np.array(draws)
    ess = min(ess_of_chain(column) for column in draws.T)
    error = draws.std(axis=0) * np.sqrt(1 / ess + (weights**2).sum())
    assert (np.abs(draws.mean(axis=0) - mean) < 4.5 * error).all()
    assert np.abs(mean).max() > 10 * error.max()


@pytest.mark.slow
@pytest.mark.parametrize("method", glass_gibbs.STEPS)
def test_both_have_the_posterior_of_theta(model, method):
    """Mean and standard deviation against a grid with p(y | theta) by weights."""
    rng = np.random.default_rng(7)
    grid = np.linspace(-9, 9, 61)
    weights = [np.mean([np.exp(model.weighted_latent(np.array([t]), rng)[1]) for _ in range(60)])
               for t in grid]  # fmt: skip
    share = np.array(weights) * stats.norm.pdf(grid, 0, np.sqrt(PRIOR_VARIANCE))
    share /= share.sum()
    mean = share @ grid
    sd = np.sqrt(share @ (grid - mean) ** 2)
    start = glass_gibbs.joint_point(model, np.array([mean]), rng)
    found = glass_gibbs.walk(
        model, glass_gibbs.STEPS[method], np.array([sd]), start, (300, 6_000), rng
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
