"""Directions in which nothing holds a posterior together: a sign that it is improper.

For every proper posterior with tails that vanish, the mean of (x_i - E x_i) times the derivative of
the log density by x_i is -1 (integrate by parts), wherever the posterior lies and whatever its
scale. Chains that drift without end have a mean near zero, or a positive one.
"""

import numpy as np

from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.block import Window

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
