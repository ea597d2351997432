"""Moves that a fitted distribution q proposes: of all coordinates, of a block, or local ones.

q is a Gaussian, or a Student t with its location and scale matrix. Log densities leave out a
constant that is common to q and the local proposal, -log det L - n / 2 log 2 pi. It changes when q
is fitted again: stored log densities of q must then be recomputed.
"""

import math
from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm


class Approximation(NamedTuple):
    """q: arrays are updated in place when it is fitted again."""

    # location, factor: m, shape (dim,), and L of the scale matrix L L^T: lower triangle of shape
    # (dim, dim), or (1, dim) diagonal
    location: np.ndarray
    factor: np.ndarray
    # (L L^T)^-1, shape (dim, dim), for moves of blocks; shape (1, dim) if L is diagonal or there
    # are no such moves
    precision: np.ndarray


class Workspace(NamedTuple):
    """Memory for a step: vectors of shape (dim,), an order of the coordinates, a block's matrix."""

    noise: np.ndarray
    solved: np.ndarray
    order: np.ndarray
    matrix: np.ndarray


@jit
def workspace(dim, block):
    return Workspace(np.empty(dim), np.empty(dim), np.arange(dim), np.empty((block, block)))


@jit
def log_shape(distance, n, degrees):
    """Log density at a squared distance from the center, in n dimensions, with scale matrix I.

    The constant -n / 2 log 2 pi is left out; degrees = 0 means a Gaussian.
    """
    if degrees == 0.0:
        return -0.5 * distance
    constant = math.lgamma(0.5 * (degrees + n)) - math.lgamma(0.5 * degrees)
    constant += 0.5 * n * math.log(2.0 / degrees)
    return constant - 0.5 * (degrees + n) * math.log1p(distance / degrees)


@jit
def fill_scaled(rng, degrees, out):
    """Fill out with a draw of a Gaussian, or of a Student t, with scale matrix I."""
    fill_normal(rng, out)
    if degrees > 0.0:
        stretch = math.sqrt(degrees / rng.chisquare(degrees))
        for i in range(out.shape[0]):
            out[i] *= stretch


@jit
def log_approximation(q, degrees, position, work):
    """Log density of q at a position, up to the common constant."""
    n = position.shape[0]
    for i in range(n):
        work.noise[i] = position[i] - q.location[i]
    triangular.solve(q.factor, work.noise, work.solved)
    return log_shape(squared_norm(work.solved), n, degrees)


@jit
def draw(q, degrees, rng, work, out):
    fill_scaled(rng, degrees, work.noise)
    triangular.times(q.factor, work.noise, out)
    for i in range(out.shape[0]):
        out[i] += q.location[i]


@jit
def draw_local(q, position, scale, rng, work, out):
    """Fill out with a draw of N(position, scale^2 L L^T)."""
    fill_normal(rng, work.noise)
    triangular.times(q.factor, work.noise, out)
    for i in range(out.shape[0]):
        out[i] = position[i] + scale * out[i]


@jit
def log_local(q, one, other, scale, work):
    """Log density of the local proposal from one position at another, which is symmetric."""
    n = one.shape[0]
    for i in range(n):
        work.noise[i] = (other[i] - one[i]) / scale
    triangular.solve(q.factor, work.noise, work.solved)
    return -0.5 * squared_norm(work.solved) - n * math.log(scale)


@jit
def log_mixture(log_global, log_near, share):
    """Log of share * exp(log_global) + (1 - share) * exp(log_near)."""
    one, other = math.log(share) + log_global, math.log1p(-share) + log_near
    high = max(one, other)
    return high + math.log(math.exp(one - high) + math.exp(other - high))


@jit
def draw_block(q, degrees, position, rng, work, out):
    """Fill out with a position with a random block B drawn from q(x_B | x_-B), the rest unchanged.

    With the precision P of q: N(m_B - P_BB^-1 P_BA (x_A - m_A), P_BB^-1), or a Student t with this
    location and scale. Returns log q(x_B | x_-B) - log q(x'_B | x_-B).
    """
    n, b = position.shape[0], work.matrix.shape[0]
    for k in range(b):  # the block does not depend on the position
        other = k + int(rng.random() * (n - k))  # `integers` would allocate
        work.order[k], work.order[other] = work.order[other], work.order[k]
    for i in range(n):
        out[i] = position[i]
    _factor_of_block(q, work)
    # P_BB = C C^T; in z = C^T (x_B - location of the block) the conditional has scale matrix I
    here = _block_from(q, position, work)
    fill_scaled(rng, degrees, work.noise[:b])
    there = squared_norm(work.noise[:b])
    for k in range(b):
        work.solved[k] = work.noise[k] - work.solved[k]  # z' - z
    for k in range(b - 1, -1, -1):
        total = work.solved[k]
        for j in range(k + 1, b):
            total -= work.matrix[j, k] * work.solved[j]
        work.solved[k] = total / work.matrix[k, k]
        out[work.order[k]] += work.solved[k]
    return log_shape(here, b, degrees) - log_shape(there, b, degrees)


@jit
def _precision(q, i, j):
    if q.factor.shape[0] < q.location.shape[0] or q.location.shape[0] == 1:
        return 1.0 / (q.factor[0, i] * q.factor[0, i]) if i == j else 0.0
    return q.precision[i, j]


@jit
def _factor_of_block(q, work):
    """Write the lower triangle C of P_BB = C C^T into the matrix of the workspace."""
    for k in range(work.matrix.shape[0]):
        for j in range(k + 1):
            work.matrix[k, j] = _precision(q, work.order[k], work.order[j])
    triangular.cholesky(work.matrix)


@jit
def _block_from(q, position, work):
    """Write z = C^T (x_B - location of the block) into `solved`; return its squared length.

    C z = P_BB (x_B - location of the block) = P_B. (x - m), the rows of P that belong to B.
    """
    n, b, total = position.shape[0], work.matrix.shape[0], 0.0
    for k in range(b):
        row, entry = work.order[k], 0.0
        for i in range(n):
            entry += _precision(q, row, i) * (position[i] - q.location[i])
        for j in range(k):
            entry -= work.matrix[k, j] * work.solved[j]
        work.solved[k] = entry / work.matrix[k, k]
        total += work.solved[k] * work.solved[k]
    return total


@jit
def update_precision(q):
    """Compute the precision of q again, if there is room for it."""
    n = q.location.shape[0]
    if q.precision.shape[0] < n or n == 1:
        return
    column, solved = np.zeros(n), np.empty(n)
    for j in range(n):
        column[:] = 0.0
        column[j] = 1.0
        triangular.solve(q.factor, column, solved)
        triangular.transposed_solve(q.factor, solved, solved)
        for i in range(n):
            q.precision[i, j] = solved[i]
