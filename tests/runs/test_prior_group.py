"""The group `prior`: from data without observations, predicted under those of the posterior."""

import copy
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.engine.plan import make_plan
from stanadapt.runs.coordinates import NO, choose_coordinates
from stanadapt.runs.warm_start import GivenStart
from stanadapt.samplers import find
from tests.helpers.codes import warns
from tests.helpers.short_runs import assert_same_draws
from tests.helpers.stan_target import shared_target

# short runs reach far out
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
CODE = """
data { int N; vector[N] x; vector[N] y; }
parameters { real a; real<lower=0> s; }
transformed parameters { vector[N] mu = a * x; }
model { a ~ normal(3, 2); s ~ lognormal(0.5, 0.4); y ~ normal(mu, s); }
generated quantities {
  vector[N] y_rep; vector[N] log_lik;
  for (i in 1:N) { y_rep[i] = normal_rng(mu[i], s); log_lik[i] = normal_lpdf(y[i] | mu[i], s); }
}
"""
X = np.array([1.0, -2.0, 10.0])
DATA = {"N": 3, "x": X, "y": [30.0, -61.0, 299.0]}
NOTHING = {"N": 0, "x": [], "y": []}
LABELS = {"dims": {"mu": ["unit"], "y_rep": ["unit"]}, "coords": {"unit": ["p", "q", "r"]}}
RUN = {"chains": 2, "seed": 3, "iter_warmup": 60, "iter_sampling": 40}
target = shared_target(CODE, DATA, **LABELS)


