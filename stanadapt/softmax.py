"""Shares in proportion to exponentials: without the call of a function for each of them.

A tempering weighs every level of its ladder in every iteration. The library's exponential takes
some 9 ns, and a loop that calls it is not vectorised; here one takes 1 ns.
"""

import math

import numpy as np

from stanadapt._jit import inlined
from stanadapt.metropolis import vector_sum

# exponent of a share below the last bit of the largest one
NEGLIGIBLE = -40.0
# exp(x) = exp(x / 2^7)^(2^7): the Taylor series of degree 12 is exact to 1e-16 where x / 2^7 is
# above -40 / 2^7, and seven squarings make 5e-14 of its rounding
SQUARINGS = 128.0
_, _, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1.0 / math.factorial(k) for k in range(13))


@inlined
def softmax(logs):
    """Overwrite logs, shape (count,), with their exponentials over the sum of these.

    Returns the log of the sum. Relative error of a share: 1e-13; below exp(-40) of the largest it
    is 0. A log may be -inf, but not all.
    """
    count = logs.shape[0]
    peak = _largest(logs)
    for k in range(count):
        apart = logs[k] - peak
        share = decay(apart if apart > NEGLIGIBLE else NEGLIGIBLE)
        logs[k] = share if apart > NEGLIGIBLE else 0.0
    total = vector_sum(logs, count)
    scale = 1.0 / total
    for k in range(count):
        logs[k] *= scale
    return peak + np.log(total)


@inlined
def _largest(vector):
    """Largest of a vector, four at a time: one running maximum would wait for each comparison."""
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


@inlined
def decay(x):
    """exp(x) for NEGLIGIBLE <= x <= 0, by Estrin's scheme: short chains of dependent products."""
    y = x / SQUARINGS
    y2 = y * y
    y4 = y2 * y2
    low = ((1.0 + y) + y2 * (C2 + C3 * y)) + y4 * ((C4 + C5 * y) + y2 * (C6 + C7 * y))
    power = low + (y4 * y4) * (((C8 + C9 * y) + y2 * (C10 + C11 * y)) + y4 * C12)
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    return power
