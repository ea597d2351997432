"""`approximate` on Stan programs: results, their verdicts and weights, and bad input."""

import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.importance import largest_usable, meaning
from stanadapt.diagnostics.verdict import verdict as judge_fit
from stanadapt.errors import StanadaptError, codes_of
from stanadapt.samplers.variational.methods import gaussians_of
from stanadapt.studies.approximate.importance_draws import Draws, describe_draws
from tests.helpers import noisy_program
from tests.helpers.codes import raises, raises_in, warns
from tests.helpers.command_line import call, files
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.stan_target import shared_target

__all__ = ["files"]  # a fixture

# unequal scales, a constraint, a correlation, and quantities
PROGRAM = """
parameters { real<lower=0> s; vector[2] x; }
transformed parameters { real doubled = 2 * s; }
model {
  s ~ lognormal(2, 0.5);
  x[1] ~ normal(3e4, 1e4);
  x[2] ~ normal(x[1] * 1e-8, 1e-4);
}
generated quantities { real y = normal_rng(x[1], 1); }
"""
MEAN, SD = np.array([2.0, 3e4, 3e-4]), np.array([0.5, 1e4, np.sqrt(2) * 1e-4])
METHODS = [("pathfinder", {}), ("pathfinder", {"paths": 1}), ("advi", {}), ("laplace", {})]
FUNNEL = """
parameters { real v; vector[5] x; }
model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }
"""
target = shared_target(PROGRAM)


