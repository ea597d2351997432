"""Gradient ascent on the generalized speed measure, shared by the samplers named gad.

The proposal's scale factor L ascends F = E[min(0, log ratio)] + beta * sum_i log L_ii by one
stochastic gradient step per iteration, estimated from the proposal of the chain. Section 5 of the
paper suggests a factor of low rank as future work: L = diag(s) + U V^T, with log |det L| instead of
sum_i log L_ii; its entries climb by the same rule.

References
----------
That of `gad_mala`: objective in section 2, step rule in section 3 and its supplement. Deviations:
the entropy weight is bounded (`after_step`), and the rates of a large triangle are in single
precision (`SINGLE_FROM`).
"""

from typing import Annotated, NamedTuple

import numpy as np

from stanadapt.engine.after_run import Findings, RunView
from stanadapt.engine.compiled.jit import as_python, jit
from stanadapt.engine.compiled.replace import replace
from stanadapt.engine.settings import Count
from stanadapt.samplers.gad import proposal_factor as factors
from stanadapt.samplers.saved_factor import report_factor, whole

SMALLEST_DIAGONAL, SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-3, 1e-4, 1e6
FORGETTING, WEIGHT_RATE = 0.9, 0.02
# from this number of parameters on, G of a triangle has single precision, since a climb waits for
# memory, roots and divisions
SINGLE_FROM = 256
# bounds of derivatives, and of G, which could not recover from infinity: a derivative whose square
# is above the bound of G would make a step without a bound
LARGEST_DERIVATIVE, LARGEST_SQUARE = 1e18, 1e38
# numbers in the longest vectors of today's processors
BLOCK = 8


# settings of several samplers
AdaptEvery = Annotated[
    Count,
    "Number of iterations of warm-up between steps of L: a step takes O(dim^2) operations, 5 us "
    "for 100 parameters. Default in standardized coordinates: 4, since L starts near its optimum.",
]
Diagonal = Annotated[
    bool,
    "learn a diagonal L: O(dim) instead of O(dim^2) operations per iteration, but no correlations",
]
SaveFactor = Annotated[bool, "whether the result has the learned L, in the group `proposal_factor`"]


class Tuning(NamedTuple):
    """The tuning that gradient ascent changes, and its workspace."""

    # L as in `proposal_factor`: shape (n, n), (1, n) or (1 + 2 r, n). Updated in place.
    factor: np.ndarray
    # mean_square, single: G, running mean of squared derivatives, with the shape of factor, in the
    # first or, in single precision, in the second; the other one has no rows. Updated in place.
    mean_square: np.ndarray
    single: np.ndarray
    entropy_weight: float  # beta > 0, tuned to bring the acceptance rate to its target
    updates: int  # number of ascent steps taken
    # left, right: workspace, shape (terms, n): the derivative in L of all but sum_i log L_ii is
    # sum_r left[r] right[r]^T, lower triangle
    left: np.ndarray
    right: np.ndarray
    row: np.ndarray  # workspace, shape (n,)
    # slope, inverse: Workspace of a factor of low rank: its derivative, of the same shape, and an
    # array of shape (r, 2 r). Empty for others.
    slope: np.ndarray
    inverse: np.ndarray


def start(dim: int, scale: float, diagonal: bool, terms: int = 3, rank: int = 0) -> Tuning:
    """Start from L = scale / sqrt(n) * I and beta = 1, with room for `terms` outer products."""
    factor = factors.initial(dim, scale / np.sqrt(dim), diagonal, rank)
    low, rows = as_python(factors.has_low_rank)(factor), factor.shape[0]
    coarse = dim if rows == dim and dim >= SINGLE_FROM else 0
    return Tuning(
        factor, np.zeros((0 if coarse else rows, dim)), np.zeros((coarse, dim), np.float32), 1.0, 0,
        np.zeros((terms, dim)), np.zeros((terms, dim)), np.zeros(dim),
        np.zeros((rows if low else 0, dim)),
        np.zeros((rank if low else 0, 2 * rank)),
    )  # fmt: skip


