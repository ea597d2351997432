"""Continuous tempering: forces are derivatives, draws exact under wrong constants, right errors.

The constants are wrong and the reference fits badly throughout: both cost efficiency, and must not
cost correctness.
"""

import numpy as np
import pytest
from scipy.special import expit

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import continuous_path as engine
from stanadapt.samplers.tempering import coordinate as coordinates
from stanadapt.samplers.tempering import path
from stanadapt.samplers.tempering.continuous_path import COPIES, CURRENT, END, Design, U
from stanadapt.samplers.tempering.coordinate import C_AT, place_of
from stanadapt.samplers.tempering.ladder import BARRIER, LOG_Z
from stanadapt.samplers.tempering.tours import COLD, HOT, log_ratio_error
from tests.helpers.tempered_formula import TemperedDistribution, standard_errors_off
from tests.helpers.tempering import make_tempering

pytestmark = pytest.mark.slow  # kernels that are compiled for these tests alone

LEVELS = np.array([0.0, 0.02, 0.1, 0.4, 1.0])
REPLICATES, LONGEST, STEP = 20_000, 10**6, 0.6
JOINT, GIBBS = Design(6, 0.5, 0.8), Design(4, 0.0, 0.8)
EXACT = TemperedDistribution(1.0)
CONSTANTS = np.array([TemperedDistribution(b).log_z for b in LEVELS])


def make_walker(atom=0.2, wrong=(0.0, 0.7, -0.4, 0.3, 0.4)):
    """Return a walker on a barrier coordinate with constants wrong by this amount."""
    tempering = make_tempering(LEVELS)
    ladder, count = tempering.ladder, len(LEVELS)
    constants = CONSTANTS + wrong
    ladder.levels[:count, LOG_Z] = constants - constants[0]
    ladder.levels[:count, BARRIER] = np.arange(count) * [1.0, 1.1, 0.9, 1.0, 1.2]
    walker = engine.no_walker(tempering.path, atom)
    coordinates.set_barrier(walker.coordinate, ladder)
    engine.place(walker, tempering.replicas, 0, np.array([1.0, 0.15, 2.5]), np.log(STEP))
    return walker


@jit
def _place(walker, position, u):
    walker.replicas.vectors[CURRENT, path.POSITION] = position
    path.evaluate(walker.path, walker.replicas, CURRENT, True)
    path.copy_replica(walker.replicas, CURRENT, walker.replicas, END)
    walker.numbers[U] = u


@jit
def _log_joint(walker, position, u):
    _place(walker, position, u)
    return engine.log_joint(walker, CURRENT, u, place_of(walker.coordinate, u))


@jit
def _excursions(walker, design, x, u, longest, rng, learning):
    """Make one excursion from each start; x and u are overwritten by its end."""
    moves = 0
    for r in range(x.shape[0]):
        _place(walker, x[r], u[r])
        walker.numbers[COPIES] = 0.0
        moves += engine.excursion(walker, design, learning, longest, rng).n_moves
        x[r] = walker.replicas.vectors[CURRENT, path.POSITION]
        u[r] = walker.numbers[U]
    return moves


@jit
def _trajectories(walker, design, x, u, step_size, rng):
    rate = 0.0
    for r in range(x.shape[0]):
        _place(walker, x[r], u)
        rate += engine.trajectory(walker, design, step_size, rng)[0]
        x[r] = walker.replicas.vectors[CURRENT, path.POSITION]
    return rate / x.shape[0]


def at_the_target(rng, count):
    """Exact draws of the target, and u of its atom."""
    q = 1 - 0.2 * rng.random(count)
    return EXACT.draws(count, rng), np.log(q) - np.log1p(-q)


@pytest.mark.parametrize("u", [-3.0, -1.1, 0.2, 1.0, 3.0])
def test_forces_are_derivatives_of_the_joint_density(u):
    walker, h = make_walker(), 1e-6
    x = TemperedDistribution(0.3).draws(1, np.random.default_rng(1))[0]
    slopes = [
        (_log_joint(walker, x + h * e, u) - _log_joint(walker, x - h * e, u)) / (2 * h)
        for e in np.eye(3)
    ]
    slope_u = (_log_joint(walker, x, u + h) - _log_joint(walker, x, u - h)) / (2 * h)
    _place(walker, x, u)
    at, vectors = place_of(walker.coordinate, u), walker.replicas.vectors[END]
    gradient = at.b * vectors[path.SLOPE] + (1 - at.b) * vectors[path.REFERENCE_SLOPE]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-6)
    assert engine.force(walker, at) == pytest.approx(slope_u, rel=1e-4, abs=1e-6)


