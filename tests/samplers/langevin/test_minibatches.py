"""Densities estimated from batches of rows: unbiased, and refused if rows are not independent."""

import copy

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.density import value_and_gradient
from stanadapt.samplers.langevin.minibatches import Minibatches
from stanadapt.targets.stan import bundled
from tests.helpers import rows_program
from tests.helpers.codes import raises

ROWS = ["X", "y"]


def estimates(batches, position):
    """Return value and gradient of the estimate of each batch."""
    density, gradient = batches.density(), np.empty(position.size + 1)
    found = []
    for k in range(batches.batches):
        point = np.append(position, (k + 0.5) / batches.batches)
        found.append([value_and_gradient(density, point, gradient), *gradient[:-1]])
    return np.array(found)


@pytest.mark.parametrize("least", [0, 1, 2])
@pytest.mark.parametrize("control", [False, True])
def test_the_mean_over_batches_is_that_of_all_rows(least, control):
    """Also if the program requires rows, and with batches of unequal sizes."""
    target = rows_program.regression(63, least)
    batches = Minibatches(target, ROWS, 8, control_variates=control)
    points = np.array([[0.3, -0.4, 0.2], [-1.0, 2.0, -0.5]])
    found = np.array([estimates(batches, x) for x in points])
    whole = np.array([[target.evaluate(x)[0], *target.evaluate(x)[1]] for x in points])
    np.testing.assert_allclose(found.mean(axis=1)[:, 1:], whole[:, 1:], rtol=1e-9)
    # values are known up to a constant: without rows, and with each number of them
    mean = found.mean(axis=1)[:, 0]
    assert mean[1] - mean[0] == pytest.approx(whole[1, 0] - whole[0, 0], rel=1e-9)
    assert np.all(found[:, :, 1:3].std(axis=1) > 0.0)


@pytest.mark.parametrize("control", [False, True])
def test_an_estimate_has_the_gradient_of_its_value(control):
    batches = Minibatches(rows_program.regression(), ROWS, 6, control_variates=control)
    x, h = np.array([0.3, -0.4, 0.2]), 1e-5
    numeric = [(estimates(batches, x + h * e) - estimates(batches, x - h * e)) for e in np.eye(3)]
    slopes = np.stack([difference[:, 0] / (2 * h) for difference in numeric], axis=1)
    np.testing.assert_allclose(estimates(batches, x)[:, 1:], slopes, rtol=1e-6, atol=1e-6)


def test_control_variates_noise_and_copies():
    target = rows_program.regression(400)
    plain = Minibatches(target, ROWS, 10)
    reduced = Minibatches(target, ROWS, 10, control_variates=True)
    mode = reduced._center
    assert np.abs(target.evaluate(mode)[1]).max() < 1e-3
    np.testing.assert_allclose(reduced.gradient_noise(mode), 0.0, atol=1e-18)
    sd = np.sqrt(np.diag(plain.gradient_noise(mode)))
    nearby = np.sqrt(np.diag(reduced.gradient_noise(mode + 0.05)))
    assert np.all(nearby[:2] < 0.2 * sd[:2])
    batches, x = Minibatches(rows_program.regression(), ROWS, 6), np.array([0.3, -0.4, 0.2])
    covariance = np.cov(estimates(batches, x)[:, 1:].T, bias=True)
    np.testing.assert_allclose(batches.gradient_noise(x), covariance, rtol=1e-8, atol=1e-10)
    batches = Minibatches(rows_program.regression(), ["X", "y"], 5, seed=3)
    x = np.array([0.3, -0.4, 0.2])
    np.testing.assert_array_equal(estimates(copy.copy(batches), x), estimates(batches, x))
    other = Minibatches(batches.target, ROWS, 5, seed=4)
    assert not np.array_equal(estimates(other, x), estimates(batches, x))


