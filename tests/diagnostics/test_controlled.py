"""Where estimates with control variates show: summary, compare, and the verdict."""

import numpy as np
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.control_variates.agreement import disagreement
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import codes_of
from tests.helpers.stan_target import shared_target

PROGRAM = "parameters { real x; vector[2] y; } model { x ~ normal(3, 2); y ~ normal(x, 1); }"
target = shared_target(PROGRAM)


def fit_of(target, seed):
    """Return a fit with its expectations."""
    fit = sa.sample(target, seed=seed, iter_sampling=500)
    sa.expectations(fit, target).add_to(fit)
    return fit


def test_a_summary_has_the_controlled_means(target):
    fit = fit_of(target, 1)
    table = sa.summary(fit)
    assert abs(table.loc["x", "controlled"] - 3) < 5 * table.loc["x", "mcse_controlled"]
    assert table.loc["x", "mcse_controlled"] < 0.1 * table.loc["x", "mcse_mean"]
    assert "controlled mean" in repr(table)
    plain = sa.sample(target, seed=2, iter_sampling=500)
    assert "controlled" not in sa.summary(plain)
    both = sa.summary({"a": fit, "b": plain})
    assert np.isnan(both.loc[("x", "b"), "controlled"])


def test_a_group_of_this_name_with_other_contents_is_left_alone():
    names = ["mean", "mcse_mean", "sd", "mcse_sd"]
    whole = xr.Dataset({name: ("row", [1.0]) for name in names})  # with no names of quantities
    part = xr.Dataset({"mean": ("quantity", [1.0])}, {"quantity": ["x"]})
    x = np.random.default_rng(1).normal(size=(4, 100))
    for kept in (whole, part):
        fit = results.build({"posterior": {"x": x}}, {})
        results.add_groups(fit, {"expectations": kept})
        assert "controlled" not in sa.summary(fit)


def test_a_small_bias_shows_in_a_comparison(target):
    fits = {"right": fit_of(target, 1), "other": fit_of(target, 2), "biased": fit_of(target, 3)}
    kept = results.dataset(fits["biased"], "expectations")
    biased = kept.assign(mean=kept["mean"] + 0.005 * kept["sd"])
    results.add_groups(fits["biased"], {"expectations": biased})
    table = sa.compare(fits, "right")
    assert table.loc["other", "z_mean"] < 4
    assert table.loc["biased", "z_mean"] > 6
    assert "control variates: right, other, biased" in repr(table).replace("\n", " ")


def two_modes(share, count, rng):
    left, right = rng.normal(-1.5, 1, count), rng.normal(1.8, 0.8, count)
    return np.where(rng.random(count) < share, left, right)


def test_a_chain_with_other_weights_of_two_modes_is_seen():
    """R-hat is about 1.003."""
    rng = np.random.default_rng(3)
    for share, differs in ((0.4, False), (0.52, True)):
        x = np.stack([two_modes(w, 1000, rng) for w in (0.4, 0.4, share, 0.4)])
        left = 0.4 * np.exp(-0.5 * (x + 1.5) ** 2)
        right = 0.6 / 0.8 * np.exp(-0.5 * ((x - 1.8) / 0.8) ** 2)
        gradient = -(left * (x + 1.5) + right * (x - 1.8) / 0.64) / (left + right)
        name, errors, p = disagreement(x[..., None], gradient[..., None], {"x": x})
        assert (name, p < 1e-3) == ("x", differs)
    assert errors > 3


def test_the_verdict_remarks_on_chains_that_differ(target):
    fit = sa.sample(target, seed=1, save="gradient")
    assert "chains_differ" not in codes_of(verdict(fit).reasons)
    x = fit.posterior["x"].values
    x[0] += 0.1 * x.std()
    judged = verdict(fit)
    assert judged.verdict == "fine"
    assert "chains_differ" in codes_of(judged.reasons)
