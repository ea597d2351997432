"""The inverse Hessian that L-BFGS makes of its last steps, and the diagonal that it starts from.

Of minus a log density, in a climb. The diagonal learns the scales of the coordinates along the
path, so that these may differ by orders of magnitude. Pairs are kept in rows: the step s, and the
fall y of the gradient along it. Pair k is in row k modulo the number of rows.

A climb takes some hundred gradients, once per chain: NumPy is fast enough, and compilation would
take longer than all climbs of most fits. Sums are NumPy's own and not those of BLAS, which depend
on the number of its threads. Climbs of two families of samplers use them, neither of which may
import the other.

References
----------
Liu and Nocedal (1989), Mathematical Programming 45. The diagonal: Gilbert and Lemaréchal (1989),
Mathematical Programming 45, as in Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder, JMLR 23,
who use it for their approximations only.
"""

from typing import NamedTuple

import numpy as np

# smallest y's over the lengths of y and s: flatter pairs carry no information
LEAST_CURVATURE = 1e-10
# entries of the diagonal stay in this range
SMALLEST, LARGEST = 1e-100, 1e100


def inner_product(x: np.ndarray, y: np.ndarray) -> np.float64:
    """Return x'y, which does not depend on the number of threads."""
    return np.add.reduce(x * y)


class Pairs(NamedTuple):
    """The last pairs of steps: s and y in rows, shape (history, n), and y's, shape (history,)."""

    steps: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray

    def keep(self, kept: int, step: np.ndarray, slope: np.ndarray) -> None:
        """Write pair number `kept` over the oldest one."""
        row = kept % len(self.steps)
        self.steps[row], self.slopes[row] = step, slope
        self.curvatures[row] = inner_product(step, slope)


def no_pairs(history: int, dim: int) -> Pairs:
    """Return memory for pairs."""
    return Pairs(np.empty((history, dim)), np.empty((history, dim)), np.empty(history))


def times(diagonal: np.ndarray, pairs: Pairs, kept: int, vector: np.ndarray) -> np.ndarray:
    """Return the inverse Hessian times a vector, shape (n,): the two loops of L-BFGS.

    `diagonal`, shape (n,), is the inverse Hessian before the pairs; `kept` is their number so far,
    of which the last `history` count.
    """
    history = len(pairs.steps)
    rows = [j % history for j in range(max(0, kept - history), kept)]
    product, shares = vector.copy(), {}
    for row in reversed(rows):
        shares[row] = inner_product(pairs.steps[row], product) / pairs.curvatures[row]
        product -= shares[row] * pairs.slopes[row]
    product *= diagonal
    for row in rows:
        share = inner_product(pairs.slopes[row], product) / pairs.curvatures[row]
        product += (shares[row] - share) * pairs.steps[row]
    return product


def first_diagonal(gradient: np.ndarray) -> np.ndarray:
    """Return 1 / |g_i|: the first step then changes every coordinate by 1."""
    size = np.abs(gradient)
    usual = (size > SMALLEST) & (size < LARGEST)
    return np.divide(1.0, size, out=np.ones_like(size), where=usual)


def learned_diagonal(
    diagonal: np.ndarray, step: np.ndarray, slope: np.ndarray
) -> np.ndarray | None:
    """Return the diagonal alpha updated by a pair (s, y); None if its curvature is not positive.

    alpha' = y's / ((y'alpha y) / alpha + y^2 - (y'alpha y) / (s'alpha^-1 s) (s / alpha)^2).
    """
    curved = inner_product(step, slope)
    long_y = inner_product(slope * diagonal, slope)
    long_s = inner_product(step / diagonal, step)
    if not curved > LEAST_CURVATURE * np.sqrt(long_y * long_s):
        return None
    share = step / diagonal
    below = long_y / diagonal + slope * slope - long_y / long_s * share * share
    learned = curved / below
    # rounding can cancel a difference that should be positive
    usual = (learned > SMALLEST) & (learned < LARGEST)
    return np.where(usual, learned, diagonal)
