"""Products with many vectors at once equal those of compiled code with each of them."""

import numpy as np
import pytest
from scipy import sparse

from stanadapt.engine import metric_factor
from stanadapt.engine.sparse_factor import sparse_factor

RNG = np.random.default_rng(1)
N = 6
SCALES = 10.0 ** np.linspace(-3, 3, N)
DIRECTIONS = np.linalg.qr(RNG.standard_normal((N, 2)))[0].T


def low_rank(scales, directions, amounts):
    factor = np.zeros((1 + len(directions), len(scales) + 1))
    factor[0, :-1], factor[1:, :-1], factor[1:, -1] = scales, directions, amounts
    return factor


def chained(scales):
    """A random walk whose states are in another order, so that both orders are in use."""
    order = np.array([3, 0, 5, 1, 4, 2])
    walk = 2.1 * np.eye(N) - np.eye(N, k=1) - np.eye(N, k=-1)
    precision = walk[order][:, order] / np.outer(scales, scales)
    return sparse_factor(sparse.csr_array(precision))


FACTORS = {
    "sparse": chained(SCALES),
    "diagonal": SCALES[None].copy(),
    "dense": np.tril(RNG.standard_normal((N, N)) + 3.0 * np.eye(N)) * SCALES[:, None],
    "low rank": low_rank(SCALES, DIRECTIONS, [4.0, -0.8]),
}


@pytest.fixture(params=FACTORS)
def factor(request):
    return FACTORS[request.param]


def rows_of(compiled, factor, rows):
    out = np.empty_like(rows)
    for row, product in zip(rows, out, strict=True):
        compiled(factor, row, product)
    return out


def test_products_with_rows(factor):
    rows = RNG.standard_normal((3, N))
    moved = rows_of(metric_factor.times, factor, rows)
    np.testing.assert_allclose(metric_factor.inverse_times_rows(factor, moved), rows, rtol=1e-10)
    found = metric_factor.transposed_times_rows(factor, rows)
    expected = rows_of(metric_factor.transposed_times, factor, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_determinant(factor):
    matrix = rows_of(metric_factor.times, factor, np.eye(N)).T
    product = metric_factor.diagonal(factor, N).prod()
    assert product == pytest.approx(np.linalg.det(matrix), rel=1e-10)


def test_a_factor_of_low_rank_is_never_written_out():
    """A matrix of this size would take 320 GB."""
    n = 200_000
    factor = low_rank(np.full(n, 2.0), np.full((1, n), n**-0.5), [1.0])
    rows = np.ones((2, n))
    np.testing.assert_allclose(metric_factor.inverse_times_rows(factor, rows), 0.25)
    np.testing.assert_allclose(metric_factor.transposed_times_rows(factor, rows), 4.0)


@pytest.mark.parametrize("twice", [False, True])
def test_products_with_one_vector_in_python(factor, twice):
    stored = metric_factor.twofold(factor) if twice else factor
    products = metric_factor.products(stored, N)
    for name in ("times", "transposed_times"):
        for vector in RNG.standard_normal((3, N)):
            expected = np.empty(N)
            getattr(metric_factor, name)(stored, vector, expected)
            ours = getattr(products, name)(vector)
            np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12 * SCALES.max())
