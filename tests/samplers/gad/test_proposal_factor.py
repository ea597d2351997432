"""Factors of low rank: products, and the derivative of the objective, against matrices."""

import numpy as np
import pytest

from stanadapt.samplers.gad import proposal_factor, speed_measure
from tests.helpers.chains import column, finish
from tests.helpers.gaussian_target import Gaussian, make_chains_at

N, RANK = 9, 2
# a triangle has fewer numbers than a factor of rank 1 in three dimensions
TOO_SMALL = 3


def random_factor(seed):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((1 + 2 * RANK, N))
    factor[0] = np.exp(rng.standard_normal(N))
    return factor


def matrix(factor):
    return np.diag(factor[0]) + factor[1 : 1 + RANK].T @ factor[1 + RANK :]


def test_products_and_initial_factors():
    factor, x, out = random_factor(1), np.random.default_rng(2).standard_normal(N), np.empty(N)
    proposal_factor.times(factor, x, out)
    np.testing.assert_allclose(out, matrix(factor) @ x, rtol=1e-12)
    proposal_factor.transposed_times(factor, x, out)
    np.testing.assert_allclose(out, matrix(factor).T @ x, rtol=1e-12)
    factor = proposal_factor.initial(N, 0.3, False, RANK)
    np.testing.assert_allclose(matrix(factor), 0.3 * np.eye(N))
    v = factor[1 + RANK :]
    np.testing.assert_allclose(v @ v.T, np.eye(RANK), atol=1e-12)
    assert proposal_factor.initial(TOO_SMALL, 0.3, False, 1).shape == (TOO_SMALL, TOO_SMALL)
    assert proposal_factor.initial(N, 0.3, False, 4).shape == (N, N)


@pytest.mark.parametrize("seed", range(4))
def test_the_derivative_is_that_of_differences(seed):
    """Differentiate sum_t left_t^T L right_t + weight log |det L| in all entries of s, U and V."""
    rng, weight = np.random.default_rng(seed), 1.7
    factor, left, right = random_factor(seed), *rng.standard_normal((2, 3, N))

    def objective(factor):
        whole = matrix(factor)
        linear = sum(left[t] @ whole @ right[t] for t in range(2))
        return linear + weight * np.linalg.slogdet(whole)[1]

    ours = np.empty_like(factor)
    work = np.empty((RANK, 2 * RANK))
    proposal_factor.low_rank_derivative(factor, left, right, 2, weight, work, ours)
    numeric, h = np.empty_like(factor), 1e-6
    for place in np.ndindex(factor.shape):
        shift = np.zeros_like(factor)
        shift[place] = h
        numeric[place] = (objective(factor + shift) - objective(factor - shift)) / (2 * h)
    np.testing.assert_allclose(ours, numeric, rtol=1e-5, atol=1e-5)


def test_without_an_inverse_the_diagonal_still_climbs():
    """U = -e_1 and V = s_1 e_1: L has a row of zeros, and nothing becomes NaN."""
    tuning = speed_measure.start(N, 1.0, False, 3, 1)
    tuning.factor[1:] = 0.0
    tuning.factor[1, 0], tuning.factor[2, 0] = -1.0, tuning.factor[0, 0]
    before = tuning.factor[0].copy()
    speed_measure.ascend(tuning, 0, 1.0, 0.01)
    assert np.isfinite(tuning.factor).all()
    assert (tuning.factor[0] > before).all()


def test_moments_and_acceptance_on_unequal_scales():
    """Scales of 0.1 to 4 in ten dimensions: means and variances within five errors of 16 chains."""
    sd = np.geomspace(0.1, 4.0, 10)
    starts = np.random.default_rng(3).standard_normal((16, 10))
    lengths, chosen = {"warmup": 4000, "draws": 4000}, {"rank": 2, "learning_rate": 5e-3}
    target = Gaussian(np.ones(10), sd)
    chains = finish(make_chains_at(target, starts, "gad_mala", **lengths, **chosen))
    assert all(chain.state.tuning.factor.shape == (5, 10) for chain in chains)
    x = np.stack([chain.sampling.constrained for chain in chains])
    for power, truth in ((1, np.zeros(10)), (2, np.ones(10))):
        means = (((x - 1.0) / sd) ** power).mean(axis=1)
        error = means.std(axis=0, ddof=1) / 4.0
        assert (error < 0.1).all()
        assert (np.abs(means.mean(axis=0) - truth) < 5 * error).all()
    rates = [column(chain, "acceptance_rate").mean() for chain in chains]
    assert np.mean(rates) == pytest.approx(0.55, abs=0.1)