def approximated(target, method="pathfinder", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sa.approximate(target, method, **{"seed": 1, **options})


@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_every_method_finds_a_gaussian_posterior(target, method, settings):
    """It is Gaussian on the unconstrained scale, Jacobian included: log s is normal(2, 0.5)."""
    fit = approximated(target, method, draws=4000, save="unconstrained", **settings)
    x = fit["unconstrained_posterior"]["position"].values[0]
    assert x.shape == (4000, 3)
    # 4000 independent draws: errors 0.016 and 0.011 sd, a little more after resampling; five
    np.testing.assert_allclose((x.mean(axis=0) - MEAN) / SD, 0.0, atol=0.1)
    np.testing.assert_allclose(x.std(axis=0) / SD, 1.0, atol=0.1)
    assert np.corrcoef(x[:, 1], x[:, 2])[0, 1] == pytest.approx(np.sqrt(0.5), abs=0.06)
    posterior = fit["posterior"]
    np.testing.assert_allclose(np.log(posterior["s"].values[0]), x[:, 0], rtol=1e-10)
    np.testing.assert_allclose(posterior["doubled"].values, 2 * posterior["s"].values)
    assert np.std(posterior["y"].values - posterior["x"].values[..., 0]) == pytest.approx(
        1, abs=0.1
    )
    assert fit.attrs["verdict"] == "fine"
    assert fit.attrs["pareto_k"] < 0.7
    fit = approximated(sa.Target("parameters { real x; } model { x ~ normal(3e6, 2e-3); }"), method,
                draws=500, **settings)  # fmt: skip
    x = fit["posterior"]["x"].values
    assert np.abs(x.mean() - 3e6) < 5 * 2e-3 / np.sqrt(200)
    assert x.std() == pytest.approx(2e-3, rel=0.25)


@pytest.mark.parametrize(("method", "settings"), METHODS)
def test_a_result_describes_itself(target, method, settings):
    fit = approximated(target, method, draws=50, save="unconstrained", **settings)
    assert fit.attrs["exact"] == 0
    assert fit.attrs["sampler"] == method
    assert fit.attrs["pareto_k_meaning"] == meaning(
        fit.attrs["pareto_k"], fit.attrs["pareto_k_draws"]
    )
    assert fit.attrs["n_gradients"] > 0
    stats = fit["sample_stats"]
    parts = gaussians_of(fit)
    assert len(parts) == {"pathfinder": settings.get("paths", 4)}.get(method, 1)
    positions = fit["unconstrained_posterior"]["position"].values[0]
    np.testing.assert_allclose(stats["lp"].values[0], [target.value(x) for x in positions])
    mixture = np.logaddexp.reduce([q.log_density(positions) for q in parts]) - np.log(len(parts))
    np.testing.assert_allclose(stats["lp_approx"].values[0], mixture, rtol=1e-6)


def test_approximations_have_a_trace_a_seed_and_give_starts(target):
    for method in ("pathfinder", "advi"):
        fit = approximated(target, method)
        elbo = fit["approximation"]["elbo"].values
        assert fit.attrs["highest_elbo"] == pytest.approx(np.nanmax(elbo))
        assert np.nanmax(elbo[0]) > elbo[0, 0]
    one, two, other = (approximated(target, seed=s)["posterior"]["x"].values for s in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    draw(target, inits=approximated(target))


def test_a_saved_approximation_is_the_same(target, tmp_path):
    fit = approximated(target)
    again = sa.load(sa.save(fit, tmp_path / "fit.nc"))
    for one, two in zip(gaussians_of(fit), gaussians_of(again), strict=True):
        np.testing.assert_array_equal(one.factor, two.factor)
    assert judge_fit(again) == judge_fit(fit)
    with raises_in("settings"):
        gaussians_of(draw(target))


def draw(target, **options):
    return sa.sample(
        target, "nuts", chains=2, iter_warmup=30, iter_sampling=30, seed=1,
        **{"inits": "pathfinder", **options},
    )  # fmt: skip


def test_weights_correct_and_paths_are_chosen_by_them():
    """Laplace's Gaussian for an exponential variable lies too far out on the log scale."""
    code = "parameters { real<lower=0> s; } model { s ~ exponential(0.01); }"
    fit = approximated(sa.Target(code), "laplace", draws=4000)
    s = fit["posterior"]["s"].values[0]
    weight = np.exp(fit["sample_stats"]["log_weight"].values[0])
    assert weight.sum() == pytest.approx(1.0, rel=1e-6)
    assert s.mean() > 130
    # sd of the weighted mean: 100 over the root of some 1000 effective draws
    assert np.sum(weight * s) == pytest.approx(100.0, abs=15)
    # climbs reach two normals alike that have 0.3 and 0.7 of the mass, and widths 0.5 and 2
    code = """
    parameters { real x; }
    model { target += log_mix(0.3, normal_lpdf(x | -8, 0.5), normal_lpdf(x | 8, 2)); }
    """
    fit = approximated(sa.Target(code), paths=12, draws=4000, seed=2, inits=15)
    parts = gaussians_of(fit)
    left = sum(q.location[0] < 0 for q in parts)
    assert 0 < left < 12
    # the share of 4000 weighted draws: five standard errors, times sqrt(2) for the weights
    share = np.mean(fit["posterior"]["x"].values < 0)
    assert share == pytest.approx(0.3, abs=0.06)


def test_limits_of_k_and_poor_approximations():
    assert largest_usable(1000) == pytest.approx(2 / 3)
    assert largest_usable(10**6) == 0.7
    texts = {k: meaning(k, 4000) for k in (0.2, 0.6, 0.9)}
    assert len(set(texts.values())) == 3
    assert all(str(k) in text for k, text in texts.items())
    assert "log_weight" in texts[0.6]
    target = sa.Target(FUNNEL)
    with pytest.warns(sa.ConvergenceWarning):
        fit = sa.approximate(target, "laplace", seed=1)
    assert fit.attrs["verdict"] == "do not use"
    assert fit.attrs["pareto_k"] > 0.7
    verdict, reasons = judge_fit(fit)
    assert verdict == "do not use"
    assert f"{fit.attrs['pareto_k']:.2f}" in reasons[0]


def test_compare_lists_it_as_not_exact(target):
    fit = draw(target)
    table = sa.compare({"nuts": fit, "rough": approximated(target)}, baseline="nuts")
    assert np.isnan(table.loc["rough", "ess_bulk_min"])
    assert np.isnan(table.loc["rough", "ess_per_gradient"])
    assert np.isfinite(table.loc["rough", "z_mean"])
    assert table["exact"].to_dict() == {"nuts": True, "rough": False}
    (remark,) = table.attrs["trajectories"]
    assert "rough" in remark
    assert "pathfinder" in remark


def draws_with(**changes):
    positions = np.zeros((10, 2))
    fixed = {"pareto_k": 0.9, "judged": 1000, "distinct": 10, "failed": 0}
    return Draws(positions, *[np.zeros(10)] * 3, **{**fixed, **changes})


@pytest.mark.parametrize(("parts", "changes", "codes"), [
    (3, {}, []), (3, {"failed": 17}, ["draws_without_density"]),
    (3, {"distinct": 4}, ["few_distinct_draws"]), (3, {"distinct": 4, "pareto_k": 0.2}, []),
    (1, {"distinct": 4}, []),
])  # fmt: skip
def test_notes_on_draws(parts, changes, codes):
    notes = describe_draws(draws_with(**changes), parts)
    assert codes_of(notes) == codes
    for note, (_, value) in zip(notes, changes.items(), strict=False):
        assert str(value) in note


def test_chains_start_at_draws_of_pathfinder(target):
    """From there NUTS moves at once; from its usual starts, x[2] is 1e4 sd away."""
    fit = sa.sample(
        target, "nuts", chains=4, iter_warmup=0, iter_sampling=1, seed=1, inits="pathfinder",
        save="unconstrained", step_size=1e-12,
    )  # fmt: skip
    x = fit["unconstrained_posterior"]["position"].values[:, 0]
    assert np.all(np.abs(x - MEAN) < 6 * SD)
    assert np.all(np.std(x, axis=0) > 0.05 * SD)


@pytest.mark.parametrize("sampler", ["rwm", "gad_mala", "whitened_hmc"])
def test_every_kind_of_sampler_takes_them(target, sampler):
    fit = sa.sample(
        target, sampler, chains=2, iter_warmup=60, iter_sampling=20, seed=1, inits="pathfinder",
    )  # fmt: skip
    assert fit.attrs["sampler"] == sampler


def refused(stage, *facts, code=PROGRAM, method="pathfinder", **options):
    """Expect an error of a stage that names these facts; codes of methods are tested with them."""
    target = code if isinstance(code, sa.Target) else sa.Target(code)
    with raises_in(stage, *facts) as caught:
        approximated(target, method, **options)
    return caught.value


@pytest.mark.parametrize("method", ["Pathfinder", "path finder", None, 3])
def test_a_method_that_is_misspelled(method):
    refused("settings", "pathfinder", "advi", "laplace", repr(method), method=method)


@pytest.mark.parametrize(("method", "settings", "facts"), [
    ("pathfinder", {"path": 3}, ["'path'", "paths", "history"]),
    ("pathfinder", {"history": 0}, ["history", "1", "0"]),
    ("advi", {"algorithm": "full"}, ["algorithm", "fullrank", "meanfield", "'full'"]),
    ("advi", {"learning_rate": 2}, ["learning_rate", "0", "1", "2"]),
    ("laplace", {"draws": 0}, ["draws", "1", "0"]), ("laplace", {"seed": -1}, ["seed", "-1"]),
    ("laplace", {"save": "pseudo"}, ["save", "'unconstrained'", "'pseudo'"]),
])  # fmt: skip
def test_settings_out_of_range(method, settings, facts):
    refused("settings", *facts, method=method, **settings)


def test_densities_that_are_estimated_or_flat():
    target = sa.Target(noisy_program.PROGRAM, {"M": 3, "s": 1.0}, noise="u")
    with raises("estimated_density", "advi", "noise u"):
        approximated(target, "advi")
    with pytest.raises(StanadaptError) as caught:
        sa.sample(target, "rwm", inits="pathfinder")
    assert "pathfinder" in caught.value.message
    code = "parameters { real x; real y; } model { x + y ~ normal(0, 1); }"
    refused("sampling", "x, y", code=code, method="laplace")
    assert approximated(sa.Target(code)).attrs["verdict"] == "do not use"
    with warns("flat_coordinate", "in y"):
        sa.approximate(
            sa.Target("parameters { real x; real y; } model { x ~ normal(0, 1); }"), seed=1,
        )  # fmt: skip


@pytest.mark.parametrize(("method", "settings"), METHODS)
@pytest.mark.filterwarnings(r"ignore:.*\[nothing_compared\]")
def test_no_finite_density(method, settings):
    code = "parameters { real x; } model { target += log(-1 - x^2); }"
    refused("initialization", code=code, method=method, **settings)


@pytest.mark.parametrize(("method", "settings"), slow_except(METHODS[:1], METHODS))
def test_an_improper_posterior(method, settings):
    code = "parameters { real x; } model { target += x; }"
    refused("sampling", code=code, method=method, **settings)


def test_approximations_on_the_command_line(files):
    printed = call("approximate", "my.stan", "--data", "my.json", "--method", "advi", "--set",
                   "algorithm=meanfield", "--set", "iterations=300", "--seed", 1, "--quiet",
                   "--out", "a.nc")  # fmt: skip
    assert "fine" in printed
    assert "a.nc" in printed
    fit = sa.load("a.nc")
    assert fit["posterior"]["x"].values.mean() == pytest.approx(3.0, abs=0.2)
    assert '"iterations": 300' in fit.attrs["settings"]
    assert "1 x 1,000" in call("diagnose", "a.nc")
    call("sample", "my.stan", "--data", "my.json", "--inits", "pathfinder", "--sampler", "nuts",
         "--iter-warmup", 30, "--iter-sampling", 20, "--quiet", "--out", "b.nc")  # fmt: skip
