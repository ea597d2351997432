"""Are ranks uniform? Simultaneous bands for their distribution, and what a departure means.

Ranks 0, ..., L of a true value among L draws of its posterior are uniform if draws and program are
right. The number of ranks below k is then binomial for each k. The band holds the whole
distribution function with a given probability: its pointwise level is found by simulation, as
Saeilynoja, Buerkner and Vehtari (2022), Graphical test for discrete uniformity and its applications
in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32, do it.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import binom

SIMULATIONS, SEED = 20_000, 2022


class Uniformity(NamedTuple):
    """Of the ranks of one quantity.

    p_value
        Share of uniform samples whose distribution function leaves its pointwise quantiles as far.
    shape
        In words, what the ranks look like: "" where they look uniform.

    """

    p_value: float
    shape: str


class RankBands:
    """Bands for samples of `count` ranks 0, ..., `largest`."""

    def __init__(self, count: int, largest: int) -> None:
        self.count, self.largest = count, largest
        below = np.arange(1, largest + 1) / (largest + 1)  # P(rank < k), k = 1, ..., L
        numbers = np.arange(count + 1)
        lower = binom.cdf(numbers, count, below[:, None])
        upper = binom.sf(numbers - 1, count, below[:, None])
        self.below = below
        self._depth = np.minimum(1.0, 2.0 * np.minimum(lower, upper))
        rng = np.random.default_rng(SEED)
        simulated = rng.integers(0, largest + 1, (SIMULATIONS, count))
        self._depths = np.sort([self._smallest(ranks) for ranks in simulated])

    def numbers_below(self, ranks: np.ndarray) -> np.ndarray:
        """How many ranks are below k, for k = 1, ..., L."""
        return np.cumsum(np.bincount(ranks, minlength=self.largest + 1))[:-1]

    def _smallest(self, ranks: np.ndarray) -> float:
        return float(self._depth[np.arange(self.largest), self.numbers_below(ranks)].min())

    def limits(self, probability: float) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest number of ranks below k, all inside with this probability."""
        level = np.quantile(self._depths, 1.0 - probability) / 2.0
        low, high = (binom.ppf(q, self.count, self.below) for q in (level, 1.0 - level))
        return low, high

    def judge(self, ranks: np.ndarray) -> Uniformity:
        """Judge ranks, shape (count,)."""
        reached = np.searchsorted(self._depths, self._smallest(ranks), side="right")
        p_value = (1.0 + reached) / (1.0 + SIMULATIONS)
        return Uniformity(p_value, self._shape(ranks))

    def _shape(self, ranks: np.ndarray) -> str:
        """What stands out: location, then spread; in words about the posterior."""
        u = (ranks + 0.5) / (self.largest + 1)
        location = (u.mean() - 0.5) * np.sqrt(12 * self.count)
        spread = ((u - 0.5) ** 2).mean() - 1 / 12
        spread /= np.sqrt((1 / 80 - 1 / 144) / self.count)
        if max(abs(location), abs(spread)) < 2.5:
            return ""
        if abs(location) >= abs(spread):
            return "posteriors lie too high" if location < 0 else "posteriors lie too low"
        return "posteriors are too narrow" if spread > 0 else "posteriors are too wide"
