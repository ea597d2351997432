"""Find chains that differ only by a symmetry of the posterior: of numbers, or of signs.

A mixture of components with the same prior has a mode for each order of these, and a factor model
one for each sign of a factor: of the same height and shape. Chains that each stay in one of them
agree, once components are renumbered, or signs are changed.
"""

from collections.abc import Mapping

import numpy as np
import scipy

from stanadapt import results

MOST_NUMBERED = 50
# distances of the means of chains, in standard deviations within them: up to that of those that
# agree, and from that of those that do not
ALIKE, UNLIKE = 0.5, 2.0
SUM_ERROR = 1e-6  # of a simplex
NO_REMEDY = "a longer run is no remedy. Declare"


def advise_on_symmetry(columns: Mapping[str, np.ndarray], worst: str) -> str:
    """Return how chains differ by a symmetry, and the bound to declare; "" if they do not.

    Parameters
    ----------
    columns
        Draws of scalar parameters by name, shape (chain, draw), all that there are.
    worst
        The name of one on which chains disagree.
    """
    vectors: dict[str, list[np.ndarray]] = {}
    for name, draws in columns.items():
        vectors.setdefault(results.variable_of(name), []).append(draws)
    means = {vector: _scaled_means(np.stack(draws)) for vector, draws in vectors.items()}
    if not all(np.isfinite(own).all() for own in means.values()):
        return ""
    # a simplex cannot be ordered
    switching = [v for v in _switching(means, worst) if np.ptp(sum(vectors[v])) > SUM_ERROR]
    if switching:
        best = max(switching, key=lambda v: np.diff(np.sort(means[v][:, 0])).min())
        return (
            f"Chains agree once elements are renumbered (labels switch): {NO_REMEDY} {best} as "
            "ordered, or positive_ordered."
        )
    changing = [
        vector for vector, own in means.items()
        if (np.abs(own[:, :1] - own) > UNLIKE).any()
    ]  # fmt: skip
    if changing and all(_agrees_up_to_signs(own) for own in means.values()):
        declared = "one of them" if changing[1:] else "it"
        return (
            f"Chains agree but for signs of {' and '.join(changing[:2])}: {NO_REMEDY} {declared}, "
            "or an element, with lower=0."
        )
    return ""


def _switching(means: Mapping[str, np.ndarray], worst: str) -> list[str]:
    """Return the vectors whose elements switch, if each chain agrees with the first one then."""
    worst_means = means[results.variable_of(worst)]
    count, chains = worst_means.shape
    switching = []
    for chain in range(1, chains if 1 < count <= MOST_NUMBERED else 1):
        order = scipy.optimize.linear_sum_assignment(
            np.abs(worst_means[:, :1] - worst_means[:, chain])
        )[1]
        for vector, own in means.items():
            apart = np.abs(own[:, 0] - own[:, chain]).max()
            if len(own) == count and (np.abs(own[:, 0] - own[order, chain]) <= ALIKE).all():
                switching += [vector] if apart > UNLIKE else []
            elif not apart <= ALIKE:
                return []
    return switching


def _agrees_up_to_signs(means: np.ndarray) -> bool:
    return bool((np.abs(np.abs(means[:, :1]) - np.abs(means)) <= ALIKE).all())


def _scaled_means(draws: np.ndarray) -> np.ndarray:
    """Return means in units of the spread within a typical chain, shape (element, chain)."""
    with np.errstate(all="ignore"):
        return np.asarray(draws.mean(axis=2) / np.median(draws.std(axis=2)))
