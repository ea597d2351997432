"""One positive weight for each draw, with which all common columns have the mean zero.

Among all such weights, these have the largest entropy: w is proportional to exp(columns . lambda),
and lambda minimizes a convex function. Any weighted mean then has about the gain of a regression on
these columns, for functions that are not known beforehand.

References
----------
Hainmueller (2012), Entropy balancing for causal effects, Political Analysis 20, for the weights;
columns of posterior mean zero take the place of covariates.

A file of its own, since nothing else of control variates needs weights.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr

# draws per column: with fewer, functions that are not balanced lose precision
DRAWS_PER_COLUMN = 10
LEAST_SHARE = 0.5  # of effective draws
STEPS, HALVINGS, BALANCED = 30, 20, 1e-8
COLLINEAR, RIDGE = 1e-9, 1e-8


def stein_weights(columns: np.ndarray, ends: tuple[int, ...]) -> tuple[np.ndarray | None, float]:
    """Return weights with the sum 1, shape (draw,), and the share of effective draws.

    There are none, and the share is 0, if zero is outside the range of the columns.

    Parameters
    ----------
    columns, ends
        `Columns`: orders 1 and 2 are balanced as far as the draws suffice.
    """
    end = max((e for e in ends[:2] if e <= len(columns) // DRAWS_PER_COLUMN), default=0)
    if not end:
        return None, 0.0
    balanced = columns[:, :end].astype(float)
    balanced /= balanced.std(axis=0)
    diagonal, pivots = qr(balanced, mode="r", pivoting=True)
    size = np.abs(np.diag(diagonal))
    balanced = balanced[:, np.sort(pivots[: len(size)][size > COLLINEAR * size[0]])]
    at = np.zeros(balanced.shape[1])
    value, weights = _dual(balanced, at)
    for _ in range(STEPS):
        gradient = balanced.T @ weights
        if np.abs(gradient).max() < BALANCED:
            return weights, 1.0 / (len(weights) * float((weights**2).sum()))
        curvature = (balanced * weights[:, None]).T @ balanced - np.outer(gradient, gradient)
        curvature[np.diag_indices(len(at))] += RIDGE
        step = cho_solve(cho_factor(curvature), gradient)
        for halving in range(HALVINGS):
            new = at - 0.5**halving * step
            reached, candidate = _dual(balanced, new)
            if reached <= value:
                break
        else:
            return None, 0.0
        at, value, weights = new, reached, candidate
    return None, 0.0


def _dual(columns: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray]:
    exponent = columns @ at
    top = exponent.max()
    weights = np.exp(exponent - top)
    total = weights.sum()
    return float(top + np.log(total)), weights / total
