"""The blocked kernel on the extended target: chances by the formula, and the joint law kept.

The normalising constants are wrong and the reference is badly fitted throughout: both cost
efficiency and must not cost the law.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax
from tempered_formula import Tempered, surprises
from test_tempering import gains, make

from stanadapt import pseudo_blocks as engine
from stanadapt._jit import jit
from stanadapt.ladder import LOG_STEP, LOG_Z
from stanadapt.pseudo_blocks import BEEN_HOT, LEVEL, SWEEPS, WEIGHT
from stanadapt.tempered_moves import Moves
from stanadapt.tempered_path import POSITION, REFERENCE, TARGET, evaluate

LEVELS = np.array([0.0, 0.05, 0.3, 1.0])
REPLICATES = 20_000


def wrong_constants():
    """Off by more than one in both directions."""
    right = np.array([Tempered(b).log_z for b in LEVELS[1:]])
    return np.array([0.0, *(right + np.array([1.2, -0.7, 0.5]))])


def make_blocks(count, kind=Moves.hmc, room=6, **chosen):
    """Return blocks on a given ladder with wrong constants."""
    tempering = make(kind, LEVELS, room, **chosen)
    tempering.ladder.levels[:4, LOG_Z] = wrong_constants()
    options, board = tempering.mover.options, tempering.mover.board
    return engine.no_blocks(tempering.path, options, tempering.ladder, count, board)


def exact(blocks, replicates, seed):
    """Draw from the extended target: positions (replicate, N, 3), levels (replicate, N), index."""
    rng, count = np.random.default_rng(seed), blocks.where.shape[1]
    shares = softmax([Tempered(b).log_z for b in LEVELS] - blocks.ladder.levels[:4, LOG_Z])
    levels = rng.choice(4, size=(replicates, count), p=shares)
    index = rng.integers(0, count, replicates)
    levels[np.arange(replicates), index] = 3
    x = np.empty((replicates, count, 3))
    for k, b in enumerate(LEVELS):
        x[levels == k] = Tempered(b).draws(np.sum(levels == k), rng)
    return x, levels, index, shares


@jit
def _swept(blocks, x, levels, index, sweeps, rng, weights, learning):
    """Sweep from each start; all arrays become what the last sweep left."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            blocks.places.vectors[j, POSITION] = x[r, j]
            evaluate(blocks.path, blocks.places, j, True)
            blocks.where[LEVEL, j] = levels[r, j]
        blocks.index[0] = index[r]
        for _ in range(sweeps):
            engine.sweep(blocks, 0.8, learning, rng)
        for j in range(x.shape[1]):
            x[r, j] = blocks.places.vectors[j, POSITION]
            levels[r, j] = blocks.where[LEVEL, j]
            weights[r, j] = blocks.chances[j, WEIGHT]
        index[r] = blocks.index[0]


@jit
def _chosen(blocks, rng, index, levels):
    for i in range(index.shape[0]):
        engine.choose(blocks, rng)
        index[i], levels[i] = blocks.index[0], blocks.where[LEVEL]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_extended_law_is_kept(count):
    """Moments by level, levels, index and draw; each within 4.5 standard errors or p > 1e-5."""
    blocks = make_blocks(count)
    x, levels, index, shares = exact(blocks, REPLICATES, seed=count)
    began, weights = index.copy(), np.empty((REPLICATES, count))
    _swept(blocks, x, levels, index, 3, np.random.default_rng(20 + count), weights, False)
    rows = np.arange(REPLICATES)
    assert np.abs(surprises(x[rows, index], Tempered(1.0))).max() < 4.5
    assert np.all(levels[rows, index] == 3)
    if count == 1:
        return
    others = levels[rows[:, None], (index[:, None] + np.arange(1, count)) % count]
    counts = np.bincount(others[:, 0], minlength=4)  # of one other: they are independent draws
    assert stats.chisquare(counts, REPLICATES * shares).pvalue > 1e-5
    assert counts.min() > 500
    assert stats.chisquare(np.bincount(index)).pvalue > 1e-5
    assert 0.05 < np.mean(index != began) < 0.95
    index_is = np.arange(count) == index[:, None]
    for k, b in enumerate(LEVELS):
        first = np.argmax((levels == k) & ~index_is, axis=1)
        there = (levels[rows, first] == k) & ~index_is[rows, first]
        assert np.abs(surprises(x[rows[there], first[there]], Tempered(b))).max() < 4.5
    # by all pseudo-samples with their weights: the same moments, and less noise
    assert np.allclose(weights.sum(axis=1), 1.0)
    law = Tempered(1.0)
    for values, truth in ((x, law.mean), ((x - law.mean) ** 2, law.variance)):
        smooth = np.einsum("rj,rji->ri", weights, values)
        error = smooth.std(axis=0) / np.sqrt(REPLICATES)
        assert np.all(np.abs(smooth.mean(axis=0) - truth) < 4.5 * error)
        assert np.all(error < values[rows, index].std(axis=0) / np.sqrt(REPLICATES))


