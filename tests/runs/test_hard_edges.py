"""Hard edges without a declared bound: found, named, and no reason to refuse a right fit.

And tails that are not small where numbers end, at a declared bound: a reason to doubt a fit.
"""

import dataclasses

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import codes_of
from stanadapt.runs.hard_edges import ends_of, find_cut_tails, find_edges
from tests.helpers.known_moments import surprise_of_share
from tests.helpers.seldom_parameters import slow_except
from tests.helpers.short_runs import values

pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
# 3e-4 to 5e-4 and 1e6 upward: no step or bound may be in a parameter's own units
TWO_UNITS = """
parameters { real theta; real x; real z; }
model { theta ~ uniform(3e-4, 5e-4); target += exponential_lpdf(x - 1e6 | 1e-5); z ~ normal(0, 1); }
"""
BOX = """
parameters { real theta; real x; real z; }
model { theta ~ uniform(-1, 3); target += exponential_lpdf(x + 2 | 0.05); z ~ normal(0, 1); }
"""
TRIANGLE = """
parameters { vector[2] x; }
model { x ~ uniform(0, 5); target += uniform_lpdf(x[2] - x[1] | 0, 5); }
"""
DECLARED = """
parameters { real<lower=0, upper=1> p; real<lower=2> y; real free; }
model { p ~ beta(2, 3); y ~ exponential(1); free ~ normal(0, 2); }
"""
# the scale of others ends at zero: trajectories end there because it is the neck of a funnel
NECK = """
parameters { real mu; real tau; vector[8] theta; }
model { mu ~ normal(50, 20); tau ~ uniform(0, 15); theta ~ normal(mu, tau); }
"""


def edges(program, draws):
    return {(e.name, e.side): e.value for e in find_edges(sa.Target(program), draws)}


def test_edges_in_any_unit_and_ends_that_are_none():
    rng = np.random.default_rng(1)
    draws = np.column_stack(
        [rng.uniform(3e-4, 5e-4, 400), 1e6 + rng.exponential(1e5, 400), rng.normal(size=400)]
    )
    found = edges(TWO_UNITS, draws)
    assert set(found) == {("theta", "lower"), ("theta", "upper"), ("x", "lower")}
    assert found["theta", "lower"] == pytest.approx(3e-4, abs=1e-9)
    assert found["theta", "upper"] == pytest.approx(5e-4, abs=1e-9)
    assert found["x", "lower"] == pytest.approx(1e6, abs=1.0)
    program = "parameters { real<lower=0> x; } model { target += -log(x); }"
    draws = np.random.default_rng(1).uniform(-100.0, 400.0, (400, 1))
    assert edges(program, draws) == {}
    assert find_cut_tails(sa.Target(program), draws) == ["x"]
    program = "parameters { cholesky_factor_corr[2] L; } model { target += -2 * log(L[2, 2]); }"
    draws = np.random.default_rng(1).uniform(-15.0, 15.0, (400, 1))
    assert edges(program, draws) == {}
    assert find_cut_tails(sa.Target(program), draws) == []


def test_edges_that_depend_on_parameters_or_are_unknown():
    draws = np.sort(np.random.default_rng(1).uniform(0.0, 5.0, (400, 2)), axis=1)
    found = edges(TRIANGLE, draws)
    assert found["x[1]", "lower"] == 0.0
    assert found["x[2]", "upper"] == 5.0
    assert found["x[1]", "upper"] is None
    assert found["x[2]", "lower"] is None
    # as of a matrix in a tuple, of which results have the parts under names of their own
    target, z = sa.Target(MATRICES["L"]), np.random.default_rng(1).normal(size=(400, 1))
    assert find_cut_tails(target, 10.0 * z) == ["L"]
    target.coordinates = [dataclasses.replace(target.coordinates[0], variable="t")]
    assert find_cut_tails(target, 10.0 * z) == []


