"""The factor L of a metric (L L^T)^-1: diagonal, triangular, or of low rank.

The first two are stored as in `_numba/triangular`, with shapes (1, n) and (n, n). The third has
shape (1 + r, n + 1) and stands for

    L = diag(s) (I + sum over k of c_k u_k u_k^T),

with s in row 0, the orthonormal u_k in the rows after it, and c_k > -1 in the last column. A
product costs 4 n r operations, in place of n^2. Compiled code tells them apart by their shapes, so
that one function serves all.
"""

from stanadapt._numba import triangular
from stanadapt._numba.jit import inlined, jit
from stanadapt._numba.vectors import inner_product


@jit
def times(factor, vector, out):
    """Write L @ vector into out; all vectors have shape (n,)."""
    n = vector.shape[0]
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
