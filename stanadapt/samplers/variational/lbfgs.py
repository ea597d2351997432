"""L-BFGS up a log density, with every point of the path kept, which Pathfinder needs.

The inverse Hessian starts at each step as a diagonal matrix that learns the scales of the
coordinates along the path, so that these may differ by orders of magnitude. A step must raise the
density and flatten its slope (the weak Wolfe conditions); a step to a point without a finite
density counts as too long.

References
----------
The inverse Hessian and its diagonal: `engine/compiled/inverse_hessian`. The bisection: Lewis and
Overton (2013), Mathematical Programming 141.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled import inverse_hessian
from stanadapt.engine.compiled.inverse_hessian import LARGEST
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.vectors import copy, inner_product
from stanadapt.engine.density import value_and_gradient

SUFFICIENT, CURVATURE, TRIES = 1e-4, 0.9, 60
# the climb ends if a quadratic predicts a smaller rise in log density
PROMISED = 1e-9


class Path(NamedTuple):
    """Points of a climb, in rows; the first is the start.

    positions, gradients
        Positions, and gradients of the log density, shape (point, dim).
    log_density
        Log densities, shape (point,).
    scales
        Diagonal alpha of the inverse Hessian before the last pairs, shape (point, dim).
    useful
        Whether the step to a point has a positive curvature from which scales can be learned, shape
        (point,).

    """

    positions: np.ndarray
    gradients: np.ndarray
    log_density: np.ndarray
    scales: np.ndarray
    useful: np.ndarray


def climb(density, start: np.ndarray, iterations: int, history: int) -> Path:
    """Climb from start, shape (dim,), for at most `iterations`, with the last `history` pairs."""
    n = density.dim
    shape = (iterations + 1, n)
    path = Path(np.empty(shape), np.empty(shape), np.empty(shape[0]), np.empty(shape),
                np.zeros(shape[0], np.bool_))  # fmt: skip
    points = _climb(density, start, path, history)
    return Path(*(part[:points].copy() for part in path))


@jit
def _climb(density, start, path, history):
    """Fill a path; return the number of its points, 0 if the start fails."""
    n, last = density.dim, path.positions.shape[0] - 1
    steps, slopes = np.empty((history, n)), np.empty((history, n))
    curvatures, kept = np.empty(history), 0
    direction, work = np.empty(n), np.empty(history)
    copy(start, path.positions[0])
    path.log_density[0] = value_and_gradient(density, path.positions[0], path.gradients[0])
    if path.log_density[0] == -np.inf:
        return 0
    inverse_hessian.start_diagonal(path.scales[0], path.gradients[0])
    for k in range(last):
        gradient = path.gradients[k]
        copy(gradient, direction)
        inverse_hessian.times(path.scales[k], steps, slopes, curvatures, kept, direction, work)
        slope = inner_product(gradient, direction, n)
        if not 0.5 * slope > PROMISED:
            return k + 1
        if not _search(density, path, k, direction, slope):
            return k + 1
        row = kept % history
        path.useful[k + 1] = _learn(path, k, steps[row], slopes[row])
        if path.useful[k + 1]:
            curvatures[row] = inner_product(steps[row], slopes[row], n)
            kept += 1
    return last + 1


@jit
def _search(density, path, k, direction, slope):
    """Fill point k + 1 of a path; False if no point along the direction is good enough."""
    n = density.dim
    low, high, size = 0.0, np.inf, 1.0
    for _ in range(TRIES):
        for i in range(n):
            path.positions[k + 1, i] = path.positions[k, i] + size * direction[i]
        there = value_and_gradient(density, path.positions[k + 1], path.gradients[k + 1])
        path.log_density[k + 1] = there
        if not there >= path.log_density[k] + SUFFICIENT * size * slope:
            high = size
        elif inner_product(path.gradients[k + 1], direction, n) > CURVATURE * slope:
            low = size
        else:
            return True
        size = 0.5 * (low + high) if high < np.inf else 2.0 * low
        if not size < LARGEST:
            return False
    # a higher point that is still steep is acceptable, if the density does not fail
    return low > 0.0 and there > path.log_density[k]


@jit
def _learn(path, k, step, slope):
    """Fill in step s and fall of the gradient y, and the scales of point k + 1.

    Returns False, and leaves the scales as they are, if the curvature is not positive.
    """
    for i in range(step.shape[0]):
        step[i] = path.positions[k + 1, i] - path.positions[k, i]
        slope[i] = path.gradients[k, i] - path.gradients[k + 1, i]
    copy(path.scales[k], path.scales[k + 1])
    return inverse_hessian.learn_diagonal(path.scales[k + 1], step, slope)
