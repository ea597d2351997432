"""How heavy the tails of columns of draws are: the shape k of a generalized Pareto distribution.

A column with k >= 1/2 has no variance: a mean of it has no standard error, however small it looks.

References
----------
Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
distribution, Technometrics 51(3). The number of values, 3 sqrt(n), and the prior that moves k
toward 1/2: Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling,
JMLR 25.

Deviation from `results.pareto_smoothed`, which fits the same distribution to one set of log
weights: many columns at once, and nothing is smoothed.
"""

import numpy as np

# weight of the prior in draws, and its center
PRIOR_DRAWS, PRIOR_SHAPE = 10, 0.5
# above NO_VARIANCE a column has none; between, its standard error is uncertain
HEAVY, NO_VARIANCE = 0.4, 0.5
FEWEST = 5  # values in a tail


def tail_shape(columns: np.ndarray) -> np.ndarray:
    """Return the shape k of the largest absolute values of each column, (rows, m) -> (m,).

    A constant tail has the shape -infinity.
    """
    rows = len(columns)
    size = int(min(0.2 * rows, 3.0 * np.sqrt(rows)))
    if size < FEWEST:
        return np.full(columns.shape[1], -np.inf)
    magnitudes = np.abs(columns.T, order="C")
    magnitudes.partition(rows - size - 1, axis=1)
    largest = np.sort(magnitudes[:, rows - size - 1 :], axis=1).T.astype(float, order="C")
    excess = largest[1:] - largest[0]
    shape = _shape(excess)
    # of integers, many may be equal to the least of the tail: the larger ones count, from halfway
    for column in np.flatnonzero((excess[0] <= 0.0) & (excess[-1] > 0.0)):
        above = excess[excess[:, column] > 0.0, column]
        above = (above - 0.5 * above[0])[:, None]
        shape[column] = _shape(above)[0] if len(above) >= FEWEST else -np.inf
    return shape


def _shape(excess: np.ndarray) -> np.ndarray:
    """Return the shape of ascending excesses over a threshold, by column."""
    size, flat = len(excess), excess[-1] <= excess[0]
    excess = np.where(flat, 1.0, np.maximum(excess, 1e-300))
    count = 20 + int(np.sqrt(size))
    j = np.arange(1, count + 1)[:, None]
    quarter = excess[max(int(size / 4 + 0.5) - 1, 0)]
    # theta_j, and the profile likelihood there: equations 11 and 12 of Zhang and Stephens
    theta = (1.0 - np.sqrt(count / (j - 0.5))) / (3.0 * quarter) + 1.0 / excess[-1]
    shapes = np.stack([np.log(1.0 - row * excess).mean(axis=0) for row in theta])
    with np.errstate(all="ignore"):
        likelihood = size * (np.log(-theta / shapes) - shapes - 1.0)
        likelihood = np.where(np.isfinite(likelihood), likelihood, -np.inf)
        weight = np.exp(likelihood - likelihood.max(axis=0))
        best = (theta * weight).sum(axis=0) / weight.sum(axis=0)
        shape = np.log1p(-best * excess).mean(axis=0)
    shape = (size * shape + PRIOR_DRAWS * PRIOR_SHAPE) / (size + PRIOR_DRAWS)
    return np.where(flat, -np.inf, np.where(np.isfinite(shape), shape, np.inf))
