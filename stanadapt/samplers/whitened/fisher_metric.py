"""Scales and correlations of a posterior from draws and their gradients.

For a Gaussian with covariance Sigma, gradients have covariance Sigma^-1. With the covariance C of
the draws and the covariance H of their gradients, the metric is the solution S of S H S = C, the
geometric mean of C and H^-1. It minimizes the Fisher divergence from the whitened draws to a
standard normal. For a Gaussian it is exact as soon as there are more draws than parameters,
for any distribution of these: draws made before the typical set is reached are as informative as
later ones.

`unbounded` finds directions in which a posterior may be improper. For every proper posterior with
vanishing tails, the mean of (x_i - E x_i) times the derivative of the log density with respect to
x_i is -1 (integration by parts), for any location and scale. Chains that drift without end
have a mean near zero, or a positive one.

References
----------
Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by minimizing Fisher
divergence, arXiv 2603.18845: the diagonal, dense and low-rank estimators, the ridge, and the
eigenvalues near 1 that count as 1. Deviations: draws of all chains are pooled, covariances are
scaled to an equal trace, the subspace is that of all draws and gradients, and a factor with a rank
above a quarter of the dimension is stored as dense.

"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from stanadapt.engine import metric_factor
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.window import Window

RIDGE = 1e-5
# eigenvalues within this factor of 1 are noise
CUTOFF = 1.5
# eigenvalues beyond this factor are those of the strongest directions
STRONG = 3.0
# up to this number of parameters a dense factor costs nothing
SMALL = 12
# beyond this number, a dense factor would take more memory and time than it saves
LARGEST_DENSE = 1000
# Beyond this number, products with a metric may cost more than the density: metrics have a price,
# the former one competes without being composed, and three quarters of the chains learn, since half
# of the draws may be fewer than the parameters.
MANY = 300
# scales stay in the range in which squares of positions and gradients can be computed
SMALLEST_SCALE, LARGEST_SCALE = 1e-75, 1e75


class Metric(IntEnum):
    """Part of the posterior's covariance that is learned."""

    automatic = 0  # scales, and as many correlated directions as the draws support
    diagonal = 1  # scales alone


class FisherMetric(NamedTuple):
    """A factor L, stored as in `metric_factor`, and its kind.

    The kind is "diagonal", "low rank", "dense", or "sparse" for that of a sparse precision matrix.
    rank is the number of directions that scales do not explain, or the width of the band and last
    rows of a sparse one; `flat` contains the numbers of the coordinates with a constant gradient,
    which keep their former scale.
    """

    factor: np.ndarray
    kind: str
    rank: int
    flat: np.ndarray

    @property
    def scales(self) -> np.ndarray:
        """Standard deviations that the factor implies, shape (n,)."""
        rows, width = self.factor.shape
        n = rows - 1 if self.kind == "sparse" else width - (self.kind == "low rank")
        return metric_factor.scales(self.factor, n)

    def whiten(self, positions: np.ndarray, gradients: np.ndarray) -> tuple:
        """Return L^-1 x and L^T g for rows x and g, shapes (m, n)."""
        return self.whitened(positions), self.slopes(gradients)

    def whitened(self, positions: np.ndarray) -> np.ndarray:
        """Return L^-1 x for rows x, shape (m, n)."""
        return metric_factor.inverse_times_rows(self.factor, positions)

    def slopes(self, gradients: np.ndarray) -> np.ndarray:
        """Return L^T g for rows g, shape (m, n)."""
        return metric_factor.transposed_times_rows(self.factor, gradients)


def scales_alone(scales: np.ndarray, flat: np.ndarray | None = None) -> FisherMetric:
    """Return the metric of scales, shape (n,)."""
    flat = np.empty(0, int) if flat is None else flat
    return FisherMetric(np.ascontiguousarray(scales[None]), "diagonal", 0, flat)


def diagonal_metric(
    positions: np.ndarray, gradients: np.ndarray, former: np.ndarray
) -> FisherMetric:
    """Learn scales: the fourth root of the variance of x_i over that of its gradient.

    Parameters
    ----------
    positions, gradients
        Draws and their gradients, shape (m, n).
    former
        Scales to keep for coordinates with a constant position or gradient, shape (n,).

    """
    with np.errstate(all="ignore"):
        spread, slope = positions.std(axis=0), gradients.std(axis=0)
        scale = np.sqrt(spread / slope)
    usable = np.isfinite(scale) & (scale > 0.0)
    scale = np.where(usable, np.clip(scale, SMALLEST_SCALE, LARGEST_SCALE), former)
    flat = np.flatnonzero(~(slope > 0.0) & (spread > 0.0))
    return scales_alone(scale, flat)


