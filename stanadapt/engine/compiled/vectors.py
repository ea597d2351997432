"""Vectors in hot loops: copies, sums and normal draws, without allocation."""

from stanadapt.engine.compiled.jit import inlined


@inlined
def copy(source, target):
    """Copy one vector into another.

    Slice assignment would take three times as long, and a second to compile for its error message.
    """
    for i in range(target.shape[0]):
        target[i] = source[i]


@inlined
def squared_norm(vector):
    """Return the sum of squares."""
    return inner_product(vector, vector, vector.shape[0])


@inlined
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


@inlined
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


@inlined
def fill_normal(rng, out):
    """Fill out, shape (n,), with independent standard normals."""
    for i in range(out.shape[0]):
        out[i] = rng.standard_normal()
