"""Programs without parameters: independent draws, with every backend."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers.codes import raises, warns

CODE = """
data { int N; }
generated quantities {
  real mu = normal_rng(3, 2);
  array[N] int y_rep;
  for (n in 1:N) y_rep[n] = poisson_rng(4);
}
"""
NATIVE = pytest.param("cmdstan", marks=pytest.mark.cmdstan)


@pytest.mark.parametrize("backend", ["stanli", NATIVE])
def test_draws_are_independent_and_from_the_program(backend):
    target = sa.Target(CODE, {"N": 2}, backend=backend)
    fit = sa.sample(target, seed=1)
    assert (fit.attrs["verdict"], fit.attrs["verdict_codes"]) == ("fine", '["independent_draws"]')
    mu = results.dataset(fit, "posterior")["mu"].values
    y = results.dataset(fit, "posterior_predictive")["y_rep"]
    assert mu.shape == (4, 1000)
    assert y.dtype == np.int64
    assert mu.mean() == pytest.approx(3.0, abs=5 * 2.0 / np.sqrt(mu.size))
    assert mu.std() == pytest.approx(2.0, rel=5 / np.sqrt(2 * mu.size))
    assert y.values.mean() == pytest.approx(4.0, abs=5 * 2.0 / np.sqrt(y.size))
    standard = (mu - 3.0) / 2.0
    for one, other in ((standard[:, 1:], standard[:, :-1]), (standard[0], standard[1])):
        assert abs(np.mean(one * other)) < 5.0 / np.sqrt(one.size)
    again = sa.sample(target, seed=1, parallel_chains=1)
    np.testing.assert_array_equal(results.dataset(again, "posterior")["mu"], mu)
    other = results.dataset(sa.sample(target, seed=2), "posterior")["mu"].values
    assert not np.any(other == mu)


def test_files_and_tables_of_such_a_fit(tmp_path):
    target = sa.Target(CODE, {"N": 2})
    fit = sa.sample(target, chains=2, iter_sampling=50, seed=1)
    for form in ("netcdf", "cmdstan"):
        loaded = sa.load(sa.save(fit, tmp_path / f"fit{form}", format=form))
        assert loaded.attrs["verdict"] == "fine"
        mu = results.dataset(loaded, "posterior")["mu"]
        np.testing.assert_array_equal(mu, results.dataset(fit, "posterior")["mu"])
    assert "mu" in repr(sa.summary(fit))
    assert "fine" in repr(sa.compare({"simulated": fit}))


def test_predictions_of_programs_without_parameters():
    code = "generated quantities { array[3] int y_rep = {1, 2, poisson_rng(3)}; }"
    fit = sa.sample(sa.Target(code), seed=1)
    assert results.dataset(fit, "posterior")["y_rep"].dtype == np.int64
    target = sa.Target(CODE, {"N": 2})
    fit = sa.sample(target, seed=1)
    for given in ({}, {"target": target}, {"data": {"N": 4}}):
        group = results.dataset(sa.generate(fit, **given), "predictions")
        assert group["y_rep"].shape == (4, 1000, 4 if "data" in given else 2)
    target = sa.Target("generated quantities { real z = log(0); }")
    with warns("failed_quantities", "4000"):
        fit = sa.sample(target, seed=1)
    assert "failed_quantities" in fit.attrs["note_codes"]


def test_what_has_no_meaning_is_refused(tmp_path):
    target = sa.Target(CODE, {"N": 2})
    for given in (
        {"sampler": "nuts"},
        {"inits": 1},
        {"until_mcse": 0.01},
        {"run": tmp_path},
        {"adapt_delta": 0.9},
    ):
        with raises("no_parameters", *given):
            sa.sample(target, **given)
    for function in (sa.stan_nuts, sa.approximate, sa.advise):
        with raises("no_parameters", "independent draws"):
            function(target)
    with raises("out_of_range", "max_minutes"):
        sa.sample(target, max_minutes=np.nan)
    with raises("nothing_to_generate"):
        sa.sample(sa.Target("model { }"))


@pytest.mark.cmdstan
def test_both_backends_know_that_there_is_nothing_to_compare():
    target = sa.Target(CODE, {"N": 1}, backend="cmdstan")
    assert target.density_check == "not compared: no parameters"
