"""A proposal's scale factor L that is learned: triangular, diagonal, or of low rank.

A triangular factor has shape (n, n) and a diagonal one (1, n), as in
`engine/numerics/triangular.py`. A factor of low rank is

    L = diag(s) + U V^T,

stored with shape (1 + 2 r, n), 1 + 2 r < n: s in row 0, the columns of U in the r rows after it,
those of V in the last r. A product costs 4 n r operations instead of n^2, and log |det L| is

    sum_i log s_i + log |det C|,    C = I + V^T diag(s)^-1 U    (r x r).

It need not be positive definite: a Metropolis ratio only requires that L can be inverted. The same
form suits directions in which the posterior is wider than its scales and those in which it is
narrower.
"""

import numpy as np

from stanadapt.engine.compiled.jit import as_python, inline, jit
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import inner_product


def initial(dim: int, scale: float, diagonal: bool, rank: int) -> np.ndarray:
    """Return L = scale * I; of low rank if that takes fewer numbers than a triangle.

    U is zero and V has orthonormal columns, cosines of growing frequency: if both were zero,
    neither would have a derivative.
    """
    if diagonal or rank == 0 or 2 * rank + 1 >= dim:
        made: np.ndarray = as_python(triangular.initial)(dim, scale, diagonal)
        return made
    factor = np.zeros((1 + 2 * rank, dim))
    factor[0, :] = scale
    for k in range(rank):
        turns = np.pi * (k + 1) * (np.arange(dim) + 0.5) / dim
        factor[1 + rank + k] = np.sqrt(2.0 / dim) * np.cos(turns)
    return factor


@jit
def has_low_rank(factor):
    """Whether L is of low rank."""
    return 1 < factor.shape[0] < factor.shape[1]


@jit
def times(factor, vector, out):
    """Write L @ vector into out; all vectors have shape (n,)."""
    if has_low_rank(factor):
        rank = (factor.shape[0] - 1) // 2
        _low_rank_times(factor, vector, out, 1, 1 + rank)
    else:
        triangular.times(factor, vector, out)


@jit
def transposed_times(factor, vector, out):
    """Write L.T @ vector into out; all vectors have shape (n,)."""
    if has_low_rank(factor):
        rank = (factor.shape[0] - 1) // 2
        _low_rank_times(factor, vector, out, 1 + rank, 1)
    else:
        triangular.transposed_times(factor, vector, out)


@jit
def _low_rank_times(factor, vector, out, outer, inner):
    """Write s * vector, plus rows from `outer` times inner products with those from `inner`."""
    n = vector.shape[0]
    for i in range(n):
        out[i] = factor[0, i] * vector[i]
    for k in range((factor.shape[0] - 1) // 2):
        add_multiple(out, inner_product(factor[inner + k], vector, n), factor[outer + k])


@jit
def low_rank_derivative(factor, left, right, terms, weight, inverse, out):
    """Write the derivative of tr(M^T L) + weight log |det L| into out, of the shape of factor.

    M = sum_{t < terms} left[t] right[t]^T; `inverse` is workspace of shape (r, 2 r). If C cannot be
    inverted, only diag(s) contributes to the derivative of the determinant.
    """
    n, rank = factor.shape[1], (factor.shape[0] - 1) // 2
    s, u, v = factor[0], factor[1 : 1 + rank], factor[1 + rank :]
    d_s, d_u, d_v = out[0], out[1 : 1 + rank], out[1 + rank :]
    for i in range(n):
        d_s[i] = weight / s[i]
    _determinant_of_rank(s, u, v, weight, inverse, d_s, d_u, d_v)
    for t in range(terms):
        a, b = left[t], right[t]
        for i in range(n):
            d_s[i] += a[i] * b[i]
        for k in range(rank):
            add_multiple(d_u[k], inner_product(b, v[k], n), a)
            add_multiple(d_v[k], inner_product(a, u[k], n), b)


@jit
def _determinant_of_rank(s, u, v, weight, inverse, d_s, d_u, d_v):
    """Write the derivative of weight log |det C| into d_u and d_v, and add it to d_s."""
    rank, n = u.shape
    for k in range(rank):
        for i in range(n):
            d_u[k, i] = u[k, i] / s[i]
    for k in range(rank):
        for m in range(rank):
            same = 1.0 if k == m else 0.0
            inverse[k, m], inverse[k, rank + m] = same + inner_product(v[k], d_u[m], n), same
    d_u[:] = 0.0
    d_v[:] = 0.0
    if not _invert(inverse):
        return
    for k in range(rank):
        for m in range(rank):
            add_multiple(d_u[k], weight * inverse[k, rank + m], v[m])
            add_multiple(d_v[k], weight * inverse[m, rank + k], u[m])
        for i in range(n):
            d_u[k, i] /= s[i]
            d_v[k, i] /= s[i]
            d_s[i] -= u[k, i] * d_u[k, i] / s[i]


@inline
def add_multiple(out, amount, vector):
    """Add amount * vector to out."""
    for i in range(out.shape[0]):
        out[i] += amount * vector[i]


@jit
def _invert(work):
    """Replace (C, I), shape (r, 2 r), by (I, C^-1), with pivots; False if C is singular."""
    rank = work.shape[0]
    for k in range(rank):
        pivot = k
        for m in range(k + 1, rank):
            if abs(work[m, k]) > abs(work[pivot, k]):
                pivot = m
        if not 0.0 < abs(work[pivot, k]) < np.inf:
            return False
        for j in range(2 * rank):
            swapped = work[k, j]
            work[k, j] = work[pivot, j]
            work[pivot, j] = swapped
        scale = 1.0 / work[k, k]
        for j in range(2 * rank):
            work[k, j] *= scale
        for m in range(rank):
            if m != k:
                add_multiple(work[m], -work[m, k], work[k])
    return True
