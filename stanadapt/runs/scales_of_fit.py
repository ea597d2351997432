"""Location and scales from the draws of an earlier fit, and whether they still fit.

The program may be the same under other data. At draws of its own posterior, the mean of
-g_i (x_i - E x_i) is 1 for every coordinate i, g being the gradient of the log density (an
integration by parts). Where it is far from that at the earlier draws, the posterior has other
scales now, and they are learned afresh.
"""

from typing import Any, NamedTuple

import numpy as np

from stanadapt.samplers.initial_values import positions_of_fit
from stanadapt.samplers.whitened.fisher_metric import (
    diagonal_metric,
    fisher_metric,
    with_standard_deviations,
)
from stanadapt.targets.target import Target

# draws at which gradients are evaluated, evenly spaced; and fewest that teach anything
DRAWS, FEWEST = 400, 20
# by which factor the mean may differ from 1
LARGEST_FACTOR = 5.0


class Scales(NamedTuple):
    """What an earlier fit teaches.

    location, factor
        m and L of standardised coordinates; see `targets/standardized.py`. None where these draws
        do not fit.
    draws
        How many were looked at.
    evaluations
        What that took.
    misfit
        Why they do not fit, as a sentence; "" where they do.

    """

    location: np.ndarray | None
    factor: np.ndarray | None
    draws: int
    evaluations: int
    misfit: str


def scales_of_fit(target: Target, fit: Any, gradient: bool, diagonal: bool) -> Scales:
    """Learn from the draws of an earlier fit.

    Parameters
    ----------
    target
        The program under its present data.
    fit
        Of the same parameters.
    gradient
        Whether gradients may be used; else correlations are those of the draws.
    diagonal
        Whether scales alone are wanted.

    Raises
    ------
    StanadaptError
        Stage "initialisation" unless it is a fit of the same parameters.

    """
    draws = positions_of_fit(target, fit)
    if len(draws) < FEWEST:
        why = f"warm_start has {len(draws)} draws, fewer than {FEWEST}: too few to learn from."
        return Scales(None, None, len(draws), 0, why)
    if not gradient:
        factor = draws.std(axis=0)[None] if diagonal else _shrunk_factor(draws)
        return _checked(draws, factor, 0)
    chosen = draws[np.linspace(0, len(draws) - 1, min(len(draws), DRAWS)).astype(int)]
    evaluated = [target.evaluate(position) for position in chosen]
    gradients = np.array([gradient for _, gradient, _ in evaluated])
    fine = np.isfinite([value for value, _, _ in evaluated]) & np.isfinite(gradients).all(axis=1)
    misfit = _misfit(target, chosen[fine], gradients[fine], len(chosen))
    if misfit:
        return Scales(None, None, len(draws), len(chosen), misfit)
    spread = draws.std(axis=0)
    if diagonal:
        metric = diagonal_metric(chosen[fine], gradients[fine], spread)
        metric = with_standard_deviations(metric, draws)
    else:
        metric = fisher_metric(chosen[fine], gradients[fine], spread)
    return _checked(draws, metric.factor, len(chosen))


def _checked(draws: np.ndarray, factor: np.ndarray, evaluations: int) -> Scales:
    location = draws.mean(axis=0)
    if not (np.isfinite(factor).all() and np.isfinite(location).all() and draws.std(axis=0).all()):
        why = "the draws of warm_start have no finite scales."
        return Scales(None, None, len(draws), evaluations, why)
    return Scales(location, factor, len(draws), evaluations, "")


def _shrunk_factor(draws: np.ndarray) -> np.ndarray:
    """Cholesky factor of the covariance, whose correlations few draws shrink."""
    n, dim = draws.shape
    scales = draws.std(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(np.corrcoef(draws, rowvar=False)).reshape(dim, dim)
    correlations *= n / (n + dim)
    np.fill_diagonal(correlations, 1.0)
    return np.linalg.cholesky(correlations) * scales[:, None]


def _misfit(target: Target, draws: np.ndarray, gradients: np.ndarray, tried: int) -> str:
    """Say how the posterior differs from that of the draws; "" where they fit."""
    if 2 * len(draws) < tried:
        return (
            f"at {tried - len(draws)} of {tried} draws of warm_start the log density is not "
            "finite: scales are learned afresh."
        )
    with np.errstate(all="ignore"):
        means = -np.mean(gradients * (draws - draws.mean(axis=0)), axis=0)
    # infinite where it is negative, or no number: curved the other way
    factors = np.where(means > 0.0, np.maximum(means, 1.0 / means), np.inf)
    worst = int(np.argmax(factors))
    if factors[worst] <= LARGEST_FACTOR:
        return ""
    name = target.model.param_unc_names()[worst]
    narrower = means[worst] > 1.0 or not means[worst] > 0.0
    return (
        f"the draws of warm_start do not fit: {name} is {'narrower' if narrower else 'wider'} now "
        f"by a factor of {np.sqrt(factors[worst]):.2g} or has another shape. Scales are learned "
        "afresh."
    )
