"""Products of the factor L of a metric with many vectors at once, the rows of an array.

L is stored as in `metric_factor`; none of these writes it out, so that a factor of low rank costs
memory of its own size alone. These are for Python, before and after sampling.
"""

import numpy as np
from scipy.linalg import solve_triangular


def inverse_times(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """L^-1 x of rows x, shape (m, n)."""
    n = rows.shape[1]
    if factor.shape[0] == 1:
        return rows / factor[0]
    if factor.shape[1] == n:
        return solve_triangular(factor, rows.T, lower=True, check_finite=False).T
    amounts = factor[1:, n]
    return _stretched(factor, rows / factor[0, :n], -amounts / (1.0 + amounts))


def transposed_times(factor: np.ndarray, rows: np.ndarray) -> np.ndarray:
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
