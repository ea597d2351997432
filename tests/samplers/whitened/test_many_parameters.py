"""Beyond 300 parameters: prices of metrics, several steps, and what a pilot asks of a metric."""

import numpy as np
import pytest
from scipy import stats

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.metric_factor import written_out
from stanadapt.engine.warmup import END
from stanadapt.samplers.whitened import (
    around_gaussian,
    choose_trajectory,
    fixed_stages,
    travel_stages,
)
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_metric import MOST_OUTSIDE, choose_metric, metric_outside
from stanadapt.samplers.whitened.choose_trajectory import (
    LARGEST_MISFIT,
    Trajectory,
    choose,
    most_steps,
)
from stanadapt.samplers.whitened.fisher_metric import MANY, largest_misfit, scales_alone
from stanadapt.samplers.whitened.fixed_stages import TUNE_BLOCKS
from stanadapt.samplers.whitened.probes import NO_PROBES
from stanadapt.samplers.whitened.span_stages import LARGE_MISFIT
from stanadapt.samplers.whitened.stage_parts import stretch_for
from stanadapt.samplers.whitened.straightened import UNCHANGED
from stanadapt.samplers.whitened.window import ACCEPTANCE, DIVERGING, Window
from tests.helpers.made_up_blocks import after, at, begun, filled


def gaussian_chains(eigenvalues, draws, *, rotated=True):
    """Four chains of a Gaussian with these variances, along random directions if `rotated`."""
    rng, n = np.random.default_rng(0), len(eigenvalues)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0] if rotated else np.eye(n)
    along = rng.standard_normal((4, draws, n)) * np.sqrt(eigenvalues)
    return [(z @ basis.T, -(z / eigenvalues) @ basis.T) for z in along]


@pytest.mark.parametrize("scale", [0.2, 5.0])
def test_a_misfit_is_seen_in_few_draws(scale):
    """Ten draws of each chain in 400 dimensions, one of them wrong by a factor."""
    variances = np.ones(400)
    variances[0] = scale**2
    chains = gaussian_chains(variances, 10, rotated=False)
    x, g = (np.concatenate(each) for each in zip(*chains, strict=True))
    found = largest_misfit(scales_alone(np.ones(400)), x, g)
    assert found == pytest.approx(max(scale, 1.0 / scale), rel=0.35)


@pytest.mark.thorough
def test_a_full_metric_has_its_price():
    """Variances of 0.4 to 2.5 gain less than products with it cost; those of 0.001 to 1000 more."""
    n, former = 400, scales_alone(np.ones(400))
    mild, strong = np.geomspace(0.4, 2.5, n), np.geomspace(1e-3, 1e3, n)
    assert choose_metric(former, gaussian_chains(mild, 30), 2.0).kind == "diagonal"
    found = choose_metric(former, gaussian_chains(strong, 200), 2.0)
    assert found.kind == "dense"
    # it is corrected by later draws, which alone would be too few, and not forgotten
    few = gaussian_chains(strong, 12)
    kept, (x, g) = choose_metric(found, few, 2.0), gaussian_chains(strong, 100)[3]
    assert kept.kind == "dense"
    assert largest_misfit(kept, x, g) <= largest_misfit(found, x, g) + 0.01


@pytest.mark.parametrize("count", [3, MOST_OUTSIDE + 1])
def test_correlations_of_the_few_outside_of_a_block_are_learned(count):
    n, rng = 400, np.random.default_rng(3)
    others = np.sort(rng.permutation(n)[:count])
    root = 10.0 * np.eye(count) + 9.0 * np.tri(count, k=-1)
    covariance = root @ root.T
    chains = gaussian_chains(np.full(n, 4.0), 30, rotated=False)
    for x, g in chains:
        x[:, others] = rng.standard_normal((30, count)) @ root.T
        g[:, others] = -x[:, others] @ np.linalg.inv(covariance)
    members = np.setdiff1d(np.arange(n), others)
    found = metric_outside(scales_alone(np.full(n, 2.0)), chains, members, 2.0)
    whole = written_out(found.factor, n)
    np.testing.assert_allclose(whole[np.ix_(members, members)], np.eye(n - count))
    assert not whole[np.ix_(members, others)].any()
    if count > MOST_OUTSIDE:
        assert found.kind == "diagonal"
    else:
        assert (found.kind, found.rank) == ("low rank", count)
        few = whole[np.ix_(others, others)]
        np.testing.assert_allclose(few @ few.T, covariance, rtol=1e-3)


@pytest.mark.thorough
def test_of_many_directions_the_strongest_may_be_enough():
    """Scales are wrong by a factor of 5 in ten directions, and by 1.3 in 390."""
    variances = np.append(np.tile([25.0, 1 / 25], 5), np.tile([1.7, 1 / 1.7], 195))
    found = choose_metric(scales_alone(np.ones(400)), gaussian_chains(variances, 150), 2.0)
    assert (found.kind, found.rank) == ("low rank", 10)


