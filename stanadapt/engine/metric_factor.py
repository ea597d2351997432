"""The factor L of a metric (L L^T)^-1: diagonal, triangular, or of low rank.

The first two are stored as in `engine/compiled/triangular.py`, with
shapes (1, n) and (n, n); a triangular one
that stays as it is for long may be stored twice, with shape (n + 1, n): see `twofold`. The third
has shape (1 + r, n + 1) and stands for

    L = diag(s) (I + sum over k of c_k u_k u_k^T),

with s in row 0, the orthonormal u_k in the rows after it, and c_k > -1 in the last column. A
product costs 4 n r operations, in place of n^2. Compiled code tells them apart by their shapes, so
that one function serves all.

Products of the factor L of a metric with many vectors at once, the rows of an array.

L is stored as in `metric_factor`; none of these writes it out, so that a factor of low rank costs
memory of its own size alone. These are for Python, before and after sampling.
"""

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine.compiled import triangular
from stanadapt.engine.compiled.jit import inlined, jit
from stanadapt.engine.compiled.vectors import inner_product


def twofold(factor: np.ndarray) -> np.ndarray:
    """Store a factor twice where that makes products faster: if it is triangular.

    L.T fills the upper triangle of an array of shape (n + 1, n), diagonal included, and L the rest:
    row i of L is in row i + 1. Products then run along rows, which takes half of the time. n is at
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
    for i in range(n):
        out[i] = factor[0, i] * vector[i]
    _stretch(factor, out, n)


@inlined
def _stretch(factor, vector, n):
    """Multiply a vector by I + sum c_k u_k u_k^T, in place: the terms commute."""
    for k in range(1, factor.shape[0]):
        direction = factor[k]
        amount = direction[n] * inner_product(direction, vector, n)
        for i in range(n):
            vector[i] += amount * direction[i]


def inverse_times_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """L^-1 x of rows x, shape (m, n)."""
    n = rows.shape[1]
    if factor.shape[0] == 1:
        return rows / factor[0]
    if factor.shape[1] == n:
        return solve_triangular(factor, rows.T, lower=True, check_finite=False).T
    amounts = factor[1:, n]
    return _stretched(factor, rows / factor[0, :n], -amounts / (1.0 + amounts))


def transposed_times_rows(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """L^T g of rows g, shape (m, n)."""
    n = rows.shape[1]
    if factor.shape[0] == 1:
        return rows * factor[0]
    if factor.shape[1] == n:
        return rows @ np.tril(factor)
    return _stretched(factor, rows * factor[0, :n], factor[1:, n])


def diagonal(factor: np.ndarray, n: int) -> np.ndarray:
    """Numbers whose product is the determinant of L, all of them > 0 where L has an inverse."""
    if factor.shape[0] == 1:
        return factor[0]
    if factor.shape[1] == n:
        return np.diag(factor)
    return np.concatenate([factor[0, :n], 1.0 + factor[1:, n]])


def _stretched(factor: np.ndarray, rows: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Rows times I + sum c_k u_k u_k^T."""
    directions = factor[1:, : rows.shape[1]]
    return rows + (rows @ directions.T * amounts) @ directions
