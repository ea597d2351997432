"""Modes with and without the Jacobian: exact ones, CmdStan's, and densities without any."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import codes_of
from tests.helpers.codes import raises

CODE = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; simplex[3] p; }
transformed parameters { real v = s^2; }
model { y ~ normal(mu, s); p ~ dirichlet([3, 4, 5]'); }
generated quantities { real z = normal_rng(mu, s); int k = 4; real g = 3 * mu; }
"""
Y = np.array([1.0, 2.0, 3.0, 4.0, 6.0])
DATA = {"N": Y.size, "y": Y}
NATIVE = pytest.param("cmdstan", marks=pytest.mark.cmdstan)


def found(code, data=None, backend="stanli", **options):
    target = sa.Target(code, data, backend=backend)
    return sa.optimize(target, **{"seed": 1, **options})


def notes(optimum):
    return codes_of(optimum.attrs["messages"])


@pytest.mark.parametrize("backend", ["stanli", NATIVE])
@pytest.mark.parametrize("jacobian", [False, True])
def test_modes_and_curvature_are_exact(backend, jacobian):
    table = found(CODE, DATA, backend, jacobian=jacobian)
    n, squares = Y.size, np.sum((Y - Y.mean()) ** 2)
    variance = squares / (n - jacobian)  # the Jacobian of s adds log s
    p = (np.array([2.0, 3.0, 4.0]) + jacobian) / (9.0 + 3.0 * jacobian)
    assert table.loc["mu", "mode"] == pytest.approx(Y.mean(), abs=1e-6)
    assert table.loc["s", "mode"] == pytest.approx(np.sqrt(variance), rel=1e-6)
    assert table.loc["v", "mode"] == pytest.approx(variance, rel=1e-6)
    np.testing.assert_allclose(table["mode"][["p[1]", "p[2]", "p[3]"]], p, rtol=1e-5)
    assert table.loc["mu", "sd"] == pytest.approx(np.sqrt(variance / n), rel=1e-4)
    # minus the second derivative by log s is 2 sum / s^2
    of_s = np.sqrt(variance / (2.0 * (n - jacobian)))
    assert table.loc["s", "sd"] == pytest.approx(of_s, rel=1e-4)
    assert table.loc["v", "sd"] == pytest.approx(2.0 * np.sqrt(variance) * of_s, rel=1e-4)
    assert np.isnan(table.loc["z"]).all()  # random
    assert table.loc["g", "sd"] == pytest.approx(3.0 * table.loc["mu", "sd"], rel=1e-6)
    assert table.loc["k", "mode"] == 4.0
    assert notes(table) == []
    assert np.ptp(table.attrs["ends"]) < 1e-6
    assert f"{'with' if jacobian else 'without'} Jacobian" in repr(table)


@pytest.mark.cmdstan
@pytest.mark.slow
def test_cmdstan_finds_the_same_mode(tmp_path):
    cmdstanpy = pytest.importorskip("cmdstanpy")
    (tmp_path / "m.stan").write_text(CODE)
    model = cmdstanpy.CmdStanModel(stan_file=tmp_path / "m.stan")
    data = {"N": Y.size, "y": Y.tolist()}
    theirs = model.optimize(data=data, seed=1, sig_figs=12, algorithm="lbfgs", tol_rel_grad=1e-3)
    ours = found(CODE, DATA, "cmdstan")
    for name in ("mu", "s", "p[1]", "v"):
        their = theirs.optimized_params_pd[name][0]
        assert ours.loc[name, "mode"] == pytest.approx(their, rel=1e-3)
    lp = float(theirs.optimized_params_pd["lp__"][0])
    assert ours.attrs["log_density"] == pytest.approx(lp, abs=1e-4)


