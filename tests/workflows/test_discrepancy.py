"""Discrepancies equal explicit sums, and effective sample sizes of papers their closed forms."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from tests.helpers.codes import raises_in
from workflows.gad.published import ess_of_chain
from workflows.kameleon import discrepancy
from workflows.kameleon.discrepancy import Gaussian, Polynomial
from workflows.learned.known_moments_ess import ess_known_moments

KERNELS = [Polynomial(3), Polynomial(2, 0.5), Polynomial(1, 0.0), Gaussian(1.3)]


def samples(n=40, m=55, dim=3, seed=1):
    """Two samples from different distributions, neither symmetric about zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, dim)) + 0.3
    return x, rng.exponential(1.5, (m, dim)) * np.arange(1, dim + 1)


def test_coverage_counts_draws_below_the_quantile():
    radii = chi2.ppf([0.05, 0.15, 0.25, 0.65, 0.95], 7)
    assert discrepancy.coverage(radii, 7, (0.1, 0.5, 0.9)).tolist() == [0.2, 0.6, 0.8]
    radii = chi2.rvs(4, size=(2, 3, 50), random_state=1)
    found = discrepancy.coverage(radii, 4)
    assert found.shape == (2, 3, 9)
    np.testing.assert_array_equal(found[1, 2], discrepancy.coverage(radii[1, 2], 4))
    inside, outside = np.zeros(10), np.full(10, 100.0)
    both = discrepancy.coverage_deviation(np.stack([inside, outside]), 2, (0.5,))
    assert both.tolist() == [0.5]
    assert discrepancy.coverage(np.concatenate([inside, outside]), 2, (0.5,)).tolist() == [0.5]
    assert discrepancy.coverage_deviation(inside, 2, (0.5,)).tolist() == [0.5]
    draws = np.array([[[1.0, 2.0], [5.0, 6.0]], [[0.0, 1.0], [0.0, 1.0]]])
    np.testing.assert_allclose(discrepancy.norm_of_mean(draws), [5.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(discrepancy.norm_of_mean(draws, [0.0, 1.0]), [np.sqrt(18), 0.0])
    assert discrepancy.norm_of_mean(draws[0]) == pytest.approx(5.0, rel=1e-15)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_moment_difference_sums_over_all_mixed_moments(order):
    x, y = samples()
    total = 0.0
    for index in product(range(3), repeat=order):
        total += (np.prod(x[:, index], axis=1).mean() - np.prod(y[:, index], axis=1).mean()) ** 2
    assert discrepancy.moment_difference(x, y, order) == pytest.approx(np.sqrt(total), rel=1e-12)
    assert discrepancy.moment_difference(x, x[::-1], order) < 1e-12


def scalar_kernel(kernel, a, b):
    """Both kernels again, for one pair, without matrices."""
    if isinstance(kernel, Polynomial):
        return (kernel.offset + sum(s * t for s, t in zip(a, b, strict=True))) ** kernel.degree
    return np.exp(-sum((s - t) ** 2 for s, t in zip(a, b, strict=True)) / (2 * kernel.width**2))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_mmd_equals_the_explicit_sums(kernel):
    x, y = samples(12, 9)

    def mean(pairs):
        return np.mean([scalar_kernel(kernel, a, b) for a, b in pairs])

    within = [
        mean([(z[i], z[j]) for i in range(len(z)) for j in range(len(z)) if i != j]) for z in (x, y)
    ]
    expected = sum(within) - 2 * mean(product(x, y))
    assert discrepancy.mmd_squared(x, y, kernel) == pytest.approx(expected, rel=1e-11)
    assert discrepancy.mmd_squared(y, x, kernel) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_results_do_not_depend_on_blocks(kernel, monkeypatch):
    x, y = samples()
    whole = discrepancy.mmd_squared(x, y, kernel), discrepancy.moment_difference(x, y, 3)
    monkeypatch.setattr(discrepancy, "BLOCK", 7 * len(y))  # 40 and 55 are no multiples of 7
    parts = discrepancy.mmd_squared(x, y, kernel), discrepancy.moment_difference(x, y, 3)
    assert len(discrepancy._blocks(len(x), len(y))) == 6
    np.testing.assert_allclose(parts, whole, rtol=1e-11)


def test_kernels_and_their_median_width():
    x, y = samples()
    found = discrepancy.mmd_squared(x, y, lambda a, b: a @ b.T)
    assert found == pytest.approx(discrepancy.mmd_squared(x, y, Polynomial(1, 0.0)), rel=1e-12)
    line = np.array([[0.0], [1.0], [1.0], [3.0]])  # distances 1, 1, 3, (0), 2, 2
    assert discrepancy.median_width(line) == pytest.approx(2 / np.sqrt(2), rel=1e-15)
    many = np.random.default_rng(5).standard_normal((20_000, 8))
    # squared distances are twice a chi-squared variable with 8 degrees of freedom
    assert discrepancy.median_width(many) == pytest.approx(np.sqrt(chi2.median(8)), rel=0.03)
    assert discrepancy.median_width(many, at_most=20) != discrepancy.median_width(many)


FLAT, GOOD = np.zeros(5), np.arange(10.0).reshape(5, 2)
BAD = {
    "radius_squared must have shape": lambda: discrepancy.coverage(np.empty((3, 0)), 2),
    "degrees_of_freedom must be positive, got 0": lambda: discrepancy.coverage(FLAT, 0),
    "levels must be probabilities": lambda: discrepancy.coverage(FLAT, 2, (0.5, 1.0)),
    "radius_squared must be finite, got 1 of 2": lambda: discrepancy.coverage([1.0, np.nan], 2),
    "draws must have shape (..., draw, dim)": lambda: discrepancy.norm_of_mean(FLAT),
    "truth must have shape (2,)": lambda: discrepancy.norm_of_mean(GOOD, np.zeros(3)),
    "order must be a whole number": lambda: discrepancy.moment_difference(GOOD, GOOD, 1.5),
    "dim^order must be at most": lambda: discrepancy.moment_difference(GOOD, GOOD, 30),
    "x must have shape (draw, dim)": lambda: discrepancy.mmd_squared(FLAT, GOOD, Gaussian(1)),
    "y must have shape (draw, dim)": lambda: discrepancy.mmd_squared(GOOD, [GOOD], Gaussian(1)),
    "same number of columns, got ((5, 2), (5, 1))": lambda: discrepancy.mmd_squared(
        GOOD, GOOD[:, :1], Gaussian(1)
    ),
    "x must hold at least 2 draws, got 1": lambda: discrepancy.mean_within(GOOD[:1], Gaussian(1)),
    "x must be finite": lambda: discrepancy.mean_within(GOOD * np.inf, Gaussian(1)),
    "width must be finite and positive, got 0": lambda: discrepancy.mean_within(GOOD, Gaussian(0)),
    "degree must be a whole number": lambda: discrepancy.mean_within(GOOD, Polynomial(0)),
    "offset must be finite and at least 0": lambda: discrepancy.mean_within(
        GOOD, Polynomial(2, -1)
    ),
    "at least 2 distinct ones, got 5 equal draws": lambda: discrepancy.median_width(0 * GOOD),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_reported(message):
    with raises_in("settings", message):
        BAD[message]()


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


def test_chains_in_one_mode_and_other_scales():
    stuck, sd = np.random.default_rng(1).normal([5, 0], 0.5, size=(4, 1000, 2)), [5.0249378, 0.5]
    found = ess_known_moments(stuck, np.zeros(2), np.array(sd))
    assert found[0] == pytest.approx(1.0, abs=0.1)
    # the sum continues while any coordinate is correlated, and accumulates noise of the others
    assert found[1] < 900
    assert ess_known_moments(stuck[..., 1:], np.zeros(1), np.array(sd[1:]))[0] > 900
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
