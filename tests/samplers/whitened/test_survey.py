"""A map is learned on the way if the log density does not settle, and its last window judges it."""

import numpy as np
import pytest

from stanadapt.engine.chain import Keeper, run
from stanadapt.samplers.whitened import schedule
from stanadapt.samplers.whitened.block import DIVERGING
from stanadapt.samplers.whitened.progress import Stage
from tests.helpers.gaussian_target import Gaussian, make_chains_at
from tests.helpers.hierarchy import FUNNEL, LOCATION

SD = np.array([0.02, 3.0, 40.0, 1.0])


def starts(seed, dim=FUNNEL.dim):
    begin = np.random.default_rng(seed).uniform(-2, 2, (4, dim))
    begin[:, LOCATION:] += FUNNEL.location[0]
    return begin


class Stages(Keeper):
    """Records the progress after each pooling."""

    def __init__(self):
        self.progress = []

    def pooled(self, chains):
        self.progress.append(chains[0].progress)


def stages_of(seed, **settings):
    keeper, chains = Stages(), make_chains_at(FUNNEL, starts(seed), draws=10, seed=seed, **settings)
    run(chains, 2, keeper=keeper)
    return [progress.stage for progress in keeper.progress], chains


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_funnel_is_straightened_before_its_log_density_settles(seed):
    stages, chains = stages_of(seed)
    assert chains[0].progress.straightened.map_is_used
    assert stages.count(Stage.TRAVEL) <= 5
    if Stage.SURVEY in stages:
        assert stages[stages.index(Stage.SURVEY) + 1] is Stage.STRAIGHTEN
        assert Stage.METRIC not in stages


def test_without_maps_there_is_no_survey():
    stages, _ = stages_of(1, straighten=False)
    assert Stage.SURVEY not in stages
    assert stages.count(Stage.TRAVEL) > 5


def test_a_survey_that_finds_no_map_continues_the_way():
    target = Gaussian([0.3, -2.0, 5.0, 1.0], SD)
    begin = np.random.default_rng(1).normal(size=(4, 4)) * SD
    keeper, chains = Stages(), make_chains_at(target, begin, draws=10)
    run(chains, 2, keeper=keeper)
    before = next(p for p in keeper.progress if p.stage is Stage.TRAVEL)
    before = before._replace(stage=Stage.SURVEY, attempts=1)
    states = [chain.state for chain in chains]
    rng = np.random.default_rng(2)
    for state in states:
        state.block.positions[:30] = rng.normal(size=(30, 4)) * SD
        state.block.gradients[:30] = -state.block.positions[:30] / SD**2
    states = [s._replace(block=s.block._replace(rows=30)) for s in states]
    after, _ = schedule.pool(chains[0].settings, before, states)
    assert after.stage is Stage.TRAVEL
    assert after.attempts == 1
    assert not after.straightened.map_is_used


@pytest.mark.parametrize(("count", "counted"), [(0, 0), (2, 0), (3, 3), (20, 20)])
def test_a_few_divergences_of_the_last_window_do_not_count(monkeypatch, count, counted):
    """Of 4 x 50, those in its first ten iterations left out."""
    found = []

    def judged(settings, progress, states, window):
        if progress.window == len(schedule.STRAIGHTEN_WINDOWS) - 1:
            window.numbers[:, :, DIVERGING] = 0.0
            window.numbers[:, :10, DIVERGING] = 1.0
            window.numbers[0, 30 : 30 + count, DIVERGING] = 1.0
            progress, states = after_straighten(settings, progress, states, window)
            found.append(progress.divergences)
            return progress, states
        return after_straighten(settings, progress, states, window)

    after_straighten = schedule.FUNCTIONS[Stage.STRAIGHTEN]
    monkeypatch.setitem(schedule.FUNCTIONS, Stage.STRAIGHTEN, judged)
    stages_of(1)
    assert found == [counted]
