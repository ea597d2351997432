"""Columns with posterior mean zero: Stein's identity, exactness for Gaussians, tails."""

import numpy as np
import pytest
from scipy.special import ndtr

from stanadapt.diagnostics.control_variates import direction
from stanadapt.diagnostics.control_variates.control import moments_of_others
from stanadapt.diagnostics.control_variates.estimates import Draws
from stanadapt.diagnostics.control_variates.stein_columns import (
    all_triples,
    second_order,
    stein_columns,
    third_order,
    whitened,
)
from stanadapt.diagnostics.control_variates.tail_shape import tail_shape

MEAN = np.array([3.0, -200.0, 1e-3])
FACTOR = np.array([[2.0, 0.0, 0.0], [30.0, 40.0, 0.0], [1e-4, -2e-4, 5e-4]])


def gaussian_draws(count, seed=1):
    """Independent draws of a correlated Gaussian with unequal scales, and gradients there."""
    z = np.random.default_rng(seed).normal(size=(count, 3))
    return MEAN + z @ FACTOR.T, -z @ np.linalg.inv(FACTOR)


def gamma_draws(count, seed=2):
    """Draws of log gamma(4) variables, which are skewed, and gradients."""
    x = np.log(np.random.default_rng(seed).gamma(4.0, size=(count, 3)))
    return x, 4.0 - np.exp(x)


@pytest.mark.parametrize("draw", [gaussian_draws, gamma_draws])
def test_all_columns_have_mean_zero(draw):
    columns = stein_columns(*whitened(*draw(200_000)), 200_000).values
    error = columns.std(axis=0) / np.sqrt(len(columns))
    assert columns.shape[1] == 3 + 6 + 10
    assert np.abs(columns.mean(axis=0) / error).max() < 4.5  # of 19: 1e-4 by chance


def test_columns_of_a_gaussian_are_polynomials_in_any_coordinates():
    """L phi = -k phi + lower orders for a polynomial of degree k: fits leave nothing."""
    z, s = whitened(*gaussian_draws(400))
    i, j = np.triu_indices(3)
    parts = [s, second_order(z.T, s.T, i, j).T, third_order(z.T, s.T, *all_triples(3)).T]
    for order, target in ((1, z), (2, z[:, i] * z[:, j]), (3, z[:, [0]] ** 2 * z[:, [1]])):
        columns = np.concatenate([np.ones((400, 1)), *parts[:order]], axis=1)
        rest = target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
        assert np.abs(rest).max() < 1e-9 * np.abs(target).max()
    # of a quantity that follows no coordinate
    u, g = (x.reshape(4, 500, 3) for x in gamma_draws(2000))
    turn = np.array([[1.0, 2.0, 0.0], [0.0, 1e3, 5.0], [1e-3, 0.0, 1e-3]])
    x, found = u.sum(axis=2) + 0.1 * u[..., 0] ** 2, []
    for draws in (Draws(u, g), Draws(u @ turn.T, g @ np.linalg.inv(turn))):
        ((_, batch),) = draws.batches({"x": x})
        found.append([batch.means_and_sds()[0], batch.quantiles(0.5)])
    for one, other in zip(*found, strict=True):
        assert one.gain[0] > 2
        assert abs(one.value[0] - other.value[0]) < 0.05 * one.error[0]


@pytest.mark.parametrize("threshold", [-2.5, 0.3, 9.0])
def test_the_solution_for_a_step_solves_steins_equation(threshold):
    y = np.linspace(-9.0, 9.0, 2001) + 1e-4
    zero, one = np.zeros_like(y), np.ones_like(y)

    def psi(at):
        """Return psi and psi', from the column psi' + psi s at s = 1 and 0."""
        columns = [
            direction.StepParts.of(direction.Along(at[:, None], s[:, None])).column(
                np.array([threshold])
            )[:, 0]
            for s in (zero, one)
        ]
        return columns[1] - columns[0], columns[0]

    values, slopes = psi(y)
    h = 1e-5
    numeric = (psi(y + h)[0] - psi(y - h)[0]) / (2 * h)
    away = np.abs(y - threshold) > 2 * h
    assert np.isfinite(values).all()
    assert np.abs(numeric - slopes)[away].max() < 1e-7
    equation = slopes - y * values - ((y <= threshold) - ndtr(threshold))
    assert np.abs(equation).max() < 1e-10


