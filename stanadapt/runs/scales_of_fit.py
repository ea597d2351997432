"""Location and scales of the draws of an earlier fit, possibly under other data.

At draws of its own posterior, the mean of -g_i (x_i - E x_i) is 1 for every coordinate i, where g
is the gradient of the log density (integrate by parts). If it is far from 1 at the earlier draws,
the posterior's scales have changed, and they are learned again.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.errors import Message
from stanadapt.samplers.whitened.fisher_metric import (
    diagonal_metric,
    fisher_metric,
    use_standard_deviations,
)
from stanadapt.targets.target import Target

# draws at which gradients are evaluated, evenly spaced; and the fewest that can be used
DRAWS, FEWEST_DRAWS = 400, 20
# the largest factor by which the mean may differ from 1
LARGEST_FACTOR = 5.0


class Scales(NamedTuple):
    """Location and scales from an earlier fit."""

    # m and L of standardized coordinates; see `targets/standardized.py`. None if they do not fit
    location: np.ndarray | None
    factor: np.ndarray | None
    evaluations: int  # number of gradients that this took
    misfit: str  # a note on why the draws do not fit; "" if they do


def scales_of_fit(target: Target, draws: np.ndarray, gradient: bool, diagonal: bool) -> Scales:
    """Learn from the draws of an earlier fit for the program under its present data.

    Draws are on the unconstrained scale, shape (n, dim). Without the gradient, correlations are
    those of the draws; `diagonal` scales have none.
    """
    if len(draws) < FEWEST_DRAWS:
        return _unusable(
            f"warm_start has {len(draws)} draws, but at least {FEWEST_DRAWS} are needed."
        )
    spread = draws.std(axis=0)
    if not gradient:
        return _checked(draws, spread[None] if diagonal else _shrunk_factor(draws), 0)
    chosen = draws[np.linspace(0, len(draws) - 1, min(len(draws), DRAWS)).astype(int)]
    evaluated = [target.evaluate(position) for position in chosen]
    gradients = np.array([gradient for _, gradient, _ in evaluated])
    fine = np.isfinite([value for value, _, _ in evaluated]) & np.isfinite(gradients).all(axis=1)
    misfit = _misfit(target, chosen[fine], gradients[fine], len(chosen))
    if misfit:
        return _unusable(misfit, len(chosen))
    if diagonal:
        metric = diagonal_metric(chosen[fine], gradients[fine], spread)
        metric = use_standard_deviations(metric, draws)
    else:
        metric = fisher_metric(chosen[fine], gradients[fine], spread)
    return _checked(draws, metric.factor, len(chosen))


def _unusable(why: str, evaluations: int = 0) -> Scales:
    return Scales(None, None, evaluations, Message("scales_changed", why))


def _checked(draws: np.ndarray, factor: np.ndarray, evaluations: int) -> Scales:
    location = draws.mean(axis=0)
    if not (np.isfinite(factor).all() and np.isfinite(location).all() and draws.std(axis=0).all()):
        return _unusable("the draws of warm_start have no finite scales.", evaluations)
    return Scales(location, factor, evaluations, "")


def _shrunk_factor(draws: np.ndarray) -> np.ndarray:
    """Cholesky factor of the covariance; correlations are shrunk if there are few draws."""
    n, dim = draws.shape
    scales = draws.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(np.corrcoef(draws, rowvar=False)).reshape(dim, dim)
    correlations *= n / (n + dim)
    np.fill_diagonal(correlations, 1.0)
    return np.linalg.cholesky(correlations) * scales[:, None]


def _misfit(target: Target, draws: np.ndarray, gradients: np.ndarray, tried: int) -> str:
    """Return how the posterior differs from that of the draws; "" if they fit."""
    if 2 * len(draws) < tried:
        return (
            f"the log density is not finite at {tried - len(draws)} of {tried} draws of "
            "warm_start, so the scales are learned again."
        )
    with np.errstate(all="ignore"):
        means = -np.mean(gradients * (draws - draws.mean(axis=0)), axis=0)
    # infinite if it is negative or NaN: curved the other way
    factors = np.where(means > 0.0, np.maximum(means, 1.0 / means), np.inf)
    worst = int(np.argmax(factors))
    if factors[worst] <= LARGEST_FACTOR:
        return ""
    name = target.coordinate_names[worst]
    narrower = means[worst] > 1.0 or not means[worst] > 0.0
    return (
        f"the draws of warm_start do not fit: {name} has become "
        f"{'narrower' if narrower else 'wider'} by a factor of {np.sqrt(factors[worst]):.2g}, or "
        "has another shape. The scales are learned again."
    )
