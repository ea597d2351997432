"""Products with a low-rank factor, against the matrix written out."""

import numpy as np
import pytest

from stanadapt.engine import metric_factor
from stanadapt.engine.numerics import triangular


def low_rank(n, rank, rng):
    """Return a random factor as it is stored, and its matrix."""
    directions = np.linalg.qr(rng.standard_normal((n, rank)))[0].T
    scale, amounts = np.exp(3.0 * rng.standard_normal(n)), rng.uniform(-0.9, 5.0, rank)
    stored = np.zeros((1 + rank, n + 1))
    stored[0, :n], stored[1:, :n], stored[1:, n] = scale, directions, amounts
    return stored, scale[:, None] * (np.eye(n) + (directions.T * amounts) @ directions)


@pytest.mark.parametrize(("n", "rank"), [(4, 1), (13, 3), (14, 2), (15, 1), (40, 10)])
def test_products_are_those_of_the_matrix(n, rank):
    rng = np.random.default_rng(n)
    stored, matrix = low_rank(n, rank, rng)
    v, w = rng.standard_normal((2, n))
    out, back = np.empty(n), np.empty(n)
    metric_factor.times(stored, v, out)
    metric_factor.transposed_times(stored, w, back)
    np.testing.assert_allclose(out, matrix @ v, rtol=1e-12, atol=1e-12 * np.abs(matrix).max())
    np.testing.assert_allclose(back, matrix.T @ w, rtol=1e-12, atol=1e-12 * np.abs(matrix).max())
    assert out @ w == pytest.approx(v @ back, rel=1e-10)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 100])
def test_a_factor_stored_twice_has_the_same_products(n):
    rng = np.random.default_rng(n)
    lower = np.tril(rng.standard_normal((n, n))) * np.exp(3.0 * rng.standard_normal((n, 1)))
    junk = np.triu(np.full((n, n), np.nan), 1)  # is never read
    stored = metric_factor.twofold(lower + junk)
    assert stored.shape == (n + 1, n)
    v, out = rng.standard_normal(n), np.full(n, np.nan)
    metric_factor.times(stored, v, out)
    np.testing.assert_allclose(out, lower @ v, rtol=1e-12, atol=1e-13 * np.abs(lower).max())
    metric_factor.transposed_times(stored, v, out)
    np.testing.assert_allclose(out, lower.T @ v, rtol=1e-12, atol=1e-13 * np.abs(lower).max())


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 6)])
def test_other_factors_are_stored_once(shape):
    stored = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(metric_factor.twofold(stored), stored)


@pytest.mark.parametrize("rows", [1, 5])
def test_other_factors_are_those_of_triangular(rows):
    rng = np.random.default_rng(1)
    stored = np.abs(rng.standard_normal((rows, 5)))
    v, ours, theirs = rng.standard_normal(5), np.empty(5), np.empty(5)
    for name in ("times", "transposed_times"):
        getattr(metric_factor, name)(stored, v, ours)
        getattr(triangular, name)(stored, v, theirs)
        np.testing.assert_array_equal(ours, theirs)
