"""The grid of scales: equal costs, the fastest factor, the shape of jumps."""

import numpy as np
import pytest

from stanadapt.samplers.jumps import scale_grid
from tests.helpers.chains import finish
from tests.helpers.gaussian_target import Gaussian, make_chains_at

WARMUP = 6400


def fed(speeds, costs, shape=(1.0, 1.0), warmup=WARMUP, until=None):
    """Return grid and evaluations by factor, after moves of a known speed for each factor."""
    grid, spent = scale_grid.begin(2, 3.0), np.zeros(5)
    start = np.array([1.0, -1.0])
    for t in range(until or warmup):
        k = grid.index
        jump = scale_grid.factor(grid) * grid.spread * np.sqrt(2.0) * shape
        # so that a squared jump times its rate, over the cost, is the speed
        size = np.sum((jump / grid.spread) ** 2)
        scale_grid.measure(grid, start, start + jump, speeds[k] * costs[k] / size, costs[k])
        spent[k] += costs[k]
        grid = scale_grid.turned(grid, t, warmup)
    return grid, spent


@pytest.mark.parametrize(
    ("speeds", "power"),
    [((2, 1, 1, 1, 1), -3), ((1, 2, 1, 1, 1), -2), ((1, 1, 1, 2, 1), 0), ((1, 1, 1, 1, 2), 3),
     ((0, 0, 0, 0, 0), -3)],
)  # fmt: skip
def test_next_grid_lies_around_the_fastest_factor(speeds, power):
    """Or beyond an end, or is smaller if nothing is accepted. The first round ends after 1/32."""
    grid, _ = fed(0.1 * np.array(speeds), np.ones(5), until=WARMUP // 32)
    np.testing.assert_allclose(grid.spread, 3.0 * 2.0**power)
    assert scale_grid.factor(grid) == 1.0
    assert not grid.jumps.any()
    assert not grid.evaluations.any()


def test_the_fastest_factor_ends_and_costs_are_equal():
    grid, _ = fed(np.array([0.1, 0.1, 0.1, 0.3, 0.2]), np.ones(5))
    assert grid.index == 3
    np.testing.assert_allclose(grid.spread, 3.0)
    assert scale_grid.factor(grid) == 1.0
    costs = np.array([3.0, 4.0, 5.0, 20.0, 200.0])
    _, spent = fed(np.array([0.1, 0.1, 0.1, 0.3, 0.1]), costs)
    # in six rounds, each of them to within a turn of ten iterations of the most costly
    assert np.ptp(spent) <= 6 * 10 * costs.max()
    assert spent.min() > 3000
    # the whole ratio counts with many more than five jumps; the mean of logs is unchanged
    speeds = np.array([0.1, 0.1, 0.1, 0.3, 0.1])
    grid, _ = fed(speeds, np.ones(5), np.array([1.0, 0.01]), until=WARMUP // 32)
    ratio = grid.spread[1] / grid.spread[0]
    assert 0.01 < ratio < 0.02
    assert np.sqrt(grid.spread.prod()) == pytest.approx(3.0)


@pytest.mark.parametrize("initial", [1e-3, 1e3])
def test_scales_are_found_in_any_units(initial):
    """From any start; 200 is the largest ratio of standard deviations.

    Speed hardly changes between half and twice the best scale. From scales that are too small the
    shape is found last: jumps reveal it last.
    """
    sd = np.array([1.0, 20.0, 0.1])
    starts = sd * np.random.default_rng(3).standard_normal((6, 3))
    chains = make_chains_at(
        Gaussian(np.zeros(3), sd), starts, "repelling_attracting", 5000, 10, initial_scale=initial
    )
    scales = np.array([chain.state.scales for chain in finish(chains)]) / sd
    level = np.exp(np.log(scales).mean(axis=1))
    assert np.all((level > 0.4) & (level < 4.0))
    assert np.all(scales.max(axis=1) / scales.min(axis=1) < (5.0 if initial > 1.0 else 20.0))
