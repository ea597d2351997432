"""The factor L of a metric (L L^T)^-1: diagonal, triangular, of low rank, or of a sparse inverse.

A diagonal factor has shape (1, n) and a triangular one (n, n), as in
`engine/numerics/triangular.py`; a triangular one that is used for long may be stored twice, with
shape (n + 1, n): see `twofold`. A factor of low rank has shape (1 + r, n + 1) and represents

    L = diag(s) (I + sum over k of c_k u_k u_k^T),

with s in row 0, the orthonormal u_k in the rows after it, and c_k > -1 in the last column. A
product costs 4 n r operations instead of n^2. That of a sparse precision matrix is less than n
wide: see `sparse_factor`. Compiled code distinguishes the kinds by their shapes, so that one
function handles all.

Python code, before and after sampling, multiplies many vectors at once, the rows of an array. It
does not write out a factor of low rank, which therefore costs memory of its size alone; only
`written_out` does, for few parameters.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine import sparse_factor
from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import inner_product
from stanadapt.engine.sparse_factor import (
    INVERSE_TIMES,
    TIMES,
    TRANSPOSED_TIMES,
    products_with_rows,
)

# --- one vector, in compiled code -----------------------------------------------------------------


def twofold(factor: np.ndarray) -> np.ndarray:
    """Store a factor twice if it is triangular, which makes products faster.

    L.T fills the upper triangle of an array of shape (n + 1, n), diagonal included, and L the rest:
    row i of L is in row i + 1. Products then run along rows, which takes half the time. n is at
    least 2.
    """
    rows, n = factor.shape
    if rows != n or n < 2:
        return np.ascontiguousarray(factor)
    both = np.empty((n + 1, n))
    lower = np.tril_indices(n)
    both[lower[0] + 1, lower[1]] = factor[lower]
    both[lower[1], lower[0]] = factor[lower]
    return both


@jit
def times(factor, vector, out):
    """Write L @ vector into out; all vectors have shape (n,)."""
    n = vector.shape[0]
    if factor.shape[0] > n and factor.shape[1] == n:
        triangular.transposed_upper_times(factor, vector, out)
        return
    if factor.shape[1] == n:
        triangular.times(factor, vector, out)
        return
    if factor.shape[1] < n:
        sparse_factor.multiply(factor, vector, out, TIMES)
        return
    for i in range(n):
        out[i] = vector[i]
    _stretch(factor, out, n)
    for i in range(n):
        out[i] *= factor[0, i]


@jit
def transposed_times(factor, vector, out):
    """Write L.T @ vector into out; all vectors have shape (n,)."""
    n = vector.shape[0]
    if factor.shape[0] > n and factor.shape[1] == n:
        triangular.transposed_times(factor[1:], vector, out)
        return
    if factor.shape[1] == n:
        triangular.transposed_times(factor, vector, out)
        return
    if factor.shape[1] < n:
        sparse_factor.multiply(factor, vector, out, TRANSPOSED_TIMES)
        return
    for i in range(n):
        out[i] = factor[0, i] * vector[i]
    _stretch(factor, out, n)


@inline
def _stretch(factor, vector, n):
    """Multiply a vector by I + sum c_k u_k u_k^T, in place: the terms commute."""
    for k in range(1, factor.shape[0]):
        direction = factor[k]
        amount = direction[n] * inner_product(direction, vector, n)
        for i in range(n):
            vector[i] += amount * direction[i]


# --- in Python ------------------------------------------------------------------------------------


def is_sparse(factor: np.ndarray, n: int) -> bool:
    """Whether a factor of n coordinates is that of a sparse precision matrix."""
    return factor.ndim == 2 and factor.shape[1] < n


class Products(NamedTuple):
    """Products of L with one vector, shape (n,), by NumPy, for a few calls: see `products`."""

    times: Callable[[np.ndarray], np.ndarray]  # L x
    transposed_times: Callable[[np.ndarray], np.ndarray]  # L^T g


def products(factor: np.ndarray, n: int) -> Products:
    """Return the products of a factor of n coordinates, stored in any way.

    Sums are NumPy's own and not those of BLAS, which depend on the number of its threads.
    """
    if is_sparse(factor, n):
        return Products(
            lambda x: products_with_rows(factor, x[None], TIMES)[0],
            lambda g: products_with_rows(factor, g[None], TRANSPOSED_TIMES)[0],
        )
    if len(factor) > 1 and factor.shape[1] == n:
        lower = written_out(factor, n)
        return Products(partial(np.einsum, "ij,j->i", lower), partial(np.einsum, "ji,j->i", lower))
    scales, directions, amounts = factor[0, :n], factor[1:, :n], factor[1:, -1]

    def stretched(vector: np.ndarray) -> np.ndarray:
        if not len(amounts):
            return vector
        shares = amounts * np.einsum("ij,j->i", directions, vector)
        return vector + np.einsum("ij,i->j", directions, shares)

    return Products(lambda x: scales * stretched(x), lambda g: stretched(scales * g))


def inverse_times_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return L^-1 x for each row x, shape (m, n)."""
    n = rows.shape[1]
    if factor.shape[0] == 1:
        return rows / factor[0]
    if is_sparse(factor, n):
        return products_with_rows(factor, rows, INVERSE_TIMES)
    if factor.shape[1] == n:
        return solve_triangular(factor, rows.T, lower=True, check_finite=False).T
    amounts = factor[1:, n]
    return _stretched(factor, rows / factor[0, :n], -amounts / (1.0 + amounts))