def test_modes_with_jacobian_and_starts_that_disagree():
    target = sa.Target(CODE, DATA)
    fit = sa.approximate(target, "laplace", seed=1)
    center = fit["approximation"]["location"].values[0]
    optimum = sa.optimize(target, jacobian=True, seed=3)
    np.testing.assert_allclose(optimum.attrs["position"], center, atol=1e-5)
    np.testing.assert_allclose(target.unconstrain(optimum.parameters), center, atol=1e-5)
    code = """parameters { real x; } model {
      target += log_mix(0.3, normal_lpdf(x | -5, 1), normal_lpdf(x | 5, 1)); }"""
    table = found(code, inits=[{"x": -4}, {"x": 4}, {"x": -6}, {"x": 1}])
    assert table.loc["x", "mode"] == pytest.approx(5.0, abs=1e-6)
    assert notes(table) == ["several_optima"]
    assert "2 of 4" in repr(table)
    # fifty repeats of a count with mean 1/100 are alike more often than not
    code = """parameters { real x; } model { x ~ std_normal(); }
    generated quantities { array[2] int k; for (i in 1:2) k[i] = poisson_rng(0.01); int n = 2; }"""
    table = found(code)
    assert table["mode"][["k[1]", "k[2]"]].isna().all()
    assert table.loc["n", "mode"] == 2.0


@pytest.mark.parametrize(
    ("code", "data", "named"),
    [
        ("data { int J; vector[J] y; } parameters { real<lower=0> tau; vector[J] th; } "
         "model { th ~ normal(0, tau); y ~ normal(th, 1); }",
         {"J": 4, "y": [1.0, 2.0, 0.0, -1.0]}, "tau"),
        ("data { int N; array[N] int y; vector[N] x; } parameters { real b; } "
         "model { y ~ bernoulli_logit(b * x); }",
         {"N": 4, "y": [0, 0, 1, 1], "x": [-2, -1, 1, 2]}, "b"),
        ("parameters { real a; real b; } model { a ~ std_normal(); }", None, "b"),
        ("parameters { real a; } model { target += a^2 - 3; }", None, "a"),
    ],
)  # fmt: skip
def test_densities_without_a_mode_are_told(code, data, named):
    table = found(code, data, starts=2)
    assert notes(table)[0] == "no_optimum"
    assert table["sd"].isna().all()
    assert f"{named} = " in table.attrs["messages"][0]


def test_wrong_arguments_are_refused():
    noisy = "parameters { real a; real u; } model { a ~ normal(u, 1); u ~ std_normal(); }"
    with raises("estimated_density", "optimize"):
        sa.optimize(sa.Target(noisy, noise="u"))
    with raises("no_parameters"):
        sa.optimize(sa.Target("generated quantities { real x = 1; }"))
    with raises("not_a_target"):
        sa.optimize(json)
    with raises("not_a_flag", "jacobian"):
        found("parameters { real a; } model { a ~ std_normal(); }", jacobian="no")


@pytest.mark.parametrize(("density", "sd", "code"), [
    ("x ~ double_exponential(1.5, 1)", np.nan, ["no_curvature"]),
    ("target += -(x - 1)^4", np.nan, ["no_curvature"]), ("x ~ normal(1e8, 1e-3)", 1e-3, []),
    ("x ~ student_t(3, -2, 50)", 50 * np.sqrt(3 / 4), []),
])  # fmt: skip
def test_standard_deviations_are_right_or_unknown(density, sd, code):
    table = found(f"parameters {{ real x; }} model {{ {density}; }}")
    assert notes(table) == code
    assert table.loc["x", "sd"] == pytest.approx(sd, rel=1e-3, nan_ok=True)


@pytest.mark.parametrize(
    ("declared", "density", "options", "told"),
    [
        ("real<lower=0, upper=1> x", "x ~ beta(1, 3)", {}, "bound of x"),
        ("real<lower=0> x", "x ~ exponential(1)", {}, "bound of x"),
        ("real x; real y", "target += -100 * (y - x^2)^2 - (1 - x)^2",
         {"max_iterations": 1, "inits": [{"x": -2, "y": 9}]}, "max_iterations"),
        ("real x", "target += x", {}, "no maximum"),
    ],
)  # fmt: skip
def test_why_there_is_no_mode_is_told(declared, density, options, told):
    starts = len(options.get("inits", "four"))
    code = f"parameters {{ {declared}; }} model {{ {density}; }}"
    table = found(code, starts=starts, **options)
    assert notes(table)[0] == "no_optimum"
    assert told in table.attrs["messages"][0]
    assert np.isnan(table.loc["x", "mode"]) == (told == "no maximum")
