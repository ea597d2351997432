"""A Stan program in standardized coordinates."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.block_map import BlockMap, pack, size_of_work
from stanadapt.engine.density import value, value_and_gradient
from stanadapt.engine.triangular_map import make_map
from stanadapt.targets.standardized import Standardized
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

PROGRAM = """
parameters { real a; real<lower=0> s; real b; }
model { a ~ normal(200, 50); s ~ gamma(3, 1000); b ~ normal(a, s); }
generated quantities { real w = s * a; }
"""
LOCATION = np.array([190.0, -6.0, 200.0])
FACTORS = {
    "diagonal": np.array([[50.0, 0.6, 45.0]]),
    "dense": np.array([[50.0, 0.0, 0.0], [0.1, 0.6, 0.0], [50.0, -1e-3, 2e-3]]),
    "low rank, rank 1": np.array([[50.0, 0.6, 45.0, 0.0], [0.6, 0.0, 0.8, -0.9]]),
}
# b given a and log s, roughly: its location is 0.9 a + 15, its scale 1.1 s^0.8 exp(-0.02 (a - 190))
MAP = make_map(
    np.array([2]), np.array([1]), np.array([0]), np.array([0]),
    [[-2.0 * np.log(1.1), -1.6, 0.0, 0.0, 0.0, 195.0, 0.9, 0.0, 200.0, 0.04, 190.0]],
)  # fmt: skip
STRAIGHTENED = ", straightened"
FORMS = [*FACTORS, *(f"{name}{STRAIGHTENED}" for name in FACTORS), "a block"]
# a and b given log s
BLOCK = BlockMap(
    np.array([1]), np.array([0, 2]), np.empty(0, int), np.array([[0.0], [-0.4]]), np.zeros((2, 1)),
    np.zeros((1, 3)), np.array([0, 1]), np.array([0, 0]),
    np.array([[4e-4, -1e-5, 5e-4], [0.0, 0.0, 1e-5]]), np.array([[0.08, 0.1], [0.0, 2e-3]]),
    np.empty((4, 0)), np.ones(2), np.zeros(size_of_work(2, 1, 2, 3)),
)  # fmt: skip
program = shared_target(PROGRAM)


@pytest.fixture(params=FORMS)
def target(request, program):
    if request.param == "a block":
        location, factor = (
            np.array([-0.5, -6.0, 0.2]),
            np.array([[0.6, 0.0, 0.0], [0.1, 0.6, 0.0], [0.5, -0.1, 0.2]]),
        )
        return Standardized(program, location, factor, None, pack(BLOCK))
    plain = request.param.removesuffix(STRAIGHTENED)
    rows = None if plain == request.param else MAP.rows
    standardized = Standardized(program, LOCATION, FACTORS[plain], rows)
    assert standardized.kind == standardized.description["standardized"] == request.param
    return standardized


def test_there_and_back(target):
    x = np.random.default_rng(1).normal(LOCATION, [50.0, 0.6, 45.0], size=(2, 5, 3))
    back = target.original(target.standardized(x))
    np.testing.assert_allclose(back, x, rtol=1e-11)
    assert back.shape == x.shape
    with raises("prior_data_misplaced", "prior_data", repr(target)):
        target.with_prior_data({})
    program = sa.Target("parameters { real x; } model { 0 ~ normal(0, 5 - x); }")
    target = Standardized(program, np.array([4.0]), np.array([[0.5]]))
    assert "Scale parameter is -1" in target.evaluate(np.array([4.0]))[2]
    assert target.evaluate(np.array([1.0]))[2] == ""


def test_columns_and_values_are_those_of_the_program(target, program):
    z = np.array([[0.2, -0.4, 0.1], [-0.3, 0.5, 0.2]])
    ours, theirs = np.empty((2, 4)), np.empty((2, 4))
    target.constrainer(1)(z, ours)
    program.constrainer(1)(target.original(z), theirs)
    np.testing.assert_array_equal(ours, theirs)
    log_density, gradient, message = target.evaluate(z[0])
    added = target.constrainer(1).log_jacobians(z)
    expected = program.evaluate(target.original(z[0]))[0] + (0.0 if added is None else added[0])
    assert log_density == expected
    assert message == ""
    h = 1e-6
    numeric = [
        (target.evaluate(z[0] + h * e)[0] - target.evaluate(z[0] - h * e)[0]) / (2 * h)
        for e in np.eye(3)
    ]
    # differences of a steep density lose digits
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-8 * np.abs(gradient).max())


def test_the_volume_is_that_of_a_small_cube_of_z(target):
    """The density of z contains the share of a map, which differs from place to place."""
    center, h = np.array([0.2, -0.4, 0.1]), 1e-4
    sides = [
        (target.original(center + h * e) - target.original(center - h * e)) / (2 * h)
        for e in np.eye(3)
    ]
    added = target.log_jacobians(center[None])
    _, volume = np.linalg.slogdet(sides)
    expected = target.log_volume + (0.0 if added is None else added[0])
    assert expected == pytest.approx(volume, rel=1e-6)


def test_samplers_see_the_same_density(target):
    """Compiled, with counters of its own, and from each chain's own memory."""
    z, gradient = np.array([0.2, -0.4, 0.1]), np.empty(3)
    log_density, slope, _ = target.evaluate(z)
    first, second = target.density(0), target.density(1)
    value_and_gradient(second, -z, gradient)
    assert value_and_gradient(first, z, gradient) == pytest.approx(log_density, rel=1e-13)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    assert value(first, z) == pytest.approx(target.value(z), rel=1e-13)
    assert list(first.calls[:2]) == [1, 1]


def test_the_target_answers_for_itself(target, program):
    assert (target.base, program.base) == (program, program)
    # a coordinate keeps its name if only its unit and its origin have changed
    anonymous = ["coordinate 1", "coordinate 2", "coordinate 3"]
    assert target.coordinate_names == (["a", "s", "b"] if target.kind == "diagonal" else anonymous)
    assert program.coordinate_names == ["a", "s", "b"]
    assert (target.moves_parameters, program.moves_parameters) == (False, True)
    assert (target.has_pseudo_samples, program.has_pseudo_samples) == (False, False)
    assert (program.log_volume, program.standard_coordinates) == (0.0, None)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_scales_must_be_usable(program, bad):
    with raises("unusable_scales", program.name):
        Standardized(program, LOCATION, np.array([[1.0, bad, 1.0]]))
