"""Automatic differentiation variational inference: q = N(mu, L L^T) by stochastic gradients.

With z = mu + L e, e standard normal, and g the gradient of the log density at z, the gradient of
the ELBO is estimated along the path of z alone,

    d mu = E[h],  d L = tril(E[h e^T]),  h = g + L^-T e.

Its variance vanishes if q is the posterior; L is diagonal in the mean-field family. It starts as
the standard normal: coordinates must have been standardized. Adam with a falling learning rate
climbs; the second half of its iterates is averaged. A diagonal entry of L moves on the log scale.
`fit_to_draws` fits a Gaussian by moments instead, to the draws of an earlier fit.

References
----------
Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), Automatic differentiation variational
inference, JMLR 18(14): the families; Roeder, Wu and Duvenaud (2017), Sticking the landing, NeurIPS:
the gradient; Kingma and Ba (2015), Adam, ICLR. Deviations: Adam in place of a sequence of step
sizes that a search scales, bounded slopes (`_shorten`), coordinates standardized by Pathfinder, and
the averaged iterate.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.adaptation import window_end
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import fill_normal, squared_norm
from stanadapt.samplers.variational.gaussian import LOG_2PI


class Family(IntEnum):
    """Correlations of q: all or none."""

    full_rank = 0
    mean_field = 1


SMALLEST = 1e-300


@jit
def fit_to_draws(positions, location, factor):
    """Write mean and factor L of the covariance L L^T of draws, shape (draw, dim).

    If factor has shape (1, dim), it receives the standard deviations. Otherwise correlations are
    shrunk, by a tenth with ten draws per parameter, so that L exists even with few draws.
    """
    count, n = positions.shape
    for i in range(n):
        location[i] = positions[:, i].mean()
    share = count / (count + n)
    for i in range(n):
        for j in range(i + 1 if factor.shape[0] == n else 0):
            total = 0.0
            for k in range(count):
                total += (positions[k, i] - location[i]) * (positions[k, j] - location[j])
            factor[i, j] = (share if j < i else 1.0) * total / count
        variance = max(positions[:, i].var(), SMALLEST)
        if factor.shape[0] == n:
            factor[i, i] = variance
        else:
            factor[0, i] = variance**0.5
    if factor.shape[0] == n:
        triangular.cholesky(factor)


DECAY, SQUARED_DECAY, FLOOR = 0.9, 0.999, 1e-8
# bound of a slope in root mean squares of those before it, or in units of 1, the size of slopes in
# standardized coordinates, if these were smaller: Adam remembers a square for a thousand iterations
OUTLYING = 10.0
# bound of all slopes: their squares, and sums over draws, must be finite
LARGEST_SLOPE = 1e150
# last learning rate as a share of the first
LAST_RATE = 0.05


class Ascent(NamedTuple):
    # location, factor: mu, shape (dim,), and L: lower triangle of shape (dim, dim), or (1, dim)
    # diagonal
    location: np.ndarray
    factor: np.ndarray
    elbo: np.ndarray  # estimate in each iteration, from its draws, shape (iteration,)
    failed: int  # number of the iterations * draws draws that had no finite density


class Climber(NamedTuple):
    """State of an ascent between iterations; all arrays are updated in place."""

    # location, factor: mu and L
    location: np.ndarray
    factor: np.ndarray
    # gradient, mean, square: gradient of the ELBO with respect to mu (row 0) and L (the other
    # rows), and Adam's running averages of gradients and of their squares; shape (1 + rows of L,
    # dim)
    gradient: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    # total_location, total_factor: sums of mu and L over the iterates to be averaged
    total_location: np.ndarray
    total_factor: np.ndarray
    noise: np.ndarray  # standard normal draws of an iteration, shape (draw, dim)
    # position, slope, solved: workspace, shape (dim,)
    position: np.ndarray
    slope: np.ndarray
    solved: np.ndarray


@jit
def climber_at(location, factor, draws):
    """Start an ascent at N(location, L L^T), with this number of draws per iteration."""
    n = location.shape[0]
    shape = (1 + factor.shape[0], n)
    return Climber(
        location.copy(), factor, np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(n),
        np.zeros(factor.shape), np.zeros((draws, n)), np.empty(n), np.empty(n), np.empty(n),
    )  # fmt: skip


@jit
def ascend(density, diagonal, iterations, draws, learning_rate, rng):
    """Return the Ascent from N(0, I) after `iterations`, with `draws` draws in each."""
    factor = triangular.initial(density.dim, 1.0, diagonal)
    climber = climber_at(np.zeros(density.dim), factor, draws)
    elbo, failed, count = np.empty(iterations), 0, 0
    for t in range(iterations):
        draw_noise(climber, rng)
        elbo[t], lost = climb(density, climber, learning_rate, t, iterations)
        failed += lost
        if 2 * t >= iterations:
            count += 1
            add_up(climber)
    return Ascent(climber.total_location / count, climber.total_factor / count, elbo, failed)


@jit
def draw_noise(climber, rng):
    """Draw the noise of the next iteration."""
    for k in range(climber.noise.shape[0]):
        fill_normal(rng, climber.noise[k])


@jit
def climb(density, climber, learning_rate, t, iterations):
    """Make iteration t; return its estimate of the ELBO, and the number of failed draws."""
    n, rows, fine, total = density.dim, climber.factor.shape[0], 0, 0.0
    draws = climber.noise.shape[0]
    climber.gradient[:] = 0.0
    position, slope = climber.position, climber.slope
    for k in range(draws):
        noise = climber.noise[k]
        triangular.times(climber.factor, noise, position)
        for i in range(n):
            position[i] += climber.location[i]
        log_density = value_and_gradient(density, position, slope)
        if log_density == -np.inf:
            continue
        fine += 1
        # log p - log q, with a variance that vanishes if q is the posterior
        total += log_density + 0.5 * squared_norm(noise)
        triangular.transposed_solve(climber.factor, noise, climber.solved)
        for i in range(n):
            slope[i] = _bounded(slope[i] + climber.solved[i], LARGEST_SLOPE)
        _add(climber.gradient, rows, slope, noise)
    elbo = total / fine + _log_volume(climber.factor, n) if fine == draws else -np.inf
    if fine > 0:
        rate = learning_rate * (1.0 - (1.0 - LAST_RATE) * t / iterations)
        _adam(climber, 1.0 / fine, rate, t)
    return elbo, draws - fine


@jit
def average_into(climber, count, location, factor):
    """Write the mean of the `count` iterates in the sums, and clear the sums."""
    share = 1.0 / count
    location[:] = share * climber.total_location
    factor[:] = share * climber.total_factor
    climber.total_location[:] = 0.0
    climber.total_factor[:] = 0.0


@jit
def add_up(climber):
    """Add the present iterate to the sums."""
    for i in range(climber.location.shape[0]):
        climber.total_location[i] += climber.location[i]
    for a in range(climber.factor.shape[0]):
        for i in range(climber.factor.shape[1]):
            climber.total_factor[a, i] += climber.factor[a, i]


@jit
def climb_in_window(density, climber, averaged, learning_rate, t, iterations):
    """`climb`, and sum up the iterates of a window; return their number, and whether it ends."""
    climb(density, climber, learning_rate, t, iterations)
    end = window_end(t, iterations)
    if end >= 0:
        add_up(climber)
        averaged += 1
    return averaged, t == end


def coordinates(settings: Any) -> str:
    """Return the coordinates to run in: for mean-field, those in which correlations remain."""
    return "diagonal" if settings.approximation == Family.mean_field else "full"


def stop_fitting(settings: Any, state: Any) -> Any:
    """Stop drawing the noise that only fitting needs: `freeze` of a sampler."""
    return state._replace(fitting=False)


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
def _adam(climber, weight, rate, t):
    """Move mu and L along the gradient, a sum over draws that is multiplied by weight."""
    location, factor = climber.location, climber.factor
    n, rows = location.shape[0], factor.shape[0]
    _shorten(climber, weight, t)
    for i in range(n):
        location[i] += _move(climber, 0, i, weight, rate, t)
    for a in range(rows):
        last = a if rows == n else n - 1
        for i in range(last + 1):
            if rows < n or i == a:  # on the log scale: it stays positive
                scale = factor[a, i]
                factor[a, i] = scale * np.exp(_move(climber, 1 + a, i, weight * scale, rate, t))
            else:
                factor[a, i] += _move(climber, 1 + a, i, weight, rate, t)


@jit
def _bounded(number, bound):
    """Return the number in [-bound, bound] that is closest to number."""
    if number > bound:
        return bound
    return -bound if number < -bound else number


@jit
def _shorten(climber, weight, t):
    """Shorten slopes that are far larger than those before them, as beyond a steep wall.

    After the full square of such a slope no step would be long enough to be seen. Apart from the
    steps: their loop is vectorized only without this branch.
    """
    n, rows = climber.location.shape[0], climber.factor.shape[0]
    for row in range(1 + rows):
        for i in range(row if row > 0 and rows == n else n):
            on_log_scale = row > 0 and (rows < n or i == row - 1)
            unit = weight * climber.factor[row - 1, i] if on_log_scale else weight
            slope = climber.gradient[row, i] * unit
            if abs(slope) > OUTLYING:
                square = climber.square[row, i]
                before = np.sqrt(square / (1.0 - SQUARED_DECAY**t)) if t > 0 else 0.0
                bound = min(OUTLYING * max(before, 1.0), LARGEST_SLOPE)
                climber.gradient[row, i] = _bounded(slope, bound) / unit


@jit
def _move(climber, row, i, weight, rate, t):
    """Return the step of one coordinate; its slope is the gradient times weight."""
    slope = climber.gradient[row, i] * weight
    mean = DECAY * climber.mean[row, i] + (1.0 - DECAY) * slope
    square = SQUARED_DECAY * climber.square[row, i] + (1.0 - SQUARED_DECAY) * slope * slope
    climber.mean[row, i], climber.square[row, i] = mean, square
    corrected = np.sqrt(square / (1.0 - SQUARED_DECAY ** (t + 1.0))) + FLOOR
    return rate * mean / (1.0 - DECAY ** (t + 1.0)) / corrected
