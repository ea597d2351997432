"""Products with a triangular or diagonal factor, against NumPy, at every remainder of 4."""

import numpy as np
import pytest

from stanadapt.engine.numerics import triangular as factors

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


def test_initial_factor_is_a_multiple_of_the_identity():
    np.testing.assert_array_equal(factors.initial(3, 0.5, False), 0.5 * np.eye(3))
    np.testing.assert_array_equal(factors.initial(3, 0.5, True), np.full((1, 3), 0.5))
