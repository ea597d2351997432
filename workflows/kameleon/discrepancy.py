"""How far draws are from a known distribution, or from benchmark draws.

Effective sample sizes show how precise a chain appears to be; these functions measure its error.
All take NumPy arrays, `draws` of shape (draw, dim), and raise StanadaptError of stage "settings"
for arrays of the wrong shape or values.

References
----------
Gretton, Borgwardt, Rasch, Schölkopf and Smola (2012), A kernel two-sample test, JMLR 13: the
unbiased estimate of the squared maximum mean discrepancy (MMD), lemma 6. Sejdinovic, Strathmann,
Lomeli Garcia, Andrieu and Gretton (2014), Kernel adaptive Metropolis-Hastings, ICML: coverage of
quantile regions, norm of the mean and MMD as measures of a sampler.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.special import gammaincinv

from stanadapt.errors import StanadaptError

LEVELS = tuple(round(0.1 * i, 1) for i in range(1, 10))
# numbers in one block of a kernel matrix, or of moment products: 16 MB
BLOCK = 2**21
# entries of the largest moment tensor allowed: 80 MB
LARGEST_TENSOR = 10**7


class Polynomial(NamedTuple):
    """The kernel (offset + <x, y>)^degree; its MMD compares mixed moments up to that degree.

    degree
        A whole number, at least 1.
    offset
        In squared units of the draws, >= 0; with 0 only moments of exactly that order are compared.
    """

    degree: int = 3
    offset: float = 1.0

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Kernel matrix, shape (n, m), of rows of x (n, dim) and y (m, dim)."""
        if self.degree < 1 or self.degree != int(self.degree):
            raise _refusal("degree must be a whole number, at least 1", self.degree)
        if not 0 <= self.offset < np.inf:
            raise _refusal("offset must be finite and at least 0", self.offset)
        return (self.offset + x @ y.T) ** self.degree


