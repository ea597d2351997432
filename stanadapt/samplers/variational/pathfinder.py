"""Pathfinder: the one of the Gaussians along an L-BFGS path that is closest to the posterior.

Each point x_k of the path and the curvature of the steps before it give N(x_k + H_k g_k, H_k), with
the gradient g_k of the log density. The one with the highest estimate of the evidence lower bound,
ELBO = E log p - E log q under q, is kept.

The inverse Hessian H is a factor of low rank. From pairs of steps S and falls of the gradient Y, in
columns, and a diagonal alpha,

    H = diag(alpha) + beta gamma beta^T,  beta = [diag(alpha) Y, S],
    gamma = [[0, -R^-1], [-R^-T, R^-T (D + Y^T diag(alpha) Y) R^-1]],

R being the upper triangle of S^T Y and D its diagonal. With diag(alpha)^(-1/2) beta = Q T (QR) and
the eigenvalues and vectors of I + T gamma T^T = V Lambda V^T, H = L L^T with

    L = diag(alpha)^(1/2) (I + Q V (Lambda^(1/2) - I) V^T Q^T),

a symmetric root between the scales: this avoids a triangular factor, which could be transposed by
mistake.

References
----------
Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder: parallel quasi-Newton variational
inference, JMLR 23(306), algorithms 3 and 4. Byrd, Nocedal and Schnabel (1994), Mathematical
Programming 63: the factor. Deviations: the climb uses the diagonal matrix alpha too, so that
parameters may have any scales; for several paths, see `mixture_log_density`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from stanadapt.engine import metric_factor
from stanadapt.engine.standardized_density import original
from stanadapt.samplers.variational.gaussian import LOG_2PI, Gaussian, log_densities
from stanadapt.samplers.variational.lbfgs import Path, climb

# smallest eigenvalue over the largest one: rounding may have made smaller ones
LEAST = 1e-14


def low_rank_factor(scale: np.ndarray, steps: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the factor L of H, stored as in `metric_factor`.

    scale is alpha, shape (dim,), positive; steps and slopes are rows s and y, oldest first, shape
    (pair, dim), with y's > 0.
    """
    n, root = len(scale), np.sqrt(scale)
    if not len(steps):
        return root[None].copy()
    s, y = (steps / root).T, (slopes * root).T
    # H does not change if a pair is multiplied by a number: their sizes fall along a path
    size = np.sqrt(np.linalg.norm(s, axis=0) * np.linalg.norm(y, axis=0))
    s, y = s / size, y / size
    upper = np.triu(s.T @ y)
    inverse = solve_triangular(upper, np.eye(len(upper)))
    corner = inverse.T @ (np.diag(np.diag(upper)) + y.T @ y) @ inverse
    gamma = np.block([[np.zeros_like(upper), -inverse], [-inverse.T, corner]])
    basis, triangle = np.linalg.qr(np.hstack([y, s]))
    middle = np.eye(len(triangle)) + triangle @ gamma @ triangle.T
    values, vectors = np.linalg.eigh(0.5 * (middle + middle.T))
    directions = basis @ vectors
    factor = np.zeros((1 + len(values), n + 1))
    factor[0, :n], factor[1:, :n] = root, directions.T
    factor[1:, n] = np.sqrt(np.maximum(values, LEAST * values.max())) - 1.0
    return factor


class Found(NamedTuple):
    # the Gaussian with the highest ELBO; None if the density failed at the start, or at every point
    # at which the ELBO was estimated
    best: Gaussian | None
    # estimates along the path, one per point; -inf if a draw had a density of zero
    elbo: np.ndarray
    path: Path  # the climb


@np.errstate(all="ignore")  # called in threads; results that are not finite are discarded
def find(
    density: Any,
    start: np.ndarray,
    rng: np.random.Generator,
    *,
    history: int,
    elbo_draws: int,
    max_iterations: int,
) -> Found:
    """Climb from start, shape (dim,), and choose among the Gaussians along the path.

    The other arguments are those of `methods.PathfinderSettings`.
    """
    path = climb(density, start, max_iterations, history)
    best, elbo = None, np.full(len(path.log_density), -np.inf)
    for k in range(len(elbo)):
        suggested = gaussian_at(path, k, history)
        if suggested is None:
            continue
        z = rng.standard_normal((elbo_draws, density.dim))
        positions = suggested.place(z)
        if not np.isfinite(positions).all():
            continue
        # -log q of the same draws, computed from z without solving equations
        minus = 0.5 * (np.mean(np.sum(z**2, axis=1)) + density.dim * LOG_2PI) + suggested.log_volume
        elbo[k] = log_densities(density, positions).mean() + minus
        if elbo[k] > np.max(elbo[:k], initial=-np.inf):
            best = suggested
    return Found(best, elbo, path)


def gaussian_at(path: Path, k: int, history: int) -> Gaussian | None:
    """Return N(x_k + H_k g_k, H_k), or None if it is not finite."""
    ends = np.flatnonzero(path.useful[: k + 1])[-history:]
    steps = path.positions[ends] - path.positions[ends - 1]
    slopes = path.gradients[ends - 1] - path.gradients[ends]
    try:
        with np.errstate(all="ignore"):  # others than `find` call this too
            factor = low_rank_factor(path.scales[k], steps, slopes)
            back = metric_factor.transposed_times_rows(factor, path.gradients[k][None])
            step = np.empty_like(back)
            original(np.zeros(back.size), factor, back, step)
    except (np.linalg.LinAlgError, ValueError):
        return None
    location = path.positions[k] + step[0]
    if not (np.isfinite(location).all() and np.isfinite(factor).all()):
        return None
    return Gaussian(location, factor)


def mixture_log_density(parts: list[Gaussian], positions: np.ndarray) -> np.ndarray:
    """Return the log density of a mixture of Gaussians with equal weights, at rows of positions.

    Weights against the mixture vary less than those against the Gaussian that made each draw, which
    the paper uses: a path that ended in a narrow region then spoils no weights.
    """
    each = [part.log_density(positions) for part in parts]
    return logsumexp(each, axis=0) - np.log(len(parts))
