"""Stages of the warm-up of the default sampler, and which one follows after made-up blocks.

In three dimensions levels of the log density differ from 3 sqrt(3 / 2) + 2 = 5.7 on; far below is
ten times that. In a pilot, proposals with an acceptance probability of 0.5 are usual, with 0.05
almost surely rejected, and with 1e-4 what the verdict counts too.
"""

import numpy as np
import pytest

from stanadapt.diagnostics import sampler_checks
from stanadapt.engine import metric_factor
from stanadapt.engine.chain import Keeper, run
from stanadapt.engine.triangular_map import NUMBERS, make_map
from stanadapt.engine.warmup import END, Sampled
from stanadapt.samplers.whitened import choose_trajectory, nuts_stages, schedule, travel_stages
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_trajectory import ASKED_FOR, Trajectory, choose, is_doubtful
from stanadapt.samplers.whitened.climb import no_climb
from stanadapt.samplers.whitened.fisher_metric import Metric
from stanadapt.samplers.whitened.straightened import UNCHANGED
from stanadapt.samplers.whitened.window import ACCEPTANCE, DIVERGING, make_window
from tests.helpers.gaussian_target import make_chains_at
from tests.helpers.hierarchy import FUNNEL, LOCATION
from tests.helpers.made_up_blocks import SD, after, at, begun, filled

FOR_SCALES = schedule.WARMUP._replace(revise=schedule.for_scales)


# --- on the way -----------------------------------------------------------------------------------


def rising(state, length, block):
    """A block in which the log density rose by a million, for any moves of the chain."""
    positions = SD * np.random.default_rng(block).standard_normal((length, len(SD)))
    return filled(state, length, 1e6 * block, positions, -positions / SD**2)


@pytest.mark.parametrize("chains", [1, 2, 4])
def test_own_scales_and_unit_scales_take_turns(chains):
    begin = np.random.default_rng(1).uniform(-2, 2, (chains, len(SD)))
    settings, progress, states = begun(begin, 1000)
    kinds = []
    for block in range(1, 100):
        states = [rising(state, progress.block, block) for state in states]
        before = [state.current.position.copy() for state in states]
        progress, states = after(settings, progress, states)
        # no chain is given the position of another
        np.testing.assert_array_equal([state.current.position for state in states], before)
        if progress.stage not in (parts.CLIMB, parts.TRAVEL):
            break
        if progress.stage == parts.TRAVEL and progress.used >= travel_stages.PATIENCE:
            kinds.append(bool(np.all(states[0].leapfrog.factor == 1.0)))
    assert len(kinds) > 4
    assert all(now != then for now, then in zip(kinds[1:], kinds[:-1], strict=True))


def test_a_chain_that_stays_on_a_lower_level_returns_once_to_its_start():
    begin = np.random.default_rng(1).uniform(-2, 2, (4, len(SD)))
    settings, progress, states = begun(begin, 4000, straighten=False)
    returned = []
    for _ in range(100):
        drawn = rising(states[0], progress.block, 1).record
        states = [
            filled(state, progress.block, level, drawn.positions, drawn.gradients)
            for state, level in zip(states, [100.0, 101.0, 92.0, 99.0], strict=True)
        ]
        for state in states:
            state.current.position[:] = 0.5
        progress, states = after(settings, progress, states)
        if progress.stage not in (parts.CLIMB, parts.TRAVEL):
            break
        plans = [state.climb.begin for state in states]
        if any(len(plan) for plan in plans):
            assert [len(plan) for plan in plans] == [0, 0, len(SD), 0]
            np.testing.assert_array_equal(plans[2], begin[2])
            assert progress.learned.travel.windows > travel_stages.SURVEY_AFTER
            returned.append(progress.learned.travel.windows)
        states = [state._replace(climb=no_climb()) for state in states]
    assert len(returned) == progress.learned.travel.returned == 1


# --- the map --------------------------------------------------------------------------------------


