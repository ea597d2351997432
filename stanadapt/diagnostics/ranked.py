"""Rank a column of draws once, and hand its scores to ArviZ's estimators.

ArviZ sorts a column seven times for R-hat and the two effective sample sizes. Here it is sorted
once: the distances from the median of sorted draws fall and then rise, so that they are merged, and
scores of ranks without ties are looked up. The results equal ArviZ's.

A file of its own, so that nothing else depends on how ArviZ ranks.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat, Bayesian Analysis 16.

"""

import functools

import numpy as np
from scipy.special import ndtri

from stanadapt.results import arviz_module, quantile

SHORTEST = 8  # draws per chain: ArviZ refuses to estimate from halves of fewer than four


class Ranked:
    """The diagnostics of one column, shape (chain, draw), which is sorted once.

    Draws are finite, and at least `SHORTEST` per chain.
    """

    def __init__(self, draws: np.ndarray) -> None:
        half = draws.shape[1] // 2
        self._draws = draws
        self._halves = np.concatenate([draws[:, :half], draws[:, -half:]])
        flat = self._halves.ravel()
        self._order = np.argsort(flat)
        self._sorted = flat[self._order]
        self._scores = self._normal_scores(self._order, self._sorted)

    def _normal_scores(self, order: np.ndarray, ordered: np.ndarray) -> np.ndarray:
        """Return normal scores in the shape of the halves, given their order and ordered values."""
        n = len(ordered)
        scores = _scores(n)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        if len(starts) < n:  # equal draws have their average rank
            counts = np.diff(np.append(starts, n))
            ranks = starts + (counts + 1) / 2.0
            scores = np.repeat(_score(ranks, n), counts)
        in_place = np.empty(n)
        in_place[order] = scores
        return in_place.reshape(self._halves.shape)

    def r_hat(self) -> float:
        """Return the larger R-hat of the scores of the draws, and of their distances."""
        middle = len(self._sorted) // 2  # their number is even
        median = np.mean(self._sorted[middle - 1 : middle + 1])
        distances = np.abs(self._sorted - median)
        order = np.argsort(distances, kind="stable")  # merges the two sorted parts
        folded = self._normal_scores(self._order[order], distances[order])
        each = [arviz_module().rhat(x, method="identity") for x in (self._scores, folded)]
        return float(max(each))

    def ess_bulk(self) -> float:
        """Return the effective sample size of the scores."""
        return float(arviz_module().ess(self._scores, method="identity"))

    def ess_tail(self, tails: tuple[float, float]) -> float:
        """Return the smaller effective sample size of the two quantiles."""
        odd = self._draws.shape[1] % 2  # halves lack the middle draw
        ordered = np.sort(self._draws, axis=None) if odd else self._sorted
        below = [self._halves <= quantile(ordered, p) for p in tails]
        return float(min(arviz_module().ess(x, method="identity") for x in below))


@functools.lru_cache(maxsize=4)
def _scores(n: int) -> np.ndarray:
    """Return the normal scores of n different draws, in order."""
    scores = _score(np.arange(1.0, n + 1.0), n)
    scores.flags.writeable = False
    return scores


def _score(ranks: np.ndarray, n: int) -> np.ndarray:
    """Return Blom's normal scores of ranks among n draws."""
    return ndtri((ranks - 0.375) / (n + 0.25))
