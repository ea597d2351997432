"""The metric learned from draws and gradients: exact for a Gaussian, finite for all others."""

import numpy as np
import pytest

from stanadapt.samplers.whitened.fisher_metric import diagonal_metric, fisher_metric


def gaussian(n, seed, decades=3.0):
    """A random covariance with unequal scales, and its precision."""
    rng = np.random.default_rng(seed)
    root = np.linalg.qr(rng.standard_normal((n, n)))[0] * np.exp(rng.uniform(-1, 1, n))
    root *= 10.0 ** rng.uniform(-decades, decades, n)[:, None]
    covariance = root @ root.T
    return covariance, np.linalg.inv(covariance)


def written_out(metric):
    """L L^T of a factor as it is stored."""
    factor, n = metric.factor, len(metric.scales)
    if metric.kind == "diagonal":
        return np.diag(factor[0] ** 2)
    if metric.kind == "dense":
        return np.tril(factor) @ np.tril(factor).T
    directions, amounts = factor[1:, :n], factor[1:, n]
    root = factor[0, :n, None] * (np.eye(n) + (directions.T * amounts) @ directions)
    return root @ root.T


@pytest.mark.parametrize("n", [2, 12, 20])
def test_exact_for_a_gaussian_wherever_the_draws_were_taken(n):
    """Draws on a line far out, not from the target: their gradients are still informative."""
    covariance, precision = gaussian(n, 1)
    rng, sd = np.random.default_rng(2), np.sqrt(np.diag(covariance))
    draws = sd * (5.0 + rng.standard_normal((n + 5, n)) + np.linspace(0, 30, n + 5)[:, None])
    metric = fisher_metric(draws, -draws @ precision, np.ones(n), ridge=1e-12, cutoff=1.0)
    assert metric.kind == "dense"
    ratio = written_out(metric) / np.outer(sd, sd)
    np.testing.assert_allclose(ratio, covariance / np.outer(sd, sd), atol=1e-5)


def test_scales_alone_few_draws_and_roots():
    rng, sd = np.random.default_rng(1), 10.0 ** np.linspace(-12, 12, 50)
    draws = 1e3 * sd + sd * rng.standard_normal((240, 50))
    metric = fisher_metric(draws, -(draws - 1e3 * sd) / sd**2, np.ones(50))
    assert (metric.kind, metric.rank) == ("diagonal", 0)
    np.testing.assert_allclose(metric.factor[0], sd, rtol=1e-6)
    covariance, precision = gaussian(40, 5, decades=1.0)
    draws = np.random.default_rng(6).standard_normal((80, 40)) @ np.linalg.cholesky(covariance).T
    for count in (80, 12):
        metric = fisher_metric(draws[:count], -draws[:count] @ precision, np.ones(40))
        np.testing.assert_allclose(metric.scales, np.sqrt(np.diag(written_out(metric))), rtol=1e-9)
    _, precision = gaussian(20, 1)
    draws = np.random.default_rng(1).standard_normal((10, 20))
    matrix = written_out(fisher_metric(draws, -draws @ precision, np.ones(20)))
    assert np.isfinite(matrix).all()
    assert np.linalg.eigvalsh(matrix / np.sqrt(np.outer(*[np.diag(matrix)] * 2))).min() > 0


def test_correlated_directions_are_stored_as_such():
    n, rng = 60, np.random.default_rng(1)
    directions = np.linalg.qr(rng.standard_normal((n, 3)))[0]
    covariance = np.eye(n) + (directions * [20.0, 5.0, -0.9]) @ directions.T
    draws = rng.standard_normal((400, n)) @ np.linalg.cholesky(covariance).T
    metric = fisher_metric(draws, -np.linalg.solve(covariance, draws.T).T, np.ones(n))
    # scales take their share of the correlated directions away, and leave others behind
    assert metric.kind == "low rank"
    assert 3 <= metric.rank <= 6
    whitened = np.linalg.eigvals(np.linalg.solve(covariance, written_out(metric))).real
    assert 0.6 < whitened.min() < whitened.max() < 1.6
    n, rng = 5000, np.random.default_rng(1)
    sd = np.exp(rng.standard_normal(n))
    draws = sd * rng.standard_normal((60, n))
    draws[:, :2] += 3.0 * rng.standard_normal((60, 1))
    gradients = -draws / sd**2 + 0.1 * rng.standard_normal((60, n))
    metric = fisher_metric(draws, gradients, np.ones(n))
    assert metric.kind != "dense"
    assert np.isfinite(metric.factor).all()


@pytest.mark.parametrize("n", [30, 100])
def test_the_subspace_of_few_draws_is_no_approximation(n):
    """Outside the span of draws and gradients the metric is the identity in both forms."""
    covariance, precision = gaussian(n, 3, decades=1.0)
    draws = np.random.default_rng(4).standard_normal((12, n)) @ np.linalg.cholesky(covariance).T
    gradients = -draws @ precision
    small = written_out(fisher_metric(draws, gradients, np.ones(n)))
    many = [np.concatenate([x] * 10) for x in (draws, gradients)]  # the same moments
    full = written_out(fisher_metric(*many, np.ones(n)))
    # condition numbers of 1e7, after the ridge, cost digits
    np.testing.assert_allclose(small, full, atol=1e-4 * np.abs(full).max())


@pytest.mark.parametrize("learn", [diagonal_metric, fisher_metric])
def test_flat_and_still_coordinates_keep_their_scales(learn):
    rng = np.random.default_rng(1)
    draws = rng.standard_normal((60, 4)) * [1.0, 1e6, 1e-3, 1.0]
    gradients = -draws / [1.0, 1e12, 1e-6, 1.0]
    gradients[:, 1] = 0.0
    metric = learn(draws, gradients, np.full(4, 7.0))
    assert metric.scales[1] == pytest.approx(7.0)
    np.testing.assert_array_equal(metric.flat, [1])
    np.testing.assert_allclose(metric.scales[[0, 2, 3]], [1.0, 1e-3, 1.0], rtol=0.5)
    metric = learn(np.ones((20, 3)), np.ones((20, 3)), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(metric.factor, [[1.0, 2.0, 3.0]])
    assert not len(metric.flat)
