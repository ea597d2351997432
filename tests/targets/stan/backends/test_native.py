"""Native densities agree with the embedded backend and with exact values.

For all bundled programs and a program with every constrained type.
"""

import numpy as np
import pytest

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