def refused(code, program, data, rows, batches, *facts):
    target = sa.Target(program, data)
    with raises(code, *facts):
        Minibatches(target, rows, batches)


MU = "parameters { real mu; } model { mu ~ normal(0, 1); "
PAIR = "data { int N; vector[N] y; vector[N] z; }" + MU + "y ~ normal(mu, 1); z ~ normal(mu, 1); }"
TWO = {"N": 4, "y": [1, 2, 3, 4], "z": [2, 1, 0, 1]}


@pytest.mark.parametrize(("rows", "batches", "code", "facts"), [
    (["mu"], 2, "invalid_rows", ["mu", "N, y, z"]), (["N"], 2, "invalid_rows", ["N"]),
    ([], 2, "invalid_rows", ["rows"]), (["y"], 2, "invalid_rows", ["N", "y", "size of z"]),
    (["y", "z"], 5, "invalid_batches", ["4", "5"]),
    (["y", "z"], 0, "out_of_range", ["batches", "1", "0"]),
    (["y", "z"], 2.5, "out_of_range", ["batches", "2.5"]),
])  # fmt: skip
def test_rows_and_batches_that_cannot_be(rows, batches, code, facts):
    refused(code, PAIR, TWO, rows, batches, *facts)


@pytest.mark.parametrize("rows", [[3], 3])
def test_rows_that_are_not_names(rows):
    with raises("not_a_name", "rows", "3"):
        Minibatches(sa.Target(PAIR, TWO), rows, 2)


@pytest.mark.parametrize(("data", "values", "facts"), [
    ("int N; int M; vector[N] y; vector[M] z;", {"N": 4, "M": 3}, ["y has 4", "z has 3"]),
    ("vector[4] y; int N;", {"N": 1}, ["y", "declared as 4"]),
    ("int N; vector[N + 1] y;", {"N": 3}, ["y", "declared as N + 1"]),
    ("int N; vector[N] y; int<lower=0, upper=N> k;", {"N": 4, "k": 2}, ["N", "bound of k"]),
])  # fmt: skip
def test_lengths_that_are_not_those_of_the_rows_alone(data, values, facts):
    given = {"y": [1, 2, 3, 4], **({"z": [1, 2, 3]} if "z" in data else {}), **values}
    rows = ["y", "z"] if "z" in data else ["y"]
    refused("invalid_rows", f"data {{ {data} }} {MU} y ~ normal(mu, 1); }}", given, rows, 2, *facts)


def test_rows_with_parameters_or_dependent_ones_are_refused():
    code = (
        "data { int N; vector[N] y; } parameters { vector[N] t; } "
        "model { t ~ normal(0, 1); y ~ normal(t, 1); }"
    )
    refused("invalid_rows", code, {"N": 4, "y": [1, 2, 3, 4]}, ["y"], 2, "N")
    series = (
        "data { int N; vector[N] y; } parameters { real<lower=-1, upper=1> a; } "
        "model { for (i in 2:N) y[i] ~ normal(a * y[i - 1], 1); }"
    )
    data = {"N": 5, "y": [1.0, 2.0, -1.0, 0.5, 3.0]}
    refused("dependent_rows", series, data, ["y"], 2, "coordinate 1")
    # another coordinate has derivatives that are 10^12 times larger
    scaled = series.replace("> a;", "> a; real b;").replace("{ for", "{ b ~ normal(0, 1e-6); for")
    refused("dependent_rows", scaled, data, ["y"], 2, "coordinate 1")
    program, data = bundled.find("logistic", "ripley")  # standardizes all rows itself
    with raises("dependent_rows"):
        Minibatches(sa.Target(program, data), ROWS, 4)


def test_only_samplers_that_draw_batches_take_them():
    batches = Minibatches(rows_program.normal(), "y", 5)
    with raises("sampler_not_for_target", "mala", "sgld"):
        sa.sample(batches, "mala")
    with raises("not_a_target"):
        Minibatches(batches, "y", 5)