@jit
def _climb_row(values, mean_square, scale, direction, length, forgetting, learning_rate):
    """Climb along the derivative scale * direction, in the first `length` entries of a row.

    A step of RMSProp, rho = eta / (1 + sqrt(G)).
    Rates have the precision of mean_square; values have double precision, since small steps add up.
    """
    number = mean_square.dtype.type
    one, kept, added = number(1.0), number(forgetting), number(1.0 - forgetting)
    eta, largest = number(learning_rate), number(LARGEST_SQUARE)
    for j in range(length):
        d = number(scale * direction[j])
        g = min(kept * mean_square[j] + added * d * d, largest)
        mean_square[j] = g
        values[j] += np.float64(eta * d / (one + np.sqrt(g)))


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
def _ascend_triangle(tuning, mean_square, rank, weight, forgetting, learning_rate):
    """Climb all rows of a triangle in whole blocks, beyond the diagonal if it lies inside one.

    Otherwise entries after the last block would be updated one by one, which took a third of the
    time for 100 parameters. Nothing reads the upper triangle.
    """
    factor, row, n = tuning.factor, tuning.row, tuning.row.shape[0]
    kept = mean_square.dtype.type(forgetting)
    for i in range(n):
        length = min((i // BLOCK + 1) * BLOCK, n)
        pivot, g, d = factor[i, i], mean_square[i, i], weight / factor[i, i]
        if rank == 0:  # the derivative is zero except on the diagonal
            for j in range(length):
                mean_square[i, j] *= kept
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
        g = min(forgetting * g + (1.0 - forgetting) * d * d, LARGEST_SQUARE)
        mean_square[i, i] = g
        factor[i, i] = max(pivot + learning_rate * d / (1.0 + np.sqrt(g)), SMALLEST_DIAGONAL)


@jit
def _ascend_low_rank(tuning, rank, weight, forgetting, learning_rate):
    """Climb in s, U and V of a factor of low rank; the weight is that of its determinant."""
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
def _bound(tuning, rank):
    """Shrink outer products with entries beyond LARGEST_DERIVATIVE; leave out those not finite.

    No entry of left[r] right[r]^T exceeds the product of the sums. To look at each entry would take
    a tenth of the time of a climb.
    """
    left, right, n = tuning.left, tuning.right, tuning.row.shape[0]
    for r in range(rank):
        one, other = 0.0, 0.0
        for j in range(n):
            one += abs(left[r, j])
            other += abs(right[r, j])
        if not one * other <= LARGEST_DERIVATIVE:
            finite, one, other = one * other < np.inf, 0.0, 0.0
            for j in range(n):
                one, other = max(one, abs(left[r, j])), max(other, abs(right[r, j]))
            share = min(1.0, LARGEST_DERIVATIVE / (one * other))
            for j in range(n):
                left[r, j] = share * left[r, j] if finite else 0.0
                right[r, j] = right[r, j] if finite else 0.0


@jit
def ascend(tuning, rank, log_ratio, learning_rate):
    """Take one step of size rho * dF, dF = [sum_{r < rank} left[r] right[r]^T] + entropy term.

    The entropy term is beta * diag(1 / L), or the derivative of beta * log |det L| if L is of low
    rank. Its sign is reversed, and rank is 0, after a proposal with a log ratio of -inf, at which
    the density failed: this shows only that moves must be shorter. (The paper has no such case;
    without it a chain would never recover if all of its proposals fail.)
    """
    factor, mean_square, row = tuning.factor, tuning.mean_square, tuning.row
    weight = tuning.entropy_weight if log_ratio > -np.inf else -tuning.entropy_weight
    _bound(tuning, rank)
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
    if tuning.single.shape[0] > 0:
        _ascend_triangle(tuning, tuning.single, rank, weight, forgetting, learning_rate)
    else:
        _ascend_triangle(tuning, tuning.mean_square, rank, weight, forgetting, learning_rate)


@jit
def after_step(tuning, accepted, target_accept, largest_weight=LARGEST_WEIGHT):
    """Update beta <- max(beta (1 + 0.02 (a - a*)), 1e-4), with a = 1 if accepted, otherwise 0.

    It stays below `largest_weight`. A step of L is hardly longer for a larger beta, however far L
    is from its optimum: without a bound beta grew to 1e150, in 785 dimensions, and while it
    decreased again, L continued to acceptance rates far below the target.
    """
    outcome = 1.0 if accepted else 0.0
    weight = tuning.entropy_weight * (1.0 + WEIGHT_RATE * (outcome - target_accept))
    weight = min(max(weight, SMALLEST_WEIGHT), largest_weight)
    return replace(tuning, entropy_weight=weight, updates=tuning.updates + 1)


def report(view: RunView) -> Findings:
    """Report the learned L if it was asked for: the hook of the samplers named gad."""
    return report_factor(view, lambda state: _whole(state.tuning.factor))


def _whole(factor: np.ndarray) -> np.ndarray:
    if not as_python(factors.has_low_rank)(factor):
        return whole(factor)
    rank = len(factor) // 2
    return np.diag(factor[0]) + factor[1 : 1 + rank].T @ factor[1 + rank :]