def test_declared_bounds_and_ends_of_necks_are_no_edges():
    assert edges(DECLARED, np.random.default_rng(1).normal(size=(400, 3))) == {}
    rng = np.random.default_rng(1)
    tau, mu = rng.uniform(0.0, 15.0, 1000), rng.normal(50.0, 20.0, 1000)
    theta = mu[:, None] + tau[:, None] * rng.normal(size=(1000, 8))
    assert ("tau", "lower") not in edges(NECK, np.column_stack([mu, tau, theta]))


def test_an_undeclared_end_of_a_parameter_with_another_bound_is_an_edge_and_no_cut_tail():
    """Its value is that of the parameter, not of the coordinate: 3, not log(3)."""
    program = """
    parameters { real<lower=0> s; real<lower=-1, upper=s> x; real<offset=1, multiplier=2> z;
                 cholesky_factor_corr[2] L; }
    model { s ~ uniform(0, 3); x ~ normal(0, 1); z ~ uniform(0, 4); L ~ lkj_corr_cholesky(2); }
    """
    rng = np.random.default_rng(1)
    s, z = np.log(rng.uniform(0.1, 3.0, 400)), (rng.uniform(0.0, 4.0, 400) - 1.0) / 2.0
    draws = np.column_stack([s, rng.normal(size=400), z, rng.normal(size=400)])
    ends = {("s", "upper"): 3.0, ("z", "lower"): 0.0, ("z", "upper"): 4.0}
    assert edges(program, draws) == pytest.approx(ends, abs=1e-5)
    assert find_cut_tails(sa.Target(program), draws) == []


def test_bounds_that_draws_equal_or_that_are_far_below():
    program = "parameters { real<lower=0, upper=1> p; } model { target += -log1m(p) - log(p); }"
    draws = np.random.default_rng(1).uniform(36.5, 36.7, (400, 1))
    assert edges(program, draws) == {}
    assert find_cut_tails(sa.Target(program), draws) == ["p"]
    # at 0 the density is exp(18) times smaller than at its mode: 1e-8 of the draws are closer
    for declared, ends in (("", {("x", "lower"): 0.0}), ("<upper=20>", {})):
        program = f"parameters {{ real{declared} x; }}"
        program += " model { x ~ normal(6, 1); x ~ uniform(0, 20); }"
        x = np.random.default_rng(1).normal(6.0, 1.0, (400, 1))
        assert edges(program, np.log(20.0 - x) if declared else x) == ends


@pytest.mark.parametrize("sampler", slow_except(["whitened_hmc"], ["whitened_hmc", "nuts"]))
def test_a_right_fit_with_edges_is_fine(sampler):
    # trajectories mix slowly between edges, and NUTS needs twice the draws
    plan = {"iter_sampling": 10_000 if sampler == "nuts" else 5000, "adapt_delta": 0.95}
    fit = sa.sample(sa.Target(BOX), sampler, seed=1, **plan)
    assert fit.attrs["verdict"] == "fine"
    assert "hard_edges" in codes_of(verdict(fit).reasons)
    assert {note.code for note in results.notes(fit)} == set()  # not improper, nothing else failed
    (reason,) = (m for m in verdict(fit).reasons if m.code == "hard_edges")
    for name in ("theta", "x"):
        assert f"{name}: lower" in reason
    # shares below the true quartiles; 12 comparisons: 5 errors by chance in 1 of 1e5
    for name, at in {
        "theta": np.array([0.0, 1.0, 2.0]),
        "x": -2.0 - 20.0 * np.log1p(-np.array([0.25, 0.5, 0.75])),
    }.items():
        for place, share in zip(at, (0.25, 0.5, 0.75), strict=True):
            assert abs(surprise_of_share(values(fit, name), place, share)) < 5.0


