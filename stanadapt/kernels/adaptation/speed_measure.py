"""Gradient ascent on the generalised speed measure, shared by `gad_rwm` and `gad_mala`.

The proposal's scale factor L ascends F = E[min(0, log ratio)] + beta * sum_i log L_ii by one
stochastic gradient step per iteration, estimated from the chain's own proposal.

References
----------
Titsias and Dellaportas (2019), Gradient-based Adaptive Markov Chain Monte Carlo, NeurIPS:
objective in section 2, step rule in section 3 and its supplement.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._numba import triangular as factors
from stanadapt._numba.jit import jit

SMALLEST_DIAGONAL, SMALLEST_WEIGHT = 1e-3, 1e-4
FORGETTING, WEIGHT_RATE = 0.9, 0.02


class Tuning(NamedTuple):
    """What gradient ascent tunes, and its workspace.

    factor
        L, shape (n, n) or, when diagonal, (1, n). Updated in place.
    mean_square
        G, running mean of squared derivatives, same shape. Updated in place.
    entropy_weight
        beta > 0, tuned to bring the acceptance rate to its target.
    updates
        Number of ascent steps taken.
    left, right
        Workspace, shape (3, n): the derivative of the acceptance term in L is
        sum_r left[r] right[r]^T, lower triangle.
    row
        Workspace, shape (n,).

    """

    factor: np.ndarray
    mean_square: np.ndarray
    entropy_weight: float
    updates: int
    left: np.ndarray
    right: np.ndarray
    row: np.ndarray


@jit
def start(dim, scale, diagonal):
    """Start from L = scale / sqrt(n) * I and beta = 1."""
    factor = factors.initial(dim, scale / np.sqrt(dim), diagonal)
    return Tuning(
        factor, np.zeros_like(factor), 1.0, 0,
        np.zeros((3, dim)), np.zeros((3, dim)), np.zeros(dim),
    )  # fmt: skip


@jit
def _climb_row(values, mean_square, derivative, length, forgetting, learning_rate):
    """RMSProp: rho = eta / (1 + sqrt(G)), elementwise over the first `length` entries."""
    for j in range(length):
        d = derivative[j]
        g = forgetting * mean_square[j] + (1.0 - forgetting) * d * d
        mean_square[j] = g
        values[j] += learning_rate / (1.0 + np.sqrt(g)) * d


@jit
def ascend(tuning, rank, direction, learning_rate):
    """Take one step of size rho * dF, dF = [sum_{r < rank} left[r] right[r]^T] + entropy term.

    The entropy term is direction * beta * diag(1 / L). `direction` is 1, but -1 with rank 0 after
    a proposal at which the density failed: all it shows is that moves must be shorter. (The paper
    has no such case; without it a chain whose proposals all fail would never recover.)
    """
    factor, mean_square, row = tuning.factor, tuning.mean_square, tuning.row
    left, right = tuning.left, tuning.right
    weight = direction * tuning.entropy_weight
    # the mean square starts as the first squared derivative
    forgetting = 0.0 if tuning.updates == 0 else FORGETTING
    n = row.shape[0]
    if factor.shape[0] < n:
        for i in range(n):
            row[i] = weight / factor[0, i]
            for r in range(rank):
                row[i] += left[r, i] * right[r, i]
        _climb_row(factor[0], mean_square[0], row, n, forgetting, learning_rate)
        for i in range(n):
            factor[0, i] = max(factor[0, i], SMALLEST_DIAGONAL)
        return
    for i in range(n):
        row[: i + 1] = 0.0
        for r in range(rank):
            c = left[r, i]
            for j in range(i + 1):
                row[j] += c * right[r, j]
        row[i] += weight / factor[i, i]
        _climb_row(factor[i], mean_square[i], row, i + 1, forgetting, learning_rate)
        factor[i, i] = max(factor[i, i], SMALLEST_DIAGONAL)


@jit
def after_step(tuning, accepted, target_accept):
    """Update beta <- max(beta (1 + 0.02 (a - a*)), 1e-4), with a = 1 if accepted, else 0."""
    outcome = 1.0 if accepted else 0.0
    weight = tuning.entropy_weight * (1.0 + WEIGHT_RATE * (outcome - target_accept))
    return Tuning(
        tuning.factor, tuning.mean_square, max(weight, SMALLEST_WEIGHT), tuning.updates + 1,
        tuning.left, tuning.right, tuning.row,
    )  # fmt: skip
