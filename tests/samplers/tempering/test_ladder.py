"""The ladder: its initial shape, Lambda, equal spacing in Lambda, interpolation between levels."""

import numpy as np
import pytest
from scipy.interpolate import interp1d

from stanadapt.samplers.tempering.ladder import (
    BARRIER,
    LOG_STEP,
    LOG_Z,
    SMALLEST_REJECTION,
    B,
    copy_ladder,
    first_ladder,
    measure,
    no_ladder,
    respace,
)

REJECTION = np.array([0.05, 0.3, 0.6, 0.1, 0.45])


def make_ladder(seed=1, levels=6, room=9):
    """A ladder with uneven levels, constants, steps and scales."""
    rng, ladder = np.random.default_rng(seed), no_ladder(room, 3)
    first_ladder(ladder, levels, 0.0, 0.0)
    ladder.levels[:levels, LOG_Z] = np.cumsum(rng.normal(size=levels))
    ladder.levels[:levels, LOG_STEP] = rng.normal(size=levels)
    ladder.scale[:levels] = np.exp(3 * rng.normal(size=(levels, 3)))
    return ladder


@pytest.mark.parametrize("min_inverse_temperature", [0.0, 0.2])
def test_the_first_ladder_is_denser_near_the_reference(min_inverse_temperature):
    ladder = no_ladder(10, 2)
    first_ladder(ladder, 7, min_inverse_temperature, -1.5)
    b = ladder.levels[:7, B]
    assert (b[0], b[-1], ladder.size[0]) == (min_inverse_temperature, 1.0, 7)
    assert np.all(np.diff(b, 2) > 0)
    np.testing.assert_array_equal(ladder.levels[:7, LOG_STEP], -1.5)
    assert not ladder.levels[7:].any()


@pytest.mark.parametrize("count", [1, 4])
def test_short_chains_are_all_at_the_target(count):
    ladder = no_ladder(5, 1)
    first_ladder(ladder, count, 1.0, 0.0)
    np.testing.assert_array_equal(ladder.levels[:count, B], 1.0)


def test_the_barrier_is_the_sum_of_rejections():
    ladder = make_ladder()
    assert measure(ladder, REJECTION) == pytest.approx(REJECTION.sum())
    np.testing.assert_allclose(ladder.levels[:6, BARRIER], [0, *np.cumsum(REJECTION)])


def test_levels_without_rejections_stay_apart():
    ladder = make_ladder()
    assert measure(ladder, np.zeros(5)) == pytest.approx(5 * SMALLEST_REJECTION)
    new = no_ladder(9, 3)
    respace(ladder, new, 9)
    assert np.all(np.diff(new.levels[:9, B]) > 0)
    assert np.isfinite(new.levels).all()


@pytest.mark.parametrize("count", [2, 4, 6, 9])
def test_respaced_levels_are_equally_far_apart(count):
    ladder, new = make_ladder(), no_ladder(9, 3)
    total = measure(ladder, REJECTION)
    respace(ladder, new, count)
    assert new.size[0] == count
    b, old = new.levels[:count, B], ladder.levels[:6]
    assert (b[0], b[-1]) == (0.0, 1.0)
    # Lambda at the new levels, according to the old ladder
    barrier = np.interp(b, old[:, B], old[:, BARRIER])
    np.testing.assert_allclose(np.diff(barrier), total / (count - 1), rtol=1e-9)
    np.testing.assert_allclose(new.levels[:count, BARRIER], barrier, rtol=1e-9)


def test_other_columns_are_interpolated_in_b():
    ladder, new = make_ladder(), no_ladder(9, 3)
    measure(ladder, REJECTION)
    respace(ladder, new, 8)
    b, old = new.levels[:8, B], ladder.levels[:6]
    for column in (LOG_Z, LOG_STEP):
        expected = np.interp(b, old[:, B], old[:, column])
        np.testing.assert_allclose(new.levels[:8, column], expected, rtol=1e-9, atol=1e-12)
    logs = interp1d(old[:, B], np.log(ladder.scale[:6]), axis=0)(b)
    np.testing.assert_allclose(np.log(new.scale[:8]), logs, rtol=1e-9, atol=1e-12)


def test_a_hot_end_above_zero_is_kept():
    ladder, new = no_ladder(6, 1), no_ladder(6, 1)
    first_ladder(ladder, 6, 0.2, 0.0)
    measure(ladder, REJECTION)
    respace(ladder, new, 3)
    assert (new.levels[0, B], new.levels[2, B]) == (pytest.approx(0.2), 1.0)


def test_a_copy_has_all_and_shares_nothing():
    """Also if it was longer before."""
    ladder, new = make_ladder(), make_ladder(2, 9)
    measure(ladder, REJECTION)
    copy_ladder(ladder, new)
    assert new.size[0] == 6
    np.testing.assert_array_equal(new.levels[:6], ladder.levels[:6])
    np.testing.assert_array_equal(new.scale[:6], ladder.scale[:6])
    new.levels[0, B], new.scale[0, 0], new.size[0] = 0.5, -1.0, 2
    assert (ladder.levels[0, B], ladder.size[0]) == (0.0, 6)
    assert ladder.scale[0, 0] > 0
