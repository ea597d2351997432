"""The proposal of Kernel Adaptive Metropolis-Hastings, with a position-dependent covariance.

From y it is N(y, R(y)), R(y) = gamma^2 F + nu^2 M H M^T, where the paper's floor F is I. The
columns of M are m_a = 2 grad_y k(y, z_a) for a subsample z_1, ..., z_n of the chain's past, and
H = I - 1 1^T / n centers them. With centered columns c_a this is gamma^2 F + nu^2 sum_a c_a c_a^T:
O(n d^2), and H is never formed.

The scale is expressed in units that depend on neither n nor the bandwidth: s = 2 w(0) sqrt(n) nu,
where w(0) is the kernel's weight at distance zero. Then R(y) = gamma^2 F +
s^2 S(y), and the `spread` S(y) is the covariance of the points, each pulled toward y by its
relative weight w(r) / w(0). For the linear kernel it is the covariance of the points, and s is the
scale of Adaptive Metropolis.

`normalize_weights` deviates from the paper: at each y the weights are divided by their root mean
square over the points, and S(y) is the covariance of the past near y for any y. In the paper's
form S(y) vanishes far from the past: R(y) shrinks to gamma^2 F, and a chain that strayed returns
slowly. (The norm of the mean over 24 chains on the strongly twisted banana, with all other settings
equal, is 3.6 on average and 31.7 at worst; with normalized weights, 2.1 and 4.5.) Any R(y) that
depends on y alone is equally valid, with its Hastings ratio.

The kernel's distance may be measured in other units, r = |U^-1 (y - z)|. The columns are still w(r)
(z - y): gradients in those units, mapped back by U.

The gradient of a kernel k(x, z) that depends only on r = |x - z| points from x to z:
grad_x k(x, z) = weight(r^2) (z - x). A kernel is therefore a function from r^2 to the weight, and a
`bandwidth` in the units of r. The linear kernel k(x, z) = x^T z has gradient z: weight 1, plus a
term x that is the same for every z and is removed by the centering of the proposal.

References
----------
That of `kameleon`, sections 2 and 4. The Matern kernels are those of Rasmussen and Williams (2006),
equation 4.17; the one with nu = 1/2 has no gradient at r = 0 and is omitted. The inverse
multiquadric is their rational quadratic kernel, equation 4.19, with alpha = 1/2.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import inline, jit
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy, inner_product, squared_norm, vector_sum


class Kernel(IntEnum):
    """The available kernels."""

    gaussian = 0
    linear = 1
    matern32 = 2
    matern52 = 3
    inverse_multiquadric = 4


@inline
def weight(kernel, bandwidth, squared):
    """Return the weight at r^2; the kernels are, with s = sqrt(3) r / rho or sqrt(5) r / rho,

    exp(-r^2 / (2 sigma^2)), (1 + s) exp(-s), (1 + s + s^2 / 3) exp(-s), (1 + r^2 / c^2)^(-1/2).
    The last falls as r^-3, not exponentially.
    """
    if kernel == Kernel.gaussian:
        return np.exp(-0.5 * squared / bandwidth**2) / bandwidth**2
    if kernel == Kernel.matern32:
        return 3.0 / bandwidth**2 * np.exp(-np.sqrt(3.0 * squared) / bandwidth)
    if kernel == Kernel.matern52:
        s = np.sqrt(5.0 * squared) / bandwidth
        return 5.0 / (3.0 * bandwidth**2) * (1.0 + s) * np.exp(-s)
    if kernel == Kernel.inverse_multiquadric:
        inverse = 1.0 / (1.0 + squared / bandwidth**2)
        return inverse * np.sqrt(inverse) / bandwidth**2
    return 1.0


@jit
def fill_weights(kernel, bandwidth, squared, count, out):
    """Write the weights at squared[:count] into out[:count]."""
    for a in range(count):
        out[a] = weight(kernel, bandwidth, squared[a])


class Subsample(NamedTuple):
    """Points z_1, ..., z_n of the chain's past, and the kernel's bandwidth."""

    # one point per column, so that sums over points are contiguous; shape (dim, capacity)
    points: np.ndarray
    landmarks: np.ndarray  # u^-1 points
    count: int  # n, the number of columns in use
    units: np.ndarray  # u, lower triangular; of shape (1, dim) if diagonal
    bandwidth: float  # bandwidth in the units of the landmarks; 0 until it is learned
    # columns, weights: workspace, shapes (dim, capacity) and (capacity,)
    columns: np.ndarray
    weights: np.ndarray


class Local(NamedTuple):
    """The proposal from one position; overwritten for every proposal."""

    landmark: np.ndarray  # u^-1 times the position, shape (dim,)
    # spread, factor: S and the lower triangular L with L L^T = gamma^2 F + s^2 S, lower triangles
    # of shape (dim, dim)
    spread: np.ndarray
    factor: np.ndarray


@jit
def no_points(dim, capacity, bandwidth):
    """Return a Subsample without points, U = I."""
    shape = (dim, capacity)
    return Subsample(
        np.empty(shape), np.empty(shape), 0, factors.initial(dim, 1.0, True), bandwidth,
        np.empty(shape), np.empty(capacity),
    )  # fmt: skip


@jit
def place_landmarks(subsample):
    """Fill the landmarks from the points."""
    n = subsample.count
    for i in range(subsample.points.shape[0]):
        copy(subsample.points[i], subsample.landmarks[i, :n])
    factors.solve_columns(subsample.units, subsample.landmarks, n)


@jit
def unused_local(dim):
    """Return a Local to write into."""
    return Local(np.empty(dim), np.zeros((dim, dim)), np.zeros((dim, dim)))


@jit
def _fill_weights(settings, subsample, position, local):
    """Fill subsample.weights; return the number to divide them by."""
    n, weights, bandwidth = subsample.count, subsample.weights, subsample.bandwidth
    if bandwidth == np.inf:  # the limit: every weight is that at distance zero
        weights[:n] = 1.0
        return 1.0
    factors.solve(subsample.units, position, local.landmark)
    weights[:n] = 0.0
    for i in range(position.shape[0]):
        landmark, origin = subsample.landmarks[i], local.landmark[i]
        for a in range(n):
            difference = landmark[a] - origin
            weights[a] += difference * difference
    fill_weights(settings.kernel, bandwidth, weights, n, weights)
    if settings.normalize_weights:
        return np.sqrt(inner_product(weights, weights, n) / max(n, 1))
    return weight(settings.kernel, bandwidth, 0.0)


@jit
def measure(settings, subsample, position, local):
    """Fill local.spread with S at position, shape (dim,); zeros without points."""
    points, n, dim = subsample.points, subsample.count, subsample.points.shape[0]
    columns, weights = subsample.columns, subsample.weights
    size = _fill_weights(settings, subsample, position, local)
    # size is zero if even the nearest point is so far that its weight underflows
    share = 1.0 / size if size > 0.0 else 0.0
    for i in range(dim):
        point, column = points[i], columns[i]
        # the linear kernel's gradients are centered, so that any origin is correct, but an origin
        # near the points loses no digits
        origin = point[0] if settings.kernel == Kernel.linear else position[i]
        for a in range(n):
            column[a] = share * weights[a] * (point[a] - origin)
        _center(column, n)
        for j in range(i + 1):
            local.spread[i, j] = inner_product(column, columns[j], n) / max(n, 1)


@jit
def _center(column, n):
    """Subtract the mean of column[:n] from it."""
    mean = vector_sum(column, n) / max(n, 1)
    for a in range(n):
        column[a] -= mean


@jit
def factorize(local, floor, gamma, scale):
    """Fill local.factor from local.spread; False if R is not finite and positive definite."""
    for i in range(floor.shape[0]):
        for j in range(i + 1):
            local.factor[i, j] = gamma**2 * floor[i, j] + scale**2 * local.spread[i, j]
    return factors.cholesky(local.factor)


@jit
def log_proposal_ratio(here, there, noise, move):
    """Return log q(here | there) - log q(there | here), where there = here + move.

    move = L(here) noise, both of shape (dim,); noise is overwritten.
    """
    log_ratio = 0.5 * squared_norm(noise)
    for i in range(noise.shape[0]):
        log_ratio += np.log(here.factor[i, i] / there.factor[i, i])
    factors.solve(there.factor, move, noise)
    return log_ratio - 0.5 * squared_norm(noise)
