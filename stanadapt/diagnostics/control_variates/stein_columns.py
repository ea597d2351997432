"""Columns with posterior mean zero that all quantities of a fit share: polynomials of the draws.

For a function phi of the position, and the gradient g of the log density, L phi = laplacian(phi) +
grad(phi) . g has mean zero under the posterior (Stein's identity), whatever sampler made the draws.
With phi a polynomial, L phi removes the variance of polynomials of the same degree exactly if the
posterior is Gaussian. Coordinates are whitened first: z = R^(-1/2) (x - mean) / sd. The symmetric
root leaves each z close to one coordinate, so that squares and pairs keep their meaning.

References
----------
Assaraf and Caffarel (1999), Zero-variance principle for Monte Carlo algorithms, Physical Review
Letters 83; Mira, Solgi and Imparato (2013), Zero variance Markov chain Monte Carlo for Bayesian
estimators, Statistics and Computing 23, for the operator and the polynomials.

Deviations: pairs are screened in many dimensions, and columns with tails that are too heavy for a
variance are dropped, as are all of a funnel.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.diagnostics.control_variates.tail_shape import NO_VARIANCE, tail_shape

# draws for learning, per column
DRAWS_PER_COLUMN = 5
# pairs that are kept if there is no room for all, and rows from which they are chosen
MOST_PAIRS, SCREENED_ROWS = 300, 1000
# shrinkage of correlations toward the identity: at most, and per parameter and draw
LARGEST_SHRINKAGE, SHRINKAGE = 0.5, 0.1


class Columns(NamedTuple):
    """Columns with posterior mean zero."""

    values: np.ndarray  # shape (draw, column)
    ends: tuple[int, ...]  # numbers of columns up to order 1, 2, 3, as far as there is room


def stein_columns(z: np.ndarray, s: np.ndarray, learning: int) -> Columns:
    """Return polynomial columns of orders 1 to 3, as many as the draws can determine.

    Parameters
    ----------
    z, s
        Draws in whitened coordinates and gradients with respect to these, shape (draw, dim).
    learning
        Number of draws from which coefficients will be learned.

    """
    dim, budget = z.shape[1], learning // DRAWS_PER_COLUMN
    parts = [s]
    pairs, triples = dim * (dim + 1) // 2, dim * (dim + 1) * (dim + 2) // 6
    if dim + pairs <= budget:
        parts.append(second_order(z, s, *np.triu_indices(dim)))
        if dim + pairs + triples <= budget:
            parts.append(third_order(z, s, *all_triples(dim)))
    elif 2 * dim <= budget:
        count = min(MOST_PAIRS, budget - 2 * dim)
        parts.append(second_order(z, s, *screened_pairs(z, s, count)))
    kept = [part[:, tail_shape(part) < NO_VARIANCE] for part in parts]
    ends = tuple(int(end) for end in np.cumsum([part.shape[1] for part in kept]))
    # where ridges limit gains, half of the memory and time is enough
    kind = np.float32 if ends[0] > budget else np.float64
    return Columns(np.concatenate(kept, axis=1, dtype=kind), ends)


def whitened(positions: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nearly uncorrelated coordinates z, and the gradients with respect to z."""
    mean, sd = positions.mean(axis=0), positions.std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    standard = (positions - mean) / sd
    values, vectors = np.linalg.eigh(shrunk(standard.T @ standard / len(standard), len(standard)))
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    return standard @ inverse, gradients @ (sd[:, None] * root)


def moments(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the shrunk covariance of positions."""
    mean = positions.mean(axis=0)
    centered = positions - mean
    return mean, shrunk(centered.T @ centered / len(centered), len(centered))


def shrunk(covariance: np.ndarray, draws: int) -> np.ndarray:
    """Move a covariance toward its diagonal, by more the more parameters there are per draw."""
    dim = len(covariance)
    weight = min(LARGEST_SHRINKAGE, SHRINKAGE * dim / draws)
    return (1.0 - weight) * covariance + weight * np.diag(np.diag(covariance))


def second_order(z: np.ndarray, s: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return L phi of phi = z_i z_j for each pair: z_i s_j + z_j s_i + 2 [i = j]."""
    columns = z[:, i] * s[:, j] + z[:, j] * s[:, i]
    columns[:, i == j] += 2.0
    return columns


def third_order(
    z: np.ndarray, s: np.ndarray, i: np.ndarray, j: np.ndarray, k: np.ndarray
) -> np.ndarray:
    """Return L phi of phi = z_i z_j z_k for each triple."""
    a, b, c = z[:, i], z[:, j], z[:, k]
    curvature = 2.0 * ((i == j) * c + (i == k) * b + (j == k) * a)
    return b * c * s[:, i] + a * c * s[:, j] + a * b * s[:, k] + curvature


def all_triples(dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices i <= j <= k < dim of all triples."""
    i, j, k = (axis.ravel() for axis in np.indices((dim, dim, dim)))
    ordered = (i <= j) & (j <= k)
    return i[ordered], j[ordered], k[ordered]


def screened_pairs(z: np.ndarray, s: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of all squares, and of the `count` most useful pairs.

    These have the largest correlation with what order 1 leaves of any coordinate.
    """
    rows = np.linspace(0, len(z) - 1, min(len(z), SCREENED_ROWS)).round().astype(int)
    z, s, dim = z[rows], s[rows], z.shape[1]
    centered = s - s.mean(axis=0)
    coefficients, *_ = np.linalg.lstsq(centered, z - z.mean(axis=0), rcond=None)
    score = np.zeros((dim, dim))
    for rest in _standardized(z - centered @ coefficients).T:
        products = (z * rest[:, None]).T @ s
        np.maximum(score, np.abs(products + products.T), out=score)
    mean, product = z.T @ s / len(z), (z**2).T @ s**2
    variance = (product + product.T + 2 * (z * s).T @ (z * s)) / len(z) - (mean + mean.T) ** 2
    i, j = np.triu_indices(dim, 1)
    score = (score / np.sqrt(np.maximum(variance, 1e-300)))[i, j]
    best = np.sort(np.argsort(-score, kind="stable")[:count])
    squares = np.arange(dim)
    return np.concatenate([squares, i[best]]), np.concatenate([squares, j[best]])


def _standardized(columns: np.ndarray) -> np.ndarray:
    centered = columns - columns.mean(axis=0)
    sd = centered.std(axis=0)
    return centered / np.where(sd > 0.0, sd, 1.0)
