"""`sample(..., standardize="straighten")`: any sampler in the coordinates of a learned map."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import stanadapt as sa
from stanadapt import results
from stanadapt.results.arviz_object import arviz_module, is_tree
from tests.helpers.codes import raises
from tests.helpers.short_runs import assert_same_draws, in_other_ways, values
from tests.helpers.stan_target import shared_target

# far from 0 and from each other: a map that forgot a location would be found out
FUNNEL = """
parameters { real v; vector[6] x; }
model { v ~ normal(20, 3); x ~ normal(-5, exp((v - 20) / 2)); }
"""
CHOSEN = {"standardize": "straighten", "seed": 2}
SHORT = {"iter_warmup": 500, "iter_sampling": 60, **CHOSEN}
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
target = shared_target(FUNNEL)


@pytest.fixture(scope="module")
def fit(target):
    return sa.sample(target, "gad_mala", iter_sampling=5000, save="unconstrained", **CHOSEN)


def test_a_funnel_is_drawn_with_its_neck(fit):
    """Without the map, chains stay in the wide part: no draw lies below the 5 % point."""
    v = values(fit, "v")
    effective = float(results.arviz_module().ess(v, method="quantile", prob=0.05))
    assert effective > 400
    for share in (0.05, 0.5, 0.95):
        ess = float(results.arviz_module().ess(v, method="quantile", prob=share))
        error = (v < norm(20, 3).ppf(share)).mean() - share
        assert abs(error) < 5.0 * np.sqrt(share * (1.0 - share) / ess)
    assert fit.attrs["verdict"] == "fine"
    assert "straightened" in fit.attrs["standardized"]
    assert "x[1..6] depend on v" in fit.attrs["straightening"]
    assert fit.attrs["distance_straightened"] < 0.1 < fit.attrs["distance_from_gaussian"]


def test_what_is_saved_is_in_the_program_s_own_coordinates(target, fit):
    positions = values(fit, "position", "unconstrained_posterior")
    np.testing.assert_array_equal(positions[..., 0], values(fit, "v"))
    np.testing.assert_array_equal(positions[..., 1:], values(fit, "x"))
    for draw in (0, 17, -1):
        lp, _, _ = target.evaluate(positions[1, draw])
        assert values(fit, "lp", "sample_stats")[1, draw] == pytest.approx(lp, abs=1e-9)


@pytest.mark.parametrize("default", [False, True])
def test_a_pair_is_shown_before_and_after(target, fit, default):
    if default:
        fit = sa.sample(target, seed=2)
    pair = results.dataset(fit, "straightened")
    driver, residual = (np.ravel(pair[name]) for name in ("driver", "residual"))
    v, x = values(fit, "v"), values(fit, "x")
    assert pair["driver"].attrs["name"] == "v"
    assert np.isin(driver, v).all()
    member = int(pair["coordinate"].attrs["name"][2:-1]) - 1
    assert np.isin(pair["coordinate"], x[..., member]).all()
    # log |residual| has variance pi^2 / 8, whatever the driver is; before, it has slope 1/2
    slopes = [
        np.polyfit(driver - 20.0, np.log(np.abs(value)), 1)[0]
        for value in (np.ravel(pair["coordinate"]) + 5.0, residual)
    ]
    error = np.pi / np.sqrt(8.0) / (driver.std() * np.sqrt(len(driver)))
    assert np.all(np.abs(np.array(slopes) - [0.5, 0.0]) < 5.0 * error)


def test_straightened_fits_are_concatenated(target):
    fits = [sa.sample(target, seed=seed, iter_sampling=60) for seed in (2, 3)]
    if not is_tree():
        joined = arviz_module().concat(*fits, dim="chain")
        assert joined.posterior.sizes["chain"] == joined.straightened.sizes["chain"] == 8
    pairs = [results.dataset(fit, "straightened") for fit in fits]
    assert xr.concat(pairs, "chain").sizes["chain"] == 8


@pytest.mark.parametrize("error", [ValueError("planted"), KeyboardInterrupt()])
def test_a_pair_that_cannot_be_made_costs_no_draw(target, monkeypatch, error):
    def fails(*arguments):
        raise error

    monkeypatch.setattr("stanadapt.runs.result.straightened_pair", fails)
    fit = sa.sample(target, "hmc", **SHORT)
    assert results.dataset(fit, "posterior").sizes["draw"] == 60
    assert "straightened" not in results.group_names(fit)
    assert "report_left_out" in results.from_json(fit, "note_codes", [])


@pytest.mark.thorough
def test_draws_are_the_same_in_threads_workers_and_resumed_runs(target, tmp_path):
    one = sa.sample(target, "hmc", parallel_chains=1, **SHORT)
    for other in in_other_ways(target, "hmc", tmp_path / "run", 25, **SHORT):
        assert_same_draws(one, other)
        assert other.attrs["straightening"] == one.attrs["straightening"]


def test_a_posterior_without_dependencies_is_only_standardized():
    code = "parameters { vector[3] x; } model { x ~ normal([1, -20, 0]', [1e-3, 50, 2]'); }"
    plain = sa.Target(code)
    fit = sa.sample(plain, "mala", **SHORT)
    assert "straightened" not in fit.attrs["standardized"]
    assert "straightening" not in fit.attrs


@pytest.mark.parametrize(("sampler", "changes", "words"), [
    ("whitened_hmc", {}, "learns scales on its own"),
    ("hmc", {"iter_warmup": 20}, "iter_warmup is 20"), ("hmc", {"standardize": "map"}, "'map'"),
    ("parallel_tempering", {"prior_data": {}}, "prior_data is given"),
])  # fmt: skip
def test_what_cannot_be_straightened_is_refused(target, sampler, changes, words):
    with raises("cannot_standardize", words):
        sa.sample(target, sampler, **{**SHORT, **changes})
