"""The log density estimated from a batch of the data's rows, as C functions.

The rows are split into K batches, and the program is bound to each of them: l_k, with the prior
in every one. With l_0 the log density without rows, the sum over k of l_k - l_0 is the log
density of all rows minus l_0, so that

    l_0 + K (l_k - l_0),   k uniform on the K batches,

has the log density of all rows as its mean, and likewise for gradients. If the program requires
rows, l_0 = 2 l_r - l_rr, from one row r, and from that row twice. A control variate adds
c_k . (x - center) with c_k = sum_j (g_j - g_0) - K (g_k - g_0) at the center: the sum over k is
zero, and near the center the noise nearly vanishes.

A position has one entry more than that of the program: u in [0, 1), which selects k = floor(u K).
The handle is the address of a block of memory as in `standardized_density`.
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, inline
from stanadapt.engine.density import (
    COUNTERS,
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    make_density,
)

# layout of the block, in numbers of eight bytes, after the counters: integers, then addresses and
# handles of the fixed terms and of the batches; then weights of the fixed terms, corrections
# (K, dim), center (dim), and workspace for two gradients
DIM, FIXED, BATCHES = 0, 1, 2
INTEGERS = 4


class BatchTerms(NamedTuple):
    """The terms of the estimate.

    fixed, weights
        Densities that are evaluated every time, and their weights: (1 - K) l_0.
    batches
        The l_k; one of them is evaluated, with weight K.
    corrections, center
        c_k, shape (K, dim), and the position at which they were computed, shape (dim,).

    """

    fixed: list[Density]
    weights: np.ndarray
    batches: list[Density]
    corrections: np.ndarray
    center: np.ndarray


def minibatch_density(terms: BatchTerms) -> Density:
    """Return the estimate as a density, with new counters.

    The models behind the terms must outlive it.
    """
    sources = [*terms.fixed, *terms.batches]
    dim, fixed, count = terms.center.size, len(terms.fixed), len(terms.batches)
    size = INTEGERS + 2 * len(sources) + fixed + (count + 2) * dim
    block = np.zeros(COUNTERS + size, np.int64)
    block[COUNTERS : COUNTERS + 3] = dim, fixed, count
    at = COUNTERS + INTEGERS
    block[at : at + 2 * len(sources)] = [
        *(source.gradient_address for source in sources), *(source.handle for source in sources),
    ]  # fmt: skip
    numbers = block[at + 2 * len(sources) :].view(np.float64)
    values = np.concatenate([terms.weights, terms.corrections.ravel(), terms.center])
    numbers[: values.size] = values
    density = make_density(
        value_of_minibatch.address, gradient_of_minibatch.address, block[COUNTERS:].ctypes.data,
        dim + 1, noise=1,
    )  # fmt: skip
    return density._replace(calls=block[:COUNTERS])


@inline
def _estimate(handle, position, out):
    """Write the gradient of the estimate into out, shape (dim + 1,); return (code, value)."""
    integers = carray(handle, INTEGERS, np.int64)
    dim, fixed, count = integers[DIM], integers[FIXED], integers[BATCHES]
    sources = fixed + count
    start = INTEGERS + 2 * sources
    addresses = carray(handle, start, np.int64)[INTEGERS:]
    numbers = carray(handle, start + fixed + (count + 2) * dim, np.float64)[start:]
    center = numbers[fixed + count * dim : fixed + (count + 1) * dim]
    slope = numbers[fixed + (count + 1) * dim :]
    batch = min(max(int(position[dim] * count), 0), count - 1)

    source = fixed + batch
    code, total = call_gradient(addresses[source], addresses[sources + source], position, out)
    total *= count
    for i in range(dim):
        out[i] *= count
    for j in range(fixed):
        failed, value = call_gradient(addresses[j], addresses[sources + j], position, slope)
        code = code if code != 0 else failed
        total += numbers[j] * value
        for i in range(dim):
            out[i] += numbers[j] * slope[i]
    correction = numbers[fixed + batch * dim : fixed + (batch + 1) * dim]
    for i in range(dim):
        total += correction[i] * (position[i] - center[i])
        out[i] += correction[i]
    out[dim] = 0.0
    return code, total


@c_function(GRADIENT_SIGNATURE)
def gradient_of_minibatch(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` of the estimate."""
    size = carray(handle, INTEGERS, np.int64)[DIM] + 1
    code, total = _estimate(handle, carray(position, size), carray(gradient, size))
    carray(value, 1)[0] = total
    return code


@c_function(VALUE_SIGNATURE)
def value_of_minibatch(handle, propto, jacobian, position, value, message):
    """Fail, since samplers of estimates from batches use gradients."""
    return -1