class Stages(Keeper):
    """Records the progress after each block."""

    def __init__(self):
        self.progress = []

    def pooled(self, chains):
        self.progress.append(chains[0].progress)


def stages_of(seed, **settings):
    begin = np.random.default_rng(seed).uniform(-2, 2, (4, FUNNEL.dim))
    begin[:, LOCATION:] += FUNNEL.location[0]
    keeper, chains = Stages(), make_chains_at(FUNNEL, begin, draws=10, seed=seed, **settings)
    run(chains, 2, keeper=keeper)
    return [progress.stage for progress in keeper.progress], chains


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_funnel_is_straightened_before_its_log_density_settles(seed):
    stages, chains = stages_of(seed)
    assert chains[0].progress.learned.straightened.map_is_used
    # one window more if a chain went to the end of a climb from a further start
    assert stages.count(parts.TRAVEL) <= 6
    if parts.SURVEY in stages:
        assert stages[stages.index(parts.SURVEY) + 1] == parts.STRAIGHTEN
        assert parts.METRIC not in stages


def test_surveys_need_maps_and_the_way_goes_on_without_one():
    stages, _ = stages_of(1, straighten=False)
    assert parts.SURVEY not in stages
    assert stages.count(parts.TRAVEL) > 5
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 4)))
    progress = at(progress, parts.SURVEY, 30, attempts=1)
    sd = np.array([0.02, 3.0, 40.0, 1.0])
    progress, _ = after(settings, progress, gaussian_draws(states, 30, sd))
    assert progress.stage == parts.TRAVEL
    assert progress.learned.attempts == 1
    assert not progress.learned.straightened.map_is_used


def gaussian_draws(states, length, sd):
    rng = np.random.default_rng(2)
    rows = [rng.normal(size=(length, len(sd))) * sd for _ in states]
    return [
        filled(state, length, positions=x, gradients=-x / sd**2)
        for state, x in zip(states, rows, strict=True)
    ]


@pytest.mark.parametrize(("count", "counted"), [(0, 0), (2, 0), (3, 3), (20, 20)])
def test_a_few_divergences_of_the_last_window_do_not_count(count, counted):
    """Of 4 x 50, those in its first ten iterations left out."""
    settings, progress, states = begun()
    states = gaussian_draws(states, 60, SD)
    for state in states:
        state.record.numbers[:10, DIVERGING] = 1.0
    states[0].record.numbers[30 : 30 + count, DIVERGING] = 1.0
    progress, _ = after(settings, at(progress, parts.JUDGE_MAP, 60), states)
    assert progress.learned.divergences == counted


USELESS = make_map(np.array([1]), *np.array([[0], [-1], [-1]]), np.zeros((1, NUMBERS)))


@pytest.mark.parametrize(("trajectory", "stage", "reason"), [
    (Trajectory.nuts, parts.NUTS_METRIC, ASKED_FOR), (Trajectory.chosen, parts.FIND_STEP, ""),
])  # fmt: skip
def test_after_a_map_was_dropped_nuts_that_is_asked_for_has_no_pilot(trajectory, stage, reason):
    settings, progress, states = begun(np.ones((4, 3)), trajectory=trajectory)
    straightened = UNCHANGED._replace(straightening=USELESS)
    progress = at(progress, parts.STRAIGHTEN, 60, straightened=straightened)
    progress, _ = after(settings, progress, gaussian_draws(states, 60, np.ones(3)))
    assert not progress.learned.straightened.map_is_used
    assert (progress.stage, progress.learned.choice.reason) == (stage, reason)


# --- the pilot of fixed trajectories --------------------------------------------------------------


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
    found = choose(
        settled=True, divergences=0, step_size=1.8, n_steps=1,
        acceptance=proposals(count, low, rejected), continued=continued, most=1, scale=1.0,
    )  # fmt: skip
    assert found.two_stage is fixed
    assert ("rejected: curvature varies" in found.reason) is not fixed


