"""Parallel tempering on a fixed ladder: invariance of every level, swap rates, constants.

Chains start, many times over, from exact draws of their levels; any error in a sweep shows in the
moments of some level after a few sweeps.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_expit

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import moves
from stanadapt.samplers.tempering import swaps as engine
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.path import (
    POSITION,
    POWER,
    PRIOR,
    REFERENCE,
    REFERENCE_SLOPE,
    SLOPE,
    TARGET,
    evaluate,
)
from stanadapt.samplers.tempering.swaps import BACKWARD, FORWARD, REJECTION, SWEEPS, TRIPS
from tests.helpers.tempered_formula import (
    REFERENCE_MEAN,
    REFERENCE_SD,
    TemperedDistribution,
    exact_draws,
    log_ratios,
    standard_errors_off,
)
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

LEVELS = np.array([0.0, 0.02, 0.15, 0.45, 1.0])
REPLICATES, ROUNDS = 20_000, 3


@jit
def _swept(tempering, starts, sweeps, rng, out, learning=False):
    """Sweep from each start, shape (replicate, level, 3), in place; returns the mean rates."""
    count, rates = tempering.ladder.size[0], np.zeros(2)
    for r in range(starts.shape[0]):
        for k in range(count):
            row = tempering.order[0, k]
            tempering.replicas.vectors[row, POSITION] = starts[r, k]
            evaluate(tempering.path, tempering.replicas, row, True)
        for i in range(sweeps):
            info = engine.sweep(tempering, 0.8, (r + i) % 2, learning, rng)
            rates[0] += info.acceptance_rate
            rates[1] += info.swap_rate
            out[r] += info.n_steps
        for k in range(count):
            starts[r, k] = tempering.replicas.vectors[tempering.order[0, k], POSITION]
    return rates / (starts.shape[0] * sweeps)


@jit
def _record_orders(tempering, sweeps, rng, orders, out):
    for i in range(sweeps):
        out[i] = engine.sweep(tempering, 0.8, i % 2, False, rng).round_trips
        orders[i] = tempering.order[0]


def test_levels_are_left_invariant_with_the_moments_of_a_round():
    """Seven moments of five levels within 4.5 standard errors: one false alarm in 4,000 tests."""
    tempering, x = make_tempering(LEVELS), exact_draws(REPLICATES, LEVELS)
    rates = _swept(tempering, x, ROUNDS, np.random.default_rng(2), np.zeros(REPLICATES, np.int64))
    for k, b in enumerate(LEVELS):
        assert np.abs(standard_errors_off(x[:, k], TemperedDistribution(b))).max() < 4.5
    assert np.all(rates > 0.3)  # moves and swaps do occur
    assert np.all(rates < 0.98)
    tempering, x = make_tempering(LEVELS), exact_draws(2000, LEVELS, seed=6)
    _swept(tempering, x, 2, np.random.default_rng(7), np.zeros(2000, np.int64), learning=True)
    statistics, n = tempering.statistics, 4000
    for k, b in enumerate(LEVELS):
        exact = TemperedDistribution(b)
        # the two sweeps from one start count as one draw
        error = exact.sd / np.sqrt(2000)
        assert np.all(np.abs(statistics.vectors[k, 0] - exact.mean) < 5 * error)
        np.testing.assert_allclose(statistics.vectors[k, 1] / n, exact.variance, rtol=0.25)
    # at the ends E[slope^2] is known: the precision, at b = 1 of the last two coordinates
    np.testing.assert_allclose(statistics.vectors[0, 2] / n, REFERENCE_SD**-2.0, rtol=0.25)
    precision = 1 / (0.51 * np.array([0.3, 4.0]) ** 2)
    np.testing.assert_allclose(statistics.vectors[4, 2, 1:] / n, precision, rtol=0.25)


def test_constants_if_target_and_reference_fail():
    """Half of the reference lies beyond the wall, and nothing at all other levels."""
    tempering, rng, n = make_tempering(LEVELS, wall=1.0), np.random.default_rng(15), 5000
    distributions = [TemperedDistribution(b, 1.0 if b > 0 else np.inf) for b in LEVELS]
    x = np.stack([distribution.draws(n, rng) for distribution in distributions], axis=1)
    _swept(tempering, x, 1, rng, np.zeros(n, np.int64))
    log_z = np.zeros(7)
    engine.log_normalizers(tempering.statistics, tempering.ladder, log_z)
    # five standard errors: a relative error of 1 / sqrt(n) = 0.014 at each of four gaps
    exact = [distribution.log_z for distribution in distributions]
    np.testing.assert_allclose(log_z[:5], exact, atol=5 * 2 * 0.014)
    # three regions: in the support of the reference only, of both, of the target only
    tempering, rng = make_tempering([0.0, 1.0], room=2), np.random.default_rng(16)
    delta, outside, n = 0.4, 0.8, 4000
    logs = np.array([[-np.inf, np.log(0.3)], [np.log(0.7) + delta, np.log(0.7)], [0.0, -np.inf]])
    target = np.array([0.0, 0.7 * np.exp(delta), outside])
    replicas = tempering.replicas.logs
    for _ in range(n):
        order = tempering.order[0]
        replicas[order[0]] = logs[rng.choice(3, p=[0.3, 0.7, 0.0])]
        replicas[order[1]] = logs[rng.choice(3, p=target / target.sum())]
        tempering.statistics.counts[SWEEPS] += 1
        engine.swap_neighbors(tempering, 0, rng)
    log_z = np.zeros(2)
    engine.log_normalizers(tempering.statistics, tempering.ladder, log_z)
    # both estimates are shares of draws, with relative standard errors below sqrt(0.6 / n)
    assert log_z[1] == pytest.approx(np.log(target.sum()), abs=5 * np.sqrt(0.6 / n))


@pytest.mark.soak
@pytest.mark.parametrize("guess", [0.0, 2.0, -3.0])
def test_constants_of_levels_that_hardly_overlap(guess):
    """N(0, 8^2) and N(0, 0.1^2): five standard errors, at most 0.07 each.

    The mean of exp(-Delta) over draws of the latter has no variance, and its log is too low.
    """
    tempering, rng, n = make_tempering([0.0, 1.0], room=2), np.random.default_rng(17), 20_000
    tempering.ladder.levels[1, LOG_Z] = guess
    x = rng.standard_normal((n, 2)) * [8.0, 0.1]
    logs = np.stack([stats.norm.logpdf(x, 0.0, 0.1) + 0.7, stats.norm.logpdf(x, 0.0, 8.0)], axis=2)
    for both in logs:
        tempering.replicas.logs[tempering.order[0]] = both
        engine.swap_neighbors(tempering, engine.NEITHER, rng)
    log_z = np.zeros(2)
    engine.log_normalizers(tempering.statistics, tempering.ladder, log_z)
    assert log_z[1] == pytest.approx(0.7, abs=5 * 0.07)


def plain_swap(levels, order, delta, parity, rng):
    """Syed et al., algorithm 1, with the rates of all pairs; delta is given by row."""
    order, rates = order.copy(), []
    before = delta[order]
    for k in range(len(levels) - 1):
        log_ratio = (levels[k + 1] - levels[k]) * (before[k] - before[k + 1])
        rates.append(min(1.0, np.exp(min(log_ratio, 0.0))))
        if k % 2 == parity and rng.random() < rates[-1]:
            order[[k, k + 1]] = order[[k + 1, k]]
    return order, np.array(rates)


def test_swaps_equal_the_algorithm_with_the_same_random_numbers():
    rng, swapped = np.random.default_rng(8), np.zeros(4)
    for i in range(300):
        tempering, parity = make_tempering(LEVELS), i % 2
        order = tempering.order[0]
        order[:5] = rng.permutation(5)
        tempering.replicas.logs[:] = 3 * rng.normal(size=(7, 2))
        delta = tempering.replicas.logs[:, TARGET] - tempering.replicas.logs[:, REFERENCE]
        tempering.ladder.levels[:5, LOG_Z] = rng.normal(size=5)
        guess = np.diff(tempering.ladder.levels[:5, LOG_Z])
        before = order[:5].copy()
        expected, rates = plain_swap(LEVELS, before, delta, parity, np.random.default_rng(i))
        found = engine.swap_neighbors(tempering, parity, np.random.default_rng(i))
        np.testing.assert_array_equal(order[:5], expected)
        assert found == pytest.approx(rates.mean())
        sums, gap = tempering.statistics.levels, np.diff(LEVELS)
        np.testing.assert_allclose(sums[:4, REJECTION], 1 - rates, atol=1e-12)
        forward, backward = gap * delta[before][:-1] - guess, guess - gap * delta[before][1:]
        np.testing.assert_allclose(sums[:4, FORWARD], log_expit(forward))
        np.testing.assert_allclose(sums[:4, BACKWARD], log_expit(backward))
        swapped += expected[:-1] == before[1:]
    assert np.all(swapped > 20)


def test_a_row_if_the_target_fails_sinks_to_the_reference_and_never_rises():
    tempering = make_tempering([0.0, 0.5, 1.0], room=3)
    tempering.replicas.logs[:] = [[-np.inf, 1.0], [0.0, 0.0], [1.0, 0.0]]
    for i in range(50):
        engine.swap_neighbors(tempering, i % 2, np.random.default_rng(i))
        assert tempering.order[0, 0] == 0
    assert np.isfinite(tempering.statistics.levels[:2, REJECTION]).all()
    log_z = np.zeros(3)
    engine.reset(tempering.statistics)
    tempering.statistics.counts[SWEEPS] = 1
    engine.swap_neighbors(tempering, 0, np.random.default_rng(1))
    engine.log_normalizers(tempering.statistics, tempering.ladder, log_z)
    assert np.isfinite(log_z).all()


def test_round_trips_are_counted_when_they_end():
    tempering, x = make_tempering(LEVELS), exact_draws(1, LEVELS, seed=9)
    _swept(tempering, x, 0, np.random.default_rng(10), np.zeros(1, np.int64))
    orders, trips = np.zeros((3000, 7), np.int64), np.zeros(3000, np.int64)
    _record_orders(tempering, 3000, np.random.default_rng(11), orders, trips)
    hot, expected = set(), []
    for order in orders:
        hot.add(order[0])
        expected.append(order[4] in hot)
        hot.discard(order[4])
    np.testing.assert_array_equal(trips, expected)
    assert tempering.statistics.counts[TRIPS] == trips.sum() > 100
    assert trips[0] == 0


@pytest.mark.parametrize("kernel", [moves.MoveKernel.hmc, moves.MoveKernel.random_walk])
def test_the_hottest_level_is_redrawn(kernel):
    """And evaluated once; levels at b > 0, and other kinds of reference, are not redrawn."""
    tempering = make_tempering(np.array([0.0, 1e-9, 1.0]), kernel)
    mover, replicas, rng = tempering.mover, tempering.replicas, np.random.default_rng(12)
    calls, rows, levels = tempering.path.target.calls, np.array([2]), np.array([0])

    def steps_at(path, level):
        levels[0] = level
        moves.move(moves.TASK_PATH, tempering._replace(path=path), 1, rows, levels, rng)
        return mover.numbers[0, moves.STEPS]

    assert steps_at(tempering.path, 0) == 0
    assert calls[:2].sum() == 1
    assert calls[1] == (kernel != moves.MoveKernel.random_walk)
    x = replicas.vectors[2, POSITION].copy()
    assert log_ratios(x) == pytest.approx(replicas.logs[2, TARGET] - replicas.logs[2, REFERENCE])
    if kernel != moves.MoveKernel.random_walk:
        slope = (REFERENCE_MEAN - x) / REFERENCE_SD**2
        np.testing.assert_allclose(replicas.vectors[2, REFERENCE_SLOPE], slope)
        assert replicas.vectors[2, SLOPE, 0] == pytest.approx(2 - np.exp(x[0]))
    assert steps_at(tempering.path, 1) > 0
    prior = tempering.path.target.handle  # any density will do
    for other in (POWER, PRIOR):
        assert steps_at(tempering.path._replace(kind=other, prior_handle=prior), 0) > 0


def test_step_sizes_are_tuned_only_while_learning():
    tempering, x = make_tempering(LEVELS), exact_draws(1, LEVELS, seed=13)
    _swept(tempering, x, 0, np.random.default_rng(1), np.zeros(1, np.int64))
    before = tempering.ladder.levels.copy()
    engine.sweep(tempering, 0.8, 0, False, np.random.default_rng(14))
    np.testing.assert_array_equal(tempering.ladder.levels, before)
    engine.reset(tempering.statistics)
    engine.sweep(tempering, 0.0, 0, True, np.random.default_rng(14))
    change = tempering.ladder.levels - before
    # for a target rate of 0 all step sizes grow, except at the level that is redrawn
    assert np.all(change[1:5, LOG_STEP] > 0)
    assert np.all(change[1:5, LOG_STEP] <= moves.GAIN_OFFSET**-moves.GAIN_POWER)
    assert not np.delete(change, LOG_STEP, axis=1).any()
    assert not change[[0, 5, 6]].any()
