"""Measure the distance of an approximation from the posterior: the Pareto k of its weights.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72): k
is the shape of the tail of the weights; weights of S draws are usable up to
min(1 - 1 / log10(S), 0.7).
Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?, ICML: k as a judgment of
variational approximations.
"""

import numpy as np

from stanadapt import results
from stanadapt.results import Fit

GOOD, HIGHEST = 0.5, 0.7
FEWEST = 10  # the limit for fewer draws is that for ten


def is_exact(fit: Fit) -> bool:
    """Whether the draws of a fit converge in distribution to the posterior.

    Approximations and samplers that do not leave the posterior invariant are not exact.
    """
    return results.attribute(fit, "exact", 1) != 0


def is_approximation(fit: Fit) -> bool:
    """Whether a fit holds independent draws of an approximation, with importance weights."""
    return not is_exact(fit) and results.attribute(fit, "pareto_k") is not None


UNSEEN_BIAS = (
    "The draws are not exact: they have a bias that R-hat and effective sample sizes do not show. "
    "Compare the means and standard deviations with those of an exact sampler (stanadapt.compare)."
)


def largest_usable(draws: int) -> float:
    """Return the largest Pareto k with which the weights of a number of draws can be used."""
    return min(1.0 - 1.0 / np.log10(max(draws, FEWEST)), HIGHEST)


def is_usable(k: float, draws: int) -> bool:
    """Whether weights with this Pareto k can be used; False if k is NaN."""
    return k <= largest_usable(draws)


def meaning(k: float, draws: int) -> str:
    """Explain the Pareto k of the weights of a number of draws."""
    value = f"The Pareto k of the importance weights is {k:.2f}"
    limit = largest_usable(draws)
    if not is_usable(k, draws):
        return (
            f"{value}, above {limit:.2f}: a few draws have nearly all of the weight, because the "
            "approximation misses a part of the posterior. Do not use it, with or without the "
            "weights, except perhaps for starting points (inits='pathfinder'): draw with sample."
        )
    if k > GOOD:
        return (
            f"{value}, between {GOOD} and {limit:.2f}: the approximation is rough. Averages with "
            "the weights log_weight can be used; without them, its spread may be wrong."
        )
    return (
        f"{value}, at most {GOOD}: the approximation is close to the posterior near its "
        "draws. It is not exact, and the weights cannot reveal modes that it missed."
    )
