"""Blocked Gibbs on the extended target: probabilities by the formula, joint distribution kept.

The normalizing constants are wrong and the reference fits badly throughout: both cost efficiency,
and must not cost correctness.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import pseudo_gibbs as engine
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import POSITION, REFERENCE, TARGET, evaluate
from stanadapt.samplers.tempering.pseudo_gibbs import BEEN_HOT, LEVEL, SWEEPS, WEIGHT
from tests.helpers.tempered_formula import TemperedDistribution, log_ratios, standard_errors_off
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

LEVELS = np.array([0.0, 0.05, 0.3, 1.0])
REPLICATES = 20_000


def wrong_constants():
    """Constants with errors of up to 1.2, of both signs."""
    exact = np.array([TemperedDistribution(b).log_z for b in LEVELS[1:]])
    return np.array([0.0, *(exact + np.array([1.2, -0.7, 0.5]))])


def make_pseudo_samples(count):
    """Return pseudo-samples on a fixed ladder with wrong constants."""
    tempering = make_tempering(LEVELS, MoveKernel.hmc, room=6)
    tempering.ladder.levels[:4, LOG_Z] = wrong_constants()
    options, queue = tempering.mover.options, tempering.mover.queue
    return engine.no_pseudo_samples(tempering.path, options, tempering.ladder, count, queue)


def draw_extended(pseudo, replicates, seed):
    """Draw from the extended target: positions (replicate, N, 3), levels (replicate, N), indices.

    The last result is the probability of each level for a pseudo-sample that is not the index.
    """
    rng, count = np.random.default_rng(seed), pseudo.where.shape[1]
    log_z = np.array([TemperedDistribution(b).log_z for b in LEVELS])
    shares = softmax(log_z - pseudo.ladder.levels[:4, LOG_Z])
    levels = rng.choice(4, size=(replicates, count), p=shares)
    index = rng.integers(0, count, replicates)
    levels[np.arange(replicates), index] = 3
    x = np.empty((replicates, count, 3))
    for k, b in enumerate(LEVELS):
        x[levels == k] = TemperedDistribution(b).draws(np.sum(levels == k), rng)
    return x, levels, index, shares


@jit
def _sweep_from(pseudo, x, levels, index, sweeps, rng, weights, learning):
    """Sweep from each start; x, levels, index and weights are overwritten by the final state."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            pseudo.replicas.vectors[j, POSITION] = x[r, j]
            evaluate(pseudo.path, pseudo.replicas, j, True)
            pseudo.where[LEVEL, j] = levels[r, j]
        pseudo.index[0] = index[r]
        for _ in range(sweeps):
            engine.sweep(pseudo, 0.8, learning, rng)
        for j in range(x.shape[1]):
            x[r, j] = pseudo.replicas.vectors[j, POSITION]
            levels[r, j] = pseudo.where[LEVEL, j]
            weights[r, j] = pseudo.probabilities[j, WEIGHT]
        index[r] = pseudo.index[0]


@jit
def _choose_repeatedly(pseudo, rng, index, levels):
    for i in range(index.shape[0]):
        engine.choose(pseudo, rng)
        index[i], levels[i] = pseudo.index[0], pseudo.where[LEVEL]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_extended_target_is_left_invariant(count):
    """Moments by level, levels, index and draw; each within 4.5 standard errors or p > 1e-5."""
    pseudo = make_pseudo_samples(count)
    x, levels, index, shares = draw_extended(pseudo, REPLICATES, seed=count)
    first_index, weights = index.copy(), np.empty((REPLICATES, count))
    _sweep_from(pseudo, x, levels, index, 3, np.random.default_rng(20 + count), weights, False)
    rows = np.arange(REPLICATES)
    target = TemperedDistribution(1.0)
    assert np.abs(standard_errors_off(x[rows, index], target)).max() < 4.5
    assert np.all(levels[rows, index] == 3)
    if count == 1:
        return
    others = levels[rows[:, None], (index[:, None] + np.arange(1, count)) % count]
    counts = np.bincount(others[:, 0], minlength=4)  # of one other only: independent draws
    assert stats.chisquare(counts, REPLICATES * shares).pvalue > 1e-5
    assert counts.min() > 500
    assert stats.chisquare(np.bincount(index)).pvalue > 1e-5
    assert 0.05 < np.mean(index != first_index) < 0.95
    is_index = np.arange(count) == index[:, None]
    for k, b in enumerate(LEVELS):
        first = np.argmax((levels == k) & ~is_index, axis=1)
        at_level = (levels[rows, first] == k) & ~is_index[rows, first]
        draws = x[rows[at_level], first[at_level]]
        assert np.abs(standard_errors_off(draws, TemperedDistribution(b))).max() < 4.5
    # weighted means over all pseudo-samples have the same moments, with less noise
    assert np.allclose(weights.sum(axis=1), 1.0)
    for values, truth in ((x, target.mean), ((x - target.mean) ** 2, target.variance)):
        weighted = np.einsum("rj,rji->ri", weights, values)
        error = weighted.std(axis=0) / np.sqrt(REPLICATES)
        assert np.all(np.abs(weighted.mean(axis=0) - truth) < 4.5 * error)
        assert np.all(error < values[rows, index].std(axis=0) / np.sqrt(REPLICATES))


