"""How far an approximation is from the posterior: the Pareto k of its importance weights.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72): k
is the shape of the tail of the weights, the limit of use min(1 - 1 / log10(S), 0.7) for S draws.
Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?, ICML: k as a judgment of
variational approximations.

"""

from typing import Any

import numpy as np

from stanadapt import results

GOOD, HIGHEST = 0.5, 0.7
FEWEST = 10  # draws below which no limit is known


def is_exact(fit: Any) -> bool:
    """Whether draws of a fit follow the posterior itself, or would in the limit of many.

    Not those of approximations, nor of samplers that do not leave the posterior invariant.
    """
    return results.attribute(fit, "exact", 1) != 0


def is_approximation(fit: Any) -> bool:
    """Whether a fit holds independent draws of an approximation, with importance weights."""
    return not is_exact(fit) and results.attribute(fit, "pareto_k") is not None


UNSEEN_BIAS = (
    "Its draws are not exact: they have a bias that R-hat and effective sample sizes do not see. "
    "Compare its means and standard deviations with those of an exact sampler (stanadapt.compare)."
)


def largest_usable(draws: int) -> float:
    """Largest Pareto k with which weights of so many draws can be used."""
    return min(1.0 - 1.0 / np.log10(max(draws, FEWEST)), HIGHEST)


def is_usable(k: float, draws: int) -> bool:
    """Whether weights with this Pareto k can be used; not where k is not a number."""
    return k <= largest_usable(draws)


def meaning(k: float, draws: int) -> str:
    """What a Pareto k of the weights of so many draws means, in a sentence."""
    said = f"The Pareto k of the importance weights is {k:.2f}"
    limit = largest_usable(draws)
    if not is_usable(k, draws):
        return (
            f"{said}, above {limit:.2f}: a few draws carry nearly all of the weight, since the "
            "approximation misses a part of the posterior. Do not use it in place of the "
            "posterior, with weights or without; draw with sample, to which it can give starting "
            "points (inits='pathfinder')."
        )
    if k > GOOD:
        return (
            f"{said}, between {GOOD} and {limit:.2f}: the approximation is rough. Averages with "
            "the weights log_weight can be used; without them, its spread may be wrong."
        )
    return (
        f"{said}, at most {GOOD}: the approximation is close to the posterior wherever it has "
        "draws. It is not exact, and says nothing of modes that it did not find."
    )
