"""Wrapped densities: their parts read back, and standardized coordinates against those behind."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import carray

from stanadapt.engine import wrapped_density
from stanadapt.engine.compiled.jit import c_function
from stanadapt.engine.density import (
    FAILED_CALLS,
    GRADIENT_CALLS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    make_density,
    value,
    value_and_gradient,
)
from stanadapt.engine.standardized_density import original, standardized
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.targets import Awkward


class Inner(NamedTuple):
    """Parts within parts."""

    empty: wrapped_density.Matrix
    scale: float


class Parts(NamedTuple):
    """One field of each kind, numbers after arrays too."""

    entries: wrapped_density.Matrix
    inner: Inner
    steps: wrapped_density.Integers
    count: int
    work: wrapped_density.Vector


@c_function(VALUE_SIGNATURE)
def weighted_sum(handle, propto, jacobian, position, value, message):
    """Sum of all entries, each kind with another weight; the calls are counted in `work`."""
    parts = wrapped_density.parts_at(handle, Parts)
    parts.work[0] += 1.0
    total = parts.inner.scale * parts.entries[1, 2] + 1e3 * parts.steps[1] + 1e6 * parts.count
    for size in (*parts.entries.shape, *parts.inner.empty.shape, parts.steps.shape[0]):
        total = 10.0 * total + size
    carray(value, 1)[0] = total
    return 0


@c_function(GRADIENT_SIGNATURE)
def weighted_slope(handle, propto, jacobian, position, value, gradient, message):
    """Row 0 of the entries."""
    parts, out = wrapped_density.parts_at(handle, Parts), carray(gradient, 3)
    for i in range(3):
        out[i] = parts.entries[0, i]
    carray(value, 1)[0] = 0.0
    return 0


def test_parts_are_read_back():
    # not contiguous: columns of a transposed array
    entries = np.arange(6.0).reshape(3, 2).T
    parts = Parts(entries, Inner(np.empty((0, 4)), -2.5), np.array([7, -9]), 11, np.zeros(1))
    density = wrapped_density.wrapped(make_density(0, 0, 0, 3), parts, weighted_sum, weighted_slope)

    read = wrapped_density.parts_of(density, Parts)
    for found, given in zip((*read, *read.inner), (*parts, *parts.inner), strict=True):
        if not isinstance(given, tuple):
            np.testing.assert_array_equal(found, given, strict=True)
    assert (type(read.count), type(read.inner.scale)) == (int, float)

    total = -2.5 * entries[1, 2] - 9e3 + 11e6
    assert value(density, np.zeros(3)) == total * 1e5 + 23042
    gradient = np.empty(3)
    value_and_gradient(density, np.zeros(3), gradient)
    assert list(gradient) == [0.0, 2.0, 4.0]
    # the block is the density's own; workspace is kept there
    assert (list(read.work), list(parts.work)) == ([1.0], [0.0])
    assert list(density.calls[:2]) == [1, 1]


LOCATION = np.array([-0.7, 1.3, -40.0])
DIRECTION = np.array([2.0, -1.0, 2.0]) / 3.0
# the third stretches one direction of three parameters by 1 + 1.5
FACTORS = {
    "diagonal": np.array([[0.6, 1e-3, 30.0]]),
    "triangular": np.array([[0.6, 7.0, 7.0], [-2e-3, 1e-3, 7.0], [10.0, -5.0, 30.0]]),
    "low rank": np.array([[0.6, 1e-3, 30.0, 0.0], [*DIRECTION, 1.5]]),
}
MATRICES = {
    "diagonal": np.diag(FACTORS["diagonal"][0]),
    "triangular": np.tril(FACTORS["triangular"]),
    "low rank": np.diag([0.6, 1e-3, 30.0]) @ (np.eye(3) + 1.5 * np.outer(DIRECTION, DIRECTION)),
}


@pytest.fixture(params=FACTORS)
def kind(request):
    return request.param


def test_positions_and_densities_are_those_of_the_matrix(kind):
    base = Awkward().density()
    density = standardized(base, LOCATION, FACTORS[kind])
    z, x = np.array([[0.3, -0.8, 0.4], [1.1, 0.2, -0.9]]), np.empty((2, 3))
    original(LOCATION, FACTORS[kind], z, x)
    np.testing.assert_allclose(x, LOCATION + z @ MATRICES[kind].T, rtol=1e-13, atol=1e-13)
    slope, gradient = np.empty(3), np.empty(3)
    for row, there in zip(z, x, strict=True):
        # the same operations: no rounding lies between a draw and its log density
        assert value(density, row) == value(base, there) > -np.inf
        assert value_and_gradient(density, row, gradient) == value_and_gradient(base, there, slope)
        np.testing.assert_allclose(gradient, MATRICES[kind].T @ slope, rtol=1e-12)


def test_noise_is_passed_on_unchanged(kind):
    target = Gaussian([1.0, -2.0, 50.0, 0.5, -0.5], [1.0, 0.01, 20.0, 0.7, 2.0])
    base = target.density()._replace(dim=3, correlation=0.4)
    density = standardized(base, LOCATION, FACTORS[kind])
    assert (density.dim, density.size, density.correlation) == (3, 5, 0.4)
    z, x = np.array([[0.3, -0.8, 0.4, 1.7, -3.0]]), np.empty((1, 5))
    original(LOCATION, FACTORS[kind], z, x)
    assert list(x[0, 3:]) == [1.7, -3.0]
    assert value(density, z[0]) == value(base, x[0])


def test_failures_and_counts_are_its_own(kind):
    base = Awkward(wall=-0.5).density()
    density = standardized(base, LOCATION, FACTORS[kind])
    beyond = np.linalg.solve(MATRICES[kind], np.array([0.1, 1.0, -2.0]) - LOCATION)
    gradient = np.ones(3)
    assert value_and_gradient(density, beyond, gradient) == -np.inf
    assert not gradient.any()
    assert density.calls[FAILED_CALLS] == density.calls[GRADIENT_CALLS] == 1
    assert not base.calls.any()
    np.testing.assert_array_equal(density.failed_position, beyond)


def test_the_flag_of_value_calls_is_passed_on():
    base = Awkward().density()
    plain = standardized(base, LOCATION, FACTORS["diagonal"])
    # the awkward target fails if it is called without propto
    without = standardized(base._replace(value_propto=0), LOCATION, FACTORS["diagonal"])
    assert value(plain, np.zeros(3)) > -np.inf
    assert value(without, np.zeros(3)) == -np.inf
