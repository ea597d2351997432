"""Which metric to use: scales, a full one, or a correction of the former one.

With few draws per parameter, a full metric of a posterior far from a Gaussian contains more noise
than correlation, and trajectories on it are longer than with scales alone. So each candidate is
learned from one half of the chains and judged on the other half by the Fisher divergence from the
whitened draws to a standard normal (`fisher_metric`).

A metric learned from scratch has a ridge, which limits the ratio of the variances that it can tell
apart to about 1e5. Powers of a calendar year exceed this by far. `composed_metric` is learned in
the coordinates of the former metric, so that its ridge is relative to the scales known already, and
a few windows together reach any ratio. It also keeps the noise of the former metric, and the former
metric itself may be that of the curvature at one point, which is narrow in the tails: both must be
better than the others by a factor. Halves of the chains favor them, which need no draws.

With many parameters, a product with a full metric may cost more than the density. Then candidates
are compared by the gradients of a trajectory, which grow with the factor by which a metric is wrong
in the worst direction (`largest_misfit`), times their price: operations per gradient, those of the
density included, over those with scales. They are counted, since draws must not depend on a clock.
Most of many directions gain little and cost as much as the others, so that the strongest of them
compete, too: on a stochastic volatility with 1,000 states, 30 directions save as many gradients as
110. Halves of the chains may have fewer draws than parameters: three quarters learn, one judges.

The estimator is that of `fisher_metric`; the candidates, the comparison and the factors are ours,
measured on regressions in raw units and on hierarchical models.
"""

from collections.abc import Sequence

import numpy as np

from stanadapt.engine.metric_factor import written_out
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.samplers.whitened.fisher_metric import (
    CUTOFF,
    MANY,
    STRONG,
    FisherMetric,
    diagonal_metric,
    fisher_metric,
    fisher_metrics,
    largest_misfit,
    scales_alone,
)
from stanadapt.samplers.whitened.window import Window

# positions and gradients, shape (m, n) each
Draws = tuple[np.ndarray, np.ndarray]

# up to this number of parameters, matrices are inverted and factorized after every window
LARGEST_COMPOSED = 100
# multiplications per parameter that a gradient of the density takes the time of: 70 to 1,200 were
# measured on seven programs with 500 to 1,000 parameters, a triangular product taking 0.1 ns each
OF_DENSITY = 500.0
# factor by which scales may be wrong in a direction, without a search for correlations
NO_MISFIT = 1.3
# factors by which earlier knowledge must be better, while chains travel and later
WHILE_TRAVELING, LATER = 1.2, 2.0
# coordinates outside of a block, at most, whose correlations are learned, and their smallest
# eigenvalue
MOST_OUTSIDE, SMALLEST_VALUE = 20, 1e-12
# Divergences per parameter below this are rounding: that of scales on an independent Gaussian is
# 1e-30, and among such numbers the smallest would be chance.
ROUNDING = 1e-10
LARGEST = np.finfo(float).max  # in place of an infinite one
# smallest over largest standard deviation of gradients; a posterior without an end in some
# direction has less
FLAT = 1e-10


