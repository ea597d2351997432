"""Softmax without a library call per exponential, and draws from the shares.

A tempering sampler weighs every level of its ladder in every iteration. The library's exponential
takes some 9 ns, and a loop that calls it is not vectorized; here one takes 1 ns.
"""

import math

import numpy as np

from stanadapt.engine.compiled.jit import inline
from stanadapt.engine.numerics.vectors import largest, vector_sum

# below the largest log by this much, a share is smaller than the last bit of the largest share
NEGLIGIBLE = -40.0
# exp(x) = exp(x / 2^7)^(2^7): the Taylor series of degree 12 is exact to 1e-16 if x / 2^7 is
# above -40 / 2^7, and seven squarings enlarge its rounding error to 5e-14
SQUARINGS = 128.0
_, _, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12 = (1.0 / math.factorial(k) for k in range(13))


@inline
def softmax(logs):
    """Overwrite logs, shape (count,), with their exponentials divided by the sum of these.

    Returns the log of the sum. Relative error of a share: 1e-13; a share below exp(-40) times the
    largest is 0. Some logs may be -inf, but not all.
    """
    count = logs.shape[0]
    peak = largest(logs)
    for k in range(count):
        difference = logs[k] - peak
        share = decay(difference if difference > NEGLIGIBLE else NEGLIGIBLE)
        logs[k] = share if difference > NEGLIGIBLE else 0.0
    total = vector_sum(logs, count)
    scale = 1.0 / total
    for k in range(count):
        logs[k] *= scale
    return peak + np.log(total)


@inline
def decay(x):
    """Return exp(x), NEGLIGIBLE <= x <= 0, by Estrin's scheme: products wait for few others."""
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


@inline
def categorical(shares, rng):
    """Draw an index with probabilities `shares`, which sum to 1 up to rounding."""
    rest = rng.random()
    for i in range(shares.shape[0] - 1):
        rest -= shares[i]
        if rest < 0.0:
            return i
    return shares.shape[0] - 1