def test_probabilities_and_weights_are_those_of_the_formula():
    pseudo, rng = make_pseudo_samples(5), np.random.default_rng(1)
    log_z, b = pseudo.ladder.levels[:4, LOG_Z], LEVELS
    for _ in range(100):
        pseudo.replicas.logs[:] = rng.normal(size=(5, 2)) * rng.choice([1, 10, 300])
        target, psi = pseudo.replicas.logs[:, TARGET], pseudo.replicas.logs[:, REFERENCE]
        log_q = np.outer(target, b) + np.outer(psi, 1 - b) - log_z
        largest = engine.weigh(pseudo)
        weights = softmax(target - logsumexp(log_q, axis=1))
        np.testing.assert_allclose(pseudo.probabilities[:, WEIGHT], weights, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(pseudo.probabilities[:, :4], softmax(log_q, axis=1), atol=1e-15)
        assert largest == pytest.approx(weights.max())
        assert not pseudo.probabilities[:, 4:-1].any()


def test_a_pseudo_sample_if_the_target_fails_has_no_weight_and_is_at_the_reference():
    pseudo = make_pseudo_samples(3)
    pseudo.replicas.logs[:] = [[-np.inf, 1.0], [3.0, 2.0], [0.5, 1e4]]
    assert engine.weigh(pseudo) <= 1.0
    np.testing.assert_array_equal(pseudo.probabilities[0], [1, 0, 0, 0, 0, 0, 0])
    assert pseudo.probabilities[:, WEIGHT].sum() == pytest.approx(1.0)
    assert np.isfinite(pseudo.probabilities).all()


def test_a_pseudo_sample_if_the_reference_fails_is_at_the_target():
    pseudo = make_pseudo_samples(2)
    pseudo.replicas.logs[:] = [[1.0, -np.inf], [1.0, 2.0]]
    engine.weigh(pseudo)
    assert np.isfinite(pseudo.probabilities).all()
    assert pseudo.probabilities[0, 3] == 1.0
    assert pseudo.probabilities[:, WEIGHT].sum() == pytest.approx(1.0)


def test_index_and_levels_are_drawn_with_their_probabilities():
    pseudo, rng, n = make_pseudo_samples(3), np.random.default_rng(2), 20_000
    pseudo.replicas.logs[:] = [[-3.0, -5.0], [-4.0, -5.5], [-6.0, -4.5]]
    engine.weigh(pseudo)
    probabilities = pseudo.probabilities.copy()
    index, levels = np.empty(n, int), np.empty((n, 3), int)
    _choose_repeatedly(pseudo, rng, index, levels)
    np.testing.assert_array_equal(pseudo.probabilities, probabilities)
    assert np.all(levels[np.arange(n), index] == 3)
    assert stats.chisquare(np.bincount(index), n * probabilities[:, WEIGHT]).pvalue > 1e-5
    for j in range(3):
        counts = np.bincount(levels[index != j, j], minlength=4)
        assert stats.chisquare(counts, counts.sum() * probabilities[j, :4]).pvalue > 1e-5


def test_round_trips_are_from_index_to_reference_and_back():
    pseudo, rng = make_pseudo_samples(3), np.random.default_rng(3)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=4)
    hot, weights, total = set(), np.empty((1, 3)), 0
    _sweep_from(pseudo, x, levels, index, 0, rng, weights, False)
    for _ in range(1000):
        info = engine.sweep(pseudo, 0.8, False, rng)
        now = int(pseudo.index[0])
        assert info.round_trips == (now in hot)
        hot |= {j for j in range(3) if j != now and pseudo.where[LEVEL, j] == 0}
        hot.discard(now)
        assert set(np.flatnonzero(pseudo.where[BEEN_HOT])) == hot
        total += info.round_trips
    assert total > 20


