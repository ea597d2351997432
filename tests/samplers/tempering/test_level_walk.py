"""Simulated tempering: levels by the formula, exact draws under wrong constants, right errors.

The normalizing constants are wrong and the reference fits badly throughout: both cost efficiency,
and must not cost correctness.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import level_walk as engine
from stanadapt.samplers.tempering.ladder import LOG_STEP, LOG_Z
from stanadapt.samplers.tempering.level_walk import LEVEL, MOVES
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.path import POSITION, REFERENCE, TARGET, evaluate
from tests.helpers.tempered_formula import TemperedDistribution, standard_errors_off
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

LEVELS = np.array([0.0, 0.05, 0.3, 1.0])
REPLICATES = 20_000
LONGEST = 10**6


def exact_constants():
    return np.array([TemperedDistribution(b).log_z for b in LEVELS])


def make_walker(wrong=(0.0, 1.2, -0.7, 0.5)):
    """Return a walker on a fixed ladder with constants that are wrong by so much."""
    tempering = make_tempering(LEVELS, MoveKernel.hmc, room=6)
    constants = exact_constants() + wrong
    tempering.ladder.levels[:4, LOG_Z] = constants - constants[0]
    return engine.no_walker(tempering.path, tempering.mover.options, tempering.ladder)


@jit
def _place(walker, position, level):
    walker.replicas.vectors[0, POSITION] = position
    evaluate(walker.path, walker.replicas, 0, True)
    walker.where[LEVEL] = level


@jit
def _excursions(walker, x, levels, longest, rng, learning):
    """Make one excursion from each start; x and levels are overwritten by its end."""
    moves = 0
    for r in range(x.shape[0]):
        _place(walker, x[r], levels[r])
        moves += engine.excursion(walker, 0.8, learning, longest, rng).moves
        x[r] = walker.replicas.vectors[0, POSITION]
        levels[r] = walker.where[LEVEL]
    return moves


def test_levels_are_drawn_by_the_formula():
    walker = make_walker()
    b, log_z = LEVELS, walker.ladder.levels[:4, LOG_Z]
    for seed in range(5):
        x = TemperedDistribution(0.3).draws(1, np.random.default_rng(seed))[0]
        _place(walker, x, 0)
        log_r = engine.weigh(walker)
        target, reference = walker.replicas.logs[0, TARGET], walker.replicas.logs[0, REFERENCE]
        logs = b * (target - reference) - log_z
        np.testing.assert_allclose(walker.probabilities[:4], softmax(logs), rtol=1e-10)
        np.testing.assert_allclose(log_r, target - reference - logsumexp(logs), rtol=1e-10)


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


def test_the_extended_target_is_left_invariant_by_one_move():
    walker, rng = make_walker(), np.random.default_rng(6)
    shares = softmax(exact_constants() - walker.ladder.levels[:4, LOG_Z])
    levels = rng.choice(4, size=REPLICATES, p=shares)
    x = np.empty((REPLICATES, 3))
    for k, b in enumerate(LEVELS):
        x[levels == k] = TemperedDistribution(b).draws(np.sum(levels == k), rng)
    _excursions(walker, x, levels, 1, np.random.default_rng(7), False)
    counts = np.bincount(levels, minlength=4)
    assert stats.chisquare(counts, shares * REPLICATES).pvalue > 1e-5
    for k, b in enumerate(LEVELS):
        off = standard_errors_off(x[levels == k], TemperedDistribution(b))
        assert np.abs(off).max() < 4.5


def test_an_excursion_ends_at_the_target_or_after_the_longest():
    walker = make_walker()
    x = TemperedDistribution(0.0).draws(500, np.random.default_rng(8))
    levels = np.zeros(500, np.int64)
    _excursions(walker, x, levels, 2, np.random.default_rng(9), False)
    assert walker.visits[1, MOVES] <= 1000
    assert 0 < np.sum(levels == 3) < 500


def test_learned_constants_are_the_exact_ones():
    """12 levels in the sheet: 0.02 to 0.06 after 20,000 moves; here 4 levels, 60,000 excursions."""
    walker = make_walker(wrong=(0.0, 3.0, -4.0, 2.0))
    x = TemperedDistribution(1.0).draws(60_000, np.random.default_rng(10))
    _excursions(walker, x, np.full(60_000, 3), 50, np.random.default_rng(11), True)
    found = walker.ladder.levels[:4, LOG_Z]
    np.testing.assert_allclose(found - found[0], exact_constants() - exact_constants()[0], atol=0.1)


def test_learning_tunes_steps_to_the_acceptance_that_is_asked_for():
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


@pytest.mark.soak
def test_the_error_of_the_ratio_is_that_of_repeated_runs():
    """60 runs: standardized errors have variance 1, +- 0.6 being 3.3 of its standard errors."""
    truth = exact_constants()[3] - exact_constants()[0]
    surprises = []
    for seed in range(60):
        walker = make_walker()
        x = TemperedDistribution(1.0).draws(1, np.random.default_rng(seed))
        rng = np.random.default_rng(100 + seed)
        _place(walker, x[0], 3)
        for _ in range(500):
            engine.excursion(walker, 0.8, False, LONGEST, rng)
        visits, log_z = walker.visits[1], walker.ladder.levels[:4, LOG_Z]
        found = log_z[3] - log_z[0] + np.log(visits[3] / visits[0])
        error = engine.log_ratio_error(walker.tours, 50)
        assert 0 < error < 0.5
        surprises.append((found - truth) / error)
    assert 0.6 < np.mean(np.square(surprises)) < 1.6
    assert abs(np.mean(surprises)) < 4 / np.sqrt(60)


def test_without_tours_there_is_no_error():
    assert np.isnan(engine.log_ratio_error(make_walker().tours, 50))
