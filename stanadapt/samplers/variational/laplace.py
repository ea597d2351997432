"""The Laplace approximation: a Gaussian at the mode, with the curvature there.

The mode is that of the density on the unconstrained scale, Jacobian of the transforms included: the
density that samplers see. The Hessian consists of central differences of gradients, since not every
backend has second derivatives; their steps are shares of the standard deviations that the climb to
the mode has learned.

References
----------
Tierney and Kadane (1986), Journal of the American Statistical Association 81.

"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine.compiled.jit import jit
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
    out, gradient = np.empty((density.dim, density.dim)), np.empty(density.dim)
    _differences(density, position, SHARE * scale, out, gradient)
    scaled = -out * np.outer(scale, scale)
    return 0.5 * (scaled + scaled.T), gradient * scale


@jit
def _differences(density, position, steps, out, gradient):
    """Fill the rows of out with central differences of the gradient; NaN if these fail."""
    n = density.dim
    moved, ahead, behind = position.copy(), np.empty(n), np.empty(n)
    for i in range(n):
        moved[i] = position[i] + steps[i]
        one = value_and_gradient(density, moved, ahead)
        width = moved[i]
        moved[i] = position[i] - steps[i]
        other = value_and_gradient(density, moved, behind)
        width -= moved[i]  # the distance after rounding
        moved[i] = position[i]
        for j in range(n):
            out[i, j] = (ahead[j] - behind[j]) / width
        if one == -np.inf or other == -np.inf or width == 0.0:
            out[i, :] = np.nan
    value_and_gradient(density, position, gradient)
