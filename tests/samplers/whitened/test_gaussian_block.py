"""The default sampler looks for a Gaussian block where one may help, and uses its coordinates."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.mixing import mixing
from stanadapt.engine.density import FAILED_CALLS, GRADIENT_CALLS
from stanadapt.engine.points import start_at
from stanadapt.engine.triangular_map import make_map, no_map
from stanadapt.engine.warmup import END
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.gaussian_block import ask_if_wanted
from stanadapt.samplers.whitened.probes import NO_PROBES, Probes, probe_if_due
from stanadapt.samplers.whitened.scaled_block import places_without
from stanadapt.samplers.whitened.schedule import WARMUP
from stanadapt.samplers.whitened.straightened import Straightened
from tests.helpers.gaussian_blocks import LEVELS, LocalLevel, anywhere
from tests.helpers.made_up_blocks import at, begun, filled
from tests.helpers.short_runs import assert_same_draws, in_other_ways, values

SHORT = {"iter_sampling": 60, "seed": 18}
SAID = f"u[1..{LEVELS}] given s_u and s_x: Gaussian, straightened exactly"
DIM = LEVELS + 2
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


@pytest.fixture(scope="module")
def target():
    return LocalLevel().target()


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(target, save="unconstrained", **SHORT)


# --- when it is looked for ------------------------------------------------------------------------


def asked(
    distance, part=0.1, mapped=np.inf, stage=parts.NUTS_METRIC, then=parts.NUTS_STEP, **settings
):
    """How many places the chains are given, after a window with this distance from a Gaussian."""
    settings, progress, states = begun(np.zeros((4, 6)), **settings)
    one = make_map(*np.array([[1], [0], [-1], [-1]]), np.zeros((1, 11)))
    found = no_map() if mapped == np.inf else one
    found = Straightened(found, (), distance, min(distance, mapped), part=part)
    rows = np.random.default_rng(1).standard_normal((4, 50, 6))
    states = [filled(s, 50, 0.0, x, -x) for s, x in zip(states, rows, strict=True)]
    progress = at(progress, parts.NUTS_METRIC, 50, straightened=found)
    _, states = ask_if_wanted(settings, progress._replace(then=then), states)
    due = sum(np.isnan(state.probes.rows[:, 1]).any(axis=1).sum() for state in states)
    assert due == 0 or due + 200 == sum(len(state.probes.rows) for state in states)
    return due


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"distance": 0.2}, True),
        ({"distance": 0.05}, False),  # nearly a Gaussian as it is
        ({"distance": 0.05, "part": 1.5}, True),  # but for one coordinate
        ({"distance": 3.0, "mapped": 0.05}, True),  # a good map may keep chains out of a neck
        ({"distance": 3.0, "mapped": 0.4}, True),
        ({"distance": np.inf}, False),  # not measured yet
        ({"distance": np.inf, "then": parts.SURVEY}, True),  # the log density does not settle
        ({"distance": 3.0, "straighten": False}, False),
        ({"distance": 3.0, "then": END}, False),
    ],
)
def test_places_are_asked_for_where_a_block_may_help(given, wanted):
    assert (asked(**given) > 0) == wanted


def test_a_failing_density_or_gradient_is_no_failure_of_the_chain(target):
    density = target.density()
    state = begun(np.zeros((1, DIM)))[2][0]
    places = np.full((3, 2, DIM), np.nan)
    places[0, 0], places[1, 0], places[2] = 0.1, np.inf, 0.3
    probe_if_due(density, state._replace(probes=Probes(places)))
    np.testing.assert_array_equal(places[0, 1], start_at(density, places[0, 0]).gradient)
    assert np.isinf(places[1, 1]).all()
    assert np.all(places[2] == 0.3)  # known before
    assert density.calls[FAILED_CALLS] == 0
    probe_if_due(density, state._replace(probes=Probes(places)))
    assert density.calls[GRADIENT_CALLS] == 2


# --- its consequences -----------------------------------------------------------------------------


def judged(gradient, chains=4, constant=False, mapped=False):
    """Progress and states after a stage whose chains had places with these gradients."""
    settings, progress, states = begun(np.zeros((chains, DIM)))
    x = anywhere(np.random.default_rng(1), 300)
    if constant:
        x[:, LEVELS:] = 0.0
    rows = np.stack([x, np.array([gradient(row) for row in x])], axis=1)
    states = [
        filled(s, 40, 0.0, x[k : k + 40], rows[k : k + 40, 1])._replace(
            probes=Probes(rows[k::chains])
        )
        for k, s in enumerate(states)
    ]
    found = make_map(*np.array([[1], [0], [-1], [-1]]), np.zeros((1, 11))) if mapped else no_map()
    far = Straightened(found, (), 2.0, 0.05 if mapped else 2.0, part=9.0)
    seeking = {"straightened": far, "probes_seek_block": True}
    progress = at(progress, parts.FIND_STEP, 40, **seeking)._replace(then=parts.METRIC)
    return WARMUP.stages[parts.FIND_STEP].learn(settings, progress, states)


@pytest.mark.parametrize("chains", [1, 4])
def test_warm_up_begins_anew_in_the_coordinates_of_a_block(chains):
    progress, states = judged(LocalLevel().gradient, chains)
    learned = progress.learned
    assert progress.then == parts.TRAVEL
    assert learned.straightened.block_is_used
    assert (learned.straightened.distance_before, learned.travel.windows) == (2.0, 0)
    assert all(len(state.probes.rows) == 0 for state in states)
    # it is looked for once
    settings = begun()[0]
    _, states = ask_if_wanted(settings, progress, states)
    assert all(len(state.probes.rows) == 0 for state in states)


@pytest.mark.parametrize(
    ("spoil", "constant"),
    [
        (lambda g: g, True),  # hubs that never vary
        (lambda g: np.append(-g[:LEVELS], g[LEVELS:]), False),  # improper
        (lambda g: g * (1.0 + 1e-4 * np.sin(1e5 * g[::-1])), False),
        (lambda g: g * np.nan, False),
    ],
)
def test_without_a_block_the_stage_goes_on(spoil, constant):
    level = LocalLevel()
    progress, states = judged(lambda row: spoil(level.gradient(row)), constant=constant)
    assert progress.then == parts.METRIC
    assert progress.learned.block_sought
    assert not progress.learned.straightened.block_is_used
    assert all(state.probes is NO_PROBES for state in states)


def around_their_mean(row):
    """The gradient of effects around the last of them, their mean, with noise."""
    level, (u, x) = LocalLevel(), np.exp(-2.0 * row[LEVELS:])
    effects, mean = row[: LEVELS - 1], row[LEVELS - 1]
    away, noise = effects - mean, effects - level.y[:-1]
    hubs = u * away @ away - LEVELS, x * noise @ noise - LEVELS
    return np.concatenate([-u * away - x * noise, [u * away.sum() - mean], hubs])


@pytest.mark.parametrize(
    ("gradient", "taken"), [(LocalLevel().gradient, True), (around_their_mean, False)]
)
def test_a_good_map_gives_way_only_to_states_that_are_tied_to_each_other(gradient, taken):
    assert judged(gradient)[0].learned.straightened.block_is_used
    progress, _ = judged(gradient, mapped=True)
    assert progress.learned.straightened.block_is_used == taken
    assert progress.then == (parts.TRAVEL if taken else parts.METRIC)


# --- another likelihood ---------------------------------------------------------------------------


def judged_twice(strength, bounded=2):
    """Progress and states after two looks, at a local level whose states have a further term."""
    level = LocalLevel()
    fit = level.fit(1, (4, 40))
    logs = [np.log(values(fit, name))[..., None] for name in ("s_u", "s_x")]
    x = np.concatenate([values(fit, "u"), *logs], axis=-1)

    def gradient(row):
        return level.gradient(row) - strength * np.append(np.tanh(row[:LEVELS]), [0.0, 0.0])

    settings, progress, states = begun(np.zeros((4, DIM)))
    rows = np.array([[[row, gradient(row)] for row in chain] for chain in x])
    states = [
        filled(s, 40, 0.0, own[:, 0], own[:, 1])._replace(probes=Probes(own))
        for s, own in zip(states, rows, strict=True)
    ]
    bounds = np.zeros((bounded, 4))
    bounds[:, 0] = LEVELS + np.arange(bounded)
    last = places_without(x.reshape(-1, DIM), bounds[:, 0].astype(int))
    for row in last:
        row[1] = gradient(row[0])
    first = np.concatenate([states[0].probes.rows, last])
    states[0] = states[0]._replace(probes=Probes(first))
    far = Straightened(no_map(), (), 2.0, 2.0, part=9.0)
    progress = at(progress, parts.FIND_STEP, 40, straightened=far, probes_seek_block=True)
    progress = progress._replace(then=parts.METRIC, bounds=bounds)
    learn = WARMUP.stages[parts.FIND_STEP].learn
    progress, states = learn(settings, progress, states)
    asked = [state.probes.rows for state in states]
    for row in (row for own in asked for row in own):
        row[1] = gradient(row[0])
    if not len(asked[0]):
        return progress, 0
    return learn(settings, progress._replace(then=parts.METRIC), states)[0], sum(map(len, asked))


def test_a_block_that_is_nearly_gaussian_is_taken_where_no_exact_one_is():
    progress, asked = judged_twice(0.5)
    found = progress.learned.straightened
    assert (progress.then, found.block_is_used, found.exact) == (parts.TRAVEL, True, False)
    assert asked < 1400


@pytest.mark.parametrize(
    ("changes", "looks"),
    [
        ({"strength": 300.0}, 2),  # draws are no closer to a Gaussian in its coordinates
        ({"strength": 0.5, "bounded": 0}, 1),
    ],
)
def test_it_is_not_taken_or_not_looked_for(changes, looks):
    progress, asked = judged_twice(**changes)
    assert not progress.learned.straightened.block_is_used
    assert (asked > 0) == (looks == 2)


# --- whole runs -----------------------------------------------------------------------------------


def test_a_local_level_is_drawn_in_the_coordinates_of_its_states(target, fit):
    assert fit.attrs["straightening"].startswith(SAID)
    assert fit.attrs["distance_straightened"] < 0.15 < fit.attrs["distance_from_gaussian"]
    positions = values(fit, "position", "unconstrained_posterior")
    np.testing.assert_array_equal(positions[..., :LEVELS], values(fit, "u"))
    for draw in (0, 17, -1):
        lp, _, _ = target.evaluate(positions[1, draw])
        assert values(fit, "lp", "sample_stats")[1, draw] == pytest.approx(lp, abs=1e-9)
    pair = results.dataset(fit, "straightened")
    assert pair["driver"].attrs["name"] in ("s_u", "s_x")
    assert np.isin(pair["coordinate"], values(fit, "u")).all()


@pytest.mark.thorough
def test_draws_are_the_same_in_threads_workers_and_resumed_runs(target, fit, tmp_path):
    run = {**SHORT, "save": "unconstrained"}
    for other in in_other_ways(target, "auto", tmp_path / "run", 25, **run):
        assert_same_draws(fit, other)
        assert other.attrs["straightening"] == fit.attrs["straightening"]


@pytest.mark.thorough
@pytest.mark.parametrize("changes", [{"chains": 1}, {"iter_warmup": 20}, {"warm_start": True}])
def test_other_runs_know_it_too(target, fit, changes):
    if "warm_start" in changes:
        changes = {"warm_start": fit}
    other = sa.sample(target, **{**SHORT, **changes})
    said = other.attrs.get("straightening", "")
    assert said.startswith(SAID) == ("iter_warmup" not in changes)
    assert np.isfinite(values(other, "u")).all()


@pytest.mark.thorough
def test_another_sampler_runs_in_these_coordinates(target, tmp_path):
    chosen = {**SHORT, "standardize": "straighten", "iter_warmup": 600}
    whole = sa.sample(target, "hmc", **chosen)
    assert whole.attrs["straightening"].startswith(SAID)
    for other in in_other_ways(target, "hmc", tmp_path / "run", 20, **chosen):
        assert_same_draws(whole, other)


COUNTS = """data { int N; array[N] int y; }
parameters { vector[N] u; real<lower=0> s; }
model { s ~ normal(0, 1); u[1] ~ normal(0, 2); u[2:] ~ normal(u[:N-1], s); y ~ poisson_log(u); }"""
RESIDUALS = """data { int N; array[N] int y; }
parameters { vector[N] z; real<lower=0> s; }
model { vector[N] u = cumulative_sum(append_row(2 * z[1], s * z[2:]));
  s ~ normal(0, 1); z ~ normal(0, 1); y ~ poisson_log(u); }"""


@pytest.mark.slow
def test_counts_around_a_walk_have_the_scale_that_standardized_steps_give():
    rng = np.random.default_rng(3)
    y = rng.poisson(np.exp(1.0 + np.cumsum(0.15 * rng.standard_normal(80))))
    data = {"N": len(y), "y": y}
    fits = [sa.sample(sa.Target(code, data), seed=18) for code in (COUNTS, RESIDUALS)]
    assert fits[0].attrs["verdict"] == "fine"
    assert fits[0].attrs["n_gradients"] < 40_000  # 350,000 without the block, and too short
    said = "u[1..80] given s: nearly Gaussian, straightened, distance from a Gaussian"
    assert fits[0].attrs["straightening"].startswith(said)
    one, other = (np.log(values(fit, "s")) for fit in fits)
    for share in (0.05, 0.5, 0.95):
        point = np.quantile(other, share)
        error = np.sqrt(sum(
            share * (1.0 - share) / mixing((x < point).astype(float)).ess_bulk
            for x in (one, other)
        ))  # fmt: skip
        assert np.mean(one < point) == pytest.approx(share, abs=4.0 * error)


@pytest.mark.soak
def test_no_tail_of_a_scale_is_missing_in_a_fine_fit():
    """Without a block, 8 of 22 fits were fine, and half of the mass was missing in these."""
    level, shares = LocalLevel(), []
    exact = np.exp(level.scales(np.random.default_rng(1), (200_000,)))
    for seed in range(1, 11):
        fit = sa.sample(level.target(), seed=seed)
        if fit.attrs["verdict"] == "fine":
            pairs = zip(("s_u", "s_x"), exact.T, strict=True)
            shares.append([
                np.mean(values(fit, name) < np.quantile(draws, share))
                for name, draws in pairs for share in (0.01, 0.05)
            ])  # fmt: skip
    assert len(shares) >= 7
    errors = np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    assert np.all(np.abs(np.mean(shares, axis=0) - [0.01, 0.05] * 2) < 3.0 * errors)