def test_chances_and_weights_are_those_of_the_formula():
    blocks, rng = make_blocks(5), np.random.default_rng(1)
    log_z, b = blocks.ladder.levels[:4, LOG_Z], LEVELS
    for _ in range(100):
        blocks.places.logs[:] = rng.normal(size=(5, 2)) * rng.choice([1, 10, 300])
        target, psi = blocks.places.logs[:, TARGET], blocks.places.logs[:, REFERENCE]
        log_q = np.outer(target, b) + np.outer(psi, 1 - b) - log_z
        largest = engine.weigh(blocks)
        weights = softmax(target - logsumexp(log_q, axis=1))
        np.testing.assert_allclose(blocks.chances[:, WEIGHT], weights, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(blocks.chances[:, :4], softmax(log_q, axis=1), atol=1e-15)
        assert largest == pytest.approx(weights.max())
        assert not blocks.chances[:, 4:-1].any()


def test_one_place_that_failed_has_no_weight_and_is_at_the_reference():
    blocks = make_blocks(3)
    blocks.places.logs[:] = [[-np.inf, 1.0], [3.0, 2.0], [0.5, 1e4]]
    assert engine.weigh(blocks) <= 1.0
    np.testing.assert_array_equal(blocks.chances[0], [1, 0, 0, 0, 0, 0, 0])
    assert blocks.chances[:, WEIGHT].sum() == pytest.approx(1.0)
    assert np.isfinite(blocks.chances).all()


def test_a_place_that_the_reference_refuses_has_the_weight_of_a_target_draw():
    blocks = make_blocks(2)
    blocks.places.logs[:] = [[1.0, -np.inf], [1.0, 2.0]]
    engine.weigh(blocks)
    assert np.isfinite(blocks.chances).all()
    assert blocks.chances[0, 3] == 1.0
    assert blocks.chances[:, WEIGHT].sum() == pytest.approx(1.0)


def test_index_and_levels_are_drawn_by_their_chances():
    blocks, rng, n = make_blocks(3), np.random.default_rng(2), 20_000
    blocks.places.logs[:] = [[-3.0, -5.0], [-4.0, -5.5], [-6.0, -4.5]]
    engine.weigh(blocks)
    chances = blocks.chances.copy()
    index, levels = np.empty(n, int), np.empty((n, 3), int)
    _chosen(blocks, rng, index, levels)
    np.testing.assert_array_equal(blocks.chances, chances)
    assert np.all(levels[np.arange(n), index] == 3)
    assert stats.chisquare(np.bincount(index), n * chances[:, WEIGHT]).pvalue > 1e-5
    for j in range(3):
        counts = np.bincount(levels[index != j, j], minlength=4)
        assert stats.chisquare(counts, counts.sum() * chances[j, :4]).pvalue > 1e-5


def test_round_trips_are_from_index_to_reference_and_back():
    blocks, rng = make_blocks(3), np.random.default_rng(3)
    x, levels, index, _ = exact(blocks, 1, seed=4)
    hot, weights, total = set(), np.empty((1, 3)), 0
    _swept(blocks, x, levels, index, 0, rng, weights, False)
    for _ in range(1000):
        done = engine.sweep(blocks, 0.8, False, rng)
        now = int(blocks.index[0])
        assert done.round_trips == (now in hot)
        hot |= {j for j in range(3) if j != now and blocks.where[LEVEL, j] == 0}
        hot.discard(now)
        assert set(np.flatnonzero(blocks.where[BEEN_HOT])) == hot
        total += done.round_trips
    assert total > 20


def test_what_a_sweep_reports():
    blocks, rng = make_blocks(3), np.random.default_rng(5)
    x, levels, index, _ = exact(blocks, 1, seed=6)
    _swept(blocks, x, levels, index, 0, rng, np.empty((1, 3)), False)
    calls = blocks.path.target.calls
    for _ in range(200):
        before, level = int(blocks.index[0]), blocks.where[LEVEL].copy()
        evaluations = calls[1]
        done = engine.sweep(blocks, 0.8, False, rng)
        others = np.arange(3) != before
        assert done.temperature == pytest.approx(LEVELS[level[others]].mean())
        assert done.switched == (blocks.index[0] != before)
        assert calls[1] - evaluations == done.steps + np.sum(level == 0)
        assert done.largest_weight == blocks.chances[:, WEIGHT].max()
        point = engine.current(blocks, np.empty(3))
        row = blocks.places.vectors[blocks.index[0], POSITION]
        np.testing.assert_array_equal(point.position, row)
        assert point.log_density == blocks.places.logs[blocks.index[0], TARGET]
        delta = gains(row)
        assert delta == pytest.approx(
            blocks.places.logs[blocks.index[0], TARGET]
            - blocks.places.logs[blocks.index[0], REFERENCE]
        )


def test_visits_are_the_chances_of_those_that_are_not_the_index():
    """Of the index before the draw: so that visits are proportional to Z / Zhat."""
    blocks, rng = make_blocks(2), np.random.default_rng(7)
    x, levels, index, shares = exact(blocks, REPLICATES, seed=8)
    _swept(blocks, x, levels, index, 1, rng, np.empty((REPLICATES, 2)), False)
    assert blocks.visits[1, SWEEPS] == REPLICATES
    assert not blocks.visits[0].any()
    found = blocks.visits[1, :4] / REPLICATES
    assert found.sum() == pytest.approx(1.0)
    # the chances vary less than visits do
    error = np.sqrt(shares * (1 - shares) / REPLICATES)
    assert np.all(np.abs(found - shares) < 4.5 * error)


def test_learning_finds_the_constants():
    """From wrong ones; in 40,000 sweeps the last of which move a constant by 1e-4."""
    blocks, rng = make_blocks(2), np.random.default_rng(9)
    x, levels, index, _ = exact(blocks, 1, seed=10)
    _swept(blocks, x, levels, index, 40_000, rng, np.empty((1, 2)), True)
    wanted = np.array([Tempered(b).log_z for b in LEVELS])
    assert np.ptp(wrong_constants() - wanted) > 1.5
    np.testing.assert_allclose(blocks.ladder.levels[:4, LOG_Z], wanted, atol=0.12)
    assert blocks.ladder.levels[0, LOG_Z] == 0.0
    assert np.isfinite(blocks.ladder.levels[:4, LOG_STEP]).all()


def test_one_pseudo_sample_learns_no_constants_but_its_step():
    blocks, rng = make_blocks(1), np.random.default_rng(11)
    x, levels, index, _ = exact(blocks, 1, seed=12)
    before = blocks.ladder.levels.copy()
    _swept(blocks, x, levels, index, 50, rng, np.empty((1, 1)), True)
    np.testing.assert_array_equal(blocks.ladder.levels[:, LOG_Z], before[:, LOG_Z])
    np.testing.assert_array_equal(blocks.ladder.levels[:3], before[:3])
    assert blocks.ladder.levels[3, LOG_STEP] != before[3, LOG_STEP]
