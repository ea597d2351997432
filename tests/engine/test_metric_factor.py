"""Products with a factor of each kind: with one vector, compiled and in NumPy, and with rows."""

import numpy as np
import pytest
from scipy import sparse

from stanadapt.engine import metric_factor
from stanadapt.engine.sparse_factor import BAND, LARGEST_WIDTH, sparse_factor

RNG = np.random.default_rng(1)


def low_rank(n, rank=2):
    """Return a random factor as it is stored, and its matrix."""
    directions = np.linalg.qr(RNG.standard_normal((n, rank)))[0].T
    scales, amounts = 10.0 ** RNG.uniform(-3, 3, n), RNG.uniform(-0.9, 5.0, rank)
    stored = np.zeros((1 + rank, n + 1))
    stored[0, :n], stored[1:, :n], stored[1:, n] = scales, directions, amounts
    return stored, scales[:, None] * (np.eye(n) + (directions.T * amounts) @ directions)


def diagonal(n):
    scales = 10.0 ** RNG.uniform(-3, 3, n)
    return scales[None].copy(), np.diag(scales)


def triangular(n):
    lower = np.tril(RNG.standard_normal((n, n)), -1) + np.diag(RNG.uniform(0.5, 4.0, n))
    lower *= 10.0 ** RNG.uniform(-3, 3, (n, 1))
    return lower + np.triu(np.full((n, n), np.nan), 1), lower  # what lies above is never read


def twofold(n):
    stored, matrix = triangular(n)
    return metric_factor.twofold(stored), matrix


def chained(n):
    """A random walk whose states are in another order, so that both orders are in use."""
    order = RNG.permutation(n)
    walk = 2.1 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    precision = walk[order][:, order] / np.outer(*2 * [10.0 ** RNG.uniform(-3, 3, n)])
    stored = sparse_factor(sparse.csr_array(precision))
    return stored, metric_factor.written_out(stored, n)


# numbers that are not multiples of four too: a remainder is left over
KINDS = {
    **{f"low rank, {n}": low_rank(n, rank) for n, rank in [(4, 1), (13, 3), (14, 2), (40, 10)]},
    **{f"triangular, {n}": triangular(n) for n in (2, 5, 100)},
    **{f"stored twice, {n}": twofold(n) for n in (2, 3, 4, 5, 8, 13, 100)},
    "diagonal": diagonal(6), "sparse": chained(6),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_those_of_the_matrix(kind):
    stored, matrix = KINDS[kind]
    n, largest = len(matrix), np.abs(matrix).max()
    rows = RNG.standard_normal((3, n))
    products = metric_factor.products(stored, n)
    for name, expected in (("times", rows @ matrix.T), ("transposed_times", rows @ matrix)):
        for row, product in zip(rows, expected, strict=True):
            out = np.full(n, np.nan)
            getattr(metric_factor, name)(stored, row, out)
            for found in (out, getattr(products, name)(row)):
                np.testing.assert_allclose(found, product, rtol=1e-11, atol=1e-12 * largest)
    if "twice" in kind:  # rows are multiplied by the factor as it was
        assert stored.shape == (n + 1, n)
        return
    found = metric_factor.transposed_times_rows(stored, rows)
    np.testing.assert_allclose(found, rows @ matrix, rtol=1e-11, atol=1e-12 * largest)
    found = metric_factor.inverse_times_rows(stored, rows @ matrix.T)
    np.testing.assert_allclose(found, rows, rtol=1e-7)
    determinant = np.log(metric_factor.diagonal(stored, n)).sum()
    assert determinant == pytest.approx(np.linalg.slogdet(matrix)[1], abs=1e-9)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 6)])
def test_other_factors_are_stored_once(shape):
    stored = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(metric_factor.twofold(stored), stored)


def test_a_factor_of_low_rank_is_never_written_out():
    """A matrix of this size would take 320 GB."""
    n = 200_000
    factor = np.full((2, n + 1), n**-0.5)
    factor[0], factor[1, n] = 2.0, 1.0
    rows = np.ones((2, n))
    np.testing.assert_allclose(metric_factor.inverse_times_rows(factor, rows), 0.25)
    np.testing.assert_allclose(metric_factor.transposed_times_rows(factor, rows), 4.0)


# --- a sparse precision matrix --------------------------------------------------------------------


def seasonal(n, means, rng):
    """A precision with links to the next and the fourth next state, and means; shuffled."""
    links = sparse.diags_array([1.0, -1.0], offsets=[0, 1], shape=(n, n)).tolil()
    links += sparse.diags_array([0.3], offsets=[4], shape=(n, n))
    design = sparse.hstack([links, rng.uniform(0.5, 1.0, (n, means))])
    matrix = (design.T @ design + 0.1 * sparse.eye_array(n + means)).tocsr()
    order = rng.permutation(n + means)
    return matrix[order][:, order]


@pytest.mark.parametrize("means", [0, 1, 3])
def test_the_covariance_is_the_inverse(means):
    precision = seasonal(60, means, np.random.default_rng(means))
    factor = sparse_factor(precision)
    n = 60 + means
    assert factor.shape[1] <= BAND + 8 + means
    root = metric_factor.written_out(factor, n)
    np.testing.assert_allclose(root @ root.T @ precision, np.eye(n), atol=1e-10)
    determinant = np.log(metric_factor.diagonal(factor, n)).sum()
    assert determinant == pytest.approx(-0.5 * np.linalg.slogdet(precision.toarray())[1])
    # estimates from 72 draws
    exact = np.sqrt(np.diag(np.linalg.inv(precision.toarray())))
    np.testing.assert_allclose(metric_factor.scales(factor, n) / exact, 1.0, atol=0.4)


def test_there_is_none_of_an_indefinite_or_a_wide_matrix():
    precision = seasonal(60, 0, np.random.default_rng(0))
    assert sparse_factor(sparse.csr_array(precision - 0.2 * sparse.eye_array(60))) is None
    n = 2 * LARGEST_WIDTH
    wide = sparse.eye_array(n) + 1e-4 * np.ones((n, n))
    assert sparse_factor(sparse.csr_array(wide)) is None
