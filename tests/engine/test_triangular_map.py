"""The triangular map: its Jacobian, its gradient, and what it makes of a hierarchy."""

import numpy as np
import pytest

from stanadapt.engine.block_map import pack
from stanadapt.engine.density import GRADIENT_CALLS, value, value_and_gradient
from stanadapt.engine.points import GradientPoint
from stanadapt.engine.triangular_map import (
    LARGEST_EXPONENT,
    NONE,
    NUMBERS,
    MappedDensity,
    enter,
    enter_rows,
    is_used,
    leave,
    make_map,
    no_map,
    place,
    residual,
    with_memory,
)
from tests.helpers.gaussian_blocks import made_up
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.hierarchy import FIRST, LOCATION, SCALE, Hierarchy

DIM = 7
SD = np.array([0.8, 3.0, 0.02, 40.0, 1.0, 7.0, 0.5])
TARGET = Gaussian([0.3, -2.0, 0.05, 10.0, -1.0, 4.0, 0.1], SD)
# coordinate, drivers of the scale, driver of the location, then a, b, c, P0, d, e, w, q, f, s, t
ROWS = {
    "scale and location": [2, 0, NONE, 1, 7, -1.3, 0.2, 900, 0.04, 0.05, 0.01, 0, -2.0, 0, 0],
    "without data": [3, 0, NONE, NONE, -7, 2.0, 0.1, 0, 0, 10.0, 0, 0, 0, 0, 0],
    "mapped drivers": [4, 2, NONE, 3, 0.3, 11, 0.05, 0.7, -0.8, -1, 0.02, 3e-4, 10, 0, 0],
    "two scales": [6, 0, 1, 2, 1.1, -2, 0.2, 0.6, 0.3, -1, 5, 0, 0.04, 0.35, -2.5],
    "curve": [5, NONE, NONE, 6, -3, 0, 0, 0, 0, 4, 2, -3.0, 0.1, 0, 0],
}


def made(rows, dim=DIM):
    rows = np.array(list(rows), float).reshape(-1, 4 + NUMBERS)
    drivers = rows[:, :4].astype(np.int64).T.copy()
    straightening = make_map(*drivers, np.ascontiguousarray(rows[:, 4:]))
    return with_memory(straightening, dim)


def mapped(density, straightening):
    return MappedDensity(density, straightening, density.dim)


@pytest.fixture(params=[*ROWS, "all", "a block", "all and a block"])
def straightening(request):
    if request.param in ROWS:
        return made([ROWS[request.param]])
    found = made(ROWS.values() if "all" in request.param else [])
    if "block" in request.param:
        block = made_up(np.random.default_rng(1), hubs=(6, 0), members=(2, 3, 1, 4), free=(5,))
        found = with_memory(found._replace(block=pack(block)), DIM)
    return found


@pytest.fixture
def y():
    return np.array([0.7, -4.0, 0.6, -1.1, 0.4, 1.3, 0.45])


def derivative(function, at, h=1e-6):
    """Central differences, one row per coordinate."""
    steps = h * np.maximum(1.0, np.abs(at))
    return np.array([
        (function(at + step * unit) - function(at - step * unit)) / (2 * step)
        for step, unit in zip(steps, np.eye(len(at)), strict=True)
    ])  # fmt: skip


def placed(straightening, y):
    x = np.empty(len(y))
    place(straightening, y, x)
    return x


def test_jacobians_and_gradients_are_derivatives(straightening, y):
    log_jacobian = place(straightening, y, np.empty(DIM))
    numeric = derivative(lambda at: placed(straightening, at), y)
    sign, expected = np.linalg.slogdet(numeric)
    assert sign == 1.0
    assert log_jacobian == pytest.approx(expected, abs=1e-7)
    assert log_jacobian != 0.0
    density = mapped(TARGET.density(), straightening)
    gradient = np.empty(DIM)
    found = value_and_gradient(density, y, gradient)
    assert found == value(density, y)
    expected = derivative(lambda at: value(density, at), y)
    np.testing.assert_allclose(gradient, expected, rtol=2e-6, atol=1e-6)
    assert density.program.calls[GRADIENT_CALLS] == 1


