"""L-BFGS up a log density, with every point of the path kept, which Pathfinder needs.

The inverse Hessian starts at each step as a diagonal matrix that learns the scales of the
coordinates along the path, so that these may differ by orders of magnitude. A step must raise the
density and flatten its slope (the weak Wolfe conditions); a step to a point without a finite
density counts as too long.

References
----------
Liu and Nocedal (1989), Mathematical Programming 45; the diagonal: Gilbert and Lemaréchal (1989),
Mathematical Programming 45, as in Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder, JMLR 23,
who use it for their approximations only; the bisection: Lewis and Overton (2013), Mathematical
Programming 141.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.vectors import copy, inner_product
from stanadapt.engine.density import value_and_gradient

SUFFICIENT, CURVATURE, TRIES = 1e-4, 0.9, 60
# smallest y's over the lengths of y and s: flatter pairs carry no information
LEAST_CURVATURE = 1e-10
# the climb ends if a quadratic predicts a smaller rise in log density
PROMISED = 1e-9
SMALLEST, LARGEST = 1e-20, 1e20


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
    for i in range(n):
        size = abs(path.gradients[0, i])
        path.scales[0, i] = 1.0 / size if SMALLEST < size < LARGEST else 1.0
    for k in range(last):
        gradient = path.gradients[k]
        copy(gradient, direction)
        _times_inverse_hessian(path.scales[k], steps, slopes, curvatures, kept, direction, work)
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
def _times_inverse_hessian(scale, steps, slopes, curvatures, kept, vector, work):
    """Multiply a vector by the inverse Hessian in place: the two loops of L-BFGS."""
    n, history = vector.shape[0], steps.shape[0]
    first = max(0, kept - history)
    for j in range(kept - 1, first - 1, -1):
        row = j % history
        work[row] = inner_product(steps[row], vector, n) / curvatures[row]
        for i in range(n):
            vector[i] -= work[row] * slopes[row, i]
    for i in range(n):
        vector[i] *= scale[i]
    for j in range(first, kept):
        row = j % history
        rest = work[row] - inner_product(slopes[row], vector, n) / curvatures[row]
        for i in range(n):
            vector[i] += rest * steps[row, i]


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

    alpha' = y's / ((y'alpha y) / alpha + y^2 - (y'alpha y) / (s'alpha^-1 s) (s / alpha)^2).
    Returns False, and leaves the scales as they are, if the curvature is not positive.
    """
    n, alpha, new = step.shape[0], path.scales[k], path.scales[k + 1]
    curved, long_y, long_s = 0.0, 0.0, 0.0
    for i in range(n):
        step[i] = path.positions[k + 1, i] - path.positions[k, i]
        slope[i] = path.gradients[k, i] - path.gradients[k + 1, i]
        curved += step[i] * slope[i]
        long_y += slope[i] * alpha[i] * slope[i]
        long_s += step[i] * step[i] / alpha[i]
    copy(alpha, new)
    if not curved > LEAST_CURVATURE * np.sqrt(long_y * long_s):
        return False
    for i in range(n):
        share = step[i] / alpha[i]
        below = long_y / alpha[i] + slope[i] * slope[i] - long_y / long_s * share * share
        learned = curved / below
        # rounding can cancel a difference that should be positive
        if SMALLEST < learned < LARGEST:
            new[i] = learned
    return True
