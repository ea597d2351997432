"""The parts of a wrapped density, read back in Python and in compiled code."""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine import wrapped_density
from stanadapt.engine.compiled.jit import c_function
from stanadapt.engine.density import (
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    make_density,
    value,
    value_and_gradient,
)


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
