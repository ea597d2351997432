"""The pilot of fixed trajectories: what it accepts, and that it continues in case of doubt.

Proposals with an acceptance probability of 0.5 are usual here, with 0.05 almost surely rejected,
and with 1e-4 what the verdict counts too.
"""

import numpy as np
import pytest

from stanadapt.diagnostics import sampler_checks
from stanadapt.engine.triangular_map import NUMBERS, make_map
from stanadapt.samplers.whitened import progress as limits
from stanadapt.samplers.whitened import schedule
from stanadapt.samplers.whitened.block import ACCEPTANCE, make_room
from stanadapt.samplers.whitened.progress import (
    ASKED_FOR,
    Stage,
    Trajectory,
    choose,
    is_doubtful,
)
from stanadapt.samplers.whitened.straighten import UNCHANGED
from tests.helpers.gaussian_target import Gaussian, make_chains_at

PILOT = {"settled": True, "divergences": 0, "step_size": 1.8, "n_steps": 1}


def proposals(count, low=0, rejected=0):
    acceptance = np.full(count, 0.5)
    acceptance[:low] = 0.05
    acceptance[low : low + rejected] = 1e-4
    return acceptance


@pytest.mark.parametrize(
    ("count", "low", "rejected", "continued", "fixed"),
    [
        (120, 6, 0, False, True),
        (120, 7, 0, False, False),
        (120, 0, 6, False, True),
        (120, 3, 4, False, False),
        (600, 0, 12, True, True),
        (600, 0, 13, True, False),
        (600, 0, 13, False, True),  # too few of a usual pilot would be reliable
        (600, 18, 12, True, True),
        (600, 19, 12, True, False),
    ],
)
def test_shares_that_are_acceptable(count, low, rejected, continued, fixed):
    choice = choose(**PILOT, acceptance=proposals(count, low, rejected), continued=continued)
    assert choice.two_stage is fixed
    assert ("rejected: curvature varies" in choice.reason) is not fixed


def test_the_limits_are_stricter_than_those_of_the_verdict():
    assert limits.REJECTED == sampler_checks.REJECTED
    assert limits.LARGEST_REJECTED < sampler_checks.MOST_REJECTED


def test_doubts():
    assert not is_doubtful(proposals(120, low=2, rejected=1))
    assert is_doubtful(proposals(120, rejected=2))
    assert is_doubtful(proposals(120, low=3, rejected=1))
    assert not is_doubtful(proposals(240, low=5, rejected=2))


def after_pilot(parts, ceiling=2000, **changes):
    """Return the progress after blocks of a pilot with these numbers of rejected proposals."""
    sd = np.array([1e-3, 1.0, 1e3])
    made = make_chains_at(Gaussian(np.zeros(3), sd), sd * np.ones((4, 1)))
    settings, states = made[0].settings._replace(**changes), [chain.state for chain in made]
    progress, states = schedule.begin(settings, states, 2000)
    progress = progress._replace(
        stage=Stage.PILOT, block=30, used=100, ceiling=ceiling, settled=True, step_size=1.8
    )
    states = [make_room(state, 30) for state in states]
    for rejected in parts:
        block = progress.block
        acceptance = proposals(4 * block, rejected=rejected).reshape(4, block)
        for state, rates in zip(states, acceptance, strict=True):
            for rows in (state.block.positions, state.block.gradients, state.block.numbers):
                rows[:] = 0.0
            state.block.numbers[:, ACCEPTANCE] = rates
        states = [state._replace(block=state.block._replace(rows=block)) for state in states]
        progress, states = schedule.pool(settings, progress, states)
    return progress


def test_a_pilot_continues_once_in_case_of_doubt():
    assert after_pilot([0]).stage is Stage.DONE
    doubted = after_pilot([2])
    assert (doubted.stage, doubted.block) == (Stage.PILOT, 120)
    assert len(doubted.piloted) == 120
    # 12 and 13 of 600, the first part included
    enough, too_many = after_pilot([2, 10]), after_pilot([2, 11])
    assert (enough.stage, enough.choice.two_stage) == (Stage.DONE, True)
    assert (too_many.stage, too_many.choice.two_stage) == (Stage.NUTS_METRIC, False)
    assert "2.2% of the pilot's proposals were rejected" in too_many.choice.reason


def test_without_iterations_for_more_the_first_part_decides():
    """A pilot of 120 iterations, 50 of the last stage, and the 130 before."""
    assert after_pilot([2], ceiling=300).stage is Stage.PILOT
    short = after_pilot([2], ceiling=299)
    assert (short.stage, short.choice.two_stage) == (Stage.DONE, True)


def test_trajectories_that_are_asked_for_have_no_longer_pilot():
    assert after_pilot([2], trajectory=Trajectory.fixed).stage is Stage.DONE


def after_a_map_was_dropped(trajectory):
    """Return the progress after a window of a Gaussian, on a map that it does not support."""
    made = make_chains_at(Gaussian(np.zeros(3), np.ones(3)), np.ones((4, 3)))
    settings = made[0].settings._replace(trajectory=trajectory)
    progress, states = schedule.begin(settings, [chain.state for chain in made], 2000)
    useless = make_map(np.array([1]), *np.array([[0], [-1], [-1]]), np.zeros((1, NUMBERS)))
    progress = progress._replace(
        stage=Stage.STRAIGHTEN, block=60, used=100,
        straightened=UNCHANGED._replace(straightening=useless),
    )  # fmt: skip
    states, rng = [make_room(state, 60) for state in states], np.random.default_rng(1)
    for state in states:
        block = state.block
        block.positions[:] = rng.standard_normal((60, 3))
        block.gradients[:], block.numbers[:] = -block.positions, 0.0
    states = [state._replace(block=state.block._replace(rows=60)) for state in states]
    progress, _ = schedule.pool(settings, progress, states)
    assert not progress.straightened.map_is_used
    return progress


def test_nuts_that_is_asked_for_has_no_pilot_after_a_map_was_dropped():
    progress = after_a_map_was_dropped(Trajectory.nuts)
    assert (progress.stage, progress.choice.reason) == (Stage.NUTS_METRIC, ASKED_FOR)
    assert after_a_map_was_dropped(Trajectory.chosen).stage is Stage.FIND_STEP
