"""The inverse Hessian that L-BFGS makes of its last steps, and the diagonal that it starts from.

Of minus a log density, in a climb. The diagonal learns the scales of the coordinates along the
path, so that these may differ by orders of magnitude. Pairs are kept in rows: the step s, and the
fall y of the gradient along it. Pair k is in row k modulo the number of rows.

A file of its own, since climbs of two families of samplers use it, neither of which may import the
other.

References
----------
Liu and Nocedal (1989), Mathematical Programming 45. The diagonal: Gilbert and Lemaréchal (1989),
Mathematical Programming 45, as in Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder, JMLR 23,
who use it for their approximations only.

"""

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.vectors import inner_product

# smallest y's over the lengths of y and s: flatter pairs carry no information
LEAST_CURVATURE = 1e-10
# entries of the diagonal stay in this range
SMALLEST, LARGEST = 1e-20, 1e20


@jit
def times(diagonal, steps, slopes, curvatures, kept, vector, work):
    """Multiply a vector by the inverse Hessian in place: the two loops of L-BFGS.

    Parameters
    ----------
    diagonal
        The inverse Hessian before the pairs, shape (n,).
    steps, slopes, curvatures
        s and y in rows, shape (history, n), and y's, shape (history,).
    kept
        Number of pairs so far, of which the last `history` count.
    vector, work
        Shape (n,), and workspace of shape (history,).

    """
    n, history = vector.shape[0], steps.shape[0]
    first = max(0, kept - history)
    for j in range(kept - 1, first - 1, -1):
        row = j % history
        work[row] = inner_product(steps[row], vector, n) / curvatures[row]
        for i in range(n):
            vector[i] -= work[row] * slopes[row, i]
    for i in range(n):
        vector[i] *= diagonal[i]
    for j in range(first, kept):
        row = j % history
        rest = work[row] - inner_product(slopes[row], vector, n) / curvatures[row]
        for i in range(n):
            vector[i] += rest * steps[row, i]


@jit
def start_diagonal(diagonal, gradient):
    """Fill the diagonal with 1 / |g_i|: the first step then changes every coordinate by 1."""
    for i in range(gradient.shape[0]):
        size = abs(gradient[i])
        diagonal[i] = 1.0 / size if SMALLEST < size < LARGEST else 1.0


@jit
def learn_diagonal(diagonal, step, slope):
    """Update the diagonal alpha by a pair (s, y), in place.

    alpha' = y's / ((y'alpha y) / alpha + y^2 - (y'alpha y) / (s'alpha^-1 s) (s / alpha)^2).
    Returns False, and leaves the diagonal as it is, if the curvature y's is not positive.
    """
    n = step.shape[0]
    curved, long_y, long_s = 0.0, 0.0, 0.0
    for i in range(n):
        curved += step[i] * slope[i]
        long_y += slope[i] * diagonal[i] * slope[i]
        long_s += step[i] * step[i] / diagonal[i]
    if not curved > LEAST_CURVATURE * np.sqrt(long_y * long_s):
        return False
    for i in range(n):
        share = step[i] / diagonal[i]
        below = long_y / diagonal[i] + slope[i] * slope[i] - long_y / long_s * share * share
        learned = curved / below
        # rounding can cancel a difference that should be positive
        if SMALLEST < learned < LARGEST:
            diagonal[i] = learned
    return True
