"""Whether correlations are worth learning: whether they explain draws they were not learned from.

With few draws per parameter, a full metric of a posterior that is far from Gaussian holds more
noise than correlations, and trajectories on it are longer than with scales alone. So both are
learned from one half of the draws and judged by the other: by the Fisher divergence from the
whitened draws to a standard normal, which is what they minimise.
"""

import numpy as np

from stanadapt.engine.compiled.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.block import Window
from stanadapt.samplers.whitened.fisher_metric import FisherMetric, diagonal_metric, fisher_metric


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
    centre, slope = (values.mean(axis=0) for values in learned)
    with np.errstate(all="ignore"):
        z, b = metric.whitened(judged[0] - centre, judged[1] - slope)
        return float(np.nan_to_num(np.median(((z + b) ** 2).sum(axis=1)), nan=np.inf))
