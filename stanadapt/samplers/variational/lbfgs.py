"""L-BFGS up a log density, with every point of the path kept, which Pathfinder needs.

The inverse Hessian starts at each step as a diagonal matrix that learns the scales of the
coordinates along the path, so that these may differ by orders of magnitude. A step must raise the
density and flatten its slope (the weak Wolfe conditions); a step to a point without a finite
density counts as too long.

References
----------
The inverse Hessian and its diagonal: `engine/inverse_hessian`. The bisection: Lewis and Overton
(2013), Mathematical Programming 141.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine import inverse_hessian
from stanadapt.engine.density import value_and_gradient
from stanadapt.engine.inverse_hessian import LARGEST, inner_product

SUFFICIENT, CURVATURE, TRIES = 1e-4, 0.9, 60
# the climb ends if a quadratic predicts a smaller rise in log density
PROMISED = 1e-9
# unless a step this many times as long still finds the slope: the quadratic then has scales that
# are far too small, of coordinates that hardly matter before the others have arrived
FAR = 16.0
# (density, position, gradient to fill) -> log density; -inf if it fails
Evaluate = Callable[[Any, np.ndarray, np.ndarray], float]


class Path(NamedTuple):
    """Points of a climb, in rows; the first is the start."""

    # positions, gradients: positions, and gradients of the log density, shape (point, dim)
    positions: np.ndarray
    gradients: np.ndarray
    log_density: np.ndarray  # log densities, shape (point,)
    # diagonal alpha of the inverse Hessian before the last pairs, shape (point, dim)
    scales: np.ndarray
    # whether the step to a point has a positive curvature from which scales can be learned, shape
    # (point,)
    useful: np.ndarray


def climb(
    density: Any,
    start: np.ndarray,
    iterations: int,
    history: int,
    evaluate: Evaluate = value_and_gradient,
) -> Path:
    """Climb from start, shape (dim,), for at most `iterations`, with the last `history` pairs."""
    n = density.dim
    shape = (iterations + 1, n)
    path = Path(np.empty(shape), np.empty(shape), np.empty(shape[0]), np.empty(shape),
                np.zeros(shape[0], np.bool_))  # fmt: skip
    with np.errstate(all="ignore"):  # a step that is too long may overflow, and is shortened
        points = _climb(density, start, path, history, evaluate)
    return Path(*(part[:points].copy() for part in path))


def _climb(density: Any, start: np.ndarray, path: Path, history: int, evaluate: Evaluate) -> int:
    """Fill a path; return the number of its points, 0 if the start fails."""
    pairs, kept = inverse_hessian.no_pairs(history, density.dim), 0
    path.positions[0] = start
    path.log_density[0] = evaluate(density, path.positions[0], path.gradients[0])
    if path.log_density[0] == -np.inf:
        return 0
    path.scales[0] = inverse_hessian.first_diagonal(path.gradients[0])
    last = len(path.positions) - 1
    for k in range(last):
        direction = inverse_hessian.times(path.scales[k], pairs, kept, path.gradients[k])
        slope = inner_product(path.gradients[k], direction)
        size = 1.0
        if not 0.5 * slope > PROMISED:
            if not _is_steep(density, path, k, direction, evaluate):
                return k + 1
            size = 2.0 * PROMISED / slope
        if not _search(density, path, k, direction, slope, size, evaluate):
            return k + 1
        step = path.positions[k + 1] - path.positions[k]
        fall = path.gradients[k] - path.gradients[k + 1]
        learned = inverse_hessian.learned_diagonal(path.scales[k], step, fall)
        path.useful[k + 1] = learned is not None
        path.scales[k + 1] = path.scales[k] if learned is None else learned
        if learned is not None:
            pairs.keep(kept, step, fall)
            kept += 1
    return last + 1


def _is_steep(density: Any, path: Path, k: int, direction: np.ndarray, evaluate: Evaluate) -> bool:
    """Whether the slope along a direction is still there at FAR times its length.

    Coordinates that do not change, within rounding, are left out: their slopes cannot change.
    """
    here, position, gradient = path.positions[k], path.positions[k + 1], path.gradients[k + 1]
    position[:] = here + FAR * direction
    if evaluate(density, position, gradient) == -np.inf:
        return False
    moved = np.where(position == here, 0.0, direction)
    return bool(
        inner_product(gradient, moved) > CURVATURE * inner_product(path.gradients[k], moved)
    )


def _search(
    density: Any,
    path: Path,
    k: int,
    direction: np.ndarray,
    slope: float,
    size: float,
    evaluate: Evaluate,
) -> bool:
    """Fill point k + 1 of a path; False if no point along the direction is good enough.

    The first step is `size` times the direction, along which the log density has this slope.
    """
    low, high, there = 0.0, np.inf, -np.inf
    position, gradient = path.positions[k + 1], path.gradients[k + 1]
    for _ in range(TRIES):
        position[:] = path.positions[k] + size * direction
        path.log_density[k + 1] = there = evaluate(density, position, gradient)
        if not there >= path.log_density[k] + SUFFICIENT * size * slope:
            high = size
        elif inner_product(gradient, direction) > CURVATURE * slope:
            low = size
        else:
            return True
        size = 0.5 * (low + high) if high < np.inf else 2.0 * low
        if not size < LARGEST:
            return False
    # a higher point that is still steep is acceptable, if the density does not fail
    return low > 0.0 and there > path.log_density[k]
