"""A saved fit holds its program and its data, and integers stay integers, in every format."""

import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.results.attributes import LARGEST_DATA
from stanadapt.targets.stan.program import Program
from tests.helpers.short_runs import assert_same_draws
from tests.helpers.stan_target import shared_target

CODE = """
data { int N; vector[N] y; }  // "=" and (Default) in a comment
parameters { real mu; }
model { mu ~ normal(0, 2); y ~ normal(mu, 1); }
generated quantities {
  array[N] int y_rep;
  real z = normal_rng(mu, 1);
  array[2, 2] int table = {{1, 2}, {3, 4}};
  for (n in 1:N) { int once = 2; y_rep[n] = once * poisson_rng(exp(mu)); }
  int<lower=0> last = y_rep[N];
}
"""
INTEGERS = ("y_rep", "table", "last")
DATA = {"N": 3, "y": [1.0, 0.1, 2.0]}
RUN = {"seed": 1, "chains": 2, "iter_warmup": 60, "iter_sampling": 30}


def drawn(target, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short runs
        return sa.sample(target, "rwm", **RUN, **options)


target = shared_target(CODE, DATA)


@pytest.fixture(scope="module")
def fit(target):
    return drawn(target)


def read_back(fit, target, form, folder):
    if form == "run":
        drawn(target, run=folder / "run")
        return sa.load(folder / "run")
    return sa.load(sa.save(fit, folder / f"fit{form}", format=form))


@pytest.mark.parametrize("form", ["netcdf", "zarr", "cmdstan", "run"])
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_every_format_holds_program_data_and_integers(fit, target, form, tmp_path):
    if form == "zarr":
        pytest.importorskip("zarr")
    loaded = read_back(fit, target, form, tmp_path)
    assert loaded.attrs["program"] == CODE
    assert loaded.attrs["data"] == target.data
    assert loaded.attrs["program_hash"] == target.program.hash
    assert loaded.attrs["data_hash"] == target.data_hash
    assert_same_draws(fit, loaded, ["posterior"])
    predicted = results.dataset(loaded, "posterior_predictive")
    kinds = {**results.dataset(loaded, "posterior"), **predicted}
    assert kinds["y_rep" if form == "cmdstan" else "y"].dtype == np.int64
    assert kinds["table"].dtype == kinds["last"].dtype == np.int64
    assert kinds["z"].dtype == kinds["mu"].dtype == np.float64


def test_integers_are_declared_at_the_top_level_and_finite():
    assert Program("p", CODE, None, ()).integers == INTEGERS
    old = "generated quantities { int y_rep[N]; if (1) { int a; } { int c; } int d, e; }"
    assert Program("p", old, None, ()).integers == ("y_rep", "d", "e")
    columns = results.variables(["k.1", "k.2", "m"], np.array([[[1.0, np.nan, 2.0]]]), ["k", "m"])
    assert columns["k"].dtype == np.float64
    assert columns["m"].dtype == np.int64


def test_large_data_are_stored_as_arrays_alone():
    many = LARGEST_DATA // 4
    code = "data { int N; array[N] int x; } parameters { real a; } model { a ~ std_normal(); }"
    data = {"N": many, "x": np.arange(many)}
    fit = drawn(sa.Target(code, data))
    assert "data" not in fit.attrs
    np.testing.assert_array_equal(results.dataset(fit, "constant_data")["x"], data["x"])


def test_arviz_draws_a_histogram_of_integers(fit):
    arviz = results.arviz_module()
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(arviz, "plot_ppc_dist"):
            assert arviz.plot_ppc_dist(fit, backend="matplotlib") is not None
        else:
            axes = arviz.plot_ppc(fit, num_pp_samples=5)
            # steps of a histogram are vertical and horizontal; a density has slopes
            x, y = axes.lines[0].get_data()
            assert all((np.diff(x) == 0) | (np.diff(y) == 0))
    pyplot.close("all")