def test_limits_are_stricter_than_those_of_the_verdict_and_doubts_lie_between():
    assert choose_trajectory.REJECTED == sampler_checks.REJECTED
    assert choose_trajectory.LARGEST_REJECTED < sampler_checks.MOST_REJECTED
    assert not is_doubtful(proposals(120, low=2, rejected=1))
    assert is_doubtful(proposals(120, rejected=2))
    assert is_doubtful(proposals(120, low=3, rejected=1))
    assert not is_doubtful(proposals(240, low=5, rejected=2))


@pytest.mark.parametrize(
    ("rejected", "changed", "stage", "fixed"),
    [
        ([0], {}, END, True),
        ([2], {}, parts.PILOT, None),  # in case of doubt
        ([2, 10], {}, END, True),  # 12 and 13 of 600, the first part included
        ([2, 11], {}, parts.NUTS_METRIC, False),
        # a pilot of 120 iterations, 50 of the last stage, and the 130 before: without iterations
        # for more, the first part decides
        ([2], {"ceiling": 300}, parts.PILOT, None),
        ([2], {"ceiling": 299}, END, True),
        ([2], {"trajectory": Trajectory.fixed}, END, True),
    ],
)
def test_a_pilot_continues_once_in_case_of_doubt(rejected, changed, stage, fixed):
    ceiling, trajectory = changed.get("ceiling", 2000), changed.get("trajectory", 0)
    settings, progress, states = begun(trajectory=Trajectory(trajectory))
    # fewer iterations are left, and yet blocks have their usual lengths
    used = 100 + 2000 - ceiling
    progress = at(progress, parts.PILOT, 30, used, settled=True, fixed={"step_size": 1.8})
    for count in rejected:
        states = [filled(state, progress.block) for state in states]
        acceptance = proposals(4 * progress.block, rejected=count).reshape(4, progress.block)
        for state, rates in zip(states, acceptance, strict=True):
            state.record.numbers[:, ACCEPTANCE] = rates
        progress, states = after(settings, progress, states)
    assert progress.stage == stage
    if stage == parts.PILOT:
        assert (progress.block, len(progress.learned.fixed.piloted)) == (120, 120)
    else:
        assert progress.learned.choice.two_stage is fixed
    if stage == parts.NUTS_METRIC:
        assert "2.2% of the pilot's proposals were rejected" in progress.learned.choice.reason


# --- NUTS -----------------------------------------------------------------------------------------

ALIKE, APART = 5.0, 40.0


def drawn(state, length, chain, below):
    """A block of draws with scales chain + 1, in units of SD, and its own level."""
    rng = np.random.default_rng(chain)
    x = (chain + 1) * SD * (rng.standard_normal((length, len(SD))) + 5 * chain)
    level = rng.standard_normal(length) - below * (chain == 0)
    return filled(state, length, level, x, -(x - x.mean(axis=0)) / (chain + 1) ** 2 / SD**2)


# all usual windows of NUTS are over; or the draws are far from a Gaussian, and two windows for the
# metric would be followed by one more
LAST_NUTS = {"stage": parts.NUTS_METRIC, "nuts": {"windows": (50, 100, 200)}}
LAST_METRIC = {"stage": parts.METRIC, "fixed": {"windows": (200, 200, 200), "done": 2}}


def after_last(
    below, warmup=schedule.WARMUP, used=400, place=LAST_NUTS, restarted=True, begin=None, **changed
):
    """Progress and states after a block in which one chain is below the others."""
    settings, progress, states = begun(begin, **changed)
    chains = progress.chains._replace(restarted=np.full(len(states), restarted))
    progress = progress._replace(chains=chains)
    states = [drawn(state, 200, chain, below) for chain, state in enumerate(states)]
    return after(settings, at(progress, block=200, used=used, **place), states, warmup)


