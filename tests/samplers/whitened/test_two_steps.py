"""Trajectories of two steps, where one is too long and NUTS would cost several times as much."""

import numpy as np
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.warmup import END
from stanadapt.samplers.whitened import choose_trajectory, fixed_stages
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_trajectory import Trajectory
from stanadapt.samplers.whitened.straightened import UNCHANGED
from stanadapt.samplers.whitened.window import ACCEPTANCE, DIVERGING
from tests.helpers.made_up_blocks import after, at, begun, filled

# logarithms of gamma variables are curved moderately; rates differ by nine orders of magnitude
RATES = 10.0 ** np.linspace(-4, 5, 10)
PROGRAM = """
data { vector[10] rate; }
parameters { vector<lower=0>[10] x; }
model { x ~ gamma(4, rate); }
"""
SHARES = np.array([0.05, 0.5, 0.95])


@pytest.fixture(scope="module")
def fit():
    target = sa.Target(PROGRAM, {"rate": RATES})
    return sa.sample(target, "whitened_hmc", iter_sampling=2000, seed=2)


def test_quantiles_are_exact(fit):
    assert results.attribute(fit, "trajectory").startswith("4 gradients per draw: two whitened")
    assert set(np.unique(fit["sample_stats"]["n_steps"])) == {4}
    draws = np.asarray(fit["posterior"]["x"])
    points = stats.gamma.ppf(SHARES, 4) / RATES[:, None]
    for column, at_points in zip(np.moveaxis(draws, 2, 0), points, strict=True):
        below = column[..., None] < at_points
        for share, each in zip(SHARES, np.moveaxis(below, 2, 0), strict=True):
            ess = results.arviz_module().ess(each.astype(float), method="mean")
            error = np.sqrt(share * (1 - share) / float(ess))
            # thirty shares: a false alarm once in a thousand seeds
            assert abs(each.mean() - share) < 4.2 * error


def blocks(stage, length=30, acceptance=0.9, diverging=0, rate=None, **changes):
    """Progress and states after a made-up block of a stage."""
    settings, progress, states = begun(trajectory=changes.pop("trajectory", Trajectory.chosen))
    distance = changes.pop("distance", 0.05)
    found = UNCHANGED._replace(distance_before=distance, distance=distance)
    fixed = {"step_size": 1.8, "target_accept": settings.target_accept, **changes}
    progress = at(progress, stage, length, 100, settled=True, fixed=fixed, straightened=found)
    states = [filled(state, length) for state in states]
    for state in states:
        state.record.numbers[:, ACCEPTANCE] = acceptance if rate is None else rate
        state.record.numbers[:diverging, DIVERGING] = 1.0
    return settings, *after(settings, progress, states)


ONE_IN_FIVE = np.where(np.arange(30) % 5, 0.9, 0.05)


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({}, parts.TWO_STEPS),
        ({"distance": fixed_stages.STRAIGHT_FOR_TWO + 0.01}, parts.NUTS_METRIC),
        ({"distance": np.inf}, parts.NUTS_METRIC),  # it was not measured
        ({"diverging": 1}, parts.NUTS_METRIC),
        ({"n_steps": 2, "step_size": 0.9}, parts.NUTS_METRIC),  # they were tried
        ({"trajectory": Trajectory.fixed}, END),
    ],
)
def test_two_steps_follow_a_pilot_that_speaks_against_one(changes, stage):
    settings, progress, _ = blocks(parts.PILOT, rate=ONE_IN_FIVE, **changes)
    assert progress.stage == stage
    if stage == parts.TWO_STEPS:
        fixed = progress.learned.fixed
        assert (fixed.n_steps, fixed.step_size) == (2, settings.trajectory_length / 2)
        assert fixed.target_accept == settings.target_accept


@pytest.mark.parametrize(("step_size", "stage"), [(1.3, parts.TWO_STEPS), (0.7, parts.NUTS_METRIC)])
def test_they_follow_one_that_is_too_short_but_not_far_too_short(step_size, stage):
    settings, progress, states = begun()
    found = UNCHANGED._replace(distance_before=0.05, distance=0.05)
    fixed = {"step_size": step_size, "target_accept": choose_trajectory.LOW}
    progress = at(progress, parts.TUNE_STEP, 8, 100, settled=True, fixed=fixed, straightened=found)
    progress = progress._replace(window=fixed_stages.TUNE_BLOCKS - 1)
    states = [filled(state, 8) for state in states]
    for state in states:
        state.record.numbers[:, ACCEPTANCE] = choose_trajectory.LOW
    assert after(settings, progress, states)[0].stage == stage


@pytest.mark.parametrize(("acceptance", "stage"), [(0.87, parts.PILOT), (0.4, parts.NUTS_METRIC)])
def test_they_must_not_be_too_short_either(acceptance, stage):
    settings, progress, states = begun()
    fixed = {"step_size": 0.9, "n_steps": 2, "target_accept": settings.target_accept}
    progress = at(progress, parts.TWO_STEPS, 8, 100, settled=True, fixed=fixed)
    for _ in range(fixed_stages.TUNE_BLOCKS // 2):
        assert progress.stage == parts.TWO_STEPS
        states = [filled(state, progress.block) for state in states]
        for state in states:
            state.record.numbers[:, ACCEPTANCE] = acceptance
        progress, states = after(settings, progress, states)
    assert progress.stage == stage
    if stage == parts.NUTS_METRIC:
        assert f"below {choose_trajectory.LEAST_OF_TWO}" in progress.learned.choice.reason


def test_their_pilot_is_longer_on_a_posterior_that_is_bent():
    two = {"n_steps": 2, "step_size": 0.9}
    straight = blocks(parts.PILOT, 60, distance=fixed_stages.DOUBTFUL_FOR_TWO, **two)[1]
    bent = blocks(parts.PILOT, 60, distance=fixed_stages.DOUBTFUL_FOR_TWO + 0.01, **two)[1]
    assert (straight.stage, bent.stage) == (END, parts.PILOT)
    assert straight.learned.choice == (True, "two whitened steps of 0.90 suffice")