def largest_misfit(metric: FisherMetric, positions: np.ndarray, gradients: np.ndarray) -> float:
    """Return by which factor the scale in some direction differs from the metric's, at most.

    Whitened draws z have gradients b = -z / s^2 in a direction of scale s, in which z + b then has
    the variance (s - 1 / s)^2: where the metric fits, it has no noise that few draws would show.
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        # one after the other, since both may be large
        misfit = metric.whitened(positions - positions.mean(axis=0))
        misfit += metric.slopes(gradients - gradients.mean(axis=0))
        if not np.isfinite(misfit).all():
            return np.inf
        square = misfit @ misfit.T if len(misfit) < misfit.shape[1] else misfit.T @ misfit
        difference = np.sqrt(max(np.linalg.eigvalsh(square / len(misfit))[-1], 0.0))
    return float(difference / 2.0 + np.sqrt(1.0 + difference**2 / 4.0))


def use_standard_deviations(metric: FisherMetric, positions: np.ndarray) -> FisherMetric:
    """Replace scales by the standard deviations of draws, if these are not zero."""
    spread = positions.std(axis=0)
    usable = np.isfinite(spread) & (spread > 0.0)
    scale = np.where(usable, np.clip(spread, SMALLEST_SCALE, LARGEST_SCALE), metric.scales)
    return metric._replace(factor=np.ascontiguousarray(scale[None]))


def fisher_metric(
    positions: np.ndarray,
    gradients: np.ndarray,
    former: np.ndarray,
    ridge: float = RIDGE,
    cutoff: float = CUTOFF,
) -> FisherMetric:
    """Learn scales and the further directions that stand out; parameters as above."""
    return fisher_metrics(positions, gradients, former, (cutoff,), ridge)[0]


def fisher_metrics(
    positions: np.ndarray,
    gradients: np.ndarray,
    former: np.ndarray,
    cutoffs: tuple[float, ...],
    ridge: float = RIDGE,
) -> list[FisherMetric]:
    """Learn a metric with the directions that stand out by each of these factors."""
    diagonal = diagonal_metric(positions, gradients, former)
    scale, n = diagonal.factor[0], positions.shape[1]
    if n == 1 or len(positions) < 4:
        return [diagonal] * len(cutoffs)
    with np.errstate(all="ignore"):
        z, b = positions - positions.mean(axis=0), gradients - gradients.mean(axis=0)
        z /= scale
        b *= scale
    usable = np.isfinite(z).all(axis=0) & np.isfinite(b).all(axis=0)
    usable &= (np.ptp(z, axis=0) > 0.0) & (np.ptp(b, axis=0) > 0.0)
    z[:, ~usable] = b[:, ~usable] = 0.0
    with one_blas_thread():
        values, vectors = _spectrum(z, b, ridge)
        return [_standing_out(diagonal, values, vectors, cutoff) for cutoff in cutoffs]


def _standing_out(
    diagonal: FisherMetric, values: np.ndarray, vectors: np.ndarray, cutoff: float
) -> FisherMetric:
    scale, n = diagonal.factor[0], len(diagonal.factor[0])
    outside = (values > cutoff) | (values < 1.0 / cutoff)
    rank = int(outside.sum())
    if not rank:
        return diagonal
    if n > SMALL and (rank <= n // 4 or n > LARGEST_DENSE):
        return _low_rank(scale, values, vectors, outside, diagonal.flat)
    return _dense(scale, values, vectors, outside, diagonal.flat)


def _spectrum(z: np.ndarray, b: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of S, and its eigenvectors as columns; those left out have value 1.

    If there are more parameters than draws and gradients, S is the identity outside their span. If
    there are very many parameters, only some of the draws are used, so that no matrix here has more
    than LARGEST_DENSE rows and columns.
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
    """Return S with S h S = c, for two positive definite matrices."""
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
    """Keep the eigenvalues farthest from 1, at most n / 4 of them."""
    n = len(scale)
    distance = np.where(outside, np.abs(np.log(np.maximum(values, 1e-300))), 0.0)
    rank = min(int(outside.sum()), n // 4)
    strongest = np.sort(np.argsort(-distance, kind="stable")[:rank])
    factor = np.zeros((1 + rank, n + 1))
    factor[0, :n], factor[1:, :n] = scale, vectors[:, strongest].T
    factor[1:, n] = np.sqrt(np.maximum(values[strongest], 1e-300)) - 1.0
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


# The mean is -1 +- 1.4 / sqrt(effective draws). Chains that agree are not suspected at all. Means
# are taken over all chains and within each: separate modes distort the former, slow chains the
# latter.
WEAKEST_PULL, R_HAT = -0.1, 1.1
# parameters count as part of a direction from this share of its largest entry
PART = 0.5


def unbounded(window: Window) -> np.ndarray:
    """Return the numbers of the coordinates in an unbounded direction, ascending.

    The directions examined are the coordinates themselves, and the one along which draws, divided
    by their standard deviations, vary most.
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
    unbounded = usable & (_pull(z, slopes) > WEAKEST_PULL)
    with one_blas_thread():
        widest = np.linalg.svd(z.reshape(-1, len(mean)), full_matrices=False)[2][0]
    if _pull(z @ widest[:, None], slopes @ widest[:, None])[0] > WEAKEST_PULL:
        unbounded |= np.abs(widest) > PART * np.abs(widest).max()
    return np.flatnonzero(unbounded)


def _pull(z: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return the smaller of the two means, shape (n,), given arrays of shape (chain, draw, n)."""
    within = z - z.mean(axis=1, keepdims=True)
    return np.minimum((z * slopes).mean(axis=(0, 1)), (within * slopes).mean(axis=(0, 1)))