class Gaussian(NamedTuple):
    """The kernel exp(-|x - y|^2 / (2 width^2)): the MMD is zero only for equal distributions.

    width
        In units of the draws, > 0: usually `median_width` of the benchmark draws.
    """

    width: float

    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Kernel matrix, shape (n, m), of rows of x (n, dim) and y (m, dim)."""
        if not 0 < self.width < np.inf:
            raise _refusal("width must be finite and positive", self.width)
        return np.exp(cdist(x, y, "sqeuclidean") / (-2 * self.width**2))


Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def coverage(
    radius_squared: np.ndarray, degrees_of_freedom: int, levels: tuple[float, ...] = LEVELS
) -> np.ndarray:
    """Fraction of draws inside each central region; its expectation under the target is `levels`.

    Parameters
    ----------
    radius_squared
        Squared radius of each draw after whitening, shape (..., draw): a generated quantity of the
        bundled banana, flower and ring.
    degrees_of_freedom
        Degrees of freedom of its chi-squared distribution under the target.
    levels
        Probabilities of the regions, in (0, 1).

    Returns
    -------
    np.ndarray
        Shape (..., level).
    """
    radii = _finite("radius_squared", radius_squared)
    if radii.ndim < 1 or not radii.shape[-1]:
        raise _refusal("radius_squared must have shape (..., draw), with draws", radii.shape)
    if not degrees_of_freedom > 0:
        raise _refusal("degrees_of_freedom must be positive", degrees_of_freedom)
    probabilities = np.asarray(levels, dtype=float)
    if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
        raise _refusal("levels must be probabilities, each between 0 and 1", levels)
    # the chi-squared quantile function; importing scipy.stats would take a second
    limits = 2 * gammaincinv(degrees_of_freedom / 2, probabilities)
    return np.stack([(radii < limit).mean(axis=-1) for limit in limits], axis=-1)


def coverage_deviation(
    radius_squared: np.ndarray, degrees_of_freedom: int, levels: tuple[float, ...] = LEVELS
) -> np.ndarray:
    """Mean over chains of |coverage - level|, shape (level,), so that errors do not cancel.

    Parameters as in `coverage`, with radius_squared of shape (chain, draw), or (draw,) for one
    chain. Chains of independent draws from the target give about 0.8 sqrt(q (1 - q) / draws).
    """
    covered = coverage(radius_squared, degrees_of_freedom, levels)
    return np.abs(covered - np.asarray(levels)).reshape(-1, len(levels)).mean(axis=0)


def norm_of_mean(draws: np.ndarray, truth: np.ndarray | float = 0.0) -> np.ndarray:
    """Euclidean norm of mean - truth, per chain.

    Parameters
    ----------
    draws
        Shape (..., draw, dim).
    truth
        The target's mean, shape (dim,), or one number for all coordinates.

    Returns
    -------
    np.ndarray
        Shape (...): one number per chain, in units of the draws.
    """
    values = _finite("draws", draws)
    if values.ndim < 2 or not values.shape[-2]:
        raise _refusal("draws must have shape (..., draw, dim), with draws", values.shape)
    expected = _finite("truth", truth)
    if expected.shape not in ((), values.shape[-1:]):
        raise _refusal(f"truth must have shape {values.shape[-1:]}, or be one number", truth)
    return np.linalg.norm(values.mean(axis=-2) - expected, axis=-1)


def moment_difference(x: np.ndarray, y: np.ndarray, order: int) -> float:
    """Frobenius norm of E[x^(order)] - E[y^(order)], the tensors of all mixed raw moments.

    Order 1 is the distance of means, order 2 compares E[x_i x_j], and so on. With the kernel
    (c + <x, y>)^p, the squared MMD of the two empirical distributions is the sum over orders k of
    binomial(p, k) c^(p - k) times the square of this. High-order raw moments are dominated by the
    coordinates of largest scale: if units differ, standardize first, `(draws - mean) / sd`, both
    samples with mean and sd of the benchmark draws.

    Parameters
    ----------
    x, y
        Draws, shapes (n, dim) and (m, dim).
    order
        A whole number, at least 1; dim^order numbers must fit in memory.
    """
    x, y = _pair(x, y)
    if order != int(order) or order < 1:
        raise _refusal("order must be a whole number, at least 1", order)
    if x.shape[1] ** int(order) > LARGEST_TENSOR:
        raise _refusal(
            f"dim^order must be at most {LARGEST_TENSOR:,}; choose fewer columns or a lower order",
            f"{x.shape[1]}^{order}",
        )
    return float(np.linalg.norm(_moments(x, int(order)) - _moments(y, int(order))))


def mmd_squared(x: np.ndarray, y: np.ndarray, kernel: Kernel) -> float:
    """Estimate the squared maximum mean discrepancy of two samples without bias.

    mean over i != j of k(x_i, x_j) + the same for y - 2 mean over i, j of k(x_i, y_j). If the two
    distributions are equal, its expectation is zero and it is negative about half of the time.
    Draws of a chain are not independent: pairs close in time bias it upwards, which thinning
    avoids. Time is O((n + m)^2 dim), memory is bounded.

    Parameters
    ----------
    x, y
        Draws, shapes (n, dim) and (m, dim), at least two each.
    kernel
        `Polynomial`, `Gaussian`, or any function of (n, dim) and (m, dim) to (n, m) that is a
        positive definite kernel.
    """
    x, y = _pair(x, y)
    return mean_within(x, kernel) + mean_within(y, kernel) - 2 * mean_between(x, y, kernel)


def mean_within(x: np.ndarray, kernel: Kernel) -> float:
    """Mean of k(x_i, x_j) over i != j, shape (n, dim): the first two terms of `mmd_squared`.

    To compare many samples with the same benchmark draws, compute the term of these once.
    """
    x = _sample("x", x)
    n = len(x)
    if n < 2:
        raise _refusal("x must hold at least 2 draws", n)
    total = 0.0
    for rows in _blocks(n, n):
        matrix = kernel(x[rows], x)
        # the diagonal is zeroed before summing: subtracted afterwards, it would cost digits
        matrix[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = 0.0
        total += matrix.sum()
    return float(total / (n * (n - 1)))


def mean_between(x: np.ndarray, y: np.ndarray, kernel: Kernel) -> float:
    """Mean of k(x_i, y_j) over all i, j: the last term of `mmd_squared`."""
    x, y = _pair(x, y)
    total = sum(float(kernel(x[rows], y).sum()) for rows in _blocks(len(x), len(y)))
    return total / (len(x) * len(y))


def median_width(draws: np.ndarray, at_most: int = 1000) -> float:
    """Width of a `Gaussian` kernel: median distance between distinct draws over sqrt(2).

    Parameters
    ----------
    draws
        Shape (draw, dim); if there are more than `at_most`, that many, evenly spaced, are used.
        Pairs of equal draws, as rejections leave them, do not count.
    """
    values = _sample("draws", draws)
    rows = np.linspace(0, len(values) - 1, min(len(values), max(int(at_most), 2)))
    distances = pdist(values[rows.astype(int)])
    if not (distances > 0).any():
        raise _refusal("draws must hold at least 2 distinct ones", f"{len(values)} equal draws")
    return float(np.median(distances[distances > 0]) / np.sqrt(2))


def _moments(x: np.ndarray, order: int) -> np.ndarray:
    """Mean of the outer products of `order` copies of a row, shape (dim^(order - 1), dim)."""
    n, dim = x.shape
    total = np.zeros((dim ** (order - 1), dim))
    for rows in _blocks(n, dim ** (order - 1)):
        part = x[rows]
        products = np.ones((len(part), 1))
        for _ in range(order - 1):
            products = (products[:, :, np.newaxis] * part[:, np.newaxis, :]).reshape(len(part), -1)
        total += products.T @ part
    return total / n


def _blocks(rows: int, columns: int) -> list[slice]:
    """Slices of rows, each of at most BLOCK numbers or of one row."""
    size = max(1, BLOCK // max(columns, 1))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def _pair(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = _sample("x", x), _sample("y", y)
    if x.shape[1] != y.shape[1]:
        raise _refusal("x and y must have the same number of columns", (x.shape, y.shape))
    return x, y


def _sample(name: str, draws: np.ndarray) -> np.ndarray:
    values = _finite(name, draws)
    if values.ndim != 2 or not values.size:
        raise _refusal(
            f"{name} must have shape (draw, dim), both at least 1 (for several chains: "
            "draws.reshape(-1, dim); for one column: draws[:, np.newaxis])",
            values.shape,
        )
    return values


def _finite(name: str, values: np.ndarray | float) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise _refusal(f"{name} must be finite", f"{bad} of {array.size} values that are not")
    return array


def _refusal(condition: str, got: object) -> StanadaptError:
    return StanadaptError("out_of_range", f"{condition}, got {got}.")
