"""Native densities: the same numbers as the embedded backend's, and as mathematics says.

Compiled once and found again: five bundled programs, one with every constrained type.
"""

import functools
import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import models, toolchain

pytestmark = pytest.mark.cmdstan

# BridgeStan's own sources, a minute a program, where somebody has them
NATIVE = ["cmdstan", *(["bridgestan"] if toolchain.bridgestan_tree() else [])]
CASES = [(name, data) for name, found in models.available().items() for data in found.data]
# Sums of up to 6000 terms in another order: 6000 roundings, 1.3e-12, times what cancels.
ROUNDING = 1e-10
EVERY_TYPE = """
data { int K; int none; }
parameters {
  real free;
  real<lower=-1> low;
  real<upper=2> high;
  real<lower=-1, upper=3> both;
  real<offset=1.5, multiplier=2> scaled;
  vector[none] nothing;
  vector<lower=0>[2] vlow;
  row_vector<upper=1>[2] row;
  matrix<lower=0, upper=1>[2, 3] grid;
  array[2, 2] real<lower=0> table;
  array[2] vector[3] vectors;
  simplex[K] s;
  unit_vector[K] u;
  ordered[K] o;
  positive_ordered[K] po;
  cholesky_factor_corr[K] Lc;
  cholesky_factor_cov[K] Lv;
  cholesky_factor_cov[4, 3] tall;
  corr_matrix[K] C;
  cov_matrix[K] S;
  array[2] simplex[3] many_s;
  array[2] unit_vector[3] many_u;
  array[2] ordered[2] many_o;
  array[2] positive_ordered[2] many_po;
  array[2] cholesky_factor_corr[2] many_Lc;
  array[2] cholesky_factor_cov[2] many_Lv;
  array[2] corr_matrix[2] many_C;
  array[2] cov_matrix[2] many_S;
  array[0] simplex[3] no_s;
  matrix[none, 3] no_matrix;
}
model { }
"""
SIZES = {"K": 3, "none": 0}


@functools.cache
def made(backend, name, data=None):
    """A target, kept for the whole module."""
    if name == "every type":
        return sa.Target(EVERY_TYPE, SIZES, backend=backend, show_progress=False)
    return sa.Target(*models.find(name, data), backend=backend, show_progress=False)


@pytest.fixture(params=NATIVE)
def backend(request):
    return request.param


@pytest.fixture(
    params=[*CASES, ("every type", None)], ids=lambda case: "-".join(filter(None, case))
)
def pair(request, backend):
    """The same program and data natively and embedded."""
    return made(backend, *request.param), made("stanli", *request.param)


@pytest.fixture
def every_type(backend):
    return made(backend, "every type")


@pytest.fixture
def schools(backend):
    return made(backend, "eight_schools_centered", "eight_schools")


def points(target, count=100, scale=1.0, seed=1):
    return scale * np.random.default_rng(seed).standard_normal((count, target.dim))


def of_simplex(target):
    """Which coordinates newer Stan gives another meaning; the origin is the middle in both."""
    return np.array([name.startswith(("s.", "many_s.")) for name in target.model.param_unc_names()])


def common_points(pair, count=100):
    """Positions at which both backends should agree.

    Where a logit is above 20, bernoulli_logit_glm's slope has the wrong sign in CmdStan 2.27, an
    error of 4e-9. Coefficients of 0.3 keep it seven standard deviations below; a horseshoe's are
    products of three, and 0.3 keeps those small too.
    """
    by_logits = pair[0].name in ("logistic", "horseshoe")
    positions = points(pair[0], count, 0.3 if by_logits else 1.0)
    positions[:, of_simplex(pair[0])] = 0.0
    return positions


def evaluated(target, positions):
    found = [target.evaluate(position) for position in positions]
    assert not any(words for _, _, words in found)
    return np.array([value for value, _, _ in found]), np.array([slope for _, slope, _ in found])


def assert_apart_by_one_constant(values, others):
    """Which is read off where the values are smallest, and so most exact."""
    scale = np.maximum(1.0, np.maximum(np.abs(values), np.abs(others)))
    constant = (values - others)[np.argmin(scale)]
    assert np.ptp(values) > 0.1  # else a constant function would pass
    np.testing.assert_array_less(np.abs(values - others - constant), ROUNDING * scale)


# --- against the embedded backend ----------------------------------------------------------------


def test_density_and_gradient_are_those_of_the_embedded_backend(pair):
    positions = common_points(pair)
    (values, slopes), (others, other_slopes) = (evaluated(target, positions) for target in pair)
    assert_apart_by_one_constant(values, others)
    scale = np.maximum(1.0, np.abs(slopes).max(axis=1, keepdims=True))
    assert np.median(np.abs(slopes)) > 0.1
    errors = (np.abs(slopes - other_slopes) / scale)[:, ~of_simplex(pair[0])]
    np.testing.assert_array_less(errors, ROUNDING)


def test_names_are_those_of_the_embedded_backend(pair):
    native, embedded = (target.model for target in pair)
    for kinds in [(False, False), (True, False), (False, True), (True, True)]:
        flags = dict(zip(("include_tp", "include_gq"), kinds, strict=True))
        assert native.param_names(**flags) == embedded.param_names(**flags)
        assert native.param_num(**flags) == embedded.param_num(**flags)
    assert native.param_unc_names() == embedded.param_unc_names()
    assert native.param_unc_num() == pair[0].dim == pair[1].dim
    assert pair[0].column_names == pair[1].column_names
    assert pair[0].unconstrained == pair[1].unconstrained


