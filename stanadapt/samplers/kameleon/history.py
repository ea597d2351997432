"""The past positions of a chain in bounded memory, and statistics of them."""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy, median

# the number of distances is quadratic in that of positions; fewer suffice for a stable median
POSITIONS_FOR_MEDIAN = 500


class History(NamedTuple):
    """An evenly thinned record of all positions so far."""

    # Every stride-th position, oldest first, shape (capacity, dim); `count` rows are in use. When
    # all are, every other row is dropped and the stride doubles. Updated in place.
    rows: np.ndarray
    count: int
    stride: int
    seen: int  # number of positions so far, including those that were dropped


@jit
def no_past(capacity, dim):
    """Return a History without positions; it takes memory only as it fills."""
    return History(np.empty((capacity // 2 * 2, dim)), 0, 1, 0)


@jit
def record(history, position):
    """Count a position, and keep a copy of its first dim entries if it is a stride-th one."""
    rows, count, stride, seen = history.rows, history.count, history.stride, history.seen + 1
    if seen % stride == 0 and count == rows.shape[0]:
        count, stride = count // 2, 2 * stride
        for i in range(count):
            copy(rows[2 * i + 1], rows[i])
    if seen % stride == 0:
        copy(position, rows[count])
        count += 1
    return History(rows, count, stride, seen)


@jit
def draw_columns(history, out, rng):
    """Write positions into the columns of out, shape (dim, capacity); return their number.

    These are all positions if they fit. Otherwise they are a random one from each of `capacity`
    consecutive stretches of the past: spread more evenly, and with fewer repetitions, than
    independent choices.
    """
    capacity = out.shape[1]
    n = min(history.count, capacity)
    for a in range(n):
        row = a
        if history.count > capacity:
            row = int((a + rng.random()) * (history.count / capacity))
        for i in range(out.shape[0]):
            out[i, a] = history.rows[row, i]
    return n


@jit
def covariance(rows, out):
    """Fill the lower triangle of out, shape (dim, dim), with the covariance of rows, (n, dim).

    A few positions carry little information on correlations: these are shrunk by n / (n + dim), so
    that the result is positive definite if every coordinate has moved.
    """
    n, dim = rows.shape
    mean, difference = np.zeros(dim), np.empty(dim)
    for a in range(n):
        for i in range(dim):
            mean[i] += rows[a, i] / n
    out[:] = 0.0
    for a in range(n):
        for i in range(dim):
            difference[i] = rows[a, i] - mean[i]
            for j in range(i + 1):
                out[i, j] += difference[i] * difference[j] / n
    for i in range(dim):
        for j in range(i):
            out[i, j] *= n / (n + dim)


@jit
def median_distance(rows, units):
    """Return the median of |U^-1 (a - b)| over pairs of rows, shape (n, dim); 0 without pairs.

    At most 500 rows, evenly spaced, are used. Pairs of equal positions, which result from
    rejections, are omitted.
    """
    n = min(rows.shape[0], POSITIONS_FOR_MEDIAN)
    scaled = np.empty((n, rows.shape[1]))
    for a in range(n):
        factors.solve(units, rows[a * rows.shape[0] // n], scaled[a])
    squares, count = np.empty(n * (n - 1) // 2), 0
    for a in range(n):
        for b in range(a):
            total = 0.0
            for i in range(rows.shape[1]):
                total += (scaled[a, i] - scaled[b, i]) ** 2
            if total > 0.0:
                squares[count] = total
                count += 1
    return np.sqrt(median(squares[:count])) if count else 0.0
