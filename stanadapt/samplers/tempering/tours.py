"""Tours: independent parts of a chain that moves between the reference and the target.

If the hottest level is redrawn from the reference, times just after are regenerations: the part
between two of them, a tour, is independent of all others. With the probabilities of the coldest
level K and the hottest level 1 given each position, the mean of P(K | x) over that of P(1 | x) is a
ratio of normalizing constants, and the sums over tours give its error (Geyer and Thompson 1995, as
cited in `simulated_tempering`).
"""

import numpy as np

from stanadapt.engine.compiled.jit import inline

# for the present tour, the sums of P(K | x) and P(1 | x), and whether it began with a regeneration;
# for all complete tours their number, the sums of both, of their squares and of their product
COLD, HOT, BEGAN, COUNT, SUM_COLD, SUM_HOT, COLD_SQUARES, HOT_SQUARES, PRODUCTS = range(9)
# smallest number of tours that gives an error
FEWEST_TOURS = 50


def no_tours() -> np.ndarray:
    """Return numbers without tours, shape (9,)."""
    return np.zeros(PRODUCTS + 1)


@inline
def end_tour(tours):
    """Add the present tour to the complete ones, if it began with a redraw, and begin another."""
    cold, hot = tours[COLD], tours[HOT]
    if tours[BEGAN] > 0.0:
        tours[COUNT] += 1
        tours[SUM_COLD] += cold
        tours[SUM_HOT] += hot
        tours[COLD_SQUARES] += cold * cold
        tours[HOT_SQUARES] += hot * hot
        tours[PRODUCTS] += cold * hot
    tours[COLD], tours[HOT], tours[BEGAN] = 0.0, 0.0, 1.0


def log_ratio_error(tours: np.ndarray) -> float:
    """Return the error of log(sum of P(K | x) / sum of P(1 | x)); NaN if there are too few tours.

    By the delta method: h_i = a_i / mean(a) - c_i / mean(c) of tours i has mean 0, and the error is
    its standard deviation over the root of the number of tours.
    """
    n = tours[COUNT]
    if n < FEWEST_TOURS or not (tours[SUM_COLD] > 0.0 and tours[SUM_HOT] > 0.0):
        return float("nan")
    cold, hot = tours[SUM_COLD] / n, tours[SUM_HOT] / n
    squares = tours[COLD_SQUARES] / cold**2 + tours[HOT_SQUARES] / hot**2
    squares -= 2.0 * tours[PRODUCTS] / (cold * hot)
    return float(np.sqrt(max(squares, 0.0)) / n)
