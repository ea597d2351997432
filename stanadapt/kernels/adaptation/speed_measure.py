"""Gradient ascent on the generalised speed measure, shared by the samplers named gad.

The proposal's scale factor L ascends F = E[min(0, log ratio)] + beta * sum_i log L_ii by one
stochastic gradient step per iteration, estimated from the chain's own proposal. A factor of low
rank, L = diag(s) + U V^T with log |det L| in place of sum_i log L_ii, is what the paper's section 5
leaves to others; its entries climb by the same rule.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS:
objective in section 2, step rule in section 3 and its supplement.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._numba.jit import inlined, jit
from stanadapt.kernels.adaptation import proposal_factor as factors

SMALLEST_DIAGONAL, SMALLEST_WEIGHT = 1e-3, 1e-4
FORGETTING, WEIGHT_RATE = 0.9, 0.02
# numbers in the longest vectors of today's processors
BLOCK = 8


class Tuning(NamedTuple):
    """What gradient ascent tunes, and its workspace.

    factor
        L as in `proposal_factor`: shape (n, n), (1, n) or (1 + 2 r, n). Updated in place.
    mean_square
        G, running mean of squared derivatives, same shape. Updated in place.
    entropy_weight
        beta > 0, tuned to bring the acceptance rate to its target.
    updates
        Number of ascent steps taken.
    left, right
        Workspace, shape (terms, n): the derivative in L of all but sum_i log L_ii is
        sum_r left[r] right[r]^T, lower triangle.
    row
        Workspace, shape (n,).
    slope, inverse
        Workspace of a factor of low rank: the derivative, of its shape, and shape (r, 2 r). Empty
        for others.

    """

    factor: np.ndarray
    mean_square: np.ndarray
    entropy_weight: float
    updates: int
    left: np.ndarray
    right: np.ndarray
    row: np.ndarray
    slope: np.ndarray
    inverse: np.ndarray


@jit
def start(dim, scale, diagonal, terms=3, rank=0):
    """Start from L = scale / sqrt(n) * I and beta = 1, with room for so many outer products."""
    factor = factors.initial(dim, scale / np.sqrt(dim), diagonal, rank)
    low = factors.has_low_rank(factor)
    return Tuning(
        factor, np.zeros_like(factor), 1.0, 0,
        np.zeros((terms, dim)), np.zeros((terms, dim)), np.zeros(dim),
        np.zeros((factor.shape[0] if low else 0, dim)),
        np.zeros((rank if low else 0, 2 * rank)),
    )  # fmt: skip


@inlined
def _mean_square(before, derivative, forgetting):
    return forgetting * before + (1.0 - forgetting) * derivative * derivative


@inlined
def _move(value, mean_square, derivative, learning_rate):
    """RMSProp: rho = eta / (1 + sqrt(G))."""
    return value + learning_rate * derivative / (1.0 + np.sqrt(mean_square))


@jit
def _climb_row(values, mean_square, scale, direction, length, forgetting, learning_rate):
    """Climb where the derivative is scale * direction, in the first `length` entries of a row."""
    for j in range(length):
        d = scale * direction[j]
        g = _mean_square(mean_square[j], d, forgetting)
        mean_square[j] = g
        values[j] = _move(values[j], g, d, learning_rate)


@jit
def _sum_products(tuning, rank, i, length):
    """Write sum_{r < rank} left[r, i] right[r] into the first `length` entries of `row`."""
    row = tuning.row
    for j in range(length):
        row[j] = 0.0
    for r in range(rank):
        c, right = tuning.left[r, i], tuning.right[r]
        for j in range(length):
            row[j] += c * right[j]


@jit
def _ascend_triangle(tuning, rank, weight, forgetting, learning_rate):
    """Climb all rows of a triangle, in whole blocks, beyond the diagonal where it ends in one.

    The rest of a vector is done entry by entry, which took a third of the time for 100 parameters,
    and nothing reads the upper triangle.
    """
    factor, mean_square, row = tuning.factor, tuning.mean_square, tuning.row
    n = row.shape[0]
    for i in range(n):
        length = min((i // BLOCK + 1) * BLOCK, n)
        pivot, g, d = factor[i, i], mean_square[i, i], weight / factor[i, i]
        if rank == 0:  # the derivative is zero but on the diagonal
            for j in range(length):
                mean_square[i, j] *= forgetting
        else:
            scale, products = 1.0, row
            if rank == 1:
                scale, products = tuning.left[0, i], tuning.right[0]
            else:
                _sum_products(tuning, rank, i, length)
            _climb_row(
                factor[i], mean_square[i], scale, products, length, forgetting, learning_rate
            )
            d += scale * products[i]
        g = _mean_square(g, d, forgetting)
        mean_square[i, i] = g
        factor[i, i] = max(_move(pivot, g, d, learning_rate), SMALLEST_DIAGONAL)


@jit
def _ascend_low_rank(tuning, rank, weight, forgetting, learning_rate):
    """Climb in s, U and V of a factor of low rank, whose whole determinant has the weight."""
    factor, mean_square, slope = tuning.factor, tuning.mean_square, tuning.slope
    factors.low_rank_derivative(
        factor, tuning.left, tuning.right, rank, weight, tuning.inverse, slope
    )
    for k in range(factor.shape[0]):
        _climb_row(
            factor[k], mean_square[k], 1.0, slope[k], factor.shape[1], forgetting, learning_rate
        )
    for i in range(factor.shape[1]):
        factor[0, i] = max(factor[0, i], SMALLEST_DIAGONAL)


@jit
def ascend(tuning, rank, direction, learning_rate):
    """Take one step of size rho * dF, dF = [sum_{r < rank} left[r] right[r]^T] + entropy term.

    The entropy term is direction * beta * diag(1 / L), or the derivative of direction * beta *
    log |det L| where L is of low rank. `direction` is 1, but -1 with rank 0 after
    a proposal at which the density failed: all it shows is that moves must be shorter. (The paper
    has no such case; without it a chain whose proposals all fail would never recover.)
    """
    factor, mean_square, row = tuning.factor, tuning.mean_square, tuning.row
    weight = direction * tuning.entropy_weight
    # the mean square starts as the first squared derivative
    forgetting = 0.0 if tuning.updates == 0 else FORGETTING
    n = row.shape[0]
    if factors.has_low_rank(factor):
        _ascend_low_rank(tuning, rank, weight, forgetting, learning_rate)
        return
    if factor.shape[0] < n:
        for i in range(n):
            row[i] = weight / factor[0, i]
            for r in range(rank):
                row[i] += tuning.left[r, i] * tuning.right[r, i]
        _climb_row(factor[0], mean_square[0], 1.0, row, n, forgetting, learning_rate)
        for i in range(n):
            factor[0, i] = max(factor[0, i], SMALLEST_DIAGONAL)
        return
    _ascend_triangle(tuning, rank, weight, forgetting, learning_rate)


@jit
def after_step(tuning, accepted, target_accept, largest_weight=np.inf):
    """Update beta <- max(beta (1 + 0.02 (a - a*)), 1e-4), with a = 1 if accepted, else 0.

    Where the entropy alone does not bring the acceptance rate down to its target, beta would grow
    without end: it stays below `largest_weight`.
    """
    outcome = 1.0 if accepted else 0.0
    weight = tuning.entropy_weight * (1.0 + WEIGHT_RATE * (outcome - target_accept))
    return Tuning(
        tuning.factor, tuning.mean_square,
        min(max(weight, SMALLEST_WEIGHT), largest_weight), tuning.updates + 1,
        tuning.left, tuning.right, tuning.row, tuning.slope, tuning.inverse,
    )  # fmt: skip
