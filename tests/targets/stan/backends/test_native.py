"""Native densities agree with the embedded backend and with exact values.

For all bundled programs and a program with every constrained type.
"""

import json

import numpy as np
import pytest
import stanio

import stanadapt as sa
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.backends import refusals
from stanadapt.targets.stan.program import read
from tests.helpers.codes import raises
from tests.helpers.coordinate_moves import misnamed
from tests.helpers.native_targets import CASES, backend, every_type, make_target, points, schools

__all__ = ["backend", "every_type", "schools"]  # fixtures

pytestmark = pytest.mark.cmdstan
SOAK = pytest.mark.soak

# Sums of up to 6000 terms in another order: 6000 roundings, 1.3e-12, amplified by cancellation.
ROUNDING = 1e-10
# Stan solves differential equations to 1e-6, in other steps when it does so for the gradient too
SOLVED = {"lotka_volterra": 1e-4}
SIMPLEXES = ("s.", "many_s.", "weights.")


# a compiler takes half a minute for each program: each change tests these, the soak tests all
OFTEN = {"every type", "eight_schools_centered", "lotka_volterra"}
PAIRS = [
    pytest.param(case, id="-".join(filter(None, case)), marks=() if case[0] in OFTEN else SOAK)
    for case in [*CASES, ("every type", None)]
]


@pytest.fixture(params=PAIRS)
def pair(request, backend):
    """The same program and data in a native and in the embedded backend."""
    return make_target(backend, *request.param), make_target("stanli", *request.param)


def is_simplex(target):
    """Return which coordinates are of simplexes, which newer Stan transforms in another way.

    The origin is the center in all versions.
    """
    return np.array([name.startswith(SIMPLEXES) for name in target.model.param_unc_names()])


def common_points(pair, count=100):
    """Return positions at which both backends should agree.

    For logits above 20, the slope of bernoulli_logit_glm has the wrong sign in CmdStan 2.27, an
    error of 4e-9. With coefficients of 0.3, logits are seven standard deviations below that. The
    coefficients of a horseshoe are products of three such numbers, hence also small.
    """
    by_logits = pair[0].name in ("logistic", "horseshoe")
    positions = points(pair[0], count, 0.3 if by_logits else 1.0)
    positions[:, is_simplex(pair[0])] = 0.0
    return positions


def evaluate_all(target, positions):
    evaluations = (target.evaluate(position) for position in positions)
    values, slopes, messages = zip(*evaluations, strict=True)
    assert not any(messages)
    return np.array(values), np.array(slopes)


def assert_differ_by_a_constant(values, others, tolerance=ROUNDING):
    """Compare values up to a constant, which the smallest, most accurate values determine."""
    scale = np.maximum(1.0, np.maximum(np.abs(values), np.abs(others)))
    constant = (values - others)[np.argmin(scale)]
    assert np.ptp(values) > 0.1  # otherwise a constant function would pass
    np.testing.assert_array_less(np.abs(values - others - constant), tolerance * scale)


def test_density_and_gradient_agree_with_the_embedded_backend(pair):
    positions = common_points(pair)
    (values, slopes), (others, other_slopes) = (evaluate_all(target, positions) for target in pair)
    assert_differ_by_a_constant(values, others)
    scale = np.maximum(1.0, np.abs(slopes).max(axis=1, keepdims=True))
    assert np.median(np.abs(slopes)) > 0.1
    errors = (np.abs(slopes - other_slopes) / scale)[:, ~is_simplex(pair[0])]
    np.testing.assert_array_less(errors, ROUNDING)


def test_names_agree_with_the_embedded_backend(pair):
    native, embedded = (target.model for target in pair)
    for kinds in [(False, False), (True, False), (False, True), (True, True)]:
        flags = dict(zip(("include_tp", "include_gq"), kinds, strict=True))
        assert native.param_names(**flags) == embedded.param_names(**flags)
        assert native.param_num(**flags) == embedded.param_num(**flags)
    assert native.param_unc_names() == embedded.param_unc_names()
    assert native.param_unc_num() == pair[0].dim == pair[1].dim
    assert pair[0].column_names == pair[1].column_names
    assert pair[0].is_unconstrained == pair[1].is_unconstrained