def drawn(target, sampler="nuts", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = sa.sample(target, sampler, **RUN, **options)
        return sa.add_prior(fit, target, NOTHING)


@pytest.fixture(scope="module")
def fit(target):
    return drawn(target)


def test_the_prior_is_that_of_the_program_at_the_observations(fit):
    prior = results.dataset(fit, "prior")
    a, s = prior["a"].values, prior["s"].values
    ess = float(np.asarray(results.arviz_module().ess(a)))
    assert ess > 300.0
    assert a.mean() == pytest.approx(3.0, abs=5.0 * 2.0 / np.sqrt(ess))
    assert a.std() == pytest.approx(2.0, rel=5.0 / np.sqrt(2.0 * ess))
    assert np.median(s) == pytest.approx(np.exp(0.5), rel=5.0 * 1.25 * 0.4 / np.sqrt(300.0))
    # a posterior far out in the prior
    assert results.dataset(fit, "posterior")["a"].values.mean() > 5.0
    predicted = results.dataset(fit, "prior_predictive")["y"]
    prior = results.dataset(fit, "prior")
    assert predicted.dims == ("chain", "draw", "unit")
    assert list(predicted["unit"].values) == ["p", "q", "r"]
    # named for y_rep only: ArviZ 1.x wants the same of the observations
    assert results.dataset(fit, "observed_data")["y"].dims == ("unit",)
    np.testing.assert_allclose(prior["mu"].values, prior["a"].values[..., None] * X, rtol=1e-12)
    noise = (predicted.values - prior["mu"].values) / prior["s"].values[..., None]
    assert noise.std() == pytest.approx(1.0, rel=5.0 / np.sqrt(2.0 * noise.size))
    assert "log_likelihood" in results.group_names(fit)
    assert "log_likelihood" not in results.dataset(fit, "prior")
    assert "acceptance_rate" in results.dataset(fit, "sample_stats_prior")


def test_the_prior_changes_no_draw_and_is_kept_in_a_file(target, fit, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        without = sa.sample(target, "nuts", **RUN)
    assert_same_draws(without, fit, ("posterior", "posterior_predictive"))
    loaded = sa.load(sa.save(fit, tmp_path / "fit.nc"))
    for other in (loaded, drawn(target)):
        assert_same_draws(fit, other, ("prior", "prior_predictive"))


def test_a_prior_at_the_hot_end_keeps_the_coordinates_of_the_program(target):
    plan = make_plan(
        chains=2, parallel_chains=1, iter_warmup=500, iter_sampling=500, thin=1, seed=1,
        save_warmup=False, show_progress=False,
    )  # fmt: skip
    given, sampler = GivenStart(options={"prior_data": NOTHING}), find("parallel_tempering")[0]
    assert choose_coordinates(None, target, sampler, plan, given).kind == NO


def test_priors_that_fail_or_take_long_cost_no_draw(target):
    fit, broken = sa.sample(target, "nuts", **RUN), copy.copy(target)
    nowhere = "parameters { real a; } model { target += negative_infinity(); }"
    broken.with_prior_data = lambda data: sa.Target(nowhere, unsafe=True)
    with warns("prior_not_drawn", "initialization failed"):
        sa.add_prior(fit, broken, NOTHING)
    assert results.dataset(fit, "posterior").sizes["draw"] == 40
    assert "prior" not in results.group_names(fit)
    assert not {"prior_data_hash", "prior_verdict"} & set(fit.attrs)
    assert "initialization failed" in fit.attrs["notes"]
    assert "prior_not_drawn" in fit.attrs["note_codes"]
    fit, seen = sa.sample(target, "nuts", **RUN), []
    with warns("prior_not_drawn", "the time limit"):
        sa.add_prior(fit, target, NOTHING, max_minutes=1e-9)
    with warns("prior_not_drawn", "the progress function"):
        sa.add_prior(fit, target, NOTHING, show_progress=lambda state: seen.append(1) or True)
    assert seen == [1]
    assert "prior" not in results.group_names(fit)
    assert results.dataset(fit, "posterior").sizes["draw"] == 40


@pytest.mark.parametrize("quantities", [True, False])
def test_transformed_parameters_may_throw_at_draws_of_the_prior(quantities):
    """A covariance under data without observations is empty, and that of the posterior is not."""
    code = """
    data { int N; vector[N] x; vector[N] y; }
    parameters { real a; real<lower=0> c; }
    transformed parameters {
      matrix[N, N] L = cholesky_decompose(add_diag(rep_matrix(c, N, N), 1 - c));
    }
    model { a ~ normal(0, 1); c ~ exponential(1); y ~ multi_normal_cholesky(rep_vector(a, N), L); }
    """
    code += "generated quantities { real z = normal_rng(a, 1); }" if quantities else ""
    target = sa.Target(code, DATA | {"y": [0.5, -1.0, 0.3]})
    fit = sa.sample(target, "rwm", **RUN)
    with warns("failed_quantities", "Matrix m is not positive definite"):
        sa.add_prior(fit, target, NOTHING)
    drawn = results.dataset(fit, "prior")
    failed = drawn["c"].values >= 1.0
    assert f"{failed.sum()} of {failed.size} draws of the prior" in fit.attrs["notes"]
    assert failed.any()
    np.testing.assert_array_equal(np.isnan(drawn["L"].values[..., 0, 0]), failed)
    assert np.isfinite(drawn["a"]).all()
    if quantities:
        np.testing.assert_array_equal(np.isnan(drawn["z"]), failed)


def test_an_improper_prior_is_reported():
    target = sa.Target(
        "data { int n; vector[n] y; } parameters { real m; } model { y ~ normal(m, 1); }",
        {"n": 2, "y": [1.0, 2.0]},
    )  # fmt: skip
    fit = sa.sample(target, "nuts", **RUN)
    with warns("prior_not_drawn"):
        sa.add_prior(fit, target, {"n": 0, "y": []})


def test_arviz_plots_predictions_of_prior_and_posterior(fit):
    arviz = results.arviz_module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(arviz, "plot_ppc_dist"):
            for group in ("posterior_predictive", "prior_predictive"):
                assert arviz.plot_ppc_dist(fit, group=group, backend="matplotlib") is not None
        else:
            for group in ("posterior", "prior"):
                assert arviz.plot_ppc(fit, group=group, num_pp_samples=5) is not None
