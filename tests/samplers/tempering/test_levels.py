"""Rows on a ladder: levels by the formula, exact draws under wrong constants, right errors.

Simulated tempering with one row, and blocked Gibbs on the extended target with several. The
normalizing constants are wrong and the reference fits badly throughout: both cost efficiency, and
must not cost correctness.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import levels as engine
from stanadapt.samplers.tempering import pseudo_extended, simulated_tempering, tours
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.levels import BEEN_HOT, LEVEL, MOVES, NO_INDEX, WEIGHT
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import POSITION, REFERENCE, TARGET, evaluate
from tests.helpers.tempered_formula import TemperedDistribution, log_ratios, standard_errors_off
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

LEVELS = np.array([0.0, 0.05, 0.3, 1.0])
REPLICATES = 20_000
LONGEST = 10**6


def exact_constants():
    return np.array([TemperedDistribution(b).log_z for b in LEVELS])


def make_walkers(count, index=0, wrong=(0.0, 1.2, -0.7, 0.5)):
    """Return rows on a fixed ladder with constants that are wrong by so much, of both signs."""
    tempering = make_tempering(LEVELS, MoveKernel.hmc, room=6)
    constants = exact_constants() + wrong
    tempering.ladder.levels[:4, LOG_Z] = constants - constants[0]
    mover = tempering.mover
    return engine.no_walkers(
        tempering.path, mover.options, tempering.ladder, count, index, mover.queue
    )


def make_walker(**wrong):
    return make_walkers(1, NO_INDEX, **wrong)


@jit
def _place(walker, position, level):
    walker.replicas.vectors[0, POSITION] = position
    evaluate(walker.path, walker.replicas, 0, True)
    walker.where[LEVEL, 0] = level


@jit
def _excursions(walker, x, levels, longest, rng, learning):
    """Make one excursion from each start; x and levels are overwritten by its end."""
    moves = 0
    for r in range(x.shape[0]):
        _place(walker, x[r], levels[r])
        moves += simulated_tempering.excursion(walker, 0.8, learning, longest, rng).n_moves
        x[r] = walker.replicas.vectors[0, POSITION]
        levels[r] = walker.where[LEVEL, 0]
    return moves


def test_levels_and_weights_are_those_of_the_formula():
    walker = make_walker()
    b, log_z = LEVELS, walker.ladder.levels[:4, LOG_Z]
    for seed in range(5):
        x = TemperedDistribution(0.3).draws(1, np.random.default_rng(seed))[0]
        _place(walker, x, 0)
        log_r = engine.weigh_row(walker, 0)
        target, reference = walker.replicas.logs[0, TARGET], walker.replicas.logs[0, REFERENCE]
        logs = b * (target - reference) - log_z
        np.testing.assert_allclose(walker.probabilities[0, :4], softmax(logs), rtol=1e-10)
        np.testing.assert_allclose(log_r, target - reference - logsumexp(logs), rtol=1e-10)
    pseudo, rng = make_walkers(5), np.random.default_rng(1)
    log_z, b = pseudo.ladder.levels[:4, LOG_Z], LEVELS
    for _ in range(100):
        pseudo.replicas.logs[:] = rng.normal(size=(5, 2)) * rng.choice([1, 10, 300])
        target, psi = pseudo.replicas.logs[:, TARGET], pseudo.replicas.logs[:, REFERENCE]
        log_q = np.outer(target, b) + np.outer(psi, 1 - b) - log_z
        largest = pseudo_extended.weigh(pseudo)
        weights = softmax(target - logsumexp(log_q, axis=1))
        np.testing.assert_allclose(pseudo.probabilities[:, WEIGHT], weights, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(pseudo.probabilities[:, :4], softmax(log_q, axis=1), atol=1e-15)
        assert largest == pytest.approx(weights.max())
        assert not pseudo.probabilities[:, 4:-1].any()


def test_the_target_alone_is_left_invariant_by_a_whole_excursion():
    """From exact draws of the target back to it, through all levels: still exact."""
    walker, rng = make_walker(), np.random.default_rng(4)
    x = TemperedDistribution(1.0).draws(REPLICATES, rng)
    levels = np.full(REPLICATES, 3)
    moves = _excursions(walker, x, levels, LONGEST, np.random.default_rng(5), False)
    assert (levels == 3).all()
    assert np.abs(standard_errors_off(x, TemperedDistribution(1.0))).max() < 4.5
    # every level is visited: by Kac, the mean return time is 1 over the share of the target
    shares = softmax(exact_constants() - walker.ladder.levels[:4, LOG_Z])
    assert moves / REPLICATES == pytest.approx(1 / shares[3], rel=0.1)


def test_excursions_have_tours_and_an_end():
    walker, rng, redraws = make_walker(), np.random.default_rng(16), 0
    _place(walker, TemperedDistribution(0.0).draws(1, rng)[0], 0)
    for _ in range(200):
        redraws += simulated_tempering.excursion(walker, 0.8, False, LONGEST, rng).n_redraws
    done, visits = walker.tours, walker.visits[1]
    assert done[tours.COUNT] == redraws - 1 > 50
    assert done[tours.SUM_COLD] + done[tours.COLD] == pytest.approx(visits[3])
    assert done[tours.SUM_HOT] + done[tours.HOT] == pytest.approx(visits[0])
    walker = make_walker()
    x = TemperedDistribution(0.0).draws(500, np.random.default_rng(8))
    levels = np.zeros(500, np.int64)
    _excursions(walker, x, levels, 2, np.random.default_rng(9), False)
    assert walker.visits[1, MOVES] <= 1000
    assert 0 < np.sum(levels == 3) < 500


def test_learning_tunes_steps_and_finds_constants():
    walker = make_walker()
    before = walker.ladder.levels[:4, LOG_STEP].copy()
    x = TemperedDistribution(1.0).draws(3000, np.random.default_rng(12))
    _excursions(walker, x, np.full(3000, 3), 50, np.random.default_rng(13), True)
    after = walker.ladder.levels[:4, LOG_STEP]
    assert after[0] == before[0]  # redrawn from the reference: nothing to tune
    assert (after[1:] != before[1:]).all()
    learned = walker.ladder.levels.copy()
    _excursions(walker, x, np.full(3000, 3), 50, np.random.default_rng(14), False)
    np.testing.assert_array_equal(walker.ladder.levels, learned)
    # from wrong ones, in 40,000 sweeps; the last change a constant by 1e-4
    pseudo, rng = make_walkers(2), np.random.default_rng(9)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=10)
    exact = exact_constants()
    assert np.ptp(pseudo.ladder.levels[:4, LOG_Z] - exact) > 1.5
    _sweep_from(pseudo, x, levels, index, 40_000, rng, np.empty((1, 2)), True)
    np.testing.assert_allclose(pseudo.ladder.levels[:4, LOG_Z], exact, atol=0.12)
    assert pseudo.ladder.levels[0, LOG_Z] == 0.0
    assert np.isfinite(pseudo.ladder.levels[:4, LOG_STEP]).all()


@pytest.mark.parametrize(("rows", "index", "others"), [(1, NO_INDEX, [0]), (3, 1, [0, 2])])
def test_constants_rise_where_visits_are_more_likely_than_at_other_levels(rows, index, others):
    """Relative to the hottest level; rows in steps of a gain that falls with their number."""
    walkers, rng = make_walkers(rows, index), np.random.default_rng(15)
    walkers.probabilities[:, :4], walkers.visits[0, MOVES] = rng.dirichlet(np.ones(4), rows), 9
    before = walkers.ladder.levels[:4, LOG_Z].copy()
    engine.learn_normalizers(walkers)
    excess = walkers.probabilities[others, :4].sum(axis=0) - 0.25 * len(others)
    expected = before + 4 / (1 + 9) / len(others) * excess
    np.testing.assert_allclose(walkers.ladder.levels[:4, LOG_Z], expected - expected[0], rtol=1e-12)


def draw_extended(pseudo, replicates, seed):
    """Draw from the extended target: positions (replicate, N, 3), levels (replicate, N), indices.

    The last result is the probability of each level for a pseudo-sample that is not the index.
    """
    rng, count = np.random.default_rng(seed), pseudo.where.shape[1]
    shares = softmax(exact_constants() - pseudo.ladder.levels[:4, LOG_Z])
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
            pseudo_extended.sweep(pseudo, 0.8, learning, rng)
        for j in range(x.shape[1]):
            x[r, j] = pseudo.replicas.vectors[j, POSITION]
            levels[r, j] = pseudo.where[LEVEL, j]
            weights[r, j] = pseudo.probabilities[j, WEIGHT]
        index[r] = pseudo.index[0]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_extended_target_is_left_invariant(count):
    """Moments by level, levels, index and draw; each within 4.5 standard errors or p > 1e-5."""
    pseudo = make_walkers(count)
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


def test_a_pseudo_sample_is_where_its_density_does_not_fail():
    pseudo = make_walkers(3)
    pseudo.replicas.logs[:] = [[-np.inf, 1.0], [3.0, 2.0], [0.5, 1e4]]
    assert pseudo_extended.weigh(pseudo) <= 1.0
    np.testing.assert_array_equal(pseudo.probabilities[0], [1, 0, 0, 0, 0, 0, 0])
    assert pseudo.probabilities[:, WEIGHT].sum() == pytest.approx(1.0)
    assert np.isfinite(pseudo.probabilities).all()
    pseudo = make_walkers(2)
    pseudo.replicas.logs[:] = [[1.0, -np.inf], [1.0, 2.0]]
    pseudo_extended.weigh(pseudo)
    assert np.isfinite(pseudo.probabilities).all()
    assert pseudo.probabilities[0, 3] == 1.0
    assert pseudo.probabilities[:, WEIGHT].sum() == pytest.approx(1.0)


def test_round_trips_are_from_index_to_reference_and_back():
    pseudo, rng = make_walkers(3), np.random.default_rng(3)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=4)
    hot, weights, total = set(), np.empty((1, 3)), 0
    _sweep_from(pseudo, x, levels, index, 0, rng, weights, False)
    for _ in range(1000):
        info = pseudo_extended.sweep(pseudo, 0.8, False, rng)
        now = int(pseudo.index[0])
        assert info.round_trips == (now in hot)
        hot |= {j for j in range(3) if j != now and pseudo.where[LEVEL, j] == 0}
        hot.discard(now)
        assert set(np.flatnonzero(pseudo.where[BEEN_HOT])) == hot
        total += info.round_trips
    assert total > 20


def test_the_report_of_a_sweep():
    pseudo, rng = make_walkers(3), np.random.default_rng(5)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=6)
    _sweep_from(pseudo, x, levels, index, 0, rng, np.empty((1, 3)), False)
    calls = pseudo.path.target.calls
    for _ in range(200):
        before, level = int(pseudo.index[0]), pseudo.where[LEVEL].copy()
        evaluations = calls[1]
        info = pseudo_extended.sweep(pseudo, 0.8, False, rng)
        others = np.arange(3) != before
        assert info.temperature == pytest.approx(LEVELS[level[others]].mean())
        assert info.switched == (pseudo.index[0] != before)
        assert calls[1] - evaluations == info.n_steps + np.sum(level == 0)
        assert info.largest_weight == pseudo.probabilities[:, WEIGHT].max()
        row = pseudo.index[0]
        target, reference = pseudo.replicas.logs[row, TARGET], pseudo.replicas.logs[row, REFERENCE]
        assert log_ratios(pseudo.replicas.vectors[row, POSITION]) == pytest.approx(
            target - reference
        )


def test_visits_are_the_probabilities_of_pseudo_samples_that_are_not_the_index():
    """The index before the draw, so that visits are proportional to Z / Zhat."""
    pseudo, rng = make_walkers(2), np.random.default_rng(7)
    x, levels, index, shares = draw_extended(pseudo, REPLICATES, seed=8)
    _sweep_from(pseudo, x, levels, index, 1, rng, np.empty((REPLICATES, 2)), False)
    assert pseudo.visits[1, MOVES] == REPLICATES
    assert not pseudo.visits[0].any()
    found = pseudo.visits[1, :4] / REPLICATES
    assert found.sum() == pytest.approx(1.0)
    # an upper bound: the probabilities vary less than visits do
    error = np.sqrt(shares * (1 - shares) / REPLICATES)
    assert np.all(np.abs(found - shares) < 4.5 * error)


def test_one_pseudo_sample_tunes_its_step_size_but_no_constants():
    pseudo, rng = make_walkers(1), np.random.default_rng(11)
    x, levels, index, _ = draw_extended(pseudo, 1, seed=12)
    before = pseudo.ladder.levels.copy()
    _sweep_from(pseudo, x, levels, index, 50, rng, np.empty((1, 1)), True)
    np.testing.assert_array_equal(pseudo.ladder.levels[:, LOG_Z], before[:, LOG_Z])
    np.testing.assert_array_equal(pseudo.ladder.levels[:3], before[:3])
    assert pseudo.ladder.levels[3, LOG_STEP] != before[3, LOG_STEP]
