"""Tuning rules of warm-up that several samplers share.

- `rescaled`: a scale that moves toward a target acceptance rate by small relative steps.
- `Averaging`: dual averaging of the log step size toward a target acceptance rate. As in the
  references, the average includes the iterate of the same iteration.
- `window_end`: Stan's schedule of warm-up: an initial buffer without estimation; windows of
  doubling length, each ending with a new metric that is estimated from its draws alone; a terminal
  buffer in which only the step size is tuned.
- `Welford`: the covariance of a window of draws, and the factor L of the Euclidean metric made from
  it. The inverse metric is the covariance L L^T, shrunk as in Stan. L is stored as in
  `engine/numerics/triangular`: shape (n, n), lower triangle, if dense, and (1, n) if diagonal.

References
----------
Dual averaging: Nesterov (2009), Mathematical Programming 120; Hoffman and Gelman (2014), The
No-U-Turn Sampler, JMLR 15, equation 6 and algorithm 5, which give gamma, t0, kappa and the center
mu = log(10 eps), as in Stan. Windows: Stan Reference Manual, section "Automatic parameter tuning";
stan/mcmc/windowed_adaptation.hpp. Covariance: Welford (1962), Technometrics 4(3); shrinkage:
stan/mcmc/var_adaptation.hpp and covar_adaptation.hpp.

Deviations: for 20 to 149 iterations windowed_adaptation.hpp (2.27) announces one window of 75 %,
but never ends it, so that the metric stays the identity; here the window ends. If a covariance is
not finite, Stan ends the run, and for a window of one draw it shrinks the old metric; here the old
metric is kept.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics import triangular as factors
from stanadapt.engine.numerics.vectors import copy

# --- relative steps -------------------------------------------------------------------------------

DECAY_RATE, DECAY_POWER = 0.01, 0.6


@jit
def rescaled(scale, acceptance_rate, target_accept, learning_rate, t, iter_warmup):
    """Multiply a scale > 0 to bring the acceptance rate closer to its target, after iteration t.

    scale * (1 + gain * (a - a*) / a*), the rule that Titsias and Dellaportas (2019) use for the
    baselines of their tables, with two changes. We use the acceptance probability a, while their
    code uses 0 or 1: the mean is the same, with less noise. And the gain, their constant learning
    rate, decreases in the second half of warm-up (Robbins and Monro, 1951): a constant gain leaves
    the final scale so noisy that the acceptance rate of a 100-dimensional random walk ends anywhere
    between 0.19 and 0.30. A gain below 1 keeps the factor positive for all a in [0, 1].
    """
    gain = learning_rate
    if 2 * t > iter_warmup:
        gain /= (1.0 + DECAY_RATE * (t - 0.5 * iter_warmup)) ** DECAY_POWER
    return scale * (1.0 + gain * (acceptance_rate - target_accept) / target_accept)


# --- dual averaging -------------------------------------------------------------------------------

# shrinkage of the iterates to the center, damping of the first iterates, and the rate at which old
# iterates lose weight in the average
GAMMA, T0, KAPPA = 0.05, 10.0, 0.75


class Averaging(NamedTuple):
    """State of dual averaging."""

    center: float  # mu, toward which the iterates shrink
    count: int  # number of acceptance rates so far
    shortfall: float  # weighted mean of target acceptance rate - acceptance rate
    log_step: float  # the current iterate: log of the step size to try next
    log_mean: float  # weighted mean of the iterates: log of the final step size


@jit
def start(step_size):
    """Return an Averaging without data, centered at ten times a step size."""
    return centered(step_size, 10.0)


@jit
def centered(step_size, multiple):
    """Return an Averaging without data, centered at a multiple of a step size."""
    log_step = np.log(step_size)
    return Averaging(np.log(multiple * step_size), 0, 0.0, log_step, log_step)


@jit
def update(averaging, acceptance_rate, target_accept):
    """Update an Averaging with one acceptance rate in [0, 1]."""
    t = averaging.count + 1
    weight = 1.0 / (t + T0)
    difference = target_accept - acceptance_rate
    shortfall = (1.0 - weight) * averaging.shortfall + weight * difference
    log_step = averaging.center - np.sqrt(t) / GAMMA * shortfall
    weight = t**-KAPPA
    log_mean = (1.0 - weight) * averaging.log_mean + weight * log_step
    return Averaging(averaging.center, t, shortfall, log_step, log_mean)


# --- windows --------------------------------------------------------------------------------------

INITIAL_BUFFER, TERMINAL_BUFFER, FIRST_WINDOW = 75, 50, 25
# with fewer iterations of warm-up than this the metric is not estimated
SHORTEST_WARMUP = 20
# shares of a warm-up that is too short for the lengths above
INITIAL_SHARE, TERMINAL_SHARE = 0.15, 0.1


@jit
def _lengths(iter_warmup):
    """Return the lengths of initial buffer and first window, and the end of the last window."""
    if iter_warmup >= INITIAL_BUFFER + FIRST_WINDOW + TERMINAL_BUFFER:
        return INITIAL_BUFFER, FIRST_WINDOW, iter_warmup - TERMINAL_BUFFER - 1
    initial = int(INITIAL_SHARE * iter_warmup)
    terminal = int(TERMINAL_SHARE * iter_warmup)
    return initial, iter_warmup - initial - terminal, iter_warmup - terminal - 1


@jit
def window_end(t, iter_warmup):
    """Return the last iteration of the window that contains iteration t = 0, 1, ...; -1 if none."""
    initial, size, last = _lengths(iter_warmup)
    if iter_warmup < SHORTEST_WARMUP or t < initial or t > last:
        return -1
    end = initial + size - 1
    while end < t:
        size *= 2
        end += size
        # if the next window would not fit, this one takes the rest
        if end + 2 * size > last:
            end = last
    return end


# --- covariance of a window -----------------------------------------------------------------------

# prior of the shrinkage: the weight in draws, and the variance it shrinks to
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3


class Welford(NamedTuple):
    """Running moments of a window of draws; its arrays are updated in place."""

    count: int  # number of draws
    mean: np.ndarray  # mean of the draws, shape (n,)
    deviation: np.ndarray  # deviation of the last draw from the mean before it, shape (n,)
    # sums of products of deviations from the mean, in the shape of the factor; if dense, the lower
    # triangle only
    products: np.ndarray


@jit
def no_draws(dim, diagonal):
    """Return a Welford without draws."""
    return Welford(0, np.zeros(dim), np.empty(dim), factors.initial(dim, 0.0, diagonal))


@jit
def with_draw(welford, position):
    """Add a draw, shape (n,)."""
    count, mean, deviation = welford.count + 1, welford.mean, welford.deviation
    for i in range(mean.shape[0]):
        deviation[i] = position[i] - mean[i]
        mean[i] += deviation[i] / count
    for i in range(mean.shape[0]):
        after = position[i] - mean[i]
        if welford.products.shape[0] < mean.shape[0]:
            welford.products[0, i] += after * deviation[i]
            continue
        row = welford.products[i]
        for j in range(i + 1):
            row[j] += after * deviation[j]
    return Welford(count, mean, deviation, welford.products)


@jit
def learn_factor(welford, factor):
    """Write the factor of the shrunk covariance into `factor`, and discard the draws.

    The factor is left unchanged after fewer than two draws, and if the covariance is not finite.
    Returns the empty Welford.
    """
    if welford.count > 1:
        _shrink(welford.count, welford.products)
        if _root(welford.products, welford.mean.shape[0]):
            for i in range(factor.shape[0]):
                copy(welford.products[i], factor[i])
    welford.mean[:] = 0.0
    welford.products[:] = 0.0
    return Welford(0, welford.mean, welford.deviation, welford.products)


@jit
def _shrink(count, products):
    """Turn sums of products into n / (n + 5) * covariance + 1e-3 * 5 / (n + 5) * identity."""
    weight = count / (count + PRIOR_DRAWS)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            products[i, j] *= weight / (count - 1)
    for i in range(products.shape[1]):
        products[min(i, products.shape[0] - 1), i] += (1.0 - weight) * PRIOR_VARIANCE


@jit
def _root(covariance, dim):
    """Overwrite a covariance with its factor; False if it has none."""
    if covariance.shape[0] == dim and dim > 1:
        return factors.cholesky(covariance)
    finite = True
    for i in range(dim):
        covariance[0, i] = np.sqrt(covariance[0, i])
        finite &= np.isfinite(covariance[0, i])
    return finite