def test_points_and_rows_enter_and_leave(straightening, y):
    density, x = TARGET.density(), placed(straightening, y)
    gradient = np.empty(DIM)
    point = GradientPoint(x, value_and_gradient(density, x, gradient), gradient)
    inside = enter(straightening, point)
    there = np.empty(DIM)
    expected = value_and_gradient(mapped(density, straightening), y, there)
    assert inside.log_density == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(inside.position, y, rtol=1e-12)
    np.testing.assert_allclose(inside.gradient, there, rtol=1e-9)
    outside = leave(straightening, inside)
    assert outside.log_density == pytest.approx(point.log_density, rel=1e-12)
    np.testing.assert_allclose(outside.position, x, rtol=1e-12)
    np.testing.assert_allclose(outside.gradient, gradient, rtol=1e-9)
    density, starts = TARGET.density(), [placed(straightening, y), TARGET.mean + 0.5 * SD]
    positions, gradients = np.array(starts), np.empty((2, DIM))
    for x, gradient in zip(positions, gradients, strict=True):
        value_and_gradient(density, x, gradient)
    log_jacobians = np.empty(2)
    enter_rows(straightening, positions, gradients, log_jacobians)
    for row, inside in enumerate(positions):
        there = np.empty(DIM)
        value_and_gradient(mapped(density, straightening), inside, there)
        np.testing.assert_allclose(gradients[row], there, rtol=1e-9)
        expected = place(straightening, inside, np.empty(DIM))
        assert log_jacobians[row] == pytest.approx(expected, rel=1e-12)


def test_members_of_a_hierarchy_become_standard_normal():
    """The map of the true precisions and means: each gradient is -y, at any scale and location."""
    own, data = np.array([0.0, 0.3, 50.0]), np.array([0.0, 9.0, -4.0])
    target = Hierarchy(own, data)
    rows = [
        [j, SCALE, NONE, LOCATION, 0.0, -1.0, 0.0, p, d, 0.0, 1.0, *[0.0] * 4]
        for j, p, d in zip(target.members, own, data, strict=True)
    ]
    density = mapped(target.density(), made(rows, target.dim))
    for v in (-12.0, 0.5, 8.0):
        y, gradient = np.array([v, 3.0, 0.7, -1.9, 1.1]), np.empty(target.dim)
        value_and_gradient(density, y, gradient)
        # rounding: each is a sum of terms as large as the precision times the location
        np.testing.assert_allclose(gradient[FIRST:], -y[FIRST:], rtol=0.0, atol=1e-7)


def test_empty_maps_and_points_without_a_density(y):
    empty = with_memory(no_map(), DIM)
    assert not is_used(empty)
    assert empty.work.size == empty.rows.size == 0
    density = mapped(TARGET.density(), made(ROWS.values()))
    there, gradient = y.copy(), np.empty(DIM)
    there[6] = np.nan
    assert value_and_gradient(density, there, gradient) == -np.inf
    assert value(density, there) == -np.inf


def test_an_evaluation_changes_the_workspace_alone(straightening, y):
    """What was learned stays as it is; chains may share it."""
    rows = straightening.rows.copy()
    density, gradient = mapped(TARGET.density(), straightening), np.empty(DIM)
    value_and_gradient(density, y, gradient)
    np.testing.assert_array_equal(straightening.rows, rows)
    other = with_memory(straightening, DIM)
    assert straightening.work.any()
    assert not other.work.any()


def test_each_chain_has_a_workspace_of_its_own(straightening, y):
    """Chains take turns, and one must not continue with the mean and factor of another."""
    own = with_memory(straightening, DIM)
    before = [part.copy() for part in own]
    value_and_gradient(mapped(TARGET.density(), straightening), 2.0 * y, np.empty(DIM))
    for part, former in zip(own, before, strict=True):
        np.testing.assert_array_equal(part, former)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_an_exponent_beyond_the_largest_is_constant(side, y):
    """The map stays invertible, and the gradient is that of the constant scale."""
    row = [3, 0, NONE, NONE, side * (LARGEST_EXPONENT + 5.0), 2.0, 0.7, 0, 0, 10.0, *[0] * 5]
    straightening = made([row])
    flat = Gaussian(TARGET.mean, np.where(np.arange(DIM) == 3, np.inf, SD))
    density, gradient = mapped(flat.density(), straightening), np.empty(DIM)
    assert value_and_gradient(density, y, gradient) == value(density, y) > -np.inf
    assert gradient[0] == pytest.approx(-(y[0] - TARGET.mean[0]) / SD[0] ** 2, rel=1e-12)
    back = np.empty(DIM)
    residual(straightening, placed(straightening, y), back)
    assert back[3] == pytest.approx(y[3], rel=1e-3)
