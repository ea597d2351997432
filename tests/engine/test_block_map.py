"""The map of a Gaussian block: its gradient by differences, with each kind of function."""

import numpy as np
import pytest

from stanadapt.engine import block_map
from stanadapt.engine.block_map import pack, unpacked
from stanadapt.engine.walk_map import NO_WALK, Walk
from tests.helpers.gaussian_blocks import made_up

DIM = 8


def log_density(x):
    """No Gaussian, and no coordinate is independent of the others."""
    return -np.sum(np.cosh(x - np.roll(x, 1))) - 0.1 * np.sum(x**4)


def slope(x):
    """Return its gradient."""
    return -np.sinh(x - np.roll(x, 1)) + np.sinh(np.roll(x, -1) - x) - 0.4 * x**3


@pytest.mark.parametrize(
    ("code", "scaled", "without_bounds"),
    [
        *((code, 0, False) for code in (1, 2, 3, 4, 5, 6)),
        *((1, 1, False), (2, 3, False), (1, 0, True), (2, 0, True)),
    ],
)
def test_the_gradient_is_that_of_the_density_of_y(code, scaled, without_bounds):
    rng = np.random.default_rng(code)
    block = made_up(rng, scaled=scaled)
    block.powers[1, 1] = code
    if code >= block_map.RECIPROCAL:  # of a positive value
        block.bounds[1] = 2.0, 0.2, 0.6
    if without_bounds:
        block.bounds[1] = 0.0
    block = pack(block)
    for _ in range(5):
        y = 0.5 * rng.standard_normal(DIM)
        x, gradient = np.empty(DIM), np.empty(DIM)

        def density(y, x=x):
            log_jacobian = block_map.place(block, y, x)
            return log_density(x) + log_jacobian

        for j in range(DIM):
            step = 1e-5 * np.eye(DIM)[j]
            gradient[j] = (density(y + step) - density(y - step)) / 2e-5
        density(y)
        found = slope(x)
        block_map.pull_back(block, x, found)
        np.testing.assert_allclose(found, gradient, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("definite", [True, False])
def test_rows_go_there_and_back(definite):
    """Also where Q is not positive definite, so that no draw is lost or counted twice."""
    rng = np.random.default_rng(3)
    block, x = made_up(rng, definite), 0.5 * rng.standard_normal((20, DIM))
    y, back, logs = x.copy(), np.empty_like(x), np.empty((2, 20))
    packed = pack(block)
    count = block_map.enter_rows(packed, y, np.zeros_like(x), logs[0])
    assert count == (20 if definite else 0)
    for i in range(20):
        logs[1, i] = block_map.place(packed, y[i], back[i])
    np.testing.assert_allclose(back, x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(logs[0], logs[1], rtol=1e-12)
    assert not np.allclose(x[:, block.block], y[:, block.block])


@pytest.mark.parametrize(("definite", "scaled"), [(True, 0), (False, 0), (True, 2)])
def test_a_gradient_goes_there_and_back_in_a_packed_map(definite, scaled):
    rng = np.random.default_rng(5)
    made, x = made_up(rng, definite, scaled=scaled), rng.standard_normal(DIM)
    block, gradient = pack(made), slope(x)
    for field, other in zip(unpacked(block)[:-1], made[:-1], strict=True):
        np.testing.assert_array_equal(field, other)
    block_map.residual(block, x, np.empty(DIM))
    block_map.pull_back(block, x, gradient)
    assert np.abs(gradient - slope(x)).max() > 0.1
    block_map.push_forward(block, x, gradient)
    np.testing.assert_allclose(gradient, slope(x), rtol=1e-11)


@pytest.mark.parametrize("is_stationary", [0, 1])
def test_innovations_stand_for_states(is_stationary):
    rng = np.random.default_rng(is_stationary)
    kinds = np.array([is_stationary, 1 - is_stationary])
    walk = Walk(
        np.array([3, 0, 7, 1]), np.array([2, 4]), np.array([6, 4]), np.array([2, 2]),
        np.tile([1.0, -1.0, 2.0], (2, 1)), kinds,
    )  # fmt: skip
    made = made_up(rng)
    block = pack(made._replace(walk=walk))
    y = 0.5 * rng.standard_normal(DIM)
    x, back, z = np.empty(DIM), np.empty(DIM), np.empty(DIM)

    def density(y):
        return block_map.place(block, y, x) + log_density(x)

    gradient = [(density(y + s) - density(y - s)) / 2e-5 for s in 1e-5 * np.eye(DIM)]
    log_jacobian = block_map.place(block, y, x)
    assert block_map.residual(block, x, back) == pytest.approx(log_jacobian)
    np.testing.assert_allclose(back, y, rtol=1e-12)
    found = slope(x)
    block_map.pull_back(block, x, found)
    np.testing.assert_allclose(found, gradient, rtol=1e-7, atol=1e-7)
    block_map.push_forward(block, x, found)
    np.testing.assert_allclose(found, slope(x), rtol=1e-11)
    block_map.place(pack(made._replace(walk=NO_WALK)), y, z)
    v, root = np.tanh(z[2] / 2.0), 1.0 / np.cosh(z[2] / 2.0)
    for (i, j), s, stationary in zip(([3, 0], [7, 1]), np.exp(z[[6, 4]]), kinds, strict=True):
        first = z[i] / s * (root if stationary else 1.0)
        np.testing.assert_allclose(x[[i, j]], [first, (z[j] - v * z[i]) / s])
