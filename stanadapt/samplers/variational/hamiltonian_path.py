"""Paths from a Gaussian by leapfrogs, and a model of their reverse from which they get weights.

A path starts at z_0 ~ q_0. For t = 1, ..., T a momentum v ~ N(0, I) is drawn, and leapfrogs map
(z_{t-1}, v) to (z_t, v_t); there is no rejection. With any density r_t(v_t | z_t),

    L = log p(z_T) - log q_0(z_0) + sum_t log r_t(v_t | z_t) - log N(v)

has E[exp L] = Z, since leapfrogs preserve volume: E[L] is a lower bound on log Z, which is the
tighter the closer r_t is to the distribution of v_t given z_t. Here r_t is the linear regression of
v_t on z_t with Gaussian residuals, N(b_t + A_t z_t, S_t), which maximizes the bound among such
models in closed form. Step sizes and masses form a grid; the point with the largest bound is
chosen, evaluated on other paths than those to which its r_t was fitted. Its r_t is then fitted to
more paths. A fit to n paths loses about half as much of the bound as r_t has parameters, over n:
0.75 dim (dim + 1) / n.

References
----------
That of `hvi`, algorithm 3 and equation 7. Deviations: r_t by regression in place of a network that
gradients train; step size and masses by a search, which needs no second derivatives.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.leapfrog import leapfrog
from stanadapt.engine.numerics import triangular
from stanadapt.engine.numerics.vectors import copy, fill_normal, squared_norm, vector_mean
from stanadapt.samplers.variational.gaussian import LOG_2PI

# grid of step sizes, in units of the scales; leapfrogs of a normal coordinate of unit scale become
# unstable at 2
SMALLEST_STEP, RATIO, STEPS = 0.1, 1.4, 9
# relative increase of variances, so that a regression always exists
RIDGE = 1e-8
LOWEST = -1e300  # log weight of a path that failed
# smallest number of paths to evaluate a candidate on, and per parameter in a fit
JUDGED_PATHS, PATHS_PER_DIMENSION = 400, 20


class PathModel(NamedTuple):
    """Start of the paths, their continuation, and their reverse; arrays are updated in place."""

    # location, factor: mean of q_0, shape (dim,), and L of its covariance, as in `triangular`
    location: np.ndarray
    factor: np.ndarray
    scale: np.ndarray  # the mass of coordinate i is 1 / scale[i]^2; shape (dim,)
    # slopes, offsets, roots: A_t, shape (T, dim, dim), b_t, shape (T, dim), and the Cholesky
    # factors of S_t
    slopes: np.ndarray
    offsets: np.ndarray
    roots: np.ndarray
    numbers: np.ndarray  # step size, and whether paths are followed (1) or end at z_0 (0)


STEP_SIZE, FOLLOWED = 0, 1


class PathWork(NamedTuple):
    """Memory for a path: its noise, (T + 1, dim), ends z_t and v_t, (T, 2, dim), and vectors."""

    noise: np.ndarray
    ends: np.ndarray
    momentum: np.ndarray
    gradient: np.ndarray
    solved: np.ndarray


def path_model(location: np.ndarray, factor: np.ndarray, transitions: int) -> PathModel:
    """Return the model for paths that end at their start, with q_0 = N(location, L L^T)."""
    n = len(location)
    return PathModel(
        location.copy(), factor, np.ones(n),
        np.zeros((transitions, n, n)), np.zeros((transitions, n)), np.zeros((transitions, n, n)),
        np.zeros(2),
    )  # fmt: skip


def path_work(dim: int, transitions: int) -> PathWork:
    return PathWork(
        np.zeros((transitions + 1, dim)), np.zeros((transitions, 2, dim)), np.empty(dim),
        np.empty(dim), np.empty(dim),
    )  # fmt: skip


@jit
def walk(density, model, leapfrogs, work, position):
    """Follow the path of work.noise; its end is written into position.

    Returns the log density there, or -inf if the density failed on the way; the sum of the other
    terms of L, without log r_t; and the number of gradients.
    """
    n, noise = density.dim, work.noise
    triangular.times(model.factor, noise[0], position)
    base = 0.5 * squared_norm(noise[0]) + 0.5 * n * LOG_2PI
    for i in range(n):
        position[i] += model.location[i]
        base += np.log(model.factor[i, i] if model.factor.shape[0] == n else model.factor[0, i])
    log_density, count = value_and_gradient(density, position, work.gradient), 1
    transitions = noise.shape[0] - 1 if model.numbers[FOLLOWED] > 0.0 else 0
    for t in range(transitions):
        if not log_density > -np.inf:
            break
        copy(noise[1 + t], work.momentum)
        base += 0.5 * squared_norm(work.momentum)
        log_density, done = leapfrog(
            density, position, work.momentum, work.gradient, model.scale, model.numbers[STEP_SIZE],
            leapfrogs,
        )  # fmt: skip
        count += done
        copy(position, work.ends[t, 0])
        copy(work.momentum, work.ends[t, 1])
    return log_density, base, count


@jit
def log_reverse(model, ends, work):
    """Sum over t of log r_t at the ends of a path, less its -dim / 2 log 2 pi."""
    if model.numbers[FOLLOWED] == 0.0:
        return 0.0
    total, n = 0.0, model.location.shape[0]
    for t in range(ends.shape[0]):
        _residual(model, ends, t, work.momentum)
        triangular.solve(model.roots[t], work.momentum, work.solved)
        total -= 0.5 * squared_norm(work.solved)
        for i in range(n):
            total -= np.log(model.roots[t, i, i])
    return total


@jit
def _residual(model, ends, t, out):
    """Write v_t - b_t - A_t z_t into out."""
    n = out.shape[0]
    for i in range(n):
        total = ends[t, 1, i] - model.offsets[t, i]
        for j in range(n):
            total -= model.slopes[t, i, j] * ends[t, 0, j]
        out[i] = total


@jit
def fit_reverse(model, ends, work):
    """Fit the r_t to ends of paths, shape (path, T, 2, dim); return whether the fit exists."""
    count, transitions, _, n = ends.shape
    mean_z, mean_v, covariance = np.empty(n), np.empty(n), np.empty((n, n))
    for t in range(transitions):
        for i in range(n):
            mean_z[i], mean_v[i] = vector_mean(ends[:, t, 0, i]), vector_mean(ends[:, t, 1, i])
        _cross(ends[:, t, 0], mean_z, ends[:, t, 0], mean_z, covariance)
        for i in range(n):
            covariance[i, i] *= 1.0 + RIDGE
        if not triangular.cholesky(covariance):
            return False
        _cross(ends[:, t, 1], mean_v, ends[:, t, 0], mean_z, model.slopes[t])
        for i in range(n):
            triangular.solve(covariance, model.slopes[t, i], work.solved)
            triangular.transposed_solve(covariance, work.solved, model.slopes[t, i])
            model.offsets[t, i] = mean_v[i]
            for j in range(n):
                model.offsets[t, i] -= model.slopes[t, i, j] * mean_z[j]
        residuals = np.empty((count, n))
        for k in range(count):
            _residual(model, ends[k], t, residuals[k])
        _cross(residuals, np.zeros(n), residuals, np.zeros(n), model.roots[t])
        for i in range(n):
            for j in range(i + 1):
                # the fit uses up dim + 1 degrees of freedom
                model.roots[t, i, j] *= count / (count - n - 1.0)
            model.roots[t, i, i] *= 1.0 + RIDGE
        if not triangular.cholesky(model.roots[t]):
            return False
    return True


@jit
def _cross(a, mean_a, b, mean_b, out):
    """Write the mean of the products of rows of a and b, less their means, into out."""
    count, n = a.shape
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(count):
                total += (a[k, i] - mean_a[i]) * (b[k, j] - mean_b[j])
            out[i, j] = total / count


@jit
def train(density, settings, model, work, rng):
    """Find step size, masses and reverse; paths end at z_0 if they cannot be followed.

    If the step size of the settings is 0, it is chosen on a grid, first with masses from the scales
    of q_0, then from those of the ends of the best paths; otherwise masses are those from q_0.
    """
    n, transitions = density.dim, work.ends.shape[0]
    leapfrogs, step_size = settings.leapfrogs, settings.step_size
    paths = max(JUDGED_PATHS, PATHS_PER_DIMENSION * n)
    noise = np.empty((2 * paths, transitions + 1, n))  # the same for all candidates
    for k in range(noise.size):
        noise.ravel()[k] = rng.standard_normal()
    ends, position = np.empty((paths, transitions, 2, n)), np.empty(n)
    tries, rounds = (STEPS, 2) if step_size == 0.0 else (1, 1)
    best, best_step, best_scale = -np.inf, 0.0, np.ones(n)
    for r in range(rounds):
        _scales(model, ends, best_step, r)
        scale = model.scale.copy()
        for k in range(tries):
            model.numbers[STEP_SIZE] = step_size if step_size > 0.0 else SMALLEST_STEP * RATIO**k
            found = _bound(density, model, leapfrogs, noise, ends, work, position)
            if found > best:
                best, best_step = found, model.numbers[STEP_SIZE]
                copy(scale, best_scale)
        copy(best_scale, model.scale)
        model.numbers[STEP_SIZE] = best_step
        if best_step > 0.0:  # the ends of the best
            _bound(density, model, leapfrogs, noise, ends, work, position)
    followed = best_step > 0.0
    if followed:
        count = max(settings.paths, PATHS_PER_DIMENSION * n)
        followed = _fit_to_new(density, model, leapfrogs, count, work, position, rng)
    model.numbers[FOLLOWED] = 1.0 if followed else 0.0


@jit
def _fit_to_new(density, model, leapfrogs, count, work, position, rng):
    """Fit the reverse to the ends of new paths that did not fail; return whether that succeeded."""
    transitions, n = work.ends.shape[0], position.shape[0]
    ends, kept = np.empty((count, transitions, 2, n)), 0
    for _ in range(count):
        for t in range(transitions + 1):
            fill_normal(rng, work.noise[t])
        log_density, _, _ = walk(density, model, leapfrogs, work, position)
        if log_density > -np.inf:
            for t in range(transitions):
                for part in range(2):
                    copy(work.ends[t, part], ends[kept, t, part])
            kept += 1
    return kept > 2 * n + 2 and fit_reverse(model, ends[:kept], work)


@jit
def _scales(model, ends, best_step, r):
    """Set the scales of the coordinates to those of q_0 or, in round 1, of the ends of paths."""
    n, factor = model.scale.shape[0], model.factor
    dense = factor.shape[0] == n
    for i in range(n):
        if r == 0:
            total = 0.0
            for j in range(i + 1 if dense else 1):
                total += (factor[i, j] if dense else factor[0, i]) ** 2
            model.scale[i] = np.sqrt(total)
        elif best_step > 0.0:
            last = ends[:, -1, 0, i]
            mean, total = vector_mean(last), 0.0
            for k in range(last.shape[0]):
                total += (last[k] - mean) ** 2
            model.scale[i] = np.sqrt(total / last.shape[0])


@jit
def _bound(density, model, leapfrogs, noise, ends, work, position):
    """Fit the reverse to one half of the paths; return the mean of L over the other half.

    Returns -inf if a path failed.
    """
    paths, total = ends.shape[0], 0.0
    model.numbers[FOLLOWED] = 1.0
    for k in range(2 * paths):
        for t in range(noise.shape[1]):
            copy(noise[k, t], work.noise[t])
        log_density, base, _ = walk(density, model, leapfrogs, work, position)
        if not log_density > -np.inf:
            return -np.inf
        if k < paths:
            for t in range(ends.shape[1]):
                copy(work.ends[t, 0], ends[k, t, 0])
                copy(work.ends[t, 1], ends[k, t, 1])
        else:
            total += log_density + base + log_reverse(model, work.ends, work)
        if k == paths - 1 and not fit_reverse(model, ends, work):
            return -np.inf
    return total / paths