def test_constrained_values_agree_with_the_embedded_backend(pair):
    """Except random quantities: Stan changed its generator after 2.27."""
    drawn = np.array([name.startswith("y_rep") for name in pair[0].column_names])
    for position in common_points(pair, 20):
        rows = [
            target.model.param_constrain(
                position, include_tp=True, include_gq=True, rng=target.model.new_rng(3)
            )
            for target in pair
        ]
        fixed = [row[~drawn] for row in rows]
        np.testing.assert_allclose(fixed[0], fixed[1], rtol=ROUNDING, atol=ROUNDING)
        assert np.isfinite(rows[0]).all()


def test_values_without_gradients_differ_by_a_constant(pair):
    model, positions = pair[0].model, points(pair[0])
    values = evaluate_all(pair[0], positions)[0]
    full = np.array([model.log_density(position, propto=False) for position in positions])
    assert_differ_by_a_constant(full, values, SOLVED.get(pair[0].name, ROUNDING))
    proportional = np.array([model.log_density(position, propto=True) for position in positions])
    np.testing.assert_allclose(proportional, values, rtol=SOLVED.get(pair[0].name, ROUNDING))


def test_calls_from_numba_and_from_python_agree(pair):
    from stanadapt.engine.density import value, value_and_gradient

    target, density = pair[0], pair[0].density()
    for position in points(target, 5):
        gradient = np.empty(target.dim)
        log_density = value_and_gradient(density, position, gradient)
        expected, slope, _ = target.evaluate(position)
        assert log_density == expected
        np.testing.assert_array_equal(gradient, slope)
        assert value(density, position) == target.model.log_density(position, propto=False)


def test_the_jacobian_of_a_lower_bound(schools):
    """For tau = exp(u[1]), log |d tau / du| = u[1]."""
    model, unit = schools.model, np.eye(schools.dim)[1]
    for position in points(schools, 20):
        for propto in (True, False):
            parts = [
                model.log_density(position, propto=propto, jacobian=jacobian)
                for jacobian in (True, False)
            ]
            scale = max(1.0, abs(parts[0]))
            assert abs(parts[0] - parts[1] - position[1]) < 1e-12 * scale
            slopes = [
                model.log_density_gradient(position, propto=propto, jacobian=jacobian)[1]
                for jacobian in (True, False)
            ]
            scale = max(1.0, np.abs(slopes[0]).max())
            assert np.abs(slopes[0] - slopes[1] - unit).max() < 1e-12 * scale


@pytest.mark.parametrize("call", [
    lambda model, x: model.log_density_hessian(x),
    lambda model, x: model.log_density_hessian_vector_product(x, x),
    lambda model, x: model.param_initialize(model.new_rng(1)),
])  # fmt: skip
def test_what_the_bridge_lacks_leads_to_bridgestan(call):
    target = make_target("cmdstan", "eight_schools_noncentered")
    with pytest.raises(RuntimeError, match="backend='bridgestan'"):
        call(target.model, np.zeros(target.dim))


EMPTY = {"nothing": [], "no_s": [], "no_matrix": []}


def test_coordinates_have_names_and_missing_values_are_reported(every_type):
    assert misnamed(every_type) == []
    # unchecked, CmdStan 2.27 crashes
    x = every_type.constrain(points(every_type, 1)[0])
    for name in ("free", "many_C"):
        some = {key: value for key, value in x.items() if key != name}
        assert name in refused_values(every_type, some)


PARTS = """
parameters {
  tuple(real, array[2] vector[2]) t; array[2, 2] tuple(real, array[2] real) at;
  array[2] complex_matrix[2, 2] z; tuple(real, tuple(real, array[2] simplex[2])) tt;
}
model { }
"""


