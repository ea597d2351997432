"""Scales and correlations of a posterior from draws and their gradients.

For a Gaussian with covariance Sigma, gradients have covariance Sigma^-1; what lies between the
covariance C of the draws and the inverse of that of the gradients, H, is the S with S H S = C,
their geometric mean. It minimizes the Fisher divergence from the whitened draws to a standard
normal. For a Gaussian it is exact as soon as there are more draws than parameters, wherever they
were taken: draws that are still on their way to the typical set teach as much as any.

References
----------
Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
divergence, arXiv 2603.18845: the diagonal, dense and low-rank estimators, the ridge, and the
eigenvalues near 1 that count as 1. Deviations: draws of all chains are pooled, covariances are
scaled to an equal trace, the subspace is that of all draws and gradients, and a factor whose rank
exceeds a quarter of the dimension is stored as dense.

Whether correlations are worth learning: whether they explain draws they were not learned from.

With few draws per parameter, a full metric of a posterior that is far from Gaussian holds more
noise than correlations, and trajectories on it are longer than with scales alone. So both are
learned from one half of the draws and judged by the other: by the Fisher divergence from the
whitened draws to a standard normal, which is what they minimize.

Directions in which nothing holds a posterior together: a sign that it is improper.

For every proper posterior with tails that vanish, the mean of (x_i - E x_i) times the derivative of
the log density by x_i is -1 (integrate by parts), wherever the posterior lies and whatever its
scale. Chains that drift without end have a mean near zero, or a positive one.

"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.block import Window

RIDGE = 1e-5
# eigenvalues within this factor of 1 are noise
CUTOFF = 1.5
# up to so many parameters a dense factor costs nothing
SMALL = 12
# beyond so many, a dense one would take more memory and time than it saves
LARGEST_DENSE = 1000
# scales stay where squares of positions and gradients can be computed
SMALLEST_SCALE, LARGEST_SCALE = 1e-75, 1e75


class Metric(IntEnum):
    """What is learned of the posterior's covariance.

    automatic
        Scales, and as many correlated directions as there are.
    diagonal
        Scales alone.

    """

    automatic = 0
    diagonal = 1


class FisherMetric(NamedTuple):
    """A factor L, stored as in `metric_factor`, and its kind: "diagonal", "low rank" or "dense".

    rank is the number of directions that are not explained by scales; `flat` are the numbers of
    coordinates whose gradient never varied, which have kept their scale.
    """

    factor: np.ndarray
    kind: str
    rank: int
    flat: np.ndarray

    @property
    def scales(self) -> np.ndarray:
        """Standard deviations that the factor implies, shape (n,)."""
        n = self.factor.shape[1] - (self.kind == "low rank")
        if self.kind == "diagonal":
            return self.factor[0].copy()
        if self.kind == "dense":
            return np.sqrt((self.factor**2).sum(axis=1))
        scale, directions, amounts = self.factor[0, :n], self.factor[1:, :n], self.factor[1:, n]
        excess = ((1.0 + amounts) ** 2 - 1.0) @ directions**2
        return scale * np.sqrt(np.maximum(1.0 + excess, 0.0))

    def whitened(self, positions: np.ndarray, gradients: np.ndarray) -> tuple:
        """L^-1 x and L^T g of rows x and g, shapes (m, n)."""
        return (
            metric_factor.inverse_times_rows(self.factor, positions),
            metric_factor.transposed_times_rows(self.factor, gradients),
        )


def diagonal_metric(
    positions: np.ndarray, gradients: np.ndarray, former: np.ndarray
) -> FisherMetric:
    """Learn scales: the fourth root of the variance of x_i over that of its gradient.

    Parameters
    ----------
    positions, gradients
        Of m draws, shape (m, n).
    former
        Scales to keep where a position or its gradient never varied, shape (n,).

    """
    with np.errstate(all="ignore"):
        spread, slope = positions.std(axis=0), gradients.std(axis=0)
        scale = np.sqrt(spread / slope)
    known = np.isfinite(scale) & (scale > 0.0)
    scale = np.where(known, np.clip(scale, SMALLEST_SCALE, LARGEST_SCALE), former)
    flat = np.flatnonzero(~(slope > 0.0) & (spread > 0.0))
    return FisherMetric(np.ascontiguousarray(scale[None]), "diagonal", 0, flat)


def with_standard_deviations(metric: FisherMetric, positions: np.ndarray) -> FisherMetric:
    """Replace scales by the standard deviations of draws, where these varied."""
    spread = positions.std(axis=0)
    known = np.isfinite(spread) & (spread > 0.0)
    scale = np.where(known, np.clip(spread, SMALLEST_SCALE, LARGEST_SCALE), metric.scales)
    return metric._replace(factor=np.ascontiguousarray(scale[None]))


def fisher_metric(
    positions: np.ndarray,
    gradients: np.ndarray,
    former: np.ndarray,
    ridge: float = RIDGE,
    cutoff: float = CUTOFF,
) -> FisherMetric:
    """Learn scales and as many further directions as stand out; parameters as above."""
    diagonal = diagonal_metric(positions, gradients, former)
    scale, n = diagonal.factor[0], positions.shape[1]
    if n == 1 or len(positions) < 4:
        return diagonal
    with np.errstate(all="ignore"):
        z = (positions - positions.mean(axis=0)) / scale
        b = (gradients - gradients.mean(axis=0)) * scale
    usable = np.isfinite(z).all(axis=0) & np.isfinite(b).all(axis=0)
    usable &= (np.ptp(z, axis=0) > 0.0) & (np.ptp(b, axis=0) > 0.0)
    z, b = np.where(usable, z, 0.0), np.where(usable, b, 0.0)
    with one_blas_thread():
        values, vectors = _spectrum(z, b, ridge)
        outside = (values > cutoff) | (values < 1.0 / cutoff)
        rank = int(outside.sum())
        if not rank:
            return diagonal
        if n > SMALL and (rank <= n // 4 or n > LARGEST_DENSE):
            return _low_rank(scale, values, vectors, outside, diagonal.flat)
        return _dense(scale, values, vectors, outside, diagonal.flat)


def _spectrum(z: np.ndarray, b: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of S, and its eigenvectors as columns; those that are missing have value 1.

    Where there are more parameters than draws and gradients, S is the identity outside their span.
    Of very many parameters, so few draws are taken that this is so: no matrix here has more than
    LARGEST_DENSE rows and columns.
    """
    n, basis = z.shape[1], None
    if n > LARGEST_DENSE:
        taken = np.unique(np.linspace(0, len(z) - 1, LARGEST_DENSE // 2).astype(int))
        z, b = z[taken], b[taken]
    if n > 2 * len(z):
        basis, _ = np.linalg.qr(np.concatenate([z, b]).T)
        z, b = z @ basis, b @ basis
    draws, slopes = z.T @ z, b.T @ b
    draws, slopes = (c * (n / max(np.trace(c), 1e-300)) for c in (draws, slopes))
    unit = np.eye(len(draws))
    values, vectors = np.linalg.eigh(_geometric_mean(draws + ridge * unit, slopes + ridge * unit))
    return values, vectors if basis is None else basis @ vectors


def _geometric_mean(c: np.ndarray, h: np.ndarray) -> np.ndarray:
    """S with S h S = c, of two positive definite matrices."""
    values, vectors = np.linalg.eigh(h)
    root = np.sqrt(np.maximum(values, 1e-300))
    half, inverse = (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
    values, vectors = np.linalg.eigh(half @ c @ half)
    middle = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    mean = inverse @ middle @ inverse
    return 0.5 * (mean + mean.T)


def _low_rank(
    scale: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    outside: np.ndarray,
    flat: np.ndarray,
) -> FisherMetric:
    """Keep the eigenvalues that lie farthest from 1, at most n / 4 of them."""
    n = len(scale)
    distance = np.where(outside, np.abs(np.log(np.maximum(values, 1e-300))), 0.0)
    rank = min(int(outside.sum()), n // 4)
    chosen = np.sort(np.argsort(-distance, kind="stable")[:rank])
    factor = np.zeros((1 + rank, n + 1))
    factor[0, :n], factor[1:, :n] = scale, vectors[:, chosen].T
    factor[1:, n] = np.sqrt(np.maximum(values[chosen], 1e-300)) - 1.0
    return FisherMetric(factor, "low rank", rank, flat)


def _dense(
    scale: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    outside: np.ndarray,
    flat: np.ndarray,
) -> FisherMetric:
    n = len(scale)
    # few parameters: every eigenvalue is kept
    kept = np.maximum(values if n <= SMALL else np.where(outside, values, 1.0), 1e-12)
    matrix = np.eye(n) + (vectors * (kept - 1.0)) @ vectors.T
    factor = np.linalg.cholesky(matrix) * scale[:, None]
    return FisherMetric(np.ascontiguousarray(factor), "dense", int(outside.sum()), flat)


def correlations_hold(window: Window, former: np.ndarray) -> bool:
    """Whether a full metric serves the draws of a window better than scales do."""
    halves = _halves(window)
    diagonal, full = 0.0, 0.0
    with one_blas_thread():
        for learned, judged in (halves, halves[::-1]):
            diagonal += _divergence(diagonal_metric(*learned, former), learned, judged)
            full += _divergence(fisher_metric(*learned, former), learned, judged)
    return full < diagonal


Draws = tuple[np.ndarray, np.ndarray]


def _halves(window: Window) -> tuple[Draws, Draws]:
    """Positions and gradients, shape (m, n), of half of the chains each; of one chain, in time."""
    which = window.moved if window.moved.any() else ~window.moved
    arrays = window.positions[which], window.gradients[which]
    if len(arrays[0]) == 1:
        arrays = arrays[0][0][:, None], arrays[1][0][:, None]
    half, dim = len(arrays[0]) // 2, window.positions.shape[2]
    first, second = (
        tuple(array[part].reshape(-1, dim) for array in arrays)
        for part in (slice(half), slice(half, None))
    )
    return (first[0], first[1]), (second[0], second[1])


def _divergence(metric: FisherMetric, learned: Draws, judged: Draws) -> float:
    """Median over draws of |L^T g + L^-1 (x - mu)|^2, which is 0 for every draw of a Gaussian."""
    center, slope = (values.mean(axis=0) for values in learned)
    with np.errstate(all="ignore"):
        z, b = metric.whitened(judged[0] - center, judged[1] - slope)
        return float(np.nan_to_num(np.median(((z + b) ** 2).sum(axis=1)), nan=np.inf))


# it is -1 +- 1.4 / sqrt(effective draws); chains that agree are not suspected at all, and means are
# taken of all chains and of each: chains in separate modes spoil the former, slow ones the latter
WEAKEST_PULL, R_HAT = -0.1, 1.1
# parameters that take part in a direction have at least this share of its largest entry
PART = 0.5


def unbounded(window: Window) -> np.ndarray:
    """Numbers of the coordinates that take part in such a direction, ascending.

    Looked at are the coordinates themselves, and the direction in which draws, scaled by their
    standard deviations, are spread most.
    """
    pooled, _ = window.pooled
    if len(pooled) < 4 or not window.r_hat > R_HAT:
        return np.empty(0, int)
    which = window.moved if window.moved.any() else ~window.moved
    mean, sd = pooled.mean(axis=0), pooled.std(axis=0)
    with np.errstate(all="ignore"):
        z, slopes = (window.positions[which] - mean) / sd, window.gradients[which] * sd
        usable = np.isfinite(z).all(axis=(0, 1)) & np.isfinite(slopes).all(axis=(0, 1))
    z, slopes = np.where(usable, z, 0.0), np.where(usable, slopes, 0.0)
    found = usable & (_pull(z, slopes) > WEAKEST_PULL)
    with one_blas_thread():
        widest = np.linalg.svd(z.reshape(-1, len(mean)), full_matrices=False)[2][0]
    if _pull(z @ widest[:, None], slopes @ widest[:, None])[0] > WEAKEST_PULL:
        found |= np.abs(widest) > PART * np.abs(widest).max()
    return np.flatnonzero(found)


def _pull(z: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The smaller of the two means, shape (n,), of arrays of shape (chain, draw, n)."""
    within = z - z.mean(axis=1, keepdims=True)
    return np.minimum((z * slopes).mean(axis=(0, 1)), (within * slopes).mean(axis=(0, 1)))
