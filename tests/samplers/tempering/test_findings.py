"""Volumes of modes against exact ones; modes that warm-up found and the draws never visited."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from stanadapt.samplers.tempering.findings import count_unvisited, log_volumes
from stanadapt.samplers.tempering.notes import MODE_NOTES, Tempered, apply

COVARIANCE = np.array([[4.0, 0.3, 0.0], [0.3, 0.04, 0.01], [0.0, 0.01, 9.0]])


def gaussian(position):
    slope = -np.linalg.solve(COVARIANCE, position)
    return 0.5 * position @ slope, slope, ""


def mixture(centers, widths, weights):
    """Mixture of isotropic Gaussians, as `evaluate` returns it."""
    dim = centers.shape[1]

    def evaluate(position):
        apart = position - centers
        logs = np.log(weights) - dim * np.log(widths) - 0.5 * np.sum(apart**2, axis=1) / widths**2
        return logsumexp(logs), -softmax(logs) @ (apart / widths[:, None] ** 2), ""

    return evaluate


def test_volumes_of_gaussians_near_and_far():
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(3), COVARIANCE, 500)
    found = log_volumes(gaussian, draws)
    assert found.shape == (1,)
    exact = -stats.multivariate_normal(np.zeros(3), COVARIANCE).logpdf(np.zeros(3))
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    draws = np.random.default_rng(5).normal(size=(200, 3))
    for size in (1e-200, 1e100, 1e200):
        found = log_volumes(gaussian, size * draws)
        assert np.isfinite(found).all()
        assert apply(MODE_NOTES, Tempered("rwm", None, {}, log_volumes=found)) == []


@pytest.mark.parametrize("unit", [1e-4, 1.0])
def test_volumes_of_modes_of_unequal_width(unit):
    rng, dim = np.random.default_rng(2), 20
    centers = np.stack([np.zeros(dim), np.full(dim, 4.0 * unit)])
    widths = np.array([1.0, 0.25]) * unit
    which = rng.integers(2, size=1000)
    draws = centers[which] + widths[which, None] * rng.normal(size=(1000, dim))
    found = log_volumes(mixture(centers, widths, np.array([0.5, 0.5])), draws)
    exact = dim * (0.5 * np.log(2 * np.pi) + np.log(widths))
    np.testing.assert_allclose(np.sort(found)[::-1], exact, atol=1e-3)


def test_without_a_maximum_there_is_no_volume():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(200, 2))

    def ridge(position):  # falls off in one direction only
        return -0.5 * position[0] ** 2, np.array([-position[0], 0.0]), ""

    def saddle(position):
        return position[1] ** 2 - position[0] ** 2, np.array([-2.0, 2.0]) * position, ""

    def endless(position):  # curved in both directions, but rises for ever
        rising = np.exp(-0.1 * position[1])
        slope = np.array([-position[0], 0.1 * rising])
        return -0.5 * position[0] ** 2 - rising, slope, ""

    def failing(position):
        return -np.inf, np.full(2, np.nan), "no"

    for density in (ridge, saddle, endless, failing):
        assert log_volumes(density, draws).size == 0
    assert log_volumes(gaussian, np.ones((200, 3))).size == 0  # chains that never moved


def test_a_density_that_fails_at_some_draws():
    draws, failed = np.random.default_rng(4).multivariate_normal(np.zeros(3), COVARIANCE, 200), []

    def walled(position):
        failed.append(position[2] > 2.0)
        if failed[-1]:
            return -np.inf, np.full(3, np.nan), "no"
        return gaussian(position)

    np.testing.assert_allclose(log_volumes(walled, draws), log_volumes(gaussian, draws), rtol=1e-6)
    assert any(failed)


# --- modes without draws --------------------------------------------------------------------------

FAR = np.array([9.0, -0.2])  # a narrow mode next to a wide one


def log_density(x):
    wide = -0.5 * ((x[0] / 1.0) ** 2 + (x[1] / 0.1) ** 2)
    narrow = 3.0 - 0.5 * np.sum((x - FAR) ** 2) / 0.05**2
    return np.logaddexp(wide, narrow)


def two_modes(far=0, n=2000, seed=1):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(n, 2)) * [1.0, 0.1]
    found[:far] = FAR + 0.05 * rng.normal(size=(far, 2))
    rng.shuffle(found)
    return found, np.array([log_density(x) for x in found])


def count(positions, **options):
    positions = np.atleast_2d(positions)
    lp = np.array([log_density(x) for x in positions])
    return count_unvisited(positions, lp, *two_modes(**options), log_density)


@pytest.mark.parametrize(("positions", "far", "expected"), [
    ([FAR, FAR + 0.01, [0.3, 0.05]], 0, 2), ([FAR, FAR + 0.01], 100, 0),
    # short chains far out, or at the foot of the narrow mode, were still on their way to a mode
    ([[30.0, 3.0], [0.0, 5.0]], 0, 0), ([FAR, [9.2, -0.2], [30.0, 3.0]], 0, 1),
])  # fmt: skip
def test_narrow_modes_without_draws_are_counted(positions, far, expected):
    assert count(positions, far=far) == expected


def test_what_is_no_narrow_mode_is_not_counted():
    for seed in range(10):
        positions, _ = two_modes(n=40, seed=100 + seed)
        assert count(positions, seed=seed) == 0
    # beyond all draws, but without a dip on the straight line to them
    positions = np.array([[4.5, 0.0]])
    found, lp = two_modes()
    ridge = count_unvisited(positions, np.array([lp.max()]), found, lp, lambda x: -0.5 * x[0] ** 2)
    assert ridge == 0
    still = np.ones((100, 2))
    lp = np.full(100, -1.0)
    assert count_unvisited(still[:1] + 5.0, np.zeros(1), still, lp, lambda x: 0.0) == 0
