"""Sums and order of vectors, against NumPy's."""

import numpy as np
import pytest

from stanadapt.engine.numerics.vectors import largest, median, sort, vector_mean, vector_sum


def vector_of(count, seed=0):
    """Return numbers of very different sizes, some of them equal."""
    rng = np.random.default_rng((count, seed))
    return np.round(10.0 ** rng.uniform(-3.0, 3.0, count) * rng.choice([-1.0, 1.0], count), 2)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 31, 32, 33, 1000])
def test_sorted_as_by_numpy(count):
    for seed in range(20):
        vector = vector_of(count, seed)
        expected = np.sort(vector)
        sort(vector)
        np.testing.assert_array_equal(vector, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 31, 32, 33, 1000, 1001])
def test_median_as_by_numpy(count):
    for seed in range(20):
        vector = vector_of(count, seed)
        assert median(vector.copy()) == np.median(vector)
        assert median(np.sort(vector)) == median(np.sort(vector)[::-1].copy()) == np.median(vector)
    assert median(np.full(count, 3.0)) == 3.0


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_what_is_sorted_and_a_view_are_sorted(order):
    matrix = np.arange(30.0).reshape(10, 3)[order].copy()
    sort(matrix[:, 1])
    np.testing.assert_array_equal(matrix[:, 1], np.arange(1.0, 30.0, 3.0))
    np.testing.assert_array_equal(matrix[:, 0], np.arange(0.0, 30.0, 3.0)[order])


def test_infinite_numbers_are_sorted():
    vector = np.array([2.0, -np.inf, np.inf, -3.0, -np.inf])
    sort(vector)
    np.testing.assert_array_equal(vector, [-np.inf, -np.inf, -3.0, 2.0, np.inf])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 61])
def test_mean_sum_and_largest(count):
    vector = vector_of(count)
    assert vector_mean(vector) == pytest.approx(vector.mean(), rel=1e-12, abs=1e-12)
    assert vector_sum(vector, count) == pytest.approx(vector.sum(), rel=1e-12, abs=1e-12)
    for k in range(count):  # wherever it is
        assert largest(np.roll(vector, k)) == vector.max()
