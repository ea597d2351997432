"""What simulation-based calibration found: ranks, a verdict, pictures.

Are ranks uniform? Simultaneous bands for their distribution, and what a departure means.

Ranks 0, ..., L of a true value among L draws of its posterior are uniform if draws and program are
right. The number of ranks below k is then binomial for each k. The band holds the whole
distribution function with a given probability: its pointwise level is found by simulation, as
Saeilynoja, Buerkner and Vehtari (2022), Graphical test for discrete uniformity and its applications
in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32, do it.

The picture of ranks: distribution functions minus the uniform, with simultaneous bands.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
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


PROBABILITY = 0.95  # that a band holds the whole function


def draw_ranks(ranks: Mapping[str, np.ndarray], bands: RankBands) -> Figure:
    """Draw ranks by quantity, each of shape (count,), in panels with common axes."""
    columns = min(4, len(ranks))
    rows = -(-len(ranks) // columns)
    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(2.6 * columns, 2.2 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for axis, (name, of_one) in zip(axes, ranks.items(), strict=False):
            _panel(axis, name, of_one, bands)
        for axis in axes[len(ranks) :]:
            axis.set_axis_off()
        figure.supxlabel("rank of the truth, as a share")
        figure.supylabel("ranks below, minus uniform")
    return figure


def _panel(axis: Any, name: str, ranks: np.ndarray, bands: RankBands) -> None:
    share = bands.below
    low, high = (limit / bands.count - share for limit in bands.limits(PROBABILITY))
    below = bands.numbers_below(ranks) / bands.count - share
    axis.fill_between(share, low, high, color="0.85", step="mid", linewidth=0)
    axis.step(share, below, where="mid", color="C0", linewidth=1.2)
    axis.set_title(name, fontsize=8)


CALIBRATED, NOT_CALIBRATED = "calibrated", "not calibrated"
# of a false alarm, over all quantities together
LEVEL = 0.01
MOST_PICTURES = 16


class Calibration:
    """Ranks of the true values among posterior draws, and what they say.

    Attributes
    ----------
    ranks
        DataFrame, one row per repetition, one column per quantity: 0, ..., L.
    table
        DataFrame, one row per quantity: p_value of uniform ranks, their mean (0.5) as a share of L,
        and what their shape means; the least uniform first.
    verdict
        "calibrated", or "not calibrated" where the smallest p-value, times the number of
        quantities, is below 0.01.
    sentences
        Why, and what failed on the way.
    failed
        What was wrong with repetitions that gave no ranks.

    """

    def __init__(
        self, ranks: pd.DataFrame, bands: RankBands, failed: list[str], short: int
    ) -> None:
        self.ranks, self._bands, self.failed = ranks, bands, failed
        found = {name: bands.judge(ranks[name].to_numpy()) for name in ranks}
        self.table = pd.DataFrame(
            {
                "p_value": {name: one.p_value for name, one in found.items()},
                "mean_rank": (ranks + 0.5).mean() / (bands.largest + 1),
                "shape": {name: one.shape for name, one in found.items()},
            }
        ).sort_values("p_value", kind="stable")
        flagged = self.table[self.table["p_value"] * len(self.table) < LEVEL]
        self.verdict = NOT_CALIBRATED if len(flagged) else CALIBRATED
        self.sentences = [*self._reasons(flagged), *self._doubts(short)]

    def _reasons(self, flagged: pd.DataFrame) -> list[str]:
        count, total = len(self.ranks), len(self.table)
        if not len(flagged):
            smallest = self.table["p_value"].iloc[0]
            return [
                f"The ranks of {total} quantities in {count} repetitions are as uniform as chance "
                f"has it (smallest p-value {smallest:.2g})."
            ]
        worst = [
            f"{name} (p = {row.p_value:.2g}{f', {row.shape}' if row.shape else ''})"
            for name, row in flagged.head(5).iterrows()
        ]
        return [
            f"The ranks of {len(flagged)} of {total} quantities are not uniform in {count} "
            f"repetitions: {'; '.join(worst)}. Program and generator disagree, or the sampler does "
            "not reach the posterior: repeat with another sampler to tell which."
        ]

    def _doubts(self, short: int) -> list[str]:
        doubts = []
        if self.failed:
            doubts.append(
                f"{len(self.failed)} repetitions gave no ranks, and those that did are then a "
                f"choice among data. The first: {self.failed[0]}"
            )
        if short:
            doubts.append(
                f"{short} repetitions had fewer effective draws than ranks ({self._bands.largest}) "
                "even after being made longer: their ranks crowd at the ends. Raise iter_sampling."
            )
        return doubts

    def __repr__(self) -> str:
        return "\n".join([f"Calibration: {self.verdict}", *self.sentences])

    def plot(self, path: str | PathLike | None = None) -> Any:
        """Draw, for each quantity, the ranks' distribution function minus the uniform, with band.

        The band holds the whole function with a probability of 95 % if ranks are uniform. Of many
        quantities, the 16 least uniform are drawn. path: where to save the picture, if anywhere.
        Returns a matplotlib Figure.
        """
        from stanadapt.studies.calibration.ranks import draw_ranks

        chosen = list(self.table.index[:MOST_PICTURES])
        figure = draw_ranks({str(n): self.ranks[n].to_numpy() for n in chosen}, self._bands)
        if path is not None:
            figure.savefig(Path(path))
        return figure