def test_chains_on_one_level_or_several_continue_until_the_ceiling():
    progress, states = after_last(APART)
    assert progress.stage == parts.NUTS_METRIC
    assert (progress.block, progress.learned.nuts.windows[-1]) == (200, 200)
    for chain, state in enumerate(states):
        np.testing.assert_allclose(state.leapfrog.factor[0], (chain + 1) * SD, rtol=0.3)
    progress, states = after_last(ALIKE)
    assert progress.stage == parts.NUTS_STEP
    for state in states[1:]:
        np.testing.assert_array_equal(state.leapfrog.factor, states[0].leapfrog.factor)
    progress, _ = after_last(APART, used=1600)
    assert progress.stage == parts.NUTS_STEP
    assert progress.used + progress.block <= 2000
    progress, _ = after_last(
        APART, FOR_SCALES, place=LAST_METRIC, metric=Metric.diagonal, straighten=False
    )
    assert progress.stage == END


def begins(states):
    """Numbers of chains that are to begin at another place."""
    return [chain for chain, state in enumerate(states) if len(state.climb.begin)]


@pytest.mark.parametrize("place", [LAST_METRIC, LAST_NUTS])
def test_one_that_stays_on_a_lower_level_returns_to_its_start_then_too(place):
    begin = np.random.default_rng(2).uniform(-2, 2, (4, len(SD)))
    progress, states = after_last(APART, place=place, restarted=False, begin=begin)
    assert progress.stage == parts.TRAVEL
    assert begins(states) == [0]
    np.testing.assert_array_equal(states[0].climb.begin, begin[0])
    assert progress.learned.travel.returned == 1
    assert (progress.learned.fixed.done, progress.learned.nuts.windows) == (0, ())
    # the metric is that of the others: the lower chain has scales a quarter as wide
    assert states[0].leapfrog.factor[0, 0] > 2.0 * SD[0]
    np.testing.assert_array_equal(progress.chains.restarted, [True, False, False, False])


