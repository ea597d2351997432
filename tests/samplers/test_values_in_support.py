"""Inits outside of the support, on its edge or not finite, and inits that were rounded."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.samplers.initial_values import initial_positions
from stanadapt.targets.projection import NEAREST, TOLERANCE
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

CODE = """
parameters { real<lower=0> s; array[2] vector<lower=0, upper=1>[2] b; real x; simplex[3] p; }
model { s ~ exponential(1); x ~ uniform(0, 1); }
"""
INSIDE = {"s": 1.0, "b": [[0.1, 0.2], [0.3, 0.4]], "x": 0.5, "p": [0.2, 0.3, 0.5]}
CONSTRAINED = """
parameters {
  simplex[4] p; array[2] simplex[3] a; unit_vector[3] u; sum_to_zero_vector[3] z;
  sum_to_zero_matrix[2, 3] Z; ordered[3] o; positive_ordered[3] q; cholesky_factor_corr[3] L;
  cholesky_factor_cov[3] K; corr_matrix[3] C; cov_matrix[3] S;
}
model { }
"""
target = shared_target(CODE)
constrained = shared_target(CONSTRAINED)


def start(target, inits):
    return initial_positions(target, inits, [np.random.default_rng(1)])[0]


WRONG = {
    "below": ({"s": -1.0}, ["s = -1", "real<lower=0> s"]),
    "on the edge": ({"s": 0.0}, ["s = 0", "real<lower=0> s"]),
    "an element above": (
        {"b": [[0.1, 0.2], [1.5, 0.4]]},
        ["b[2,1] = 1.5", "array[2] vector<lower=0, upper=1>[2] b"],
    ),
    "an element on the edge": ({"b": [[0.1, 1.0], [0.3, 0.4]]}, ["b[1,2] = 1"]),
    "no number": ({"x": float("nan")}, ["x = nan", "real x"]),
    "infinite": ({"b": [[0.1, 0.2], [0.3, np.inf]]}, ["b[2,2] = inf"]),
    "a simplex on its edge": ({"p": [1.0, 0.0, 0.0]}, ["p = [1. 0. 0.]", "bound", "simplex[3] p"]),
    "a text": ({"x": "a"}, ["x = 'a', which is not a number", "real x"]),
    "nothing": ({"b": [[0.1, None], [0.3, 0.4]]}, ["b = [[0.1, None]"]),
    "a truth value": ({"s": True}, ["s = True, which is not a number"]),
    "truth values": ({"p": np.array([True, False, False])}, ["which is not a number"]),
    "no number in a simplex": ({"p": [np.nan, 0.5, 0.5]}, ["p[1] = nan", "simplex[3] p"]),
}


@pytest.mark.parametrize("partial", [False, True], ids=["all", "some"])
@pytest.mark.parametrize(("change", "facts"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_value_is_named_with_its_bounds(target, change, facts, partial):
    outside = change in (WRONG["below"][0], WRONG["an element above"][0])
    code = "invalid_position" if outside else "invalid_inits"
    with raises(code, *facts):
        start(target, change if partial else {**INSIDE, **change})


def test_bounds_may_be_parameters_and_values_are_shown(target):
    code = "parameters { real low; real<lower=low> high; } model { }"
    moving = sa.Target(code)
    assert np.isfinite(start(moving, {"low": 5.0, "high": 6.0})).all()
    with raises("invalid_position", "high = 4", "real<lower=low> high"):
        start(moving, {"low": 5.0, "high": 4.0})
    with raises("initialization_failed", "x = 2.0", "other `inits`"):
        start(target, {**INSIDE, "x": 2.0})


def float32(x):
    return np.float32(x).astype(float)


def six_digits(x):
    return np.vectorize(lambda value: float(f"{value:.6g}"))(x)


@pytest.mark.parametrize("rounded", [float32, six_digits])
def test_rounded_values_are_a_position(constrained, rounded):
    rng = np.random.default_rng(3)
    for _ in range(20):
        exact = constrained.constrain(rng.normal(size=constrained.dim))
        values = {name: rounded(np.asarray(x)) for name, x in exact.items()}
        again = constrained.constrain(constrained.unconstrain(values))
        for name, x in exact.items():
            # rounding by 5e-6 of each value (six digits); a matrix of these moves by a few times it
            np.testing.assert_allclose(again[name], x, atol=5e-5 * np.abs(x).max(), err_msg=name)


def test_rounded_rows_ties_and_constraints_are_positions(constrained):
    position = np.random.default_rng(4).normal(size=constrained.dim)
    row = np.asarray(constrained.model.param_constrain(position))
    exact, rounded = constrained.unconstrain_rows(np.array([row, float32(row)]))
    again = [constrained.model.param_constrain(one) for one in (exact, rounded)]
    np.testing.assert_allclose(*again, rtol=0, atol=5e-6 * np.abs(row).max())
    values = constrained.constrain(np.full(constrained.dim, 0.1))
    values |= {"o": [1.0, 1.0, 2.0], "q": [0.0, 0.0, 1.0]}
    position = constrained.unconstrain(values)
    assert np.isfinite(position).all()
    again = constrained.constrain(position)
    np.testing.assert_allclose(again["o"], [1, 1, 2], atol=1e-7)
    np.testing.assert_allclose(again["q"], [0, 0, 1], atol=1e-7)
    values = constrained.constrain(np.random.default_rng(6).normal(size=constrained.dim))
    for declared in constrained.declared_parameters:
        nearest, rank = NEAREST[declared.base]
        x = np.asarray(values[declared.name])
        for index in np.ndindex(x.shape[: x.ndim - rank]):
            np.testing.assert_allclose(nearest(x[index]), x[index], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["p", "u", "z", "Z", "L", "C"])
def test_more_than_rounding_is_refused_with_variable_and_violation(constrained, name):
    values = constrained.constrain(np.random.default_rng(5).normal(size=constrained.dim))
    base = {d.name: d.base for d in constrained.declared_parameters}[name]
    wrong = np.asarray(values[name]) * (1 + 20 * TOLERANCE) + 20 * TOLERANCE
    with raises("invalid_position", f"{name} is not a {base}", "differs by"):
        constrained.unconstrain({**values, name: wrong})


@pytest.mark.parametrize(
    ("base", "axis"), [("row_stochastic_matrix", 1), ("column_stochastic_matrix", 0)]
)
def test_stochastic_matrices(base, axis):
    x = np.random.default_rng(7).gamma(2.0, size=(2, 3))
    x /= x.sum(axis=axis, keepdims=True)
    again = NEAREST[base][0](six_digits(x))
    np.testing.assert_allclose(again.sum(axis=axis), 1.0, atol=1e-15)
    np.testing.assert_allclose(again, x, atol=1e-5)


def test_a_small_file_starts_another_run(constrained, tmp_path):
    rng = np.random.default_rng(8)
    rows = np.array(
        [constrained.model.param_constrain(p) for p in rng.normal(size=(8, constrained.dim))]
    )
    fit = sa.results.build(
        {"posterior": sa.results.variables(constrained.model.param_names(), rows[None])}, {}
    )
    fit = sa.load(sa.save(fit, tmp_path / "small.nc", float32=True))
    assert np.isfinite(start(constrained, fit)).all()