def choose_metric(former: FisherMetric, chains: Sequence[Draws], handicap: float) -> FisherMetric:
    """Return the best metric for the draws of some chains.

    Parameters
    ----------
    former
        The metric in use; its scales are kept for coordinates with a constant gradient.
    chains
        Positions and gradients of each chain, shape (m, n).
    handicap
        Factor by which a composed metric, or the former one, must be better than those learned
        from these draws alone; >= 1.

    """
    if chains[0][0].shape[1] > MANY:
        with one_blas_thread():
            return _of_many(former, chains, handicap)
    learners = {"scales": _scales, "full": _full}
    if former.kind != "diagonal" and former.factor.shape[1] <= LARGEST_COMPOSED:
        learners |= {"composed": composed_metric, "former": _former}
    halves = _halves(chains, len(chains) // 2)
    scores = dict.fromkeys(learners, 0.0)
    with one_blas_thread():
        for learned, judged in (halves, halves[::-1]):
            away = _from_means(judged, learned)
            for name, learn in learners.items():
                scores[name] += _divergence(learn(former, *learned), away)
        for name in ("composed", "former"):
            if name in scores:
                scores[name] *= handicap
        # of equal scores the first is taken: scales, which are the simplest
        rounding = ROUNDING * chains[0][0].shape[1]
        best = min(scores, key=lambda name: scores[name] if scores[name] > rounding else 0.0)
        return learners[best](former, *_joined(chains))


def _of_many(former: FisherMetric, chains: Sequence[Draws], handicap: float) -> FisherMetric:
    """Return the metric for more than MANY parameters, by its largest misfit and its price."""
    learned, judged = _halves(chains, 3 * len(chains) // 4)
    sparse = former.kind == "sparse"
    if sparse and largest_misfit(former, *judged) < NO_MISFIT:
        return former
    found = {"scales": _scales(former, *learned)}
    if largest_misfit(found["scales"], *judged) < NO_MISFIT:
        return _scales(former, *_joined(chains))
    found["full"], found["strongest"] = _directions(former, *learned)
    if former.kind == "dense":
        found["composed"] = composed_metric(former, *learned)
    if former.kind != "diagonal":
        found["former"] = former
    scores = {
        name: largest_misfit(metric, *judged) * _price(metric) for name, metric in found.items()
    }
    for name in ("composed", "former"):
        if name in scores and not sparse:
            scores[name] *= min(handicap, WHILE_TRAVELING)
    best = min(scores, key=lambda name: scores[name])
    again = {"scales": _scales, "composed": composed_metric}
    if found[best].kind == "dense":  # as many draws as there are
        again["full"] = _full
    return again[best](former, *_joined(chains)) if best in again else found[best]


def metric_outside(
    former: FisherMetric, chains: Sequence[Draws], members: np.ndarray, handicap: float
) -> FisherMetric:
    """Return the metric of more than MANY parameters, the members of a block having scales of 1.

    The correlations of the others are learned if they are few.
    """
    whole = _scales(former, *_joined(chains))
    whole.factor[0, members] = 1.0
    n = len(whole.scales)
    others = np.setdiff1d(np.arange(n), members)
    if not 1 < len(others) <= MOST_OUTSIDE:
        return whole
    parts = [(x[:, others], g[:, others]) for x, g in chains]
    few = choose_metric(scales_alone(former.scales[others]), parts, handicap)
    if few.kind == "diagonal":
        return whole
    root = written_out(few.factor, len(others)) / few.scales[:, None]
    values, vectors = np.linalg.eigh(root @ root.T)
    factor = np.zeros((1 + len(others), n + 1))
    factor[0, :n] = whole.scales
    factor[0, others], factor[1:, others] = few.scales, vectors.T
    factor[1:, n] = np.sqrt(np.maximum(values, SMALLEST_VALUE)) - 1.0
    return FisherMetric(factor, "low rank", len(others), whole.flat)


def draws_of(window: Window, left_out: np.ndarray | None = None) -> list[Draws]:
    """Return the draws of each chain that moved and is not left out; of all if no chain did."""
    which = window.moved if left_out is None else window.moved & ~left_out
    if not which.any():
        which = np.ones(len(which), bool)
    return [(window.positions[k], window.gradients[k]) for k in np.flatnonzero(which)]


def composed_metric(
    former: FisherMetric, positions: np.ndarray, gradients: np.ndarray
) -> FisherMetric:
    """Learn a metric in the coordinates of the former one, and return the two together.

    If this fails, as it may for values that overflow, the former metric is returned.
    """
    n = positions.shape[1]
    with np.errstate(all="ignore"):
        try:
            z, b = former.whiten(
                positions - positions.mean(axis=0), gradients - gradients.mean(axis=0)
            )
            if not (np.isfinite(z).all() and np.isfinite(b).all()):
                return former
            if _has_flat_direction(b):
                return former
            correction = fisher_metric(z, b, np.ones(n))
        except np.linalg.LinAlgError:
            return former
        product = written_out(former.factor, n) @ written_out(correction.factor, n)
    made = dense_metric(product, diagonal_metric(positions, gradients, former.scales).flat)
    return former if made is None else made


def _has_flat_direction(slopes: np.ndarray) -> bool:
    """Whether gradients do not vary in some direction, by far: its scale would grow for ever."""
    if len(slopes) <= slopes.shape[1]:
        return False
    values = np.linalg.svd(slopes - slopes.mean(axis=0), compute_uv=False)
    return bool(values[-1] <= FLAT * values[0])


def dense_metric(root: np.ndarray, flat: np.ndarray) -> FisherMetric | None:
    """Return the metric with covariance M M^T, given M of shape (n, n); None if it is singular.

    The product is never formed: it squares the condition.
    """
    if not np.isfinite(root).all():
        return None
    upper = np.asarray(np.linalg.qr(root.T, mode="r"))
    diagonal = np.diag(upper)
    if not (np.abs(diagonal) > 0.0).all():
        return None
    lower = np.ascontiguousarray(upper.T * np.sign(diagonal))
    return FisherMetric(lower, "diagonal" if len(root) == 1 else "dense", len(root), flat)


def _former(former: FisherMetric, positions: np.ndarray, gradients: np.ndarray) -> FisherMetric:
    """Keep the metric: the curvature of a Gaussian is exact, and that of draws is not."""
    return former


def _scales(former: FisherMetric, positions: np.ndarray, gradients: np.ndarray) -> FisherMetric:
    return diagonal_metric(positions, gradients, former.scales)


def _full(former: FisherMetric, positions: np.ndarray, gradients: np.ndarray) -> FisherMetric:
    """Learn a metric from scratch."""
    return _directions(former, positions, gradients, (CUTOFF,))[0]


def _directions(
    former: FisherMetric,
    positions: np.ndarray,
    gradients: np.ndarray,
    cutoffs: tuple[float, ...] = (CUTOFF, STRONG),
) -> list[FisherMetric]:
    """Learn metrics from scratch; scales where eigenvalues do not converge, far from the mode."""
    try:
        return fisher_metrics(positions, gradients, former.scales, cutoffs)
    except np.linalg.LinAlgError:
        return [_scales(former, positions, gradients)] * len(cutoffs)


def _joined(chains: Sequence[Draws]) -> Draws:
    return np.concatenate([x for x, _ in chains]), np.concatenate([g for _, g in chains])


def _price(metric: FisherMetric) -> float:
    """Return the operations of a gradient with a metric, relative to those with scales."""
    rows, width = metric.factor.shape
    # of two products, per parameter
    own = {"diagonal": 2.0, "low rank": 2.0 + 4.0 * (rows - 1)}.get(metric.kind, float(width))
    return (OF_DENSITY + own) / (OF_DENSITY + 2.0)


def _halves(chains: Sequence[Draws], half: int) -> tuple[Draws, Draws]:
    """Return the draws of `half` of the chains and of the others, or of two halves of one chain."""
    if len(chains) > 1:
        half = max(half, 1)
        return _joined(chains[:half]), _joined(chains[half:])
    positions, gradients = chains[0]
    half = len(positions) // 2
    return (positions[:half], gradients[:half]), (positions[half:], gradients[half:])


def _from_means(judged: Draws, learned: Draws) -> Draws:
    """Return draws minus the means of others."""
    with np.errstate(all="ignore"):
        return judged[0] - learned[0].mean(axis=0), judged[1] - learned[1].mean(axis=0)


def _divergence(metric: FisherMetric, away: Draws) -> float:
    """Return the median over draws of |L^T g + L^-1 (x - mu)|^2, which is 0 for a Gaussian."""
    with np.errstate(all="ignore"):
        z, b = metric.whiten(*away)
        ordered = np.sort(((z + b) ** 2).sum(axis=1))  # NaN last; np.median takes longer
        middle = len(ordered) // 2
        median = ordered[middle] if len(ordered) % 2 else ordered[middle - 1 : middle + 1].mean()
        return np.inf if np.isnan(ordered[-1]) else float(min(median, LARGEST))