@pytest.mark.slow
def test_divergences_in_a_neck_are_not_excused_by_an_edge_elsewhere():
    """A funnel in v whose members are far from the edge of theta: few trajectories end at it."""
    program = """
    parameters { real theta; real v; vector[9] x; }
    model { theta ~ normal(0, 1); target += uniform_lpdf(theta | -3.5, 50);
            v ~ normal(20, 6); x ~ normal(0, exp((v - 20) / 2)); }
    """
    posterior, at_edges, all_of_them = sa.Target(program), 0.0, 0
    for seed in (1, 2, 3, 4):
        fit = sa.sample(posterior, "nuts", seed=seed, iter_sampling=2000)
        reasons = verdict(fit).reasons
        assert "divergences" in codes_of(reasons)
        assert fit.attrs["verdict"] != "fine"
        # those at the edge are not among the number that is named
        diverging = fit["sample_stats"]["diverging"].values
        at_edge = fit.attrs.get("share_at_edges", 0.0) * diverging.size
        (text,) = (m for m in reasons if m.code == "divergences")
        assert text.startswith(f"{round(diverging.sum() - at_edge)} of 8000 draws")
        at_edges, all_of_them = at_edges + at_edge, all_of_them + diverging.sum()
    assert 0.0 < at_edges < 0.5 * all_of_them


def test_edges_cost_two_evaluations_and_are_sought_once():
    normal, points = sa.Target("parameters { vector[50] x; } model { x ~ normal(0, 1); }"), []
    value = normal.value
    normal.value = lambda at: points.append(0) or value(at)
    assert find_edges(normal, np.random.default_rng(1).normal(size=(400, 50))) == []
    assert len(points) <= 2 * 50 + 6  # both sides, and the log density at each draw
    points.clear()
    assert find_cut_tails(normal, np.random.default_rng(1).normal(size=(400, 50))) == []
    assert len(points) <= 6  # none of them has a bound
    target = sa.Target(BOX, backend="stanli")
    fit = sa.sample(target, "nuts", seed=1)
    assert fit.attrs["hard_edges"]
    assert ends_of(target, fit) == {}
    del fit.attrs["hard_edges"]
    assert "theta: lower = -1" in ends_of(target, fit)["hard_edges"]
    fit["sample_stats"]["diverging"] = np.nan * fit["sample_stats"]["diverging"]
    assert ends_of(target, fit) == {}


def test_edges_are_not_sought_without_divergences(monkeypatch):
    def unexpected(*arguments):
        raise AssertionError("edges were sought")

    monkeypatch.setattr("stanadapt.runs.failures.find_edges", unexpected)
    fit = sa.sample(sa.Target(DECLARED), seed=1, trajectory="nuts", adapt_delta=0.99)
    assert fit["sample_stats"]["diverging"].values.sum() == 0
    assert fit.attrs["verdict"] == "fine"
    assert "hard_edges" not in fit.attrs


@pytest.mark.parametrize(
    ("p", "x", "cut"),
    [("-log(p) - log1m(p)", "-log(x)", ["p", "x"]),
     ("beta_lpdf(p | 0.01, 5)", "gamma_lpdf(x | 0.003, 1)", ["x"]),
     ("beta_lpdf(p | 5, 0.05)", "gamma_lpdf(x | 2, 1)", ["p"]),
     ("beta_lpdf(p | 0.5, 0.5)", "gamma_lpdf(x | 0.1, 1)", []),
     ("beta_lpdf(p | 2, 2)", "gamma_lpdf(x | 0.008, 1)", ["x"]),
     ("beta_lpdf(p | 2, 2)", "gamma_lpdf(x | 0.015, 1)", []),
     ("beta_lpdf(p | 2, 2)", "cauchy_lpdf(x | 0, 1)", [])],
)  # fmt: skip
def test_tails_are_cut_off_where_the_density_is_not_small(p, x, cut):
    """1 - 1e-16 is the last number below 1, and 5e-324 the first above 0.

    Beyond them are .16 of beta(5, 0.05), .1 of gamma(0.003, 1) and 3e-3 of gamma(0.008, 1), and
    1e-5 or less of those that are not named.
    """
    program = "parameters { real<lower=0, upper=1> p; real<lower=0> x; real y; }"
    program += f" model {{ target += {p} + {x}; y ~ normal(0, 1); }}"
    logit_p, log_x, y = np.random.default_rng(1).normal(size=(3, 400))
    draws = np.column_stack([15.0 * logit_p, -200.0 * np.abs(log_x), y])
    assert find_cut_tails(sa.Target(program), draws) == cut