def test_with_a_fixed_coordinate_trajectories_leave_its_temperature_invariant():
    walker, u = make_walker(), 0.8
    b = place_of(walker.coordinate, u).b
    assert 0.05 < b < 0.95
    exact = TemperedDistribution(b)
    x = exact.draws(REPLICATES, np.random.default_rng(2))
    assert 0.5 < _trajectories(walker, GIBBS, x, u, STEP, np.random.default_rng(3)) < 0.99
    assert np.abs(standard_errors_off(x, exact)).max() < 4.5


@pytest.mark.parametrize("design", [JOINT, GIBBS], ids=["joint", "gibbs"])
def test_the_target_alone_is_left_invariant_by_a_whole_excursion(design):
    """From exact draws of the target back to it, through all temperatures: still exact.

    A coordinate drawn from the wrong law, or a wrong acceptance, is seen here.
    """
    walker, rng = make_walker(), np.random.default_rng(4)
    x, u = at_the_target(rng, REPLICATES)
    moves = _excursions(walker, design, x, u, LONGEST, np.random.default_rng(5), False)
    assert moves > 1.5 * REPLICATES
    q = expit(u)
    assert q.min() >= 0.8
    # of the atom q is uniform, of 0.2 / sqrt(12)
    assert abs(q.mean() - 0.9) < 4.5 * 0.0577 / np.sqrt(REPLICATES)
    assert np.abs(standard_errors_off(x, EXACT)).max() < 4.5


def test_an_excursion_ends_with_a_draw_or_after_the_longest():
    walker, rng = make_walker(), np.random.default_rng(6)
    x, u = TemperedDistribution(0.0).draws(500, rng), np.full(500, -3.0)
    assert _excursions(walker, JOINT, x, u, 2, np.random.default_rng(7), False) <= 1000
    assert 0 < np.sum(expit(u) >= 0.8) < 500


def test_learning_tunes_the_step_to_the_acceptance_that_is_asked_for():
    walker, rng = make_walker(), np.random.default_rng(8)
    x, u = at_the_target(rng, 2000)
    _excursions(walker, JOINT, x, u, 50, rng, True)
    learned, visits = walker.averaging.copy(), walker.visits.sum()
    assert visits == 0
    assert learned[engine.LOG_MEAN] != np.log(STEP)
    step, rates = np.exp(learned[engine.LOG_MEAN]), []
    for start in range(400):
        _place(walker, x[start], u[start])
        for _ in range(5):
            rates.append(engine.trajectory(walker, JOINT, step, rng)[0])
    assert np.mean(rates) == pytest.approx(0.8, abs=0.06)
    _excursions(walker, JOINT, x, u, 50, rng, False)
    np.testing.assert_array_equal(walker.averaging, learned)


@pytest.mark.parametrize("design", [JOINT, GIBBS], ids=["joint", "gibbs"])
def test_the_error_of_the_log_constant_is_that_of_repeated_runs(design):
    """60 runs: standardized errors have variance 1, +- 0.6 being 3.3 of its standard errors."""
    surprises = []
    for seed in range(60):
        walker, rng = make_walker(), np.random.default_rng(100 + seed)
        x, u = at_the_target(rng, 1)
        _place(walker, x[0], u[0])
        for _ in range(600):
            engine.excursion(walker, design, False, LONGEST, rng)
        rise = walker.coordinate.knots[C_AT, walker.coordinate.cells[0]]
        found = rise + np.log(walker.ends[COLD] / walker.ends[HOT])
        error = log_ratio_error(walker.tours)
        assert 0 < error < 0.5
        surprises.append((found - CONSTANTS[-1] + CONSTANTS[0]) / error)
    assert 0.6 < np.mean(np.square(surprises)) < 1.6
    assert abs(np.mean(surprises)) < 4 / np.sqrt(60)


def test_without_an_atom_weighted_positions_become_draws():
    """Means of draws are weighted means of positions; unweighted means are far from them."""
    walker, rng = make_walker(atom=0.0), np.random.default_rng(9)
    _place(walker, EXACT.draws(1, rng)[0], 3.0)
    x = np.array([_one_draw(walker, rng) for _ in range(30_000)])
    batches = x.reshape(30, 1000, 3).mean(axis=1)
    off = (batches.mean(axis=0) - EXACT.mean) / batches.std(axis=0, ddof=1) * np.sqrt(30)
    assert np.abs(off).max() < 4.5
    assert np.isnan(log_ratio_error(walker.tours))


def _one_draw(walker, rng):
    engine.excursion(walker, GIBBS, False, LONGEST, rng)
    return walker.replicas.vectors[CURRENT, path.POSITION].copy()
