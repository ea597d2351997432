"""The covariance of a window of draws, and the factor L of the Euclidean metric made from it.

The inverse metric is the covariance L L^T, shrunk as in Stan. L is stored as in
`engine/compiled/triangular`: shape (n, n), lower triangle, when dense, and (1, n) when diagonal.

References
----------
Welford (1962), Technometrics 4(3). The shrinkage: stan/mcmc/var_adaptation.hpp and
covar_adaptation.hpp. Deviations: where Stan ends the run (a covariance that is not finite) or
shrinks the old metric (a window of one draw), the old metric is kept.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled import triangular as factors
from stanadapt.engine.compiled.jit import jit

# prior of the shrinkage: the weight in draws, and the variance it shrinks to
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3


class Welford(NamedTuple):
    """Running moments of a window of draws; its arrays are updated in place.

    count
        Number of draws.
    mean
        Of the draws, shape (n,).
    deviation
        Of the last draw from the mean before it, shape (n,).
    products
        Sums of products of deviations from the mean, in the shape of the factor; if dense, the
        lower triangle only.

    """

    count: int
    mean: np.ndarray
    deviation: np.ndarray
    products: np.ndarray


@jit
def no_draws(dim, diagonal):
    """Return a Welford without draws."""
    return Welford(0, np.zeros(dim), np.empty(dim), factors.initial(dim, 0.0, diagonal))


@jit
def with_draw(welford, position):
    """Add a draw, shape (n,)."""
    count, mean, deviation = welford.count + 1, welford.mean, welford.deviation
    for i in range(mean.shape[0]):
        deviation[i] = position[i] - mean[i]
        mean[i] += deviation[i] / count
    for i in range(mean.shape[0]):
        after = position[i] - mean[i]
        if welford.products.shape[0] < mean.shape[0]:
            welford.products[0, i] += after * deviation[i]
            continue
        row = welford.products[i]
        for j in range(i + 1):
            row[j] += after * deviation[j]
    return Welford(count, mean, deviation, welford.products)


@jit
def learn_factor(welford, factor):
    """Write the factor of the shrunk covariance into `factor`, and discard the draws.

    The factor is left unchanged after fewer than two draws, and if the covariance is not finite.
    Returns the empty Welford.
    """
    if welford.count > 1:
        _shrink(welford.count, welford.products)
        if _root(welford.products, welford.mean.shape[0]):
            for i in range(factor.shape[0]):
                factor[i] = welford.products[i]
    welford.mean[:] = 0.0
    welford.products[:] = 0.0
    return Welford(0, welford.mean, welford.deviation, welford.products)


@jit
def _shrink(count, products):
    """Turn sums of products into n / (n + 5) * covariance + 1e-3 * 5 / (n + 5) * identity."""
    weight = count / (count + PRIOR_DRAWS)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            products[i, j] *= weight / (count - 1)
    for i in range(products.shape[1]):
        products[min(i, products.shape[0] - 1), i] += (1.0 - weight) * PRIOR_VARIANCE


@jit
def _root(covariance, dim):
    """Overwrite a covariance by its factor; False if it has none."""
    if covariance.shape[0] == dim and dim > 1:
        return factors.cholesky(covariance)
    for i in range(dim):
        covariance[0, i] = np.sqrt(covariance[0, i])
    return bool(np.isfinite(covariance).all())
