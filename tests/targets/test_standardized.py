"""A Stan program in standardized coordinates."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.standardized import Standardized
from tests.helpers.codes import raises

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


@pytest.fixture(scope="module")
def program():
    return sa.Target(PROGRAM)


@pytest.fixture(params=FACTORS)
def target(request, program):
    standardized = Standardized(program, LOCATION, FACTORS[request.param])
    assert standardized.kind == standardized.description["standardized"] == request.param
    return standardized


def test_there_and_back(target):
    x = np.random.default_rng(1).normal(LOCATION, [50.0, 0.6, 45.0], size=(2, 5, 3))
    back = target.original(target.standardized(x))
    np.testing.assert_allclose(back, x, rtol=1e-11)
    assert back.shape == x.shape


def test_columns_and_values_are_those_of_the_program(target, program):
    z = np.array([[0.2, -0.4, 0.1], [-0.3, 0.5, 0.2]])
    ours, theirs = np.empty((2, 4)), np.empty((2, 4))
    target.constrainer(1)(z, ours)
    program.constrainer(1)(target.original(z), theirs)
    np.testing.assert_array_equal(ours, theirs)
    value, gradient, message = target.evaluate(z[0])
    assert value == program.evaluate(target.original(z[0]))[0]
    assert message == ""
    h = 1e-6
    numeric = [
        (target.evaluate(z[0] + h * e)[0] - target.evaluate(z[0] - h * e)[0]) / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4)


def test_the_volume_is_that_of_a_cube_of_z(target):
    corners = target.original(np.vstack([np.zeros(3), np.eye(3)]))
    volume = np.linalg.det(corners[1:] - corners[0])
    assert target.log_volume == pytest.approx(np.log(abs(volume)), rel=1e-9)


def test_the_target_answers_for_itself(target, program):
    assert (target.base, program.base) == (program, program)
    assert target.coordinate_names == ["coordinate 1", "coordinate 2", "coordinate 3"]
    assert program.coordinate_names == ["a", "s", "b"]
    assert (target.moves_parameters, program.moves_parameters) == (False, True)
    assert (target.has_pseudo_samples, program.has_pseudo_samples) == (False, False)
    assert (program.log_volume, program.location, program.factor) == (0.0, None, None)


def test_prior_data_are_for_programs_only(target):
    with raises("prior_data_misplaced", "prior_data", repr(target)):
        target.with_prior_data({})


def test_stan_s_message_is_that_of_the_original_position():
    program = sa.Target("parameters { real x; } model { 0 ~ normal(0, 5 - x); }")
    target = Standardized(program, np.array([4.0]), np.array([[0.5]]))
    assert "Scale parameter is -1" in target.evaluate(np.array([4.0]))[2]
    assert target.evaluate(np.array([1.0]))[2] == ""


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_scales_must_be_usable(program, bad):
    with raises("unusable_scales", program.name):
        Standardized(program, LOCATION, np.array([[1.0, bad, 1.0]]))
