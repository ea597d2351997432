"""Moves at one temperature: exact draws stay exact, and the stored densities stay correct."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS, VALUE_CALLS
from stanadapt.samplers.tempering.moves import SMALLEST_B, MoveKernel
from tests.helpers.moves import MOVES, moved
from tests.helpers.seldom_parameters import soak_except
from tests.helpers.tempered_formula import TemperedDistribution, standard_errors_off

REPLICATES = 20_000
TEMPERATURES = [0.0, 0.1 * SMALLEST_B, 0.05, 0.4, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("wall", [np.inf, 1.0])
@pytest.mark.parametrize("b", soak_except({0.0, 0.4}, TEMPERATURES))
@pytest.mark.parametrize("kernel", MoveKernel)
def test_exact_draws_stay_exact(kernel, b, wall):
    """Seven moments within 4.5 standard errors: for a normal, one test in 20,000 fails by chance.

    The standard error of a second moment is about a hundredth of it. At b = 0 the wall does not
    matter.
    """
    exact = TemperedDistribution(b, wall) if b > 0 else TemperedDistribution(1.0)
    starts = exact.draws(REPLICATES, np.random.default_rng(1))
    x, out, _ = moved(kernel, b, starts, wall)
    assert np.abs(standard_errors_off(x, exact)).max() < 4.5
    assert stats.kstest(x[:2000, 0], exact.first_cdf).pvalue > 1e-5
    assert out[:, 3].max() < 1e-7
    # the checks above have power: moves are often rejected, and go far
    rate = out[:, 0].mean() / MOVES
    assert 0.15 < rate < 0.97
    correlation = [np.corrcoef(starts[:, i], x[:, i])[0, 1] for i in range(3)]
    assert np.min(correlation) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("kernel", MoveKernel)
def test_only_the_product_of_scale_and_step_size_matters(kernel):
    starts = TemperedDistribution(0.4).draws(200, np.random.default_rng(2))
    scale = np.array([[1.0, 0.125, 4.0]])
    one, _, _ = moved(kernel, 0.4, starts, scale=scale, step_size=1.0)
    other, _, _ = moved(kernel, 0.4, starts, scale=0.5 * scale, step_size=2.0)
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, starts)


@pytest.mark.parametrize("wall", [np.inf, 1.0])
@pytest.mark.parametrize("kernel", MoveKernel)
def test_steps_count_the_evaluations(kernel, wall):
    for b in (0.1 * SMALLEST_B, 0.4):
        starts = TemperedDistribution(b, wall).draws(500, np.random.default_rng(3))
        _, out, path = moved(kernel, b, starts, wall)
        used, unused = GRADIENT_CALLS, VALUE_CALLS
        if kernel == MoveKernel.random_walk:
            used, unused = unused, used
        # two more per start: at the start, and for the comparison at the end
        assert path.target.calls[used] == out[:, 1].sum() + 2 * len(starts)
        assert path.target.calls[unused] == 0
        assert (path.target.calls[FAILED_CALLS] > 0) == (wall < np.inf)


def test_leapfrogs_are_equally_likely_and_stop_at_the_wall():
    starts = TemperedDistribution(0.4).draws(5000, np.random.default_rng(4))
    _, out, _ = moved(MoveKernel.hmc, 0.4, starts, step_size=0.01, leapfrogs=5, repeats=1)
    counts = np.bincount(out[:, 1].astype(int), minlength=6)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-5
    starts = TemperedDistribution(1.0, wall=-2.0).draws(2000, np.random.default_rng(5))
    _, out, path = moved(MoveKernel.hmc, 1.0, starts, wall=-2.0, leapfrogs=6, repeats=1)
    assert path.target.calls[FAILED_CALLS] == out[:, 2].sum() > 100
    assert np.all(out[out[:, 2] == 1, 0] == 0)


@pytest.mark.parametrize("kernel", MoveKernel)
def test_moves_beyond_the_range_of_numbers_are_rejected(kernel):
    starts = TemperedDistribution(0.4).draws(50, np.random.default_rng(7))
    x, out, _ = moved(kernel, 0.4, starts, step_size=1e200)
    np.testing.assert_array_equal(x, starts)
    assert not out[:, 0].any()
