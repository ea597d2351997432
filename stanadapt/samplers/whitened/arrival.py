"""Which chains have arrived at the typical set, judged by the curvature where their climbs ended.

A chain that is far away has a gradient, and Newton's method predicts how much the log density will
rise. This is not enough. In a flat tail the prediction is too small: a chain far below one with a
small rise is behind. And a density may be highest where nearly nothing of the posterior lies, as in
the neck of a funnel: a chain there is high above the others, in a volume that is smaller by far.
So chains with a small rise are compared by the mass that Laplace's method estimates around them,

    log density + log det M,   M M^T = |H|^-1,

and one with far less mass than another has lost its way, however high it is. The bounds are ours.

The metric of several chains is the inverse of their mean precision matrix |H|, which no matrix
product forms: that would square the condition, and the scales of a regression in raw units with
calendar years differ by 1e10.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from stanadapt.engine import metric_factor
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.warmup import Progress
from stanadapt.samplers.whitened.choose_metric import LARGEST_COMPOSED, dense_metric
from stanadapt.samplers.whitened.fisher_metric import FisherMetric, Metric
from stanadapt.samplers.whitened.window import sd_of_level, unit_of_levels

# Bounds in the unit of `unit_of_levels`: a chain is behind if its log density is lower by FAR, and
# lost if its log mass is by LEAST_MASS.
FAR, LEAST_MASS = 10.0, 3.0
# up to this number of parameters differences are central, with two gradients each
MOST_CENTRAL = 5
# smallest curvature over the largest
LEAST_CURVATURE = 1e-12


def differences_are_made(settings: Any, progress: Progress) -> bool:
    """Whether the curvature at the end of a climb is computed."""
    few = progress.learned.dim <= LARGEST_COMPOSED
    return few and settings.metric == Metric.automatic


def sides_for(dim: int) -> int:
    """Return the number of gradients of a difference."""
    return 2 if dim <= MOST_CENTRAL else 1


class Newton(NamedTuple):
    """Curvature at the end of a chain's climb: M with M M^T = |H|^-1, and the rise from there.

    `rise` is that which Newton's method predicts, g' |H|^-1 g / 2; M has shape (n, n).
    """

    root: np.ndarray
    rise: float

    @property
    def log_volume(self) -> float:
        """Log of the determinant of M."""
        return float(np.linalg.slogdet(self.root)[1])


class Arrival(NamedTuple):
    """Which chains are near the typical set, and the places of the others."""

    # near, behind, lost: Shape (chain,): near the typical set; far below those near; at the end of
    # a climb, but with far less mass around. Any other chain continues to climb on its own.
    near: np.ndarray
    behind: np.ndarray
    lost: np.ndarray
    level: float  # mean log density of the chains that are near


def judge(known: Sequence[Newton | None], means: np.ndarray, dim: int) -> Arrival:
    """Judge chains by their curvature, if known, and their mean log densities, shape (chain,)."""
    unit, rise = unit_of_levels(dim), 10.0 * (sd_of_level(dim) + 1.0)
    small = np.array([own is not None and own.rise <= rise for own in known])
    if not small.any():
        return Arrival(small, small, small, np.inf)
    volumes = np.array([own.log_volume if own else -np.inf for own in known])
    mass = np.where(small, means + volumes, -np.inf)
    near = mass >= mass.max() - LEAST_MASS * unit
    level = float(means[near].mean())
    behind = means < level - FAR * unit
    near &= ~behind
    return Arrival(near, behind, small & ~near & ~behind, level)


def highest_allowed(level: float, dim: int) -> float:
    """Return a log density that chains at this level hardly exceed: well above their mode."""
    return level + max(dim, 4) / 2 + 3.0 * sd_of_level(dim) + 2.0


def newton_of(state: Any) -> Newton | None:
    """Return the curvature that a chain found in its last climb, or earlier; None if neither."""
    n, found = len(state.current.position), state.climb
    if not len(found.curvature) and not np.isfinite(found.rise):
        return None
    former = metric_factor.written_out(state.leapfrog.factor, n)
    newton = newton_from(found.curvature, found.force, former)
    return newton or (Newton(former, found.rise) if np.isfinite(found.rise) else None)


def newton_from(curvature: np.ndarray, force: np.ndarray, former: np.ndarray) -> Newton | None:
    """Return what differences show along the columns of the former M, if they were made."""
    if not len(curvature) or not np.isfinite(curvature).all():
        return None
    try:
        values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    except np.linalg.LinAlgError:
        return None
    largest = np.abs(values).max()
    if not largest > 0.0:
        return None
    deviations = np.sqrt(np.maximum(np.abs(values), LEAST_CURVATURE * largest))
    metric = dense_metric(former @ (vectors / deviations), np.empty(0, int))
    rise = 0.5 * float(np.sum((force @ vectors / deviations) ** 2))
    return Newton(metric.factor, rise) if metric is not None and np.isfinite(rise) else None


def roots_of(known: Sequence[Newton | None], which: np.ndarray) -> list[np.ndarray]:
    """Return M of those of some chains whose curvature is known."""
    return [own.root for own, chosen in zip(known, which, strict=True) if own and chosen]


def mean_metric(roots: Sequence[np.ndarray]) -> FisherMetric | None:
    """Return the metric with the mean of the precision matrices (M M^T)^-1; None if singular."""
    if not len(roots):
        return None
    n = len(roots[0])
    with one_blas_thread():
        try:
            inverses = [solve_triangular(root, np.eye(n), lower=True) for root in roots]
            upper = np.linalg.qr(np.concatenate(inverses) / np.sqrt(len(roots)), mode="r")
            return dense_metric(solve_triangular(upper, np.eye(n)), np.empty(0, int))
        except (np.linalg.LinAlgError, ValueError):  # singular, or not finite
            return None
