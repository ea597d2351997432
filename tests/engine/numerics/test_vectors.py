"""Sums and order of vectors, and products with triangular factors, against NumPy's."""

import numpy as np
import pytest

from stanadapt.engine.numerics import triangular as factors
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


def test_infinite_numbers_and_initial_factors():
    vector = np.array([2.0, -np.inf, np.inf, -3.0, -np.inf])
    sort(vector)
    np.testing.assert_array_equal(vector, [-np.inf, -np.inf, -3.0, 2.0, np.inf])
    np.testing.assert_array_equal(factors.initial(3, 0.5, False), 0.5 * np.eye(3))
    np.testing.assert_array_equal(factors.initial(3, 0.5, True), np.full((1, 3), 0.5))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 61])
def test_mean_sum_and_largest(count):
    vector = vector_of(count)
    assert vector_mean(vector) == pytest.approx(vector.mean(), rel=1e-12, abs=1e-12)
    assert vector_sum(vector, count) == pytest.approx(vector.sum(), rel=1e-12, abs=1e-12)
    for k in range(count):  # wherever it is
        assert largest(np.roll(vector, k)) == vector.max()


SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 31]


@pytest.fixture(params=[(n, diagonal) for n in SIZES for diagonal in (False, True)])
def factor(request):
    """Return (stored factor, the matrix it represents); entries that are never read are NaN."""
    n, diagonal = request.param
    rng = np.random.default_rng(n)
    if diagonal:
        stored = rng.uniform(0.5, 3, (1, n))
        return stored, np.diag(stored[0])
    stored = np.tril(rng.standard_normal((n, n)), -1) + np.diag(rng.uniform(0.5, 3, n))
    matrix = stored.copy()
    stored[np.triu_indices(n, 1)] = np.nan
    return stored, matrix


@pytest.mark.parametrize("operation", ["times", "transposed_times", "solve"])
def test_products_equal_numpy(factor, operation):
    stored, matrix = factor
    vector = np.random.default_rng(1).standard_normal(len(matrix))
    out = np.full(len(matrix), np.nan)
    getattr(factors, operation)(stored, vector, out)
    expected = {
        "times": lambda: matrix @ vector,
        "transposed_times": lambda: matrix.T @ vector,
        "solve": lambda: np.linalg.solve(matrix, vector),
    }[operation]()
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)
