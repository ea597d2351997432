"""Columns with posterior mean zero that all quantities of a fit share: polynomials of the draws.

For a function phi of the position, and the gradient g of the log density, L phi = laplacian(phi) +
grad(phi) . g has mean zero under the posterior (Stein's identity), for the draws of any sampler.
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
    all_pairs: bool = True  # of order 2


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
    pairs, triples = dim * (dim + 1) // 2, dim * (dim + 1) * (dim + 2) // 6
    z, s = (np.ascontiguousarray(values.T) for values in (z, s))
    parts = [s]
    if dim + pairs <= budget:
        parts.append(second_order(z, s, *np.triu_indices(dim)))
        if dim + pairs + triples <= budget:
            parts.append(third_order(z, s, *all_triples(dim)))
    elif 2 * dim <= budget:
        count = min(MOST_PAIRS, budget - 2 * dim)
        parts.append(second_order(z, s, *screened_pairs(z, s, count)))
    kept = [part[tail_shape(part.T) < NO_VARIANCE] for part in parts]
    ends = tuple(int(end) for end in np.cumsum([len(part) for part in kept]))
    return Columns(np.concatenate(kept).T, ends, dim + pairs <= budget)


def whitened(
    positions: np.ndarray, gradients: np.ndarray, learning: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """Return nearly uncorrelated coordinates z, and the gradients with respect to z."""
    # where there is no room for all pairs, their lack limits gains: four bytes a number are enough
    pairs = positions.shape[1] * (positions.shape[1] + 3) // 2
    kind = np.float64 if DRAWS_PER_COLUMN * pairs <= learning else np.float32
    mean, sd = positions.mean(axis=0), positions.std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    standard = ((positions - mean) / sd).astype(kind, copy=False)
    correlation = (standard.T @ standard).astype(float) / len(standard)
    values, vectors = np.linalg.eigh(shrunk(correlation, len(standard)))
    root = sd[:, None] * ((vectors * np.sqrt(values)) @ vectors.T)
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    return standard @ inverse.astype(kind), gradients.astype(kind) @ root.astype(kind)


def shrunk(covariance: np.ndarray, draws: int) -> np.ndarray:
    """Move a covariance toward its diagonal, by more the more parameters there are per draw.

    A coordinate that does not move gets the variance 1.
    """
    diagonal = np.diag(covariance)
    weight = min(LARGEST_SHRINKAGE, SHRINKAGE * len(diagonal) / draws)
    return (1.0 - weight) * covariance + np.diag(weight * diagonal + (diagonal <= 0.0))


def second_order(z: np.ndarray, s: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return L phi of phi = z_i z_j for each pair: z_i s_j + z_j s_i + 2 [i = j].

    All arrays have the draws along the second axis.
    """
    columns = z[i] * s[j]
    columns += z[j] * s[i]
    columns[i == j] += 2.0
    return columns


def third_order(
    z: np.ndarray, s: np.ndarray, i: np.ndarray, j: np.ndarray, k: np.ndarray
) -> np.ndarray:
    """Return L phi of phi = z_i z_j z_k for each triple, likewise."""
    a, b, c = z[i], z[j], z[k]
    same = [2.0 * (left == right)[:, None] for left, right in ((i, j), (i, k), (j, k))]
    curvature = same[0] * c + same[1] * b + same[2] * a
    return b * c * s[i] + a * c * s[j] + a * b * s[k] + curvature


def all_triples(dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices i <= j <= k < dim of all triples."""
    i, j, k = (axis.ravel() for axis in np.indices((dim, dim, dim)))
    ordered = (i <= j) & (j <= k)
    return i[ordered], j[ordered], k[ordered]


def screened_pairs(z: np.ndarray, s: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of all squares, and of the `count` most useful pairs.

    These have the largest correlation with what order 1 leaves of any coordinate.
    """
    rows = np.linspace(0, z.shape[1] - 1, min(z.shape[1], SCREENED_ROWS)).round().astype(int)
    z, s, dim = z[:, rows], s[:, rows], len(z)
    centered = s - s.mean(axis=1, keepdims=True)
    rest = z - z.mean(axis=1, keepdims=True)
    coefficients, *_ = np.linalg.lstsq(centered.T, rest.T, rcond=None)
    rest -= coefficients.T @ centered
    rest /= np.maximum(rest.std(axis=1, keepdims=True), 1e-30)
    score = np.zeros((dim, dim), z.dtype)
    for one in rest:
        products = (z * one) @ s.T
        np.maximum(score, np.abs(products + products.T), out=score)
    mean, product = z @ s.T / len(rows), z**2 @ (s**2).T
    variance = product + product.T + 2 * (z * s) @ (z * s).T
    variance = variance / len(rows) - (mean + mean.T) ** 2
    i, j = np.triu_indices(dim, 1)
    score = (score / np.sqrt(np.maximum(variance, 1e-30)))[i, j]
    best = np.sort(np.argsort(-score, kind="stable")[:count])
    squares = np.arange(dim)
    return np.concatenate([squares, i[best]]), np.concatenate([squares, j[best]])
