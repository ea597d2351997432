"""Climbs from further starts show a mode that all chains have missed, and change nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.density import GRADIENT_CALLS
from stanadapt.results import attribute
from stanadapt.samplers.whitened import further_climbs
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED
from stanadapt.samplers.whitened.fisher_metric import Metric
from stanadapt.samplers.whitened.further_climbs import CLIMBS, NO_FURTHER
from stanadapt.samplers.whitened.probes import NO_PROBES, Probes
from tests.helpers.gaussian_target import Gaussian, make_chains_at
from tests.helpers.made_up_blocks import begun, filled
from tests.helpers.short_runs import assert_same_draws, assert_same_fit, in_other_ways
from tests.helpers.stan_target import shared_target

# Climbs from x > -1.8 end at 0.5, with e^-30 of the mass of the mode at -5, or as much mass.
UNEQUAL = """
parameters { real x; vector[2] y; }
model {
  y ~ normal(x, 1);
  target += log_sum_exp(normal_lpdf(x | 0.5, 1) - HEIGHT, normal_lpdf(x | -5, 0.4));
}
"""
FAR, ALIKE = (UNEQUAL.replace("HEIGHT", height) for height in ("30", "0"))
far, alike = shared_target(FAR), shared_target(ALIKE)
# of the range in which climbs start, one in seven is below -1.8
STARTS = [{"x": x, "y": [0.0, y]} for x, y in ((-1.4, 1.0), (1.9, -1.0), (0.5, 0.0), (1.0, 0.5))]
WIDER = [{"x": -3.0, "y": [0.0, 1.0]}, *STARTS[1:]]
pytestmark = pytest.mark.filterwarnings("ignore")


def draw(target, seed=1, **settings):
    chosen = {"inits": STARTS, "iter_sampling": 200, **settings}
    return sa.sample(target, "whitened_hmc", seed=seed, **chosen)


def test_chains_leave_a_mode_of_far_less_mass(far):
    fit = draw(far)
    assert np.all(fit["posterior"]["x"] < -2)
    assert attribute(fit, "warmup_moves") >= 1  # others may leave by luck
    reached = attribute(fit, "climbs_there")
    assert 1 <= reached < CLIMBS
    assert f"far more mass, which {reached} climbs or chains had found" in attribute(
        fit, "verdict_reasons"
    )


def test_the_draws_are_the_same_in_every_way_to_run(far, tmp_path):
    options = {"inits": STARTS, "iter_sampling": 100, "seed": 1}
    whole = draw(far, iter_sampling=100)
    assert attribute(whole, "warmup_moves")
    for fit in in_other_ways(far, "whitened_hmc", tmp_path / "run", 30, **options):
        assert_same_fit(fit, whole)


def test_modes_of_similar_mass_keep_their_chains_and_their_draws(alike, monkeypatch):
    fit = draw(alike, inits=WIDER)
    assert not attribute(fit, "warmup_moves")
    assert "minor_mode_left" not in attribute(fit, "verdict_codes")
    monkeypatch.setattr(further_climbs, "CLIMBS", 0)
    without = draw(alike, inits=WIDER)
    assert_same_draws(fit, without, ["posterior"])
    assert attribute(fit, "n_gradients") > attribute(without, "n_gradients")


# --- what the stages ask for ----------------------------------------------------------------------

DIM = 3


def asked(begin=None, **settings):
    return further_climbs.ask_for_climbs(*begun(begin, **settings))


def given(states):
    return np.concatenate([state.further.starts for state in states])


def test_starts_are_spread_over_the_range_of_those_of_the_chains():
    begin = np.array([[0.0, 10.0, 5.0], [1.0, 30.0, 5.0], [0.5, 20.0, 5.0], [0.2, 20.0, 5.0]])
    progress, states = asked(begin)
    starts = given(states)
    assert [len(state.further.starts) for state in states] == [CLIMBS // 4] * 4
    low, high = begin.min(axis=0), begin.max(axis=0)
    # four uniform points span three fifths of their range
    middle, half = (low + high) / 2, (high - low) / 2 * 5 / 3
    assert np.all(np.abs(starts - middle) <= half)
    assert np.all(np.ptp(starts, axis=0) >= 2 * half * (1 - 2 / CLIMBS))
    again, states = further_climbs.ask_for_climbs(begun(begin)[0], progress, states)
    assert again is progress
    assert progress.learned.travel.searched
    _, states = asked(begin + 1e-9)
    assert np.ptp(given(states) - starts) > 1e-3


@pytest.mark.parametrize(
    ("begin", "settings"),
    [
        (np.ones((4, DIM)), {}),
        (np.random.default_rng(1).uniform(-2, 2, (1, DIM)), {}),
        (np.random.default_rng(1).uniform(-2, 2, (4, LARGEST_COMPOSED + 1)), {}),
        (None, {"metric": Metric.diagonal}),
    ],
)
def test_without_a_range_or_differences_nothing_is_asked(begin, settings):
    _, states = asked(begin, **settings)
    assert all(state.further is NO_FURTHER for state in states)


@pytest.mark.parametrize("learned", [
    {"earlier": "some"}, {"straightened": SimpleNamespace(map_is_used=True, block_is_used=False)},
    {"straightened": SimpleNamespace(map_is_used=False, block_is_used=True)},
])  # fmt: skip
def test_with_a_map_or_earlier_draws_nothing_is_asked(learned):
    settings, progress, states = begun()
    _, states = further_climbs.ask_for_climbs(settings, progress.learning(**learned), states)
    assert all(state.further is NO_FURTHER for state in states)


def test_ends_near_the_height_are_kept_and_the_curvature_of_those_elsewhere():
    begin = np.array([[20.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    _, _, states = begun(begin)
    density = Gaussian(np.zeros(DIM), np.ones(DIM)).density()
    starts = NO_FURTHER._replace(starts=np.array([[1.5, -1.0, 0.5], [1e4, 0.0, 0.0]]))
    for state, elsewhere in zip(states, (True, False), strict=True):
        unit = state.leapfrog._replace(factor=np.ones((1, DIM)))
        state = state._replace(further=starts, leapfrog=unit)
        found = further_climbs.climb_further_if_due(density, state).further
        assert len(found.starts) == 0
        assert found.log_density[0] == -0.5 * np.sum(found.ends[0] ** 2)
        assert found.log_density[1] == -np.inf  # it was too far below
        curvature = np.eye(DIM) if elsewhere else np.full((DIM, DIM), np.nan)
        np.testing.assert_allclose(found.curvature[0], curvature, atol=1e-4)


# --- the climbs of a chain ------------------------------------------------------------------------


def found_with(monkeypatch, gradients, here, scale, starts):
    """What a chain on a standard Gaussian finds with so many gradients, and how many it takes."""
    begin = np.array([here, 0.0])
    (chain,) = make_chains_at(Gaussian([0.0, 0.0], [1.0, 1.0]), begin[None])
    state, calls = chain.state, chain.density.calls
    before = int(calls[GRADIENT_CALLS])
    monkeypatch.setattr(further_climbs, "SHARE", 0.5)
    monkeypatch.setattr(further_climbs, "STILL_TO_COME", 2 * gradients - before)
    starts = np.column_stack([np.zeros(len(starts)), starts])
    state = state._replace(
        further=NO_FURTHER._replace(starts=starts),
        leapfrog=state.leapfrog._replace(factor=np.full((1, 2), scale)),
    )
    found = further_climbs.climb_further_if_due(chain.density, state).further
    return found, int(calls[GRADIENT_CALLS]) - before


@pytest.mark.parametrize(("gradients", "rows"), [(4, []), (5, [1]), (6, [1, 3]), (100, range(4))])
def test_climbs_from_the_highest_starts_share_the_gradients(monkeypatch, gradients, rows):
    # besides the gradient at its start, each climb takes one
    found, used = found_with(monkeypatch, gradients, 0.0, 1.0, [40.0, 3.0, -20.0, 10.0])
    assert used == min(gradients, 8)
    assert np.flatnonzero(found.log_density > -np.inf).tolist() == list(rows)
    assert np.isnan(found.curvature).all()


def test_a_long_climb_and_differences_share_the_gradients(monkeypatch):
    _, used = found_with(monkeypatch, 4, 0.0, 0.1, [40.0])
    assert used == 4
    # the higher start is near enough to the mode for its climb to end there
    found, used = found_with(monkeypatch, 3, 10.0, 1.0, [1.5, 40.0])
    assert used == 3 + 4
    np.testing.assert_allclose(found.curvature[1], np.eye(2), atol=1e-9)
    assert found.log_density[0] == -np.inf
    # on so short scales all climbs end at their starts
    found, used = found_with(monkeypatch, 8, 0.0, 1e-3, [2.0, 1.0, 3.0])
    assert used == 3 + 2 * 4
    known = np.isfinite(found.curvature).all(axis=(1, 2))
    assert known.tolist() == [True, True, False]
    assert (found.log_density > -np.inf).tolist() == known.tolist()


# --- what the stages learn from them --------------------------------------------------------------


def climbed(ends, levels, factor=1.0):
    """A warm-up after climbs that ended at these (height, scale), with chains on these levels."""
    settings, progress, states = begun()
    probes = Probes(np.ones((1, 2, DIM)))
    heights, scales = np.array(ends, float).T
    found = NO_FURTHER._replace(
        ends=np.arange(len(ends) * DIM, dtype=float).reshape(len(ends), DIM),
        log_density=heights, curvature=np.eye(DIM) / scales[:, None, None] ** 2,
        force=np.zeros((len(ends), DIM)),
    )  # fmt: skip
    states = [
        filled(state, 10, level)._replace(
            further=found if chain == 0 else NO_FURTHER,
            probes=probes,
            leapfrog=state.leapfrog._replace(factor=np.full((1, DIM), factor)),
        )
        for chain, (state, level) in enumerate(zip(states, levels, strict=True))
    ]
    moved, states = further_climbs.follow_climbs_first(
        lambda settings, progress, states: (None, states), settings, progress, states
    )
    assert all(state.further is NO_FURTHER for state in states)
    # they are of no use elsewhere
    assert all(state.probes is (NO_PROBES if moved else probes) for state in states)
    return found.ends, moved


def goals(progress):
    return [None if own is None else own.climb.begin for own in progress.learned.alone]


def test_chains_far_below_go_to_the_ends_and_those_above_stay():
    ends, moved = climbed([(30.0, 1.0), (31.0, 1.0), (10.0, 1.0)], [0.0, 29.0, 0.0, 0.0])
    expected = [ends[1], None, ends[0], ends[1]]
    for goal, wanted in zip(goals(moved), expected, strict=True):
        np.testing.assert_array_equal(goal, wanted)
    assert moved.then == parts.TRAVEL
    assert moved.chains.level.tolist() == [31.0, 29.0, 30.0, 31.0]
    assert (moved.learned.travel.moved, moved.learned.travel.reached) == (3, 2)
    # the metric of the chain that stays is kept
    np.testing.assert_array_equal(moved.learned.metric.factor, begun()[1].learned.metric.factor)


def test_ends_give_the_metric_and_mass_alone_moves_no_chain():
    _, moved = climbed([(60.0, 2.0)], [0.0] * 4)
    np.testing.assert_allclose(moved.learned.metric.factor, 2.0 * np.eye(DIM))
    _, moved = climbed([(31.0, np.exp(-11 / 3))], [0.0, 24.0, 0.0, 0.0], np.exp(2.0))
    assert (moved.learned.travel.moved, moved.learned.travel.reached) == (3, 1)


@pytest.mark.parametrize(
    ("ends", "levels", "factor"),
    [
        ([(30.0, 1e-6)], [0.0] * 4, 1.0),  # high up in the neck of a funnel
        ([(0.0, 1e6)], [0.0] * 4, 1.0),  # much volume in a flat tail
        ([(4.0, 1.0)], [0.0] * 4, 1.0),
        ([(30.0, 1e-3)], [0.0] * 4, 1e3),  # the chains have much volume too
        ([(30.0, 1.0)], [0.0, 0.0, 0.0, 60.0], 1.0),  # one chain has found a better one
        ([(-np.inf, 1.0)], [0.0] * 4, 1.0),
    ],
)
def test_no_chain_moves_without_more_height_and_more_mass(ends, levels, factor):
    assert climbed(ends, levels, factor)[1] is None