def test_constrained_values_are_those_of_the_embedded_backend(pair):
    """Of generated quantities those without a generator, which Stan changed after 2.27."""
    drawn = np.array([name.startswith("y_rep") for name in pair[0].column_names])
    for position in common_points(pair, 20):
        rows = [
            target.model.param_constrain(
                position, include_tp=True, include_gq=True, rng=target.model.new_rng(3)
            )
            for target in pair
        ]
        known = [row[~drawn] for row in rows]
        np.testing.assert_allclose(known[0], known[1], rtol=ROUNDING, atol=ROUNDING)
        assert np.isfinite(rows[0]).all()


# --- the density against itself ------------------------------------------------------------------


def test_a_value_without_gradient_differs_by_one_constant(pair):
    model, positions = pair[0].model, points(pair[0])
    values = evaluated(pair[0], positions)[0]
    full = np.array([model.log_density(position, propto=False) for position in positions])
    assert_apart_by_one_constant(full, values)
    kept = np.array([model.log_density(position, propto=True) for position in positions])
    np.testing.assert_allclose(kept, values, rtol=ROUNDING)


def test_the_numba_path_gives_the_values_of_the_python_path(pair):
    from stanadapt.density import value, value_and_gradient

    target, density = pair[0], pair[0].density()
    for position in points(target, 5):
        gradient = np.empty(target.dim)
        found = value_and_gradient(density, position, gradient)
        expected, slope, _ = target.evaluate(position)
        assert found == expected
        np.testing.assert_array_equal(gradient, slope)
        assert value(density, position) == target.model.log_density(position, propto=False)


def test_the_gradient_is_the_derivative(pair):
    """Central differences.

    Of second order in h = 6e-6 |x|: with rounding 1e-11 of |f| they are good to 1e-7 of the scale.
    """
    target, model = pair[0], pair[0].model
    position = points(target, 1, 0.3)[0]
    value, slope = model.log_density_gradient(position, propto=False)
    differences = np.empty(target.dim)
    for i in range(target.dim):
        step = np.zeros(target.dim)
        step[i] = 6e-6 * max(1.0, abs(position[i]))
        ends = [model.log_density(position + s * step, propto=False) for s in (1, -1)]
        differences[i] = (ends[0] - ends[1]) / (2 * step[i])
    scale = max(1.0, abs(value), np.abs(slope).max())
    assert np.abs(differences - slope).max() < 1e-7 * scale


def hessian_of(target, position, **flags):
    value, slope, hessian = target.model.log_density_hessian(position, **flags)
    expected = target.model.log_density_gradient(position, **flags)
    assert value == expected[0]
    np.testing.assert_array_equal(slope, expected[1])
    np.testing.assert_array_equal(hessian, hessian.T)
    return hessian


@pytest.mark.parametrize("data", ["two_dim", "fifty_one_dim"])
def test_the_hessian_of_a_gaussian_is_exact(backend, data):
    """Differences of a linear gradient have no error but rounding: 1e-12 of the gradient."""
    target = made(backend, "gaussian", data)
    exact = -np.linalg.inv(np.array(json.loads(target.data)["Sigma"]))
    direction = np.random.default_rng(5).normal(size=target.dim)
    for position in points(target, 3):
        slope = np.abs(target.evaluate(position)[1]).max()
        bound = 1e-9 * max(slope, np.abs(exact).max())
        assert np.abs(hessian_of(target, position) - exact).max() < bound
        _, product = target.model.log_density_hessian_vector_product(position, direction)
        assert np.abs(product - exact @ direction).max() < bound * np.linalg.norm(direction)


def test_hessian_and_product_agree_where_the_gradient_is_curved(schools):
    """Each is of fourth order, of step 7e-4: 3e-13 of the fifth derivative, and rounding."""
    rng = np.random.default_rng(6)
    for position in points(schools, 5, 0.5):
        hessian = hessian_of(schools, position)
        scale = np.abs(hessian).max()
        for length in (1e-3, 1.0, 1e3):
            direction = length * rng.normal(size=schools.dim)
            value, product = schools.model.log_density_hessian_vector_product(position, direction)
            error = np.abs(product - hessian @ direction).max() / np.linalg.norm(direction)
            assert error < 1e-8 * scale
            assert value == schools.model.log_density(position)
        ends = [schools.evaluate(position + s * 1e-5 * np.eye(schools.dim)[1])[1] for s in (1, -1)]
        assert np.abs((ends[0] - ends[1]) / 2e-5 - hessian[1]).max() < 1e-6 * scale
    nothing = np.zeros(schools.dim)
    np.testing.assert_array_equal(
        schools.model.log_density_hessian_vector_product(position, nothing)[1], nothing
    )


def test_the_jacobian_of_a_lower_bound(schools):
    """Where tau = exp(u[1]), log |d tau / du| = u[1]."""
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


def test_the_jacobian_flag_reaches_the_hessian(schools):
    """The logarithm of tau is linear in u, so only the gradient changes."""
    position = points(schools, 1)[0]
    hessians = [
        hessian_of(schools, position, jacobian=flag, propto=False) for flag in (True, False)
    ]
    assert np.abs(hessians[0] - hessians[1]).max() < 1e-9 * np.abs(hessians[0]).max()
