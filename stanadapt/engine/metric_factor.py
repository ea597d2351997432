"""The factor L of a metric (L L^T)^-1: diagonal, triangular, or of low rank.

The first two are stored as in `engine/compiled/triangular.py`, with
shapes (1, n) and (n, n); a triangular one
that stays as it is for long may be stored twice, with shape (n + 1, n): see `twofold`. The third
has shape (1 + r, n + 1) and stands for

    L = diag(s) (I + sum over k of c_k u_k u_k^T),

with s in row 0, the orthonormal u_k in the rows after it, and c_k > -1 in the last column. A
product costs 4 n r operations, in place of n^2. Compiled code tells them apart by their shapes, so
that one function serves all.
"""

import numpy as np

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
