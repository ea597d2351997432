"""The Laplace approximation: a Gaussian at the mode, with the curvature there.

The mode is that of the density on the unconstrained scale, Jacobian of the transforms included: the
density that samplers see. The Hessian consists of central differences of gradients, since not every
backend has second derivatives; their steps are shares of the standard deviations that the climb to
the mode has learned.

References
----------
Tierney and Kadane (1986), Journal of the American Statistical Association 81.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine.density import value_and_gradient
from stanadapt.samplers.variational.gaussian import Gaussian, log_densities
from stanadapt.samplers.variational.lbfgs import climb
from stanadapt.samplers.variational.pathfinder import gaussian_at

# step as a share of a standard deviation: the best power of the rounding error for central
# differences
SHARE = float(np.finfo(float).eps ** (1.0 / 3.0))
# number of Newton steps after the climb, and the rise in log density below which they stop
STEPS, PROMISED = 10, 1e-12
# eigenvalues below this share of the largest, in units of the learned scales, count as flat
FLAT = 1e-8
ULPS = 1000.0  # units of the last place that a step has at least
# log density, -inf if it fails, and gradient at a position
Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Curved(NamedTuple):
    """Result of a climb."""

    best: Gaussian | None  # the Gaussian; None if the density has no maximum there
    problem: str  # the reason, without a full stop, if there is no maximum
    log_density: np.ndarray  # log density along the climb, shape (point,)
    # if some direction has no downward curvature: its coordinates in units of the learned scales,
    # shape (dim,); otherwise None
    flattest: np.ndarray | None


def find(density: Any, start: np.ndarray, *, history: int, max_iterations: int) -> Curved:
    """Climb from start, shape (dim,), to a mode, and measure the curvature there."""
    path = climb(density, start, max_iterations, history)
    last = len(path.log_density) - 1
    rough = gaussian_at(path, last, history)
    if rough is None:
        return Curved(None, "the path has no point with finite curvature", path.log_density, None)
    mode, scale = path.positions[last], rough.sd()
    for _ in range(STEPS):
        minus, gradient = negative_hessian(density, mode, scale)
        if not np.isfinite(minus).all():
            return Curved(None, "the density fails next to the mode", path.log_density, None)
        values, vectors = np.linalg.eigh(minus)
        if not values[0] > FLAT * values[-1]:
            why = "in some direction the log density does not fall away from the end of the climb"
            return Curved(None, why, path.log_density, vectors[:, 0])
        step = vectors @ ((vectors.T @ gradient) / values)
        if not step @ gradient > PROMISED:
            break
        moved = mode + scale * step
        before, after = log_densities(density, np.stack([mode, moved]))
        if not after >= before:
            break
        mode = moved
    # minus = C C^T in units of scale: its inverse is C^-T C^-1, and L the factor of that
    root = np.linalg.cholesky(minus[::-1, ::-1])[::-1, ::-1]  # upper triangle U, minus = U U^T
    factor = solve_triangular(root, np.eye(len(mode))).T * scale[:, None]
    return Curved(Gaussian(mode, np.ascontiguousarray(factor)), "", path.log_density, None)


def negative_hessian(
    density: Any, position: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return minus the Hessian of the log density, shape (dim, dim), and its gradient, both scaled.

    Both are in units of `scale`; NaN if an evaluation fails.
    """

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        gradient = np.empty(density.dim)
        return value_and_gradient(density, x, gradient), gradient

    scaled = falls(evaluate, position, SHARE * scale) * np.outer(scale, scale)
    return 0.5 * (scaled + scaled.T), evaluate(position)[1] * scale


def falls(evaluate: Evaluate, position: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return minus central differences of the gradient, a row for each step; NaN if it fails.

    They are minus the Hessian, but for errors that make it a little asymmetric.
    """
    rows = []
    for i, step in enumerate(steps):
        ahead, behind, distance = apart(position, i, step)
        (high, there), (low, here) = evaluate(ahead), evaluate(behind)
        rows.append((here - there) / (np.nan if -np.inf in (high, low) else distance))
    return np.array(rows)


def apart(position: np.ndarray, i: int, step: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return positions on both sides along a coordinate, and their distance as it is rounded."""
    ahead, behind = position.copy(), position.copy()
    step = max(step, ULPS * np.spacing(abs(position[i])))
    ahead[i] += step
    behind[i] -= step
    return ahead, behind, ahead[i] - behind[i]