@pytest.mark.thorough
def test_a_dense_metric_is_learned_from_one_window_of_short_trajectories():
    """TRAVEL with a metric that is wrong by a factor of 30, SPAN, and TRAVEL again."""
    variances = np.geomspace(1e-3, 1e3, 400)
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 400)))
    states = [state._replace(probes=NO_PROBES) for state in states]
    progress = progress._replace(chains=progress.chains._replace(level=np.full(4, -260.0)))
    for stage, length, expected in (
        (parts.TRAVEL, 10, parts.SPAN),
        (parts.SPAN, 240, parts.TRAVEL),
        (parts.TRAVEL, 10, parts.TRAVEL),
    ):
        rows = gaussian_chains(variances, length)
        made = [
            filled(state, length, -200.0, *row) for state, row in zip(states, rows, strict=True)
        ]
        progress = progress._replace(chains=progress.chains._replace(level=np.full(4, -260.0)))
        progress, states = after(settings, at(progress, stage, length), made)
        assert progress.stage == expected
        fits = largest_misfit(progress.learned.metric, *rows[0]) < LARGE_MISFIT
        assert fits == progress.learned.travel.spanned
    assert progress.learned.metric.kind == "dense"
    # of the first SPAN; a second one has no level, so that no third one follows
    assert progress.learned.travel.span_level == -200.0
    progress, _ = after(settings, at(progress, parts.SPAN, 10), made)
    assert np.isnan(progress.learned.travel.span_level)


def test_several_steps_need_many_parameters_and_a_metric_that_fits():
    assert [most_steps(n, 1.8) for n in (2, MANY, 1000, 10_000, 100_000)] == [1, 1, 3, 6, 10]
    pilot = {"settled": True, "divergences": 0, "acceptance": np.full(120, 0.9)}
    fits = {"step_size": 0.6, "n_steps": 3, "most": 3, "scale": 1.4}
    assert choose(**pilot, **fits).two_stage
    for change in ({"most": 1}, {"scale": LARGEST_MISFIT + 0.1}, {"step_size": 0.3}):
        assert not choose(**pilot, **{**fits, **change}).two_stage


def window_of(levels, dim=2):
    numbers = np.zeros((len(levels), 4, 4))
    numbers[:, :, 1] = np.asarray(levels, float)[:, None]
    nothing = np.zeros((len(levels), 4, dim))
    return Window(nothing, nothing, numbers, np.ones(len(levels), bool))


def test_of_many_chains_a_few_may_be_unsettled():
    """Up to eight chains all must have settled; of 256, one that has not counts for nothing."""
    for chains, settled in ((8, False), (256, True)):
        levels = np.zeros(chains)
        levels[3] = -60.0
        assert window_of(levels).settled(np.zeros(chains)) is settled
        assert window_of(levels).levels_differ() is not settled
        assert window_of(levels).far_below().sum() == 1
    assert not window_of(np.arange(256.0)).settled(np.arange(256.0))
    assert [stretch_for(chains) for chains in (1, 4, 8, 16, 256)] == [4.0, 1.0, 1.0, 0.25, 0.125]


@pytest.mark.parametrize(
    ("levels", "spanned", "settled"),
    [
        ([20.0, -20.0, 5.0, 0.0], False, False),
        ([20.0, -20.0, 5.0, 0.0], True, True),
        ([20.0, 20.0, 20.0, 20.0], True, False),  # all of them rise
        ([40.0, -20.0, -20.0, 0.0], True, False),  # chains are on different levels
    ],
)
def test_after_span_the_mean_of_all_chains_has_to_settle(levels, spanned, settled):
    """Windows of 400 parameters, whose log density has a standard deviation of 14."""
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 400)))
    rows = gaussian_chains(np.ones(400), 10, rotated=False)
    made = [
        filled(state, 10, level, *row)
        for state, level, row in zip(states, levels, rows, strict=True)
    ]
    progress = progress._replace(chains=progress.chains._replace(level=np.zeros(4)))
    progress = at(progress, parts.TRAVEL, 10, travel=parts.Travel(spanned=spanned))
    progress, _ = after(settings, progress, made)
    assert progress.learned.settled == settled


@pytest.mark.parametrize(
    ("level", "former", "again"),
    [(-20.0, 0.0, False), (-60.0, 0.0, True), (60.0, 0.0, True), (np.nan, 0.0, False),
     (-60.0, -200.0, False)],
)  # fmt: skip
def test_span_is_made_again_if_chains_settle_on_another_level(level, former, again):
    """Windows of 400 parameters with a mean of 0; there is no level after a second one."""
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 400)))
    rows = gaussian_chains(np.ones(400), 10, rotated=False)
    made = [filled(state, 10, 0.0, *row) for state, row in zip(states, rows, strict=True)]
    progress = progress._replace(chains=progress.chains._replace(level=np.full(4, former)))
    progress = at(progress, parts.TRAVEL, 10, travel=parts.Travel(spanned=True, span_level=level))
    progress, _ = after(settings, progress, made)
    assert (progress.stage == parts.SPAN) == again
    assert progress.learned.settled == (former == 0.0 and not again)


