"""Annealed particles: exact moments and evidence, weights by the formula, who descends from whom.

The reference fits badly throughout, and a wall may leave particles without a density.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.work_queue import no_queue
from stanadapt.samplers.tempering import particles as engine
from stanadapt.samplers.tempering.ladder import LOG_Z, B
from stanadapt.samplers.tempering.moves import MoveKernel
from stanadapt.samplers.tempering.particles import ANCESTOR, DONE, LEVEL, TURN
from stanadapt.samplers.tempering.path import POSITION, REFERENCE, TARGET, evaluate, no_replicas
from tests.helpers.targets import MEAN
from tests.helpers.tempered_formula import LOG_EVIDENCE, TemperedDistribution, log_ratios
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

RUNS, PARTICLES = 60, 300


def make_population(rng, wall=np.inf, particles=PARTICLES, kernel=MoveKernel.hmc, start=MEAN):
    """Return a population of particles that have just been drawn from the reference."""
    tempering = make_tempering([0.0, 1.0], kernel, wall=wall)
    path, fallback = tempering.path, no_replicas(1, 3)
    fallback.vectors[0, POSITION] = start
    evaluate(path, fallback, 0, True)
    population = engine.no_population(path, tempering.mover.options, particles, no_queue())
    engine.begin(population, fallback, 0, rng)
    return population


@pytest.mark.parametrize("unknown", [0, 1, 4])
def test_the_log_of_a_sum_with_an_unknown_term_is_that_of_nothing(unknown):
    """Otherwise a weight that is not a number would be the evidence."""
    logs = np.array([3.0, -np.inf, 800.0, 799.0, 1.0])
    assert engine.log_sum(logs) == pytest.approx(logsumexp(logs), rel=1e-14)
    assert engine.log_sum(np.full(5, -np.inf)) == -np.inf
    logs[unknown] = np.nan
    assert engine.log_sum(logs) == -np.inf


@jit
def _finish(population, threshold, resamples, rng):
    while not population.counts[DONE]:
        engine.anneal(population, 0.8, threshold, 8, resamples, rng, np.empty(0))


def annealed(seed, resamples=True, threshold=0.5, **options):
    rng = np.random.default_rng(seed)
    population = make_population(rng, **options)
    _finish(population, threshold, resamples, rng)
    return population


def evidence(population):
    last = population.ladder.size[0] - 1
    assert population.ladder.levels[last, B] == 1.0
    return population.ladder.levels[last, LOG_Z]


def positions(population):
    return population.replicas.vectors[:, POSITION].copy()


@pytest.mark.parametrize("wall", [np.inf, 0.2])
@pytest.mark.parametrize("resamples", [True, False])
def test_moments_and_evidence_are_exact(resamples, wall):
    """Over independent runs, with their spread as the error. Moments of order 1 and 2, and log Z.

    Weights taken after the moves in place of before change log Z by some tenths, moments by
    little.
    """
    exact, rows, log_z = TemperedDistribution(1.0, wall), [], []
    for seed in range(RUNS):
        found = annealed(seed, resamples, 0.5 if resamples else 0.8, wall=wall)
        deviation = positions(found) - exact.mean
        rows.append(np.r_[deviation.mean(axis=0), (deviation**2).mean(axis=0) - exact.variance])
        log_z.append(evidence(found))
    rows, log_z = np.array(rows), np.array(log_z)
    errors = rows.std(axis=0, ddof=1) / np.sqrt(RUNS)
    assert (errors[:3] < 0.05 * exact.sd).all()
    assert (np.abs(rows.mean(axis=0)) < 4.5 * errors).all()
    # E log Zhat is below log Z by half the variance
    error = log_z.std(ddof=1)
    assert error < 0.3
    assert abs(log_z.mean() + error**2 / 2 - exact.log_z) < 4.5 * error / np.sqrt(RUNS)
    if wall == np.inf:
        assert exact.log_z == pytest.approx(LOG_EVIDENCE, abs=1e-4)


@pytest.mark.parametrize("kernel", list(MoveKernel))
def test_every_kernel_moves_the_particles(kernel):
    found = annealed(3, kernel=kernel, particles=2000)
    exact = TemperedDistribution(1.0)
    x = positions(found)
    # siblings are not independent: the error is that of an eighth as many draws
    assert (np.abs(x.mean(axis=0) - exact.mean) < 4.5 * exact.sd / np.sqrt(250)).all()
    assert len(np.unique(x[:, 0])) > 1900


def test_weights_are_kept_if_nothing_moves_or_is_resampled():
    """However many stages there are; and resampling them only chooses among the first ones."""
    rng = np.random.default_rng(2)
    found, other = make_population(rng), make_population(np.random.default_rng(2))
    first = positions(found)
    for population, resamples in ((found, False), (other, True)):
        while population.ladder.levels[population.ladder.size[0] - 1, B] < 1.0:
            engine._next_stage(population, 0.8, resamples, rng, np.empty(0))
        assert population.ladder.size[0] > 5
    delta = log_ratios(first)
    np.testing.assert_allclose(found.log_weights, delta, rtol=1e-10)
    assert evidence(found) == pytest.approx(logsumexp(delta) - np.log(PARTICLES), rel=1e-10)
    np.testing.assert_array_equal(positions(found), first)
    np.testing.assert_array_equal(positions(other), first[other.indices[ANCESTOR]])
    assert not other.log_weights.any()
    # those from before the last resampling, which makes the draws equally likely
    found, exact = annealed(5, False, 0.8, particles=3000), TemperedDistribution(1.0)
    weights = np.exp(found.log_weights - logsumexp(found.log_weights))
    kept = found.spare.vectors[:3000, POSITION]
    ess = 1 / np.sum(weights**2)
    assert 100 < ess < 2900
    assert (np.abs(weights @ kept - exact.mean) < 4.5 * exact.sd / np.sqrt(ess)).all()
    counts = np.bincount(found.indices[ANCESTOR], minlength=3000)
    assert (np.abs(counts - 3000 * weights) < 1 + 1e-9).all()


@pytest.mark.parametrize("wall", [np.inf, 0.2])
def test_descendants_lie_side_by_side_with_all_that_belongs_to_them(wall):
    found = annealed(4, wall=wall)
    ancestors = found.indices[ANCESTOR]
    assert (np.diff(ancestors) >= 0).all()
    assert 10 < len(np.unique(ancestors)) < PARTICLES / 2
    assert (found.indices[LEVEL] == found.ladder.size[0] - 1).all()
    vectors, logs = found.replicas.vectors.copy(), found.replicas.logs.copy()
    for n in range(PARTICLES):
        evaluate(found.path, found.replicas, n, True)
    np.testing.assert_allclose(found.replicas.vectors, vectors, rtol=1e-10)
    np.testing.assert_allclose(found.replicas.logs, logs, rtol=1e-10)
    delta = logs[:, TARGET] - logs[:, REFERENCE]
    np.testing.assert_allclose(delta, log_ratios(positions(found)), rtol=1e-10)


def test_the_first_draw_is_random_and_all_have_a_density():
    """Taken by its position, the first one has P(x > 0) = 0.498 for 0.400 on a pair of modes."""
    turns = [annealed(seed, threshold=0.01, particles=100).counts[TURN] for seed in range(300)]
    assert stats.kstest((np.array(turns) + 0.5) / 100, stats.uniform.cdf).pvalue > 1e-4
    found = annealed(6, wall=-15.0, start=MEAN - [16.0, 0.1, -3.0])
    assert evidence(found) == -np.inf
    assert found.ladder.size[0] == 2
    assert np.isfinite(found.replicas.logs).all()
