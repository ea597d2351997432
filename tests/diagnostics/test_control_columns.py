"""Columns of control variates against what defines them, and what must not change estimates."""

import numpy as np
import pytest
from scipy.special import ndtr

from stanadapt.diagnostics.control_variates import direction
from stanadapt.diagnostics.control_variates.estimates import Draws
from stanadapt.diagnostics.control_variates.stein_columns import stein_columns


def gumbel(shape, seed=1):
    """Independent draws of Gumbel variables, and their gradients."""
    u = np.random.default_rng(seed).gumbel(size=shape)
    return u, np.expm1(-u)


def test_columns_have_mean_zero():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(50_000, 3))
    columns = stein_columns(z, -z, len(z)).values
    assert columns.shape[1] == 3 + 6 + 10
    error = columns.std(axis=0) / np.sqrt(len(z))
    assert np.abs(columns.mean(axis=0) / error).max() < 4.5


@pytest.mark.parametrize("threshold", [-8.0, -1.0, 0.3, 5.0])
def test_columns_of_steps_solve_the_equation_of_stein(threshold):
    y = np.setdiff1d(np.linspace(-9.0, 9.0, 181), threshold)[:, None]

    def column(y, s):
        return direction.StepParts.of(direction.Along(y, s)).column(np.array([threshold]))

    def psi(y):
        return column(y, np.ones_like(y)) - column(y, np.zeros_like(y))

    slope = column(y, np.zeros_like(y))
    assert slope - y * psi(y) == pytest.approx((y <= threshold) - ndtr(threshold), abs=1e-10)
    away, h = np.abs(y - threshold) > 1e-3, 1e-4
    quotient = (psi(y + h) - psi(y - h)) / (2.0 * h)
    assert quotient[away] == pytest.approx(slope[away], abs=1e-7)


def test_solutions_for_smooth_functions():
    """Those for h = y and h = y^2 are psi = -1 and psi = -y."""
    grid = direction.GRID
    slope, psi = direction.solve_stein(np.stack([grid, grid**2]))
    inside = np.abs(grid) < 5.0
    assert psi[0, inside] == pytest.approx(-1.0, abs=1e-3)
    assert psi[1, inside] == pytest.approx(-grid[inside], abs=1e-3)
    assert slope[1, inside] == pytest.approx(-1.0, abs=1e-2)


def test_a_monotone_function_has_the_same_probabilities():
    u, g = gumbel((4, 500, 2))
    found = []
    for function in (np.array, np.exp):
        ((_, batch),) = Draws(u, g).batches({"x": function(u[..., 0])})
        found.append(batch.probabilities(function(np.array([0.7]))))
    assert found[0].order[0] > 0
    # but for the place of the threshold between two draws
    error = np.sqrt(found[0].variance[0])
    assert abs(found[0].mean[0] - found[1].mean[0]) < 0.02 * error
    assert found[0].variance[0] == pytest.approx(found[1].variance[0], rel=1e-3)


def test_linear_coordinates_do_not_matter():
    """Of a quantity that follows no coordinate."""
    u, g = gumbel((4, 500, 3))
    turn = np.array([[1.0, 2.0, 0.0], [0.0, 1e3, 5.0], [1e-3, 0.0, 1e-3]])
    x = u.sum(axis=2) + 0.1 * u[..., 0] ** 2
    found = []
    for draws in (Draws(u, g), Draws(u @ turn.T, g @ np.linalg.inv(turn))):
        ((_, batch),) = draws.batches({"x": x})
        found.append([batch.means_and_sds()[0], batch.quantiles(0.5)])
    for one, other in zip(*found, strict=True):
        assert one.gain[0] > 2
        assert abs(one.value[0] - other.value[0]) < 0.05 * one.error[0]
