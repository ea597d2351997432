"""While chains travel for long, their own scales and scales of 1 take turns."""

import numpy as np
import pytest

from stanadapt.engine import metric_factor
from stanadapt.samplers.whitened import schedule, travel
from stanadapt.samplers.whitened.block import LOG_DENSITY, NUMBERS, make_window
from stanadapt.samplers.whitened.climb import no_climb
from stanadapt.samplers.whitened.next_block import set_own_scales
from stanadapt.samplers.whitened.progress import Stage
from tests.helpers.gaussian_target import Gaussian, make_chains_at

SD = np.array([1e-3, 1.0, 1e3])


def rising(state, length, block):
    """A block in which the log density rose by a million, for any moves of the chain."""
    rng = np.random.default_rng(block)
    positions = SD * rng.standard_normal((length, len(SD)))
    numbers = np.zeros((length, NUMBERS))
    numbers[:, LOG_DENSITY] = 1e6 * block
    made = state.block._replace(
        positions=positions, gradients=-positions / SD**2, numbers=numbers, rows=length
    )
    return state._replace(block=made)


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_own_scales_and_unit_scales_take_turns(chains):
    begin = np.random.default_rng(1).uniform(-2, 2, (chains, len(SD)))
    made = make_chains_at(Gaussian(np.zeros(len(SD)), SD), begin)
    settings, states = made[0].settings, [chain.state for chain in made]
    progress, states = schedule.begin(settings, states, 1000)
    kinds = []
    for block in range(1, 100):
        states = [rising(state, progress.block, block) for state in states]
        before = [state.current.position.copy() for state in states]
        progress, states = schedule.pool(settings, progress, states)
        # no chain is given the position of another
        np.testing.assert_array_equal([state.current.position for state in states], before)
        if progress.stage > Stage.TRAVEL:
            break
        if progress.stage is Stage.TRAVEL and progress.used >= travel.PATIENCE:
            kinds.append(bool(np.all(states[0].leapfrog.factor == 1.0)))
    assert len(kinds) > 4
    assert all(now != then for now, then in zip(kinds[1:], kinds[:-1], strict=True))


def on_level(state, length, level):
    """A block on a level of the log density, at draws that settle nothing."""
    state = rising(state, length, 1)
    state.block.numbers[:, LOG_DENSITY] = level
    return state


def test_a_chain_that_stays_on_a_lower_level_returns_once_to_its_start():
    """In three dimensions levels differ from 5.7 on; far below is ten times that."""
    begin = np.random.default_rng(1).uniform(-2, 2, (4, len(SD)))
    made = make_chains_at(Gaussian(np.zeros(len(SD)), SD), begin)
    settings, states = made[0].settings._replace(straighten=False), [c.state for c in made]
    progress, states = schedule.begin(settings, states, 4000)
    returned = []
    for _ in range(100):
        levels = [100.0, 101.0, 92.0, 99.0]
        states = [
            on_level(s, progress.block, level) for s, level in zip(states, levels, strict=True)
        ]
        for state in states:
            state.current.position[:] = 0.5
        progress, states = schedule.pool(settings, progress, states)
        if progress.stage > Stage.TRAVEL:
            break
        plans = [state.climb.begin for state in states]
        if any(len(plan) for plan in plans):
            assert [len(plan) for plan in plans] == [0, 0, len(SD), 0]
            np.testing.assert_array_equal(plans[2], begin[2])
            assert progress.traveled > travel.SURVEY_AFTER
            returned.append(progress.traveled)
        states = [state._replace(climb=no_climb()) for state in states]
    assert len(returned) == progress.returned == 1


def test_scales_of_a_chain_that_did_not_move_are_those_of_its_metric():
    covariance = np.array([[1.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 4.0]])
    factor = metric_factor.twofold(np.linalg.cholesky(covariance))
    made = make_chains_at(Gaussian(np.zeros(3), SD), np.ones((1, 3)))
    states = [on_level(made[0].state, 10, 0.0)]
    for rows in (states[0].block.positions, states[0].block.gradients):
        rows[:] = 1.0
    (state,) = set_own_scales(states, make_window(states), [factor])
    np.testing.assert_allclose(state.leapfrog.factor, [[1.0, 1.0, 2.0]])