def transposed_times_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return L^T g for each row g, shape (m, n)."""
    n = rows.shape[1]
    if factor.shape[0] == 1:
        return rows * factor[0]
    if is_sparse(factor, n):
        return products_with_rows(factor, rows, TRANSPOSED_TIMES)
    if factor.shape[1] == n:
        return rows @ np.tril(factor)
    return _stretched(factor, rows * factor[0, :n], factor[1:, n])


def written_out(factor: np.ndarray, n: int) -> np.ndarray:
    """Return L as a matrix of shape (n, n), of a factor stored in any way."""
    if factor.shape[0] == 1:
        return np.diag(factor[0, :n])
    if is_sparse(factor, n):
        return products_with_rows(factor, np.eye(n), TIMES).T
    if factor.shape[1] == n:
        return np.tril(factor[factor.shape[0] - n :])
    directions, amounts = factor[1:, :n], factor[1:, n]
    return factor[0, :n, None] * (np.eye(n) + (directions.T * amounts) @ directions)


def diagonal(factor: np.ndarray, n: int) -> np.ndarray:
    """Return n or more numbers that multiply to det L; all are > 0 if L has an inverse."""
    if factor.shape[0] == 1:
        return factor[0]
    if is_sparse(factor, n):
        return factor[:n, sparse_factor.INVERSE]
    if factor.shape[1] == n:
        return np.diag(factor)
    return np.concatenate([factor[0, :n], 1.0 + factor[1:, n]])


# draws by which variances of a sparse precision matrix are estimated: to a sixth
VARIANCE_DRAWS = 72


def scales(factor: np.ndarray, n: int) -> np.ndarray:
    """Return the standard deviations of L z for standard normal z, shape (n,).

    Those of a sparse precision matrix are estimates: the exact ones take n^2 operations.
    """
    if factor.shape[0] == 1:
        return factor[0, :n].copy()
    if is_sparse(factor, n):
        z = np.random.default_rng(0).standard_normal((VARIANCE_DRAWS, n))
        return np.sqrt(np.mean(products_with_rows(factor, z, TIMES) ** 2, axis=0))
    if factor.shape[1] == n:
        return np.sqrt((written_out(factor, n) ** 2).sum(axis=1))
    scale, directions, amounts = factor[0, :n], factor[1:, :n], factor[1:, n]
    excess = ((1.0 + amounts) ** 2 - 1.0) @ directions**2
    return scale * np.sqrt(np.maximum(1.0 + excess, 0.0))


def _stretched(factor: np.ndarray, rows: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Multiply rows by I + sum c_k u_k u_k^T."""
    directions = factor[1:, : rows.shape[1]]
    return rows + (rows @ directions.T * amounts) @ directions
