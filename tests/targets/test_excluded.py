"""Computed quantities that are excluded from the draws of our samplers and of Stan's NUTS."""

import copy

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.runs.resume import resume
from stanadapt.targets.stan import backends
from tests.helpers.codes import raises

# short runs reach far out
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
CODE = """
data { int N; vector[N] y; }
parameters { real m; real<lower=0> s; }
transformed parameters { vector[N] mu = rep_vector(m, N); real t = 2 * m; }
model { m ~ normal(0, 5); s ~ exponential(1); y ~ normal(mu, s); }
generated quantities { vector[N] y_rep; for (i in 1:N) y_rep[i] = normal_rng(mu[i], s); }
"""
DATA = {"N": 4, "y": [1.0, 2.0, 3.0, 4.5]}
RUN = {"chains": 2, "iter_warmup": 60, "iter_sampling": 30, "seed": 1}


def make(**options):
    return sa.Target(CODE, DATA, **options)


def run(target, draw=sa.sample, **options):
    return draw(target, **RUN, **options)


@pytest.mark.parametrize("draw", [sa.sample, sa.stan_nuts])
def test_other_quantities_do_not_change(draw, tmp_path):
    options = {"backend": "stanli"} if draw is sa.stan_nuts else {"sampler": "nuts"}
    whole = run(make(), draw, **options)
    small = run(make(exclude=["mu", "y_rep"]), draw, **options)
    assert set(results.dataset(small, "posterior").data_vars) == {"m", "s", "t"}
    assert "posterior_predictive" in results.group_names(whole)
    assert "posterior_predictive" not in results.group_names(small)
    for name in ("m", "s", "t"):
        values = results.dataset(whole, "posterior")[name]
        np.testing.assert_array_equal(values, results.dataset(small, "posterior")[name])


def test_copies_and_other_data_leave_them_out_too(monkeypatch, tmp_path):
    target = make(exclude="y_rep")
    assert copy.deepcopy(target).column_names == target.column_names
    run(target, sampler="nuts", run=tmp_path / "run")
    fit = resume(tmp_path / "run")
    assert set(results.dataset(fit, "posterior").data_vars) == {"m", "s", "mu", "t"}
    assert "posterior_predictive" not in results.group_names(fit)
    known, bound, load = make(exclude=["mu", "t"]), [], backends.load_first
    monkeypatch.setattr(backends, "load_first", lambda *a: bound.append(a) or load(*a))
    other = known.with_data({"N": 0, "y": []})
    assert len(bound) == 1  # large data are not read twice
    assert other.exclude == ("t",)
    assert other.column_names == ["m", "s"]


@pytest.mark.parametrize(
    ("name", "facts"), [("m", ["parameter", "mu, t, y_rep"]), ("yrep", ["program"])]
)
def test_wrong_names(name, facts):
    with raises("invalid_exclude", repr(name), *facts):
        make(exclude=[name])
