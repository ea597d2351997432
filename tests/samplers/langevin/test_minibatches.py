"""Densities estimated from batches of rows: unbiased, and refused where rows are not rows."""

import copy

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.density import value_and_gradient
from stanadapt.errors import StanadaptError
from stanadapt.samplers.langevin.minibatches import Minibatches
from stanadapt.targets.stan import bundled
from tests.helpers import rows_program

ROWS = ["X", "y"]


def estimates(batches, position):
    """Value and gradient of each batch's estimate."""
    density, gradient = batches.density(), np.empty(position.size + 1)
    found = []
    for k in range(batches.batches):
        point = np.append(position, (k + 0.5) / batches.batches)
        found.append([value_and_gradient(density, point, gradient), *gradient[:-1]])
    return np.array(found)


@pytest.mark.parametrize("least", [0, 1, 2])
@pytest.mark.parametrize("control", [False, True])
def test_the_mean_over_batches_is_that_of_all_rows(least, control):
    """Also where the program cannot do without rows, and with batches of unequal sizes."""
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


def test_control_variates_have_no_noise_at_the_mode_and_little_nearby():
    target = rows_program.regression(400)
    plain = Minibatches(target, ROWS, 10)
    reduced = Minibatches(target, ROWS, 10, control_variates=True)
    mode = reduced._center
    assert np.abs(target.evaluate(mode)[1]).max() < 1e-3
    np.testing.assert_allclose(reduced.gradient_noise(mode), 0.0, atol=1e-18)
    sd = np.sqrt(np.diag(plain.gradient_noise(mode)))
    nearby = np.sqrt(np.diag(reduced.gradient_noise(mode + 0.05)))
    assert np.all(nearby[:2] < 0.2 * sd[:2])


def test_noise_is_that_of_the_estimates():
    batches, x = Minibatches(rows_program.regression(), ROWS, 6), np.array([0.3, -0.4, 0.2])
    covariance = np.cov(estimates(batches, x)[:, 1:].T, bias=True)
    np.testing.assert_allclose(batches.gradient_noise(x), covariance, rtol=1e-8, atol=1e-10)


def test_a_copy_has_the_same_batches():
    batches = Minibatches(rows_program.regression(), ["X", "y"], 5, seed=3)
    x = np.array([0.3, -0.4, 0.2])
    np.testing.assert_array_equal(estimates(copy.copy(batches), x), estimates(batches, x))
    other = Minibatches(batches.target, ROWS, 5, seed=4)
    assert not np.array_equal(estimates(other, x), estimates(batches, x))


def refused(code, data, rows, batches=2):
    target = sa.Target(code, data, backend="stanli")
    with pytest.raises(StanadaptError) as caught:
        Minibatches(target, rows, batches)
    assert caught.value.stage == "settings"
    return caught.value.message


MU = "parameters { real mu; } model { mu ~ normal(0, 1); "
PAIR = "data { int N; vector[N] y; vector[N] z; }" + MU + "y ~ normal(mu, 1); z ~ normal(mu, 1); }"
TWO = {"N": 4, "y": [1, 2, 3, 4], "z": [2, 1, 0, 1]}


@pytest.mark.parametrize(
    ("rows", "batches", "said"),
    [
        (["mu"], 2, "has no data mu; its data block declares N, y, z"),
        (["N"], 2, "N is a single number"),
        ([], 2, "name at least one"),
        ([3], 2, "list of names"),
        (["y"], 2, "N, the length of y, is also a size of z. Name z too"),
        (["y", "z"], 5, "there are 4 rows, too few for 5 batches"),
        (3, 2, "rows: give the name of a variable, or a list of names, got 3"),
        (["y", "z"], 0, "batches must be a whole number, at least 1, got 0"),
        (["y", "z"], 2.5, "batches must be a whole number, at least 1, got 2.5"),
    ],
)
def test_rows_and_batches_that_cannot_be(rows, batches, said):
    assert said in refused(PAIR, TWO, rows, batches)


@pytest.mark.parametrize(
    ("data", "values", "said"),
    [
        ("int N; int M; vector[N] y; vector[M] z;", {"N": 4, "M": 3}, "y has 4, z has 3"),
        ("vector[4] y; int N;", {"N": 1}, "declared as 4: it must be a variable"),
        ("int N; vector[N + 1] y;", {"N": 3}, "declared as N + 1: it must be a variable"),
        ("int N; vector[N] y; int<lower=0, upper=N> k;", {"N": 4, "k": 2}, "also a bound of k"),
    ],
)
def test_lengths_that_no_variable_of_the_rows_alone_gives(data, values, said):
    given = {"y": [1, 2, 3, 4], **({"z": [1, 2, 3]} if "z" in data else {}), **values}
    rows = ["y", "z"] if "z" in data else ["y"]
    code = f"data {{ {data} }} {MU} y ~ normal(mu, 1); }}"
    assert said in refused(code, given, rows)


def test_parameters_of_each_row_are_refused():
    code = (
        "data { int N; vector[N] y; } parameters { vector[N] t; } "
        "model { t ~ normal(0, 1); y ~ normal(t, 1); }"
    )
    assert "other sizes with other rows" in refused(code, {"N": 4, "y": [1, 2, 3, 4]}, ["y"])


def test_rows_that_depend_on_each_other_are_refused():
    series = (
        "data { int N; vector[N] y; } parameters { real<lower=-1, upper=1> a; } "
        "model { for (i in 2:N) y[i] ~ normal(a * y[i - 1], 1); }"
    )
    said = refused(series, {"N": 5, "y": [1.0, 2.0, -1.0, 0.5, 3.0]}, ["y"])
    assert "not independent given the parameters" in said
    program, data = bundled.find("logistic", "ripley")  # standardizes all rows by itself
    with pytest.raises(StanadaptError, match="standardizes them in transformed data"):
        Minibatches(sa.Target(program, data, backend="stanli"), ROWS, 4)


def test_only_samplers_that_draw_batches_take_them():
    batches = Minibatches(rows_program.normal(), "y", 5)
    with pytest.raises(StanadaptError, match=r"mala needs the density of all rows.*sgld"):
        sa.sample(batches, "mala", show_progress=False)
    with pytest.raises(StanadaptError, match="a Target is expected"):
        Minibatches(batches, "y", 5)
