"""Pathfinder: of the Gaussians that an L-BFGS path suggests, the one closest to the posterior.

Each point x_k of the path and the curvature of the steps before it give N(x_k + H_k g_k, H_k), with
the gradient g_k of the log density. The one with the highest estimate of the evidence lower bound,
ELBO = E log p - E log q under q, is kept.

References
----------
Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder: parallel quasi-Newton variational
inference, JMLR 23(306). Deviations: the diagonal matrix alpha also serves the climb, so that
parameters may have any scales; of several paths, see `mixture_log_density`.

"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from stanadapt.engine import factor_rows
from stanadapt.engine.standardized_density import original
from stanadapt.samplers.variational.gaussian import LOG_2PI, Gaussian, log_densities
from stanadapt.samplers.variational.inverse_hessian import low_rank_factor
from stanadapt.samplers.variational.lbfgs import Path, climb


class Found(NamedTuple):
    """What one path found.

    best
        The Gaussian that was chosen; None where the density failed at the start, or wherever the
        ELBO was estimated.
    elbo
        Its estimates along the path, one per point; -inf where draws met a density of zero.
    path
        The climb.

    """

    best: Gaussian | None
    elbo: np.ndarray
    path: Path


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

    Parameters
    ----------
    history
        Number of last steps that tell the curvature.
    elbo_draws
        For each estimate of the ELBO.
    max_iterations
        Of the climb.

    """
    path = climb(density, start, max_iterations, history)
    best, elbo = None, np.full(len(path.log_density), -np.inf)
    for k in range(len(elbo)):
        suggested = gaussian_at(path, k, history)
        if suggested is None:
            continue
        z = rng.standard_normal((elbo_draws, density.dim))
        positions = suggested.placed(z)
        if not np.isfinite(positions).all():
            continue
        # -log q of the same draws, from z: no equations need be solved
        minus = 0.5 * (np.mean(np.sum(z**2, axis=1)) + density.dim * LOG_2PI) + suggested.log_volume
        elbo[k] = log_densities(density, positions).mean() + minus
        if elbo[k] > np.max(elbo[:k], initial=-np.inf):
            best = suggested
    return Found(best, elbo, path)


def gaussian_at(path: Path, k: int, history: int) -> Gaussian | None:
    """N(x_k + H_k g_k, H_k); None where it is not finite."""
    ends = np.flatnonzero(path.useful[: k + 1])[-history:]
    steps = path.positions[ends] - path.positions[ends - 1]
    slopes = path.gradients[ends - 1] - path.gradients[ends]
    try:
        with np.errstate(all="ignore"):  # what is not finite is left out
            factor = low_rank_factor(path.scales[k], steps, slopes)
            step = _twice(factor, path.gradients[k])
    except (np.linalg.LinAlgError, ValueError):
        return None
    location = path.positions[k] + step
    if not (np.isfinite(location).all() and np.isfinite(factor).all()):
        return None
    return Gaussian(location, factor)


def _twice(factor: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """L L^T g."""
    back = factor_rows.transposed_times(factor, gradient[None])
    out = np.empty_like(back)
    original(np.zeros(len(gradient)), factor, back, out)
    return out[0]


def mixture_log_density(parts: list[Gaussian], positions: np.ndarray) -> np.ndarray:
    """Log density of the mixture of Gaussians with equal weights, at rows of positions.

    Weights against the mixture vary less than those against the Gaussian that made each draw, which
    the paper takes: a path that ended in a narrow place spoils none of them.
    """
    each = [part.log_density(positions) for part in parts]
    return logsumexp(each, axis=0) - np.log(len(parts))
