"""A proposal's scale factor L: lower triangular with a positive diagonal, or diagonal.

Stored with shape (n, n) when dense (the strict upper triangle is never read) and (1, n) when
diagonal, so that one compiled sampler serves both. Four rows are processed at a time: without
`fastmath` the compiler may not split a sum, and a single running sum waits for every addition.
"""

import numpy as np

from stanadapt.engine.compiled.jit import jit


@jit
def initial(dim, scale, diagonal):
    """Return L = scale * I, of shape (1, dim) if diagonal, (dim, dim) otherwise."""
    if diagonal:
        return np.full((1, dim), scale)
    factor = np.zeros((dim, dim))
    for i in range(dim):
        factor[i, i] = scale
    return factor


@jit
def times(factor, vector, out):
    """Write L @ vector into out; all vectors have shape (n,)."""
    n, i = vector.shape[0], 0
    if factor.shape[0] < n:
        for j in range(n):
            out[j] = factor[0, j] * vector[j]
        return
    while i + 4 <= n:
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(i + 1):
            s0 += r0[j] * vector[j]
            s1 += r1[j] * vector[j]
            s2 += r2[j] * vector[j]
            s3 += r3[j] * vector[j]
        out[i] = s0
        out[i + 1] = s1 + r1[i + 1] * vector[i + 1]
        out[i + 2] = s2 + r2[i + 1] * vector[i + 1] + r2[i + 2] * vector[i + 2]
        s3 += r3[i + 1] * vector[i + 1] + r3[i + 2] * vector[i + 2]
        out[i + 3] = s3 + r3[i + 3] * vector[i + 3]
        i += 4
    for k in range(i, n):
        total = 0.0
        for j in range(k + 1):
            total += factor[k, j] * vector[j]
        out[k] = total


@jit
def transposed_times(factor, vector, out):
    """Write L.T @ vector into out; all vectors have shape (n,)."""
    n, i = vector.shape[0], 0
    if factor.shape[0] < n:
        for j in range(n):
            out[j] = factor[0, j] * vector[j]
        return
    out[:] = 0.0
    while i + 4 <= n:
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        for j in range(i + 1):
            out[j] += (r0[j] * v0 + r1[j] * v1) + (r2[j] * v2 + r3[j] * v3)
        out[i + 1] += r1[i + 1] * v1 + r2[i + 1] * v2 + r3[i + 1] * v3
        out[i + 2] += r2[i + 2] * v2 + r3[i + 2] * v3
        out[i + 3] += r3[i + 3] * v3
        i += 4
    for k in range(i, n):
        for j in range(k + 1):
            out[j] += factor[k, j] * vector[k]


@jit
def transposed_upper_times(upper, vector, out):
    """Write U.T @ vector into out, where U, shape (n, n), is upper triangular.

    U = L.T gives L @ vector in half the time of `times`. (The strict lower triangle is never
    read. Slices begin at the diagonal, since loops that do not begin at 0 are not vectorized.)
    """
    n, i = vector.shape[0], 0
    out[:] = 0.0
    while i + 4 <= n:
        r0, r1, r2, r3 = upper[i, i:n], upper[i + 1, i:n], upper[i + 2, i:n], upper[i + 3, i:n]
        v0, v1, v2, v3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        out[i] += r0[0] * v0
        out[i + 1] += r0[1] * v0 + r1[1] * v1
        out[i + 2] += r0[2] * v0 + r1[2] * v1 + r2[2] * v2
        s0, s1, s2, s3, rest = r0[3:], r1[3:], r2[3:], r3[3:], out[i + 3 : n]
        for j in range(n - i - 3):
            rest[j] += (s0[j] * v0 + s1[j] * v1) + (s2[j] * v2 + s3[j] * v3)
        i += 4
    for k in range(i, n):
        for j in range(k, n):
            out[j] += upper[k, j] * vector[k]


@jit
def solve(factor, vector, out):
    """Write L^-1 @ vector into out, by forward substitution."""
    n = vector.shape[0]
    for i in range(n):
        if factor.shape[0] < n:
            out[i] = vector[i] / factor[0, i]
            continue
        total = vector[i]
        for j in range(i):
            total -= factor[i, j] * out[j]
        out[i] = total / factor[i, i]


@jit
def transposed_solve(factor, vector, out):
    """Write L^-T @ vector into out, by back substitution; vector and out may be the same array."""
    n = vector.shape[0]
    for i in range(n - 1, -1, -1):
        if factor.shape[0] < n:
            out[i] = vector[i] / factor[0, i]
            continue
        total = vector[i]
        for j in range(i + 1, n):
            total -= factor[j, i] * out[j]
        out[i] = total / factor[i, i]


@jit
def solve_columns(factor, matrix, count):
    """Multiply the first `count` columns of a matrix, shape (n, columns), by L^-1 in place."""
    n = matrix.shape[0]
    for i in range(n):
        row = matrix[i]
        if factor.shape[0] == n:
            for j in range(i):
                other, entry = matrix[j], factor[i, j]
                for a in range(count):
                    row[a] -= entry * other[a]
        pivot = factor[i, i] if factor.shape[0] == n else factor[0, i]
        for a in range(count):
            row[a] /= pivot


@jit
def cholesky(matrix):
    """Overwrite the lower triangle of a matrix, shape (n, n), with L so that L L^T = matrix.

    Reads the lower triangle only. Returns False, and leaves the triangle undefined, if the matrix
    is not positive definite or not finite.
    """
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for j in range(i + 1):
            other, total = matrix[j], row[j]
            for k in range(j):
                total -= row[k] * other[k]
            if j < i:
                row[j] = total / other[j]
            elif 0.0 < total < np.inf:
                row[i] = np.sqrt(total)
            else:
                return False
    return True
