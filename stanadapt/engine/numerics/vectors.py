"""Vectors in compiled code: copies, sums, order and normal draws, without allocation.

Numba has most of them, written for all of NumPy's types: they take longer to compile.
"""

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit


@inline
def copy(source, target):
    """Copy one vector into another.

    Slice assignment would take three times as long, and a second to compile for its error message.
    """
    for i in range(target.shape[0]):
        target[i] = source[i]


@inline
def squared_norm(vector):
    """Return the sum of squares."""
    return inner_product(vector, vector, vector.shape[0])


@inline
def inner_product(one, other, n):
    """Return the inner product of one[:n] and other[:n], by four partial sums for speed."""
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


@inline
def vector_sum(vector, n):
    """Return the sum of vector[:n], by four partial sums for speed."""
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


@inline
def vector_mean(vector):
    """Return the mean, added up from the first number to the last."""
    total = 0.0
    for i in range(vector.shape[0]):
        total += vector[i]
    return total / vector.shape[0]


@inline
def largest(vector):
    """Return the largest number, or -inf; NaN is ignored.

    A single running maximum would wait for every comparison.
    """
    m0, m1, m2, m3 = -np.inf, -np.inf, -np.inf, -np.inf
    n = vector.shape[0]
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        m0 = max(m0, vector[i])
        m1 = max(m1, vector[i + 1])
        m2 = max(m2, vector[i + 2])
        m3 = max(m3, vector[i + 3])
    for i in range(whole, n):
        m0 = max(m0, vector[i])
    return max(max(m0, m1), max(m2, m3))


@jit
def median(vector):
    """Return the median of one number or more, by Hoare's selection; changes their order."""
    middle = vector.shape[0] // 2
    upper = _select(vector, middle)
    if vector.shape[0] % 2 == 1:
        return upper
    return 0.5 * (largest(vector[:middle]) + upper)


@jit
def _select(vector, k):
    """Move the number that sorting would move to entry k there, smaller ones before it."""
    first, last = 0, vector.shape[0] - 1
    while first < last:
        pivot, i, j = vector[(first + last) // 2], first, last
        while i <= j:
            while vector[i] < pivot:
                i += 1
            while vector[j] > pivot:
                j -= 1
            if i <= j:
                vector[i], vector[j] = vector[j], vector[i]
                i += 1
                j -= 1
        if k <= j:
            last = j
        elif k >= i:
            first = i
        else:
            break
    return vector[k]


@jit
def sort(vector):
    """Sort in place, by a heap."""
    n = vector.shape[0]
    for k in range(n // 2 - 1, -1, -1):
        _sink(vector, k, n)
    for last in range(n - 1, 0, -1):
        vector[0], vector[last] = vector[last], vector[0]
        _sink(vector, 0, last)


@inline
def _sink(vector, k, n):
    """Move entry k of the heap vector[:n] down to its place."""
    value = vector[k]
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and vector[child + 1] > vector[child]:
            child += 1
        if not vector[child] > value:
            break
        vector[k] = vector[child]
        k = child
    vector[k] = value


@inline
def fill_normal(rng, out):
    """Fill out, shape (n,), with independent standard normals."""
    for i in range(out.shape[0]):
        out[i] = rng.standard_normal()
