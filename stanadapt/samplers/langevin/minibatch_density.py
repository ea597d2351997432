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
"""

from typing import NamedTuple

import numpy as np
from numba import carray

from stanadapt.engine.compiled.jit import c_function, inline
from stanadapt.engine.density import (
    GRADIENT_SIGNATURE,
    VALUE_SIGNATURE,
    Density,
    call_gradient,
    make_density,
)
from stanadapt.engine.wrapped_density import Integers, Matrix, Vector, parts_at, wrapped


class BatchTerms(NamedTuple):
    """The terms of the estimate."""

    # fixed, weights: densities that are evaluated every time, and their weights: (1 - K) l_0
    fixed: list[Density]
    weights: np.ndarray
    batches: list[Density]  # the l_k; one of them is evaluated, with weight K
    # corrections, center: c_k, shape (K, dim), and the position at which they were computed, shape
    # (dim,)
    corrections: np.ndarray
    center: np.ndarray


class Estimate(NamedTuple):
    """The estimate for compiled code: the fixed terms come before the batches."""

    gradient_addresses: Integers
    handles: Integers
    weights: Vector
    corrections: Matrix
    center: Vector
    slope: Vector  # workspace, shape (dim,)


def minibatch_density(terms: BatchTerms) -> Density:
    """Return the estimate as a density, with new counters.

    The models behind the terms must outlive it.
    """
    sources = [*terms.fixed, *terms.batches]
    parts = Estimate(
        gradient_addresses=np.array([source.gradient_address for source in sources]),
        handles=np.array([source.handle for source in sources]),
        weights=terms.weights,
        corrections=terms.corrections,
        center=terms.center,
        slope=np.zeros(terms.center.size),
    )
    density = make_density(0, 0, 0, terms.center.size + 1, noise=1)
    return wrapped(density, parts, value_of_minibatch, gradient_of_minibatch)


@inline
def _estimate(parts, position, out):
    """Write the gradient of the estimate into out, shape (dim + 1,); return (code, value)."""
    addresses, handles, slope = parts.gradient_addresses, parts.handles, parts.slope
    fixed, dim = parts.weights.shape[0], parts.center.shape[0]
    count = parts.corrections.shape[0]
    batch = min(max(int(position[dim] * count), 0), count - 1)

    source = fixed + batch
    code, total = call_gradient(addresses[source], handles[source], position, out)
    total *= count
    for i in range(dim):
        out[i] *= count
    for j in range(fixed):
        failed, value = call_gradient(addresses[j], handles[j], position, slope)
        code = code if code != 0 else failed
        total += parts.weights[j] * value
        for i in range(dim):
            out[i] += parts.weights[j] * slope[i]
    correction = parts.corrections[batch]
    for i in range(dim):
        total += correction[i] * (position[i] - parts.center[i])
        out[i] += correction[i]
    out[dim] = 0.0
    return code, total


@c_function(GRADIENT_SIGNATURE)
def gradient_of_minibatch(handle, propto, jacobian, position, value, gradient, message):
    """`bs_log_density_gradient` of the estimate."""
    parts = parts_at(handle, Estimate)
    size = parts.center.shape[0] + 1
    code, total = _estimate(parts, carray(position, size), carray(gradient, size))
    carray(value, 1)[0] = total
    return code


@c_function(VALUE_SIGNATURE)
def value_of_minibatch(handle, propto, jacobian, position, value, message):
    """Fail, since samplers of estimates from batches use gradients."""
    return -1
