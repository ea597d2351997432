"""Correlations are learned if they hold for other draws too, and otherwise scales alone."""

import numpy as np
import pytest

from stanadapt.samplers.whitened.choose_metric import (
    LATER,
    WHILE_TRAVELING,
    choose_metric,
    composed_metric,
    draws_of,
)
from stanadapt.samplers.whitened.fisher_metric import (
    FisherMetric,
    diagonal_metric,
    fisher_metric,
    use_standard_deviations,
)
from stanadapt.samplers.whitened.window import NUMBERS, Window


def window(positions, gradients, moved=None):
    """A window of chains, shape (chain, draw, n)."""
    chains = len(positions)
    moved = np.ones(chains, bool) if moved is None else np.array(moved)
    return Window(positions, gradients, np.zeros((*positions.shape[:2], NUMBERS)), moved)


def correlations_hold(made, former):
    """Whether a full metric is chosen."""
    former = FisherMetric(former[None], "diagonal", 0, np.empty(0, int))
    return choose_metric(former, draws_of(made), WHILE_TRAVELING).kind != "diagonal"


def gaussian(chains, draws, correlation, n=10):
    """Draws of a Gaussian with unequal scales and equal correlations, and its gradients."""
    rng, sd = np.random.default_rng(1), 10.0 ** np.linspace(-3, 3, n)
    covariance = (np.eye(n) * (1 - correlation) + correlation) * np.outer(sd, sd)
    x = rng.standard_normal((chains, draws, n)) @ np.linalg.cholesky(covariance).T
    return x, -x @ np.linalg.inv(covariance)


def heavy_tailed(chains, draws, n=60):
    """Independent scale mixtures of normals: correlations are noise."""
    rng, sd = np.random.default_rng(2), 10.0 ** np.linspace(-1, 1, n)
    x = sd * rng.standard_t(2, (chains, draws, n))
    return x, -3.0 * x / (2.0 * sd**2 + x**2)


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_correlations_of_a_gaussian_hold_and_those_of_noise_do_not(chains):
    assert correlations_hold(window(*gaussian(chains, 120 // chains, 0.9)), np.ones(10))
    made = window(*heavy_tailed(chains, 120 // chains))
    assert fisher_metric(*made.pooled, np.ones(60)).kind != "diagonal"
    assert not correlations_hold(made, np.ones(60))


def test_chains_without_a_say_and_numbers_that_overflow():
    x, g = gaussian(4, 60, 0.9)
    x[0], g[0] = 1e9, 1e9
    assert correlations_hold(window(x, g, [False, True, True, True]), np.ones(10))
    x[3, 2, 1] = np.inf
    assert not correlations_hold(window(x, g), np.ones(10))
    x[0], g[0] = 1e9 * x[0], 1e-9 * g[0]
    chains = draws_of(window(x, g), np.array([True, False, False, False]))
    assert len(chains) == 3
    assert len(draws_of(window(x, g), np.ones(4, bool))) == 4


@pytest.mark.parametrize("kind", ["diagonal", "low rank", "dense"])
def test_whitened_is_the_inverse_of_the_factor(kind):
    n, rng = 40, np.random.default_rng(3)
    x, g = gaussian(4, 60, {"diagonal": 0.0, "low rank": 0.5, "dense": 0.0}[kind], n)
    x, g = x.reshape(-1, n), g.reshape(-1, n)
    if kind == "dense":
        mix = np.linalg.qr(rng.standard_normal((n, n)))[0] * np.exp(rng.uniform(-2, 2, n))
        x, g = rng.standard_normal((240, n)) @ mix.T, None
        g = -x @ np.linalg.inv(mix @ mix.T)
    learn = diagonal_metric if kind == "diagonal" else fisher_metric
    metric = learn(x, g, np.ones(n))
    assert metric.kind == kind
    root = np.array([metric.whiten(np.zeros((1, n)), row[None])[1][0] for row in np.eye(n)])
    z, b = metric.whiten(x, g)
    np.testing.assert_allclose(z @ root.T, x, rtol=1e-8, atol=1e-8 * np.abs(x).max(axis=0).min())
    np.testing.assert_allclose(b, g @ root, rtol=1e-8, atol=1e-8 * np.abs(b).max())


def test_scales_replace_what_rounding_or_few_draws_spoil():
    x = np.random.default_rng(4).standard_normal((100, 3)) * [1e-6, 1.0, 1e6]
    x[:, 1] = 2.0
    metric = diagonal_metric(x, x**3, np.array([1.0, 7.0, 1.0]))
    found = use_standard_deviations(metric, x).scales
    np.testing.assert_allclose(found, [x[:, 0].std(), 7.0, x[:, 2].std()])
    rng, sd = np.random.default_rng(6), 10.0 ** np.linspace(-3, 3, 10)
    x = sd * rng.standard_normal((4, 30, 10))
    former = FisherMetric(np.diag(sd), "dense", 10, np.empty(0, int))
    chains = draws_of(window(x, -x / sd**2))
    assert choose_metric(former, chains, WHILE_TRAVELING).kind == "diagonal"


def powers(draws=40, n=6):
    """A Gaussian as ill-conditioned as the powers of a variable that is far from zero."""
    x = np.linspace(3.0, 4.0, 200)[:, None] ** np.arange(n)
    _, upper = np.linalg.qr(x)
    root = np.linalg.inv(upper)
    z = np.random.default_rng(5).standard_normal((draws, n))
    return z @ root.T, -z @ upper, root


def condition(metric, root):
    """Condition number of the covariance in whitened coordinates."""
    whitened, _ = metric.whiten(root.T, root.T)
    return np.linalg.cond(whitened) ** 2


def test_composed_metrics_whiten_and_survive_an_overflow():
    x, g, root = powers()
    metric = fisher_metric(x, g, np.ones(6))
    first = condition(metric, root)
    for _ in range(4):
        metric = composed_metric(metric, x, g)
    assert first > 100.0
    assert condition(metric, root) < 2.0
    x, g, _ = powers()
    former = fisher_metric(x, g, np.ones(6))
    x[0, 0] = np.inf
    assert composed_metric(former, x, g) is former


def test_a_metric_that_draws_do_not_improve_is_kept():
    """With heavy tails few draws determine scales badly; correlations of 0.9 need a full metric."""
    rng, n = np.random.default_rng(7), 40
    root = np.linalg.cholesky(0.1 * np.eye(n) + 0.9)
    z = rng.standard_t(4, (4, 15, n))
    slopes = -5.0 * z / (4.0 + z**2)
    chains = draws_of(window(z @ root.T, slopes @ np.linalg.inv(root)))
    former = FisherMetric(np.ascontiguousarray(root), "dense", n, np.empty(0, int))
    assert choose_metric(former, chains, LATER) is former
    wrong = former._replace(factor=np.diag(np.arange(1.0, n + 1)))
    assert choose_metric(wrong, chains, LATER) is not wrong