def test_the_report_of_a_sweep():
    pseudo, rng = make_pseudo_samples(3), np.random.default_rng(5)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=6)
    _sweep_from(pseudo, x, levels, index, 0, rng, np.empty((1, 3)), False)
    calls = pseudo.path.target.calls
    for _ in range(200):
        before, level = int(pseudo.index[0]), pseudo.where[LEVEL].copy()
        evaluations = calls[1]
        info = engine.sweep(pseudo, 0.8, False, rng)
        others = np.arange(3) != before
        assert info.temperature == pytest.approx(LEVELS[level[others]].mean())
        assert info.switched == (pseudo.index[0] != before)
        assert calls[1] - evaluations == info.steps + np.sum(level == 0)
        assert info.largest_weight == pseudo.probabilities[:, WEIGHT].max()
        point = engine.current(pseudo, np.empty(3))
        row = pseudo.replicas.vectors[pseudo.index[0], POSITION]
        np.testing.assert_array_equal(point.position, row)
        assert point.log_density == pseudo.replicas.logs[pseudo.index[0], TARGET]
        assert log_ratios(row) == pytest.approx(
            pseudo.replicas.logs[pseudo.index[0], TARGET]
            - pseudo.replicas.logs[pseudo.index[0], REFERENCE]
        )


def test_visits_are_the_probabilities_of_pseudo_samples_that_are_not_the_index():
    """The index before the draw, so that visits are proportional to Z / Zhat."""
    pseudo, rng = make_pseudo_samples(2), np.random.default_rng(7)
    x, levels, index, shares = draw_extended(pseudo, REPLICATES, seed=8)
    _sweep_from(pseudo, x, levels, index, 1, rng, np.empty((REPLICATES, 2)), False)
    assert pseudo.visits[1, SWEEPS] == REPLICATES
    assert not pseudo.visits[0].any()
    found = pseudo.visits[1, :4] / REPLICATES
    assert found.sum() == pytest.approx(1.0)
    # an upper bound: the probabilities vary less than visits do
    error = np.sqrt(shares * (1 - shares) / REPLICATES)
    assert np.all(np.abs(found - shares) < 4.5 * error)


def test_learning_finds_the_constants():
    """From wrong ones, in 40,000 sweeps; the last change a constant by 1e-4."""
    pseudo, rng = make_pseudo_samples(2), np.random.default_rng(9)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=10)
    _sweep_from(pseudo, x, levels, index, 40_000, rng, np.empty((1, 2)), True)
    exact = np.array([TemperedDistribution(b).log_z for b in LEVELS])
    assert np.ptp(wrong_constants() - exact) > 1.5
    np.testing.assert_allclose(pseudo.ladder.levels[:4, LOG_Z], exact, atol=0.12)
    assert pseudo.ladder.levels[0, LOG_Z] == 0.0
    assert np.isfinite(pseudo.ladder.levels[:4, LOG_STEP]).all()


def test_one_pseudo_sample_tunes_its_step_size_but_no_constants():
    pseudo, rng = make_pseudo_samples(1), np.random.default_rng(11)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=12)
    before = pseudo.ladder.levels.copy()
    _sweep_from(pseudo, x, levels, index, 50, rng, np.empty((1, 1)), True)
    np.testing.assert_array_equal(pseudo.ladder.levels[:, LOG_Z], before[:, LOG_Z])
    np.testing.assert_array_equal(pseudo.ladder.levels[:3], before[:3])
    assert pseudo.ladder.levels[3, LOG_STEP] != before[3, LOG_STEP]
