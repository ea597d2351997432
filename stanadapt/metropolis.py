"""The Metropolis-Hastings decision, safe against every value a log ratio can take."""

import numpy as np

from stanadapt._jit import inlined


@inlined
def acceptance_probability(log_ratio):
    """Return min(1, exp(log_ratio)); zero where the ratio is NaN or the proposal failed."""
    if log_ratio >= 0.0:
        return 1.0
    if log_ratio > -np.inf:
        return np.exp(log_ratio)
    return 0.0


@inlined
def squared_norm(vector):
    """Sum of squares."""
    return inner_product(vector, vector, vector.shape[0])


@inlined
def inner_product(one, other, n):
    """Of one[:n] and other[:n], in four partial sums: one alone would wait for every addition."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        s0 += one[i] * other[i]
        s1 += one[i + 1] * other[i + 1]
        s2 += one[i + 2] * other[i + 2]
        s3 += one[i + 3] * other[i + 3]
    for i in range(whole, n):
        s0 += one[i] * other[i]
    return (s0 + s1) + (s2 + s3)


@inlined
def vector_sum(vector, n):
    """Sum of vector[:n], in four partial sums as well."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        s0 += vector[i]
        s1 += vector[i + 1]
        s2 += vector[i + 2]
        s3 += vector[i + 3]
    for i in range(whole, n):
        s0 += vector[i]
    return (s0 + s1) + (s2 + s3)


@inlined
def fill_normal(rng, out):
    """Fill out, shape (n,), with independent standard normals."""
    for i in range(out.shape[0]):
        out[i] = rng.standard_normal()