def test_parts_of_tuples_and_of_complex_numbers_have_the_names_of_what_moves(backend):
    if refusals.refused_by(toolchain.require_cmdstan(), read(PARTS)):
        pytest.skip("this release of Stan has no tuples")
    target = sa.Target(PARTS, backend=backend)
    names, columns = target.coordinate_names, target.model.param_names()
    assert names[-2:] == ["tt:2:2.1.1", "tt:2:2.2.1"]  # simplexes of two: a coordinate moves both
    for k, name in enumerate(names[:-2]):
        there = target.model.param_constrain(0.1 * np.eye(target.dim)[k])
        (moved,) = np.flatnonzero(there != target.model.param_constrain(np.zeros(target.dim)))
        assert columns[moved] == name


def test_unconstraining_inverts_constraining(every_type):
    """Except the length of unit vectors, which their constrained values do not determine.

    Logarithms and Cholesky factors of 3 x 3 matrices: about a hundred roundings.
    """
    names = every_type.model.param_unc_names()
    determined = np.array([not name.startswith(("u.", "many_u.")) for name in names])
    assert (~determined).sum() == 9
    for position in points(every_type, 50):
        flat = every_type.model.param_constrain(position)
        back = every_type.model.param_unconstrain(flat)
        np.testing.assert_allclose(back[determined], position[determined], rtol=1e-10, atol=1e-10)
        again = every_type.model.param_constrain(back)
        np.testing.assert_allclose(again, flat, rtol=1e-10, atol=1e-10)
        by_name = {k: v.tolist() for k, v in every_type.constrain(position).items()}
        text = json.dumps(by_name | EMPTY)
        np.testing.assert_array_equal(every_type.model.param_unconstrain_json(text), back)
        np.testing.assert_array_equal(every_type.unconstrain(by_name), back)


def refused_values(target, values):
    with raises("invalid_position", target.name) as caught:
        target.unconstrain(values)
    return caught.value.stan


@pytest.mark.parametrize(("name", "value"), [
    ("low", -2.0), ("s", [0.5, 0.5, 0.5]), ("o", [1.0, 0.0, 2.0]),
    ("C", [[2.0, 0, 0], [0, 1, 0], [0, 0, 1]]),
])  # fmt: skip
def test_values_outside_a_constraint_are_refused(every_type, name, value):
    x = every_type.constrain(points(every_type, 1)[0])
    assert "free: " in refused_values(every_type, x | {name: value})
    flat = every_type.model.param_constrain(points(every_type, 1)[0])
    flat[every_type.model.param_names().index("low")] = -2.0
    with pytest.raises(RuntimeError, match="Lower bounded variable is -2"):
        every_type.model.param_unconstrain(flat)


@pytest.mark.parametrize(("name", "value", "shapes"), [
    ("vlow", [1.0], "(2), got (1)"), ("vlow", [1.0] * 3, "(2), got (3)"),
    ("vlow", [[1.0, 1.0]], "(2), got (1, 2)"), ("low", [1.0], "(), got (1)"),
    ("s", 1.0, "(3), got ()"), ("grid", [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], "(2, 3), got (3, 2)"),
    ("many_C", [[[1.0, 0], [0, 1]]], "(2, 2, 2), got (1, 2, 2)"),
])  # fmt: skip
def test_values_of_another_shape_are_refused(every_type, name, value, shapes):
    """Unchecked, CmdStan 2.27 reads beyond them in memory; from 2.33 on Stan checks shapes.

    `unconstrain` refuses them for any backend; the model itself is asked too.
    """
    x = every_type.constrain(points(every_type, 1)[0]) | every_type.empty_parameters()
    with raises("invalid_position", every_type.name, f"{name} must have shape"):
        every_type.unconstrain(x | {name: value})
    model = every_type.model
    with pytest.raises(RuntimeError) as caught:
        model.param_unconstrain_json(stanio.dump_stan_json(x | {name: value}))
    message = str(caught.value)
    if "stanadapt's bridge" in model.model_info():
        ours, stans = f"{name} must have shape {shapes}", f"variable name={name};"
        assert message == ours or ("mismatch" in message and stans in message)
