"""Automatic differentiation variational inference: q = N(mu, L L^T) by stochastic gradients.

With z = mu + L e, e standard normal, and g the gradient of the log density at z, the gradient of
the ELBO is estimated along the path of z alone,

    d mu = E[h],  d L = tril(E[h e^T]),  h = g + L^-T e,

whose variance vanishes where q is the posterior; L is diagonal in the mean-field family. It starts
as the standard normal: coordinates must have been standardised. Adam with a falling learning rate
climbs; the second half of its iterates is averaged. A diagonal entry of L moves on the log scale.

References
----------
Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
inference, JMLR 18(14): the families; Roeder, Wu and Duvenaud (2017), Sticking the landing, NeurIPS:
the gradient; Kingma and Ba (2015), Adam, ICLR. Deviations: Adam in place of a sequence of step
sizes that a search scales, coordinates standardised by Pathfinder, and the averaged iterate.

"""

from typing import NamedTuple

import numpy as np

from stanadapt._numba import triangular
from stanadapt._numba.jit import jit
from stanadapt._numba.vectors import fill_normal, squared_norm
from stanadapt.kernels.density import value_and_gradient
from stanadapt.kernels.variational.gaussian import LOG_2PI

DECAY, SQUARED_DECAY, FLOOR = 0.9, 0.999, 1e-8
# the learning rate falls to this share of itself
LAST_RATE = 0.05


class Ascent(NamedTuple):
    """Where stochastic gradients ended.

    location, factor
        mu, shape (dim,), and L: lower triangle of shape (dim, dim), or (1, dim) diagonal.
    elbo
        Estimate at each iteration, from its own draws, shape (iteration,).
    failed
        Draws without a finite density, of iterations * draws.

    """

    location: np.ndarray
    factor: np.ndarray
    elbo: np.ndarray
    failed: int


class _Moments(NamedTuple):
    """Gradient of the ELBO and what Adam keeps of those before: of mu (row 0), and of L."""

    gradient: np.ndarray
    mean: np.ndarray
    square: np.ndarray


@jit
def _moments(dim, rows):
    shape = (1 + rows, dim)
    return _Moments(np.zeros(shape), np.zeros(shape), np.zeros(shape))


@jit
def ascend(density, diagonal, iterations, draws, learning_rate, rng):
    """Return the Ascent of so many iterations with so many draws each."""
    n = density.dim
    location, factor = np.zeros(n), triangular.initial(n, 1.0, diagonal)
    total_location, total_factor = np.zeros(n), np.zeros(factor.shape)
    moments, elbo = _moments(n, factor.shape[0]), np.empty(iterations)
    noise, position, gradient, solved = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    failed = 0
    for t in range(iterations):
        moments.gradient[:] = 0.0
        fine, total = 0, 0.0
        for _ in range(draws):
            fill_normal(rng, noise)
            triangular.times(factor, noise, position)
            for i in range(n):
                position[i] += location[i]
            log_density = value_and_gradient(density, position, gradient)
            if log_density == -np.inf:
                continue
            fine += 1
            # log p - log q, whose variance vanishes where q is the posterior
            total += log_density + 0.5 * squared_norm(noise)
            triangular.transposed_solve(factor, noise, solved)
            for i in range(n):
                gradient[i] += solved[i]
            _add(moments.gradient, factor.shape[0], gradient, noise)
        failed += draws - fine
        elbo[t] = total / fine + _log_volume(factor, n) if fine == draws else -np.inf
        if fine > 0:
            moments.gradient[:] = moments.gradient / fine
            rate = learning_rate * (1.0 - (1.0 - LAST_RATE) * t / iterations)
            _adam(moments, location, factor, rate, t)
        if 2 * t >= iterations:
            total_location += location
            total_factor += factor
    count = iterations - (iterations + 1) // 2
    return Ascent(total_location / count, total_factor / count, elbo, failed)


@jit
def _log_volume(factor, n):
    """Log of the largest value of 1 / q."""
    total = 0.5 * n * LOG_2PI
    for i in range(n):
        total += np.log(factor[i, i] if factor.shape[0] == n else factor[0, i])
    return total


@jit
def _add(gradient, rows, slope, noise):
    """Add h to the gradient of mu, and h e^T to that of L."""
    n = slope.shape[0]
    for i in range(n):
        gradient[0, i] += slope[i]
    if rows < n:
        for i in range(n):
            gradient[1, i] += slope[i] * noise[i]
        return
    for i in range(n):
        for j in range(i + 1):
            gradient[1 + i, j] += slope[i] * noise[j]


@jit
def _adam(moments, location, factor, rate, t):
    """Move mu and L along the gradient."""
    n, rows = location.shape[0], factor.shape[0]
    for i in range(n):
        location[i] += _move(moments, 0, i, 1.0, rate, t)
    for a in range(rows):
        first = a if rows == n else n - 1
        for i in range(first + 1):
            if rows < n or i == a:  # on the log scale: it stays positive
                scale = factor[a, i]
                factor[a, i] = scale * np.exp(_move(moments, 1 + a, i, scale, rate, t))
            else:
                factor[a, i] += _move(moments, 1 + a, i, 1.0, rate, t)


@jit
def _move(moments, row, i, scale, rate, t):
    """Take one coordinate's step; scale is the derivative of the entry by what moves."""
    slope = moments.gradient[row, i] * scale
    mean = DECAY * moments.mean[row, i] + (1.0 - DECAY) * slope
    square = SQUARED_DECAY * moments.square[row, i] + (1.0 - SQUARED_DECAY) * slope * slope
    moments.mean[row, i], moments.square[row, i] = mean, square
    corrected = np.sqrt(square / (1.0 - SQUARED_DECAY ** (t + 1.0))) + FLOOR
    return rate * mean / (1.0 - DECAY ** (t + 1.0)) / corrected
