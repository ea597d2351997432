"""Chains on different levels of the log density continue, each with its own scales."""

import numpy as np
import pytest

from stanadapt.samplers.whitened import schedule
from stanadapt.samplers.whitened.block import LOG_DENSITY, NUMBERS
from stanadapt.samplers.whitened.fisher_metric import Metric
from stanadapt.samplers.whitened.progress import Stage
from tests.helpers.gaussian_target import Gaussian, make_chains_at

SD = np.array([1e-3, 1.0, 1e3])
# that of a Gaussian in three dimensions: the bound for its means is 3 sqrt(3 / 2) + 2 = 5.7
ALIKE, APART = 5.0, 40.0


def drawn(state, length, chain, below):
    """A block of draws with scales chain + 1, in units of SD, and its own level."""
    rng = np.random.default_rng(chain)
    positions = (chain + 1) * SD * (rng.standard_normal((length, len(SD))) + 5 * chain)
    numbers = np.zeros((length, NUMBERS))
    numbers[:, LOG_DENSITY] = rng.standard_normal(length) - below * (chain == 0)
    gradients = -(positions - positions.mean(axis=0)) / (chain + 1) ** 2 / SD**2
    made = state.block._replace(
        positions=positions, gradients=gradients, numbers=numbers, rows=length
    )
    return state._replace(block=made)


@pytest.fixture
def begun():
    """Settings, progress and states of four chains that have done all usual windows of NUTS."""
    begin = np.random.default_rng(1).uniform(-2, 2, (4, len(SD)))
    made = make_chains_at(Gaussian(np.zeros(len(SD)), SD), begin)
    settings, states = made[0].settings, [chain.state for chain in made]
    progress, states = schedule.begin(settings, states, 2000)
    progress = progress._replace(
        stage=Stage.NUTS_METRIC, block=200, used=400, windows=(50, 100, 200)
    )
    return settings, progress, states


def pooled(begun, below, pool=schedule.pool, **changes):
    settings, progress, states = begun
    states = [drawn(state, 200, chain, below) for chain, state in enumerate(states)]
    return pool(settings, progress._replace(**changes), states)


def test_chains_on_different_levels_continue_with_their_own_scales(begun):
    progress, states = pooled(begun, APART)
    assert progress.stage is Stage.NUTS_METRIC
    assert (progress.block, progress.windows[-1]) == (200, 200)
    for chain, state in enumerate(states):
        np.testing.assert_allclose(state.leapfrog.factor[0], (chain + 1) * SD, rtol=0.3)


def test_chains_on_one_level_end_with_a_common_metric(begun):
    progress, states = pooled(begun, ALIKE)
    assert progress.stage is Stage.NUTS_STEP
    for state in states[1:]:
        np.testing.assert_array_equal(state.leapfrog.factor, states[0].leapfrog.factor)


def test_the_ceiling_ends_it(begun):
    progress, _ = pooled(begun, APART, used=1600)
    assert progress.stage is Stage.NUTS_STEP
    assert progress.used + progress.block <= 2000


# the draws are far from a Gaussian: two windows would be followed by one more
LAST_METRIC = {"stage": Stage.METRIC, "window": 2, "windows": (200, 200, 200)}


@pytest.mark.parametrize("stage", [LAST_METRIC, {}])
def test_scales_for_another_sampler_are_learned_once_chains_have_met(begun, stage):
    progress, _ = pooled(begun, APART, schedule.pool_for_scales, settled=False, **stage)
    assert progress.stage is Stage.NUTS_METRIC
    assert progress.block > 0
    progress, _ = pooled(begun, ALIKE, schedule.pool_for_scales, settled=False, **stage)
    assert progress.stage is Stage.DONE
    assert progress.settled == (not stage)


def test_scales_of_modes_on_different_levels_are_learned_as_usual(begun):
    settings, progress, states = begun
    begun = settings._replace(metric=Metric.diagonal), progress, states
    progress, _ = pooled(begun, APART, schedule.pool_for_scales, **LAST_METRIC)
    assert progress.stage is Stage.DONE
