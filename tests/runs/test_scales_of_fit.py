"""warm_start for every sampler: what is learned from an earlier fit, and when it is not used."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.runs.coordinates import scales_of_fit
from stanadapt.samplers import find, registered
from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.samplers.tempering import Extended
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.sampler_settings import FASTER
from tests.helpers.seldom_parameters import soak_except

# two correlated slopes in raw units and a scale; `width` changes the posterior, not its parameters
PROGRAM = """
data { real width; real shift; }
parameters { vector[2] b; real<lower=0> s; }
model {
  b[1] ~ normal(shift + 1e-4, 1e-6 * width);
  b[2] ~ normal(300 + 4e7 * (b[1] - shift - 1e-4), 30 * width);
  s ~ lognormal(1, 0.3 * width);
}
"""
DATA = {"width": 1.0, "shift": 0.0}
# Cov(b) of these data: sd 1e-6 and sqrt(40^2 + 30^2) = 50, correlation 0.8
SDS, CORRELATION = np.array([1e-6, 50.0, 0.3]), 0.8
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")


def made(**changes):
    return sa.Target(PROGRAM, {**DATA, **changes})


@pytest.fixture(scope="module")
def target():
    return made()


@pytest.fixture(scope="module")
def earlier(target):
    return sa.sample(target, seed=1)


def standardized_errors(fit):
    """Differences of means from the truth, in posterior standard deviations."""
    b = fit["posterior"]["b"].values.reshape(-1, 2).mean(axis=0)
    log_s = np.log(fit["posterior"]["s"].values).mean()
    return (np.array([b[0], b[1], log_s]) - [1e-4, 300.0, 1.0]) / SDS


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_scales_are_those_of_the_posterior(target, earlier, gradient, diagonal):
    draws = positions_of_fit(target, earlier)
    scales = scales_of_fit(target, draws, gradient, diagonal)
    assert not scales.misfit
    assert len(draws) == 2000
    assert scales.evaluations == (400 if gradient else 0)
    factor = scales.factor
    covariance = np.diag(factor[0] ** 2) if diagonal else np.tril(factor) @ np.tril(factor).T
    sds = np.sqrt(np.diag(covariance))
    # about 1000 effective draws: 4 errors of a standard deviation are 0.09
    np.testing.assert_allclose(sds, SDS, rtol=0.12)
    if not diagonal:
        assert covariance[0, 1] / (sds[0] * sds[1]) == pytest.approx(CORRELATION, abs=0.05)
    np.testing.assert_allclose((scales.location - [1e-4, 300.0, 1.0]) / SDS, 0.0, atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", soak_except({"whitened_hmc", "nuts", "am", "smc"}, registered()))
def test_every_sampler_begins_with_an_earlier_fit(target, earlier, name):
    fit = sa.sample(
        target, name, chains=2, iter_warmup=200, iter_sampling=400, seed=3, warm_start=earlier,
        **FASTER.get(name, {}),
    )  # fmt: skip
    assert fit.attrs["warm_start_draws"] > 0
    # from the start on in the right place: errors of 800 draws of any mixing chain are below 1 sd
    assert np.abs(standardized_errors(fit)).max() < 1.0
    if registered()[name].init_from_draws is None:
        assert "by warm_start" in fit.attrs["standardized"]
        assert fit.attrs.get("standardization_iterations") is None


def test_earlier_fits_save_travel_and_draws_do_not_depend_on_threads(target, earlier):
    options = {"chains": 3, "iter_warmup": 300, "iter_sampling": 50, "seed": 2}
    one, two = (
        sa.sample(target, "gad_mala", warm_start=earlier, parallel_chains=threads, **options)
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one["posterior"]["b"].values, two["posterior"]["b"].values)
    cold = sa.sample(target, seed=5).attrs
    warm = sa.sample(target, seed=5, warm_start=earlier).attrs
    assert warm["verdict"] == "fine"
    assert cold["warmup_climbs"] > 0
    assert warm["warmup_climbs"] == 0
    for spent in ("warmup_iterations", "n_gradients_warmup"):
        assert warm[spent] < cold[spent]


@pytest.mark.parametrize("sampler", ["auto", "nuts"])
def test_a_posterior_that_has_moved_is_found(earlier, sampler):
    """The default judges the earlier metric, and others keep the earlier scales."""
    fit = sa.sample(made(shift=3e-6), sampler, seed=4, warm_start=earlier)
    assert ("by warm_start" in fit.attrs["standardized"]) is (sampler == "nuts")
    assert fit.attrs["verdict"] == "fine"
    assert fit["posterior"]["b"].values[..., 0].mean() == pytest.approx(1.03e-4, abs=2e-7)


GROUPS = """
data { int J; int N; array[N] int g; vector[N] y; }
parameters { real mu; real<lower=0> tau; vector[J] th; real<lower=0> s; }
model {
  mu ~ normal(0, 5); tau ~ normal(0, 2); s ~ normal(0, 2); th ~ normal(mu, tau);
  y ~ normal(th[g], s);
}
"""


@pytest.mark.slow
def test_a_hierarchy_straightens_as_well_from_an_earlier_fit_as_without():
    """Chains that start at draws found another, worse map: most of these fits were not fine."""
    rng, g = np.random.default_rng(0), np.repeat(np.arange(1, 7), 8)
    y = rng.normal(size=6)[g - 1] + rng.normal(size=48)
    data = {"J": 6, "N": 48, "g": g, "y": y}
    target = sa.Target(GROUPS, data)
    first = sa.sample(target, seed=1)
    for seed in (5, 6):
        warm = sa.sample(target, seed=seed, warm_start=first).attrs
        assert warm["verdict"] == "fine"
        assert warm["straightening"].startswith("th[1..6] scale with tau around mu")
        # 0.69 +- 0.15 of those without, over seeds
        assert warm["n_gradients_warmup"] < first.attrs["n_gradients_warmup"]


def test_draws_at_which_the_density_fails_are_no_rows_of_the_first_block(earlier):
    limited = sa.Target(PROGRAM.replace("s ~", "target += log(s - 2.5); s ~"), DATA)
    draws = positions_of_fit(limited, earlier)[:: 2000 // 40]
    fine = int((np.exp(draws[:, 2]) > 2.5).sum())
    assert 10 < fine < 35
    sampler, settings = find("whitened_hmc")
    density, rng = limited.density(), np.random.default_rng(1)
    state = sampler.init(density, settings, draws[0], rng)
    record = sampler.init_from_draws(density, settings, state, draws, rng).record
    assert record.rows[0] == len(record.positions) == fine
    assert np.isfinite(record.gradients).all()


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "word"), [(0.05, "narrower"), (30.0, "wider")])
def test_other_scales_are_reported_and_learned_again(earlier, width, word):
    with warns("scales_changed", "s", word):
        fit = sa.sample(made(width=width), "gad_mala", seed=4, warm_start=earlier)
    assert "by warm_start" not in fit.attrs["standardized"]
    sd = np.log(fit["posterior"]["s"].values).std()
    assert sd == pytest.approx(0.3 * width, rel=0.15)


def test_too_few_draws_and_failing_ones_are_reported(target, earlier):
    few = earlier.isel(chain=[0], draw=slice(0, 10))
    with warns("scales_changed", "10 draws", "20"):
        sa.sample(
            target, "hmc", chains=2, iter_warmup=100, iter_sampling=20, seed=1, warm_start=few,
        )  # fmt: skip
    target = sa.Target(PROGRAM.replace("s ~", "target += log(s - 100); s ~"), DATA)
    misfit = scales_of_fit(target, positions_of_fit(target, earlier), True, False).misfit
    assert misfit.code == "scales_changed"
    assert "400 of 400" in misfit


def test_a_file_or_a_run_folder_will_do(target, earlier, tmp_path):
    sa.save(earlier, tmp_path / "fit.nc")
    options = {"chains": 2, "iter_warmup": 100, "iter_sampling": 20, "seed": 1}
    from_file = sa.sample(target, "nuts", warm_start=tmp_path / "fit.nc", **options)
    given = sa.sample(target, "nuts", warm_start=earlier, **options)
    np.testing.assert_array_equal(
        from_file["posterior"]["b"].values, given["posterior"]["b"].values
    )
    sa.sample(target, seed=2, run=tmp_path / "run")
    from_run = sa.sample(target, "nuts", warm_start=tmp_path / "run", **options)
    assert "by warm_start" in from_run.attrs["standardized"]


def test_a_kept_run_that_began_with_a_fit_is_resumed(target, earlier, tmp_path):
    options = {"chains": 2, "iter_warmup": 150, "seed": 1}
    whole = sa.sample(target, "nuts", warm_start=earlier, iter_sampling=300, **options)
    sa.sample(target, "nuts", warm_start=earlier, iter_sampling=20, run=tmp_path / "r", **options)
    fit = sa.resume(tmp_path / "r", iter_sampling=300)
    np.testing.assert_array_equal(fit["posterior"]["b"].values, whole["posterior"]["b"].values)
    assert results.attribute(fit, "standardized") == results.attribute(whole, "standardized")


def test_what_is_no_fit_of_the_program_is_refused(target, earlier, tmp_path):
    other = sa.Target("parameters { real z; } model { z ~ normal(0, 1); }")
    with raises_in("initialization", "z"):
        sa.sample(other, "hmc", warm_start=earlier)
    with raises_in("initialization", "int"):
        sa.sample(target, "hmc", warm_start=5)
    with pytest.raises(StanadaptError):
        sa.sample(target, "hmc", warm_start=tmp_path / "missing.nc")
    with raises("option_not_used", "warm_start"):
        sa.sample(Extended(target, 1), "hmc", warm_start=earlier)
