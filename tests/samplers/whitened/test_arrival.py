"""Ends of climbs are judged by curvature, by log density, and by the mass around them."""

import numpy as np
import pytest

from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.arrival import FAR, LEAST_MASS, Newton, highest_allowed, judge
from stanadapt.samplers.whitened.climb import no_climb
from stanadapt.samplers.whitened.travel_stages import MOST_RISING, learn_climb, to_climb
from tests.helpers.made_up_blocks import after, at, begun, filled

DIM = 8
BOUND = 3.0 * np.sqrt(DIM / 2) + 2.0


def known(volume=1.0, rise=1.0):
    """A chain's curvature: the product of its scales, and the rise from there."""
    return Newton(volume ** (1 / DIM) * np.eye(DIM), rise)


def test_chains_are_judged_by_rise_height_and_volume():
    found = judge([None, None], np.zeros(2), DIM)
    assert not (found.near | found.behind | found.lost).any()
    found = judge([known(), known(rise=1e3)], np.zeros(2), DIM)
    assert found.near.tolist() == [True, False]
    assert not (found.behind | found.lost).any()
    means = np.array([0.0, -0.9 * FAR * BOUND, -1.1 * FAR * BOUND])
    found = judge([known(), None, known(np.exp(2 * FAR * BOUND))], means - 50.0, DIM)
    assert found.behind.tolist() == [False, False, False]  # by mass, the last one is the best
    found = judge([known(), None, known()], means - 50.0, DIM)
    assert found.behind.tolist() == [False, False, True]
    assert found.level == -50.0
    # as in the neck of a funnel, by 8 log scales of -5: a mass smaller by 40 - 15
    means = np.array([0.0, 15.0, 39.0])
    volume = np.exp(-40.0)
    found = judge([known(), known(volume), known(volume)], means, DIM)
    assert 25.0 > LEAST_MASS * BOUND > 1.0
    assert found.lost.tolist() == [False, True, False]
    assert found.near.tolist() == [True, False, True]
    assert highest_allowed(-DIM / 2, DIM) > 0.0


def plans_of(progress):
    return [own.climb or no_climb() for own in progress.learned.alone]


def test_a_lost_chain_returns_to_its_own_start_and_no_other_moves():
    begin = np.random.default_rng(1).uniform(-2, 2, (3, DIM))
    settings, progress, states = begun(begin, 1000)
    newtons = [known(), known(np.exp(-40.0)), None]
    found = judge(newtons, np.array([0.0, 10.0, -2.0 * FAR * BOUND]), DIM)
    progress = to_climb(settings, progress, states, newtons, found)
    plans = plans_of(progress)
    assert [plan.gradients > 0 for plan in plans] == [False, True, True]
    assert [len(plan.begin) for plan in plans] == [0, DIM, 0]
    np.testing.assert_array_equal(plans[1].begin, begin[1])
    assert not np.shares_memory(plans[1].begin, progress.chains.starts)  # checkpoints refuse this
    assert [plan.level for plan in plans[1:]] == [0.0, 0.0]
    assert progress.learned.travel.returned == 1
    np.testing.assert_array_equal([state.current.position for state in states], begin)


@pytest.mark.parametrize(("dim", "again"), [(300, [1, 1, 1, 1]), (301, [1, 0, 1, 0])])
def test_with_many_parameters_a_high_chain_that_does_not_rise_climbs_no_more(dim, again):
    """No curvature tells it from one in a neck: chain 1 stays, 2 rises fast, and 3 falls."""
    before = np.array([-1e6, -1e3, -1e4, 0.0])
    settings, progress, states = begun(np.random.default_rng(3).uniform(-2, 2, (4, dim)), 1000)
    progress = progress._replace(chains=progress.chains._replace(level=before))
    rows = np.random.default_rng(4).standard_normal((4, 10, dim))
    levels = [-1e6, -1e3, -1e3, -1e3]
    states = [
        filled(*given, row, -row)
        for *given, row in zip(states, [10] * 4, levels, rows, strict=True)
    ]
    progress, states = after(settings, at(progress, parts.TRAVEL, 10), states)
    assert progress.stage == parts.CLIMB
    assert [int(state.climb.gradients > 0) for state in states] == again


def test_a_chain_that_is_lost_in_the_end_returns_to_its_start():
    begin = np.random.default_rng(2).uniform(-2, 2, (3, DIM))
    settings, progress, states = begun(begin, 1000)
    # the last climbs end in the middle, in a local mode far below, and in a neck
    ends = [(0.0, 1.0), (-2.0 * FAR * BOUND, 1.0), (10.0, np.exp(-60.0))]
    states = [
        filled(state, 4, level, 1.0, 1.0)._replace(
            leapfrog=state.leapfrog._replace(factor=known(volume).root),
            climb=state.climb._replace(rise=1.0),
        )
        for state, (level, volume) in zip(states, ends, strict=True)
    ]
    travel = progress.learned.travel._replace(rounds=MOST_RISING)
    progress, _ = learn_climb(settings, progress.learning(travel=travel), states)
    near, behind, lost = progress.learned.alone
    assert near is None
    assert behind.climb is None
    np.testing.assert_array_equal(lost.climb.begin, begin[2])
    assert not np.shares_memory(lost.climb.begin, progress.chains.starts)
    assert progress.learned.travel.returned == 1