HALDANE = "parameters { real<lower=0, upper=1> p; } model { target += -log(p) - log1m(p); }"
# lkj_corr with shape 0 has a density that is improper where the correlation is 1 or -1
MATRICES = {
    "R": "parameters { corr_matrix[2] R; } model { target += -log_determinant(R); }",
    "L": "parameters { cholesky_factor_corr[2] L; } model { target += -2 * log(L[2, 2]); }",
}


@pytest.mark.parametrize("sampler", slow_except(["nuts"], ["auto", "nuts", "rwm"]))
@pytest.mark.parametrize(("name", "program"), [("p", HALDANE), *MATRICES.items()])
def test_a_fit_of_an_improper_prior_between_bounds_is_suspect(sampler, name, program):
    """Haldane's prior: chains mix between the last numbers that differ from the bounds."""
    judged = verdict(sa.sample(sa.Target(program), sampler, seed=1, iter_sampling=2000))
    assert judged.verdict in ("suspect", "do not use")
    (reason,) = (m for m in judged.reasons if m.code == "cut_tail")
    assert f"density of {name} has" in reason


def test_a_proper_prior_of_a_matrix_has_no_cut_tail_and_an_undeclared_bound_in_it_is_none():
    """A fifth of a uniform correlation is below 0.6, where no bound can be declared."""
    program = "parameters { corr_matrix[2] R; } model { R ~ lkj_corr(1); R[1, 2] ~ uniform(%s); }"
    z = np.random.default_rng(1).normal(1.5, 0.3, (400, 1))
    for ends in ("-1, 1", "0.6, 1"):
        target = sa.Target(program % ends)
        assert (find_edges(target, z), find_cut_tails(target, z)) == ([], [])


@pytest.mark.parametrize("other", [False, True])
def test_ends_are_sought_after_nuts_of_stan_and_in_fits_that_record_none(other):
    """Its divergences may have ended at an edge or not: it counts no failed evaluations."""
    for program, code, text in (
        (HALDANE, "cut_tail", "density of p has"),
        (BOX, "hard_edges", "diverged may have ended at hard edges of the density (theta: lower"),
    ):
        target = sa.Target(program, backend="stanli")
        fit = sa.stan_nuts(target, backend="stanli", seed=1)
        if other:
            for name in ("hard_edges", "cut_tails"):
                fit.attrs.pop(name, None)
            assert code not in codes_of(verdict(fit).reasons)
        judged = sa.diagnose(fit, target) if other else verdict(fit)
        assert {code, "divergences"} <= {*codes_of(judged.reasons)}
        assert judged.verdict in ("suspect", "do not use")
        assert text in next(m for m in judged.reasons if m.code == code)
    fit.attrs.pop("hard_edges", None)
    fit.sample_stats["diverging"][:] = False  # without divergences, none are sought
    assert "hard_edges" not in sa.diagnose(fit, target).codes


@pytest.mark.parametrize("backend", ["stanli", pytest.param("cmdstan", marks=pytest.mark.cmdstan)])
def test_parameters_that_bound_another_may_cross(backend):
    """Beyond the edge, where a is above b, there is no c, whose value Stan refuses to compute."""
    program = """
    parameters { real a; real b; real<lower=a, upper=b> c; }
    model { a ~ normal(0, 1); b ~ normal(1, 1); c ~ normal(0.5, 1); }
    """
    target = sa.Target(program, backend=backend)
    noise = np.random.default_rng(1).normal(size=(400, 3))
    draws = noise * [0.45, 0.45, 1.0] + [-1.0, 1.5, 0.0]
    found = [(edge.name, edge.side, edge.value) for edge in find_edges(target, draws)]
    assert found == [("a", "upper", None), ("b", "lower", None)]
    assert find_cut_tails(target, draws) == []
