"""Modes that warm-up found and the draws never visited."""

import numpy as np

from stanadapt.samplers.tempering.findings import count_unvisited

FAR = np.array([9.0, -0.2])  # a narrow mode next to a wide one


def log_density(x):
    wide = -0.5 * ((x[0] / 1.0) ** 2 + (x[1] / 0.1) ** 2)
    narrow = 3.0 - 0.5 * np.sum((x - FAR) ** 2) / 0.05**2
    return np.logaddexp(wide, narrow)


def draws(far=0, n=2000, seed=1):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(n, 2)) * [1.0, 0.1]
    found[:far] = FAR + 0.05 * rng.normal(size=(far, 2))
    rng.shuffle(found)
    return found, np.array([log_density(x) for x in found])


def count(positions, **options):
    positions = np.atleast_2d(positions)
    lp = np.array([log_density(x) for x in positions])
    return count_unvisited(positions, lp, *draws(**options), log_density)


def test_a_narrow_mode_without_draws_is_counted():
    assert count([FAR, FAR + 0.01, [0.3, 0.05]]) == 2


def test_a_mode_with_draws_is_not_counted():
    assert count([FAR, FAR + 0.01], far=100) == 0


def test_positions_among_the_draws_are_not_counted():
    for seed in range(10):
        positions, _ = draws(n=40, seed=100 + seed)
        assert count(positions, seed=seed) == 0


def test_positions_of_low_density_are_not_counted():
    """A short chain far out was still on its way to a mode."""
    assert count([[30.0, 3.0], [0.0, 5.0]]) == 0


def test_a_ridge_without_a_dip_is_not_counted():
    """Beyond all draws, but without a dip on the straight line to them."""
    positions = np.array([[4.5, 0.0]])
    found, lp = draws()
    ridge = count_unvisited(positions, np.array([lp.max()]), found, lp, lambda x: -0.5 * x[0] ** 2)
    assert ridge == 0


def test_nothing_is_counted_if_the_draws_do_not_move():
    still = np.ones((100, 2))
    lp = np.full(100, -1.0)
    assert count_unvisited(still[:1] + 5.0, np.zeros(1), still, lp, lambda x: 0.0) == 0