@pytest.mark.parametrize(("dim", "times"), [(MANY, 1), (MANY + 1, travel_stages.DEEP_TIMES)])
def test_climbs_of_many_parameters_may_be_longer(dim, times):
    _, _, (state, *_) = begun(np.ones((4, dim)))
    plan = travel_stages._climb(state, None, newton=False, dense=False).climb
    assert plan.gradients == times * travel_stages.MOST_GRADIENTS


@pytest.mark.parametrize(("variance", "n_steps"), [(1.0, 2), (4.0, 1)])
def test_one_step_is_tried_first_where_a_pilot_would_refuse_two(variance, n_steps):
    """Half way, a step of 1.1 has the acceptance rate that it is to have."""
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 400)))
    rows = gaussian_chains(np.append(variance, np.ones(399)), 8, rotated=False)
    made = [filled(state, 8, 0.0, *row) for state, row in zip(states, rows, strict=True)]
    for state in made:
        state.record.numbers[:, ACCEPTANCE] = settings.target_accept
    fixed = {"step_size": 1.1, "n_steps": 1, "target_accept": settings.target_accept}
    metric = scales_alone(np.ones(400))
    progress = at(progress, parts.TUNE_STEP, 8, settled=True, fixed=fixed, metric=metric)
    progress = progress._replace(window=TUNE_BLOCKS // 2 - 1)
    tried = after(settings, progress, made)[0].learned.fixed
    assert tried.n_steps == n_steps
    assert (tried.target_accept < settings.target_accept) == (n_steps == 1)


@pytest.mark.parametrize(
    ("variance", "step_size", "distance", "suit"),
    [(4.0, 0.9, 0.3, True), (1.0, 0.8, 0.3, True), (4.0, 0.8, 0.3, False), (4.0, 0.9, 0.31, False)],
)
def test_two_long_steps_suit_a_metric_that_is_wrong_in_a_direction(
    variance, step_size, distance, suit
):
    """If nothing is bent much, as with few parameters."""
    settings, progress, states = begun(np.random.default_rng(1).normal(size=(4, 400)))
    rows = gaussian_chains(np.append(variance, np.ones(399)), 60, rotated=False)
    made = [filled(state, 60, 0.0, *row) for state, row in zip(states, rows, strict=True)]
    for state in made:
        state.record.numbers[:, ACCEPTANCE] = 0.95
    learned = {
        "fixed": {"step_size": step_size, "n_steps": 2},
        "straightened": UNCHANGED._replace(distance_before=distance, distance=distance),
        "metric": scales_alone(np.ones(400)),
    }
    progress = at(progress, parts.PILOT, 60, settled=True, **learned)
    assert (after(settings, progress, made)[0].stage != parts.NUTS_METRIC) == suit


def test_one_step_that_is_too_short_is_said_to_be():
    assert "of 1.45, below 1.5," in choose_trajectory.steps_too_short(1.45, 1, 3)


@pytest.mark.parametrize("chains", [16, 32, 64, 256])
def test_of_many_chains_levels_of_single_draws_are_one_distribution(chains):
    """Windows of 400 parameters, so short that the mean of a chain is nearly that of one draw."""
    rng, dim = np.random.default_rng(chains), 400
    levels = -0.5 * rng.chisquare(dim, (100, 2, chains))
    sd = np.sqrt(dim / 2)
    settled = stuck = 0
    for former, later in levels:
        settled += window_of(later, dim).settled(former)
        stuck += window_of(later, dim).stuck(former).sum()
        assert not window_of(later + 2.0 * sd, dim).settled(former)
    # a change of the mean is below its bound in 84 windows of 100
    assert settled > 65
    assert stuck <= 3
    former, later = levels[0] - 7.0 * sd * (np.arange(chains) < chains // 4)
    assert window_of(later, dim).levels_differ()
    assert window_of(np.minimum(former, later), dim).stuck(former).sum() >= chains // 8


@pytest.mark.parametrize(
    ("dim", "settled", "misfit", "turns"),
    [(MANY + 1, True, 0.1, True), (MANY + 1, False, 0.1, False), (MANY + 1, True, 0.5, False),
     (MANY, True, 0.1, False)],
)  # fmt: skip
def test_nuts_moves_around_a_gaussian_of_many_parameters_near_the_density(
    dim, settled, misfit, turns
):
    """Gradients have noise of a share `misfit` of their standard deviation."""
    settings, progress, states = begun(np.zeros((4, dim)))
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((2, 100, dim)) for _ in states]
    states = [
        filled(state, 100, -200.0, x, -x + misfit * noise)
        for state, (x, noise) in zip(states, rows, strict=True)
    ]
    window = parts.window_of(progress, states)
    progress = progress.learning(settled=settled)
    progress = parts.learn_metric(settings, progress, window, 1.0)
    _, states = parts.nuts_block()(settings, at(progress, parts.NUTS_METRIC, 50), states)
    for state in states:
        assert (state.around is not None and len(state.around.mean) == dim) == turns
        assert state.tuning.nuts_target_accept == (around_gaussian.TARGET if turns else 0.8)


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