def test_smooth_and_monotone_functions_are_recognized():
    grid = direction.GRID
    slope, psi = direction.solve_stein(np.exp(0.3 * grid))
    inside = np.abs(grid) < 4.0
    numeric = np.gradient(psi, direction.SPACING)
    assert np.abs(numeric - slope)[inside].max() < 1e-3  # the error of a difference quotient
    left = (slope - grid * psi)[inside]
    assert left == pytest.approx(np.exp(0.3 * grid[inside]) - np.exp(0.5 * 0.3**2), abs=1e-6)
    u, _ = gaussian_draws(500)
    x = np.stack(
        [np.exp(u[:, 0]), -(u[:, 2] ** 3), u[:, 0] + u[:, 1], 1 / (1 + np.exp(-u[:, 0]))], 1
    )
    assert list(direction.followed_coordinates(np.argsort(x, axis=0), u)) == [1, -3, 0, 1]


def test_a_direction_has_mean_zero_and_variance_one():
    u, g = gaussian_draws(4000)
    x = np.stack([u[:, 0], 2.0 * u[:, 0] - 0.05 * u[:, 1]], axis=1)
    halves = [slice(0, 2000), slice(2000, 4000)]
    _, (mean, covariance) = moments_of_others(u, halves)
    assert covariance == pytest.approx(np.cov(u[:2000].T, bias=True), rel=1e-9)
    learned = direction.Moments(np.arange(2000), mean, covariance, np.linalg.cholesky(covariance))
    at = direction.along(x, u, g, direction.followed_coordinates(np.argsort(x, axis=0), u), learned)
    assert at.y[:2000].mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert at.y[:2000].std(axis=0) == pytest.approx([1, 1], rel=2e-2)
    # in a Gaussian the derivative along the field is -y, up to errors of mean and covariance
    assert np.abs(at.s + at.y).std() < 0.1


@pytest.mark.parametrize("shape", [0.2, 0.8])
def test_the_shape_of_a_pareto_tail(shape):
    p = np.random.default_rng(3).uniform(size=(50_000, 4))
    k = tail_shape((p**-shape - 1.0) / shape)
    # an asymptotic standard deviation of (1 + k) / sqrt(m), m = 3 sqrt(n) = 670
    assert k == pytest.approx(np.full(4, shape), abs=4 * (1 + shape) / np.sqrt(670))


def test_tails_of_few_draws_constants_and_integers():
    assert np.isneginf(tail_shape(np.ones((100, 2)))).all()
    assert np.isneginf(tail_shape(np.random.default_rng(0).normal(size=(9, 1)))).all()
    # many values are equal to the least of the tail, whatever its shape
    rng = np.random.default_rng(6)
    light = np.stack([rng.poisson(3, 4000), rng.geometric(0.9, 4000)], axis=1)
    assert tail_shape((light - light.mean(axis=0)) ** 2).max() < 0.4
    assert np.isneginf(tail_shape((rng.random((4000, 1)) < 0.02).astype(float))).all()
    assert tail_shape(rng.zipf(2.2, (4000, 2)).astype(float)).min() > 0.5  # 1 / 1.2


def test_columns_are_dropped_for_heavy_tails_and_many_parameters():
    """A Cauchy distribution: squares of draws have no mean, and order 3 has no variance."""
    x = np.random.default_rng(4).standard_cauchy((4000, 2))
    columns = stein_columns(*whitened(x, -2.0 * x / (1.0 + x**2)), 3000)
    assert columns.ends[0] == 2
    assert columns.ends[-1] < 2 + 3 + 4
    dim, rng = 60, np.random.default_rng(5)
    x = rng.normal(size=(2000, dim))
    columns = stein_columns(*whitened(x, -x), 1500)
    assert columns.ends == (dim, dim + dim + (1500 // 5 - 2 * dim))


def test_a_monotone_function_has_the_same_probabilities():
    u, g = gamma_draws(2000)
    u, g, found = u.reshape(4, 500, 3), g.reshape(4, 500, 3), []
    for function in (np.array, np.exp, np.negative):
        ((_, batch),) = Draws(u, g).batches({"x": function(u[..., 0])})
        found.append(batch.probabilities(function(np.array([1.3]))))
    assert found[0].order[0] > 0
    # but for the place of the threshold between two draws
    error = np.sqrt(found[0].variance[0])
    assert abs(found[0].mean[0] - found[1].mean[0]) < 0.02 * error
    assert abs(found[0].mean[0] + found[2].mean[0] - 1.0) < 0.02 * error
    for other in found[1:]:
        assert found[0].variance[0] == pytest.approx(other.variance[0], rel=1e-3)