def test_a_warm_up_that_begins_again_and_chains_that_did_not_move():
    settings, progress, _ = begun()
    for block in (np.empty(0), np.ones(7)):
        found = UNCHANGED._replace(straightening=USELESS._replace(block=block), distance=0.1)
        before = progress.learned._replace(straightened=found, attempts=2, divergences=3)
        learned = parts.anew(settings, before)
        assert not learned.straightened.map_is_used
        np.testing.assert_array_equal(learned.straightened.straightening.block, block)
        assert (learned.attempts, learned.divergences) == (2, 0)
    covariance = np.array([[1.0, -0.5, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 4.0]])
    factor = metric_factor.twofold(np.linalg.cholesky(covariance))
    _, _, states = begun(np.ones((1, 3)))
    states = [filled(states[0], 10, positions=1.0, gradients=1.0)]
    (own,) = parts.own_scales(states, make_window(states), [factor])
    np.testing.assert_allclose(own, [[1.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("below", "changed"),
    [
        (ALIKE, {}),  # levels overlap
        (APART, {"used": 900}),  # 1,100 of 2,000 iterations are over afterward
        (APART, {"metric": Metric.diagonal}),  # for samplers that move between modes
    ],
)
def test_others_stay(below, changed):
    progress, states = after_last(below, restarted=False, straighten=False, **changed)
    assert progress.stage != parts.TRAVEL
    assert begins(states) == []


def test_a_chain_far_below_all_does_not_keep_others_on_a_lower_level():
    settings, progress, states = begun()
    travel = progress.learned.travel._replace(windows=travel_stages.MOST_TRAVEL)
    levels = np.array([-60.0, 0.0, 0.0, -4000.0])
    chains = progress.chains._replace(level=levels - [0.0, 0.0, 0.0, 20.0])
    progress = at(
        progress, parts.TRAVEL, 10, travel=travel._replace(rounds=travel_stages.MOST_ROUNDS)
    )
    states = [
        filled(state, 10, level, SD * np.random.default_rng(3).standard_normal((10, len(SD))))
        for state, level in zip(states, levels, strict=True)
    ]
    progress, states = after(settings, progress._replace(chains=chains), states)
    assert progress.stage == parts.TRAVEL
    assert begins(states) == [0]


@pytest.mark.parametrize(
    ("length", "drift", "factor"), [(30, 0.0, 1.0), (29, 0.0, 20.0), (30, 1.0, 10.0)]
)
def test_the_metric_of_separate_modes_is_that_within_them(length, drift, factor):
    """It is that of all chains if these move slowly, so that the halves of each are apart."""
    settings, progress, states = begun()
    noise = SD * np.random.default_rng(1).standard_normal((4, length, len(SD)))
    noise += drift * SD * np.sign(np.arange(length) - 14.5)[:, None]
    x = noise + 400.0 * SD * (np.arange(4) % 2)[:, None, None]
    states = [
        filled(*block)
        for block in zip(states, [length] * 4, [0.0] * 4, x, -noise / SD**2, strict=True)
    ]
    _, states = after(settings, at(progress, parts.METRIC, length), states)
    assert states[0].leapfrog.factor[0] / SD == pytest.approx(factor, rel=0.6)


@pytest.mark.parametrize("place", [LAST_METRIC, LAST_NUTS])
def test_scales_for_another_sampler_are_learned_once_chains_have_met(place):
    progress, _ = after_last(APART, FOR_SCALES, place=place)
    assert progress.stage == parts.NUTS_METRIC
    assert progress.block > 0
    progress, _ = after_last(ALIKE, FOR_SCALES, place=place, straighten=False)
    assert progress.stage == END
    assert progress.learned.settled == (place is LAST_NUTS)


@pytest.mark.parametrize(
    ("changed", "steep_share", "left", "stage"),
    [
        ({}, 0.01, 150, parts.NUTS_PILOT),
        ({}, 0.0, 150, END),  # nothing diverged
        ({}, 0.01, 149, END),  # no iterations are left for it
        ({"shorten": False}, 0.01, 150, END),
        ({"nuts_target_accept": 0.94}, 0.01, 150, parts.NUTS_PILOT),
        ({"nuts_target_accept": 0.95}, 0.01, 150, END),
        ({"nuts_target_accept": 0.98}, 0.01, 150, END),
    ],
)
def test_when_nuts_has_a_pilot(changed, steep_share, left, stage):
    settings, progress, states = begun(ceiling=1950, **changed)
    steep = {"steep_share": steep_share}
    progress = at(progress, parts.NUTS_STEP, 50, used=1900 - left, nuts=steep)
    progress, _ = after(settings, progress._replace(then=END), states)
    assert progress.stage == stage


@pytest.mark.parametrize(
    ("changed", "diverging", "failed", "moves", "again"),
    [
        ({}, 5, 0, True, True),
        ({}, 4, 0, True, False),  # of 4,000 draws, which is as many as a fit may have
        ({}, 5, 1, True, False),  # at a hard edge
        ({}, 5, 0, False, False),  # a funnel
        ({"shorten": False}, 5, 0, True, False),
        ({"nuts_target_accept": 0.99}, 5, 0, True, False),
        ({"trajectory": Trajectory.fixed}, 5, 0, True, False),
    ],
)
def test_when_draws_begin_again(changed, diverging, failed, moves, again):
    settings, progress, _ = begun(ceiling=1000, **changed)
    level = np.random.default_rng(1).normal(size=(4, 125))
    chosen = choose_trajectory.Choice(True, ASKED_FOR)
    progress = at(progress, END, 0, choice=chosen)
    progress = progress._replace(chains=progress.chains._replace(level=level[:, 0]))
    sampled = Sampled(level.size, diverging, failed)
    if not moves:
        level = level.cumsum(axis=1)
    found = nuts_stages.review(settings, progress, sampled, level)
    assert (found.then == parts.AGAIN) == again
    if again:  # how the draws were made that stay if there are no others
        assert found.learned.reviewed.choice == chosen
        assert not found.learned.choice.two_stage
