"""The result of simulation-based calibration: ranks, a test of their uniformity, and its picture.

The ranks 0, ..., L of a true value among L draws of its posterior are uniform if sampler and
program are right. The number of ranks below k is then binomial for each k. A band contains the
whole distribution function with a given probability: its pointwise level is found by simulation, as
in Saeilynoja, Buerkner and Vehtari (2022), Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing
32.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from stanadapt.errors import Message, StanadaptError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# --- uniformity ----------------------------------------------------------------------------------

SIMULATIONS, SEED = 20_000, 2022
CLEAR = 2.5  # standard errors from which on a shape is named


class Uniformity(NamedTuple):
    """The uniformity of the ranks of one quantity."""

    # Share of uniform samples with a distribution function as far outside its pointwise quantiles.
    # If none of those simulated is, an upper bound of this probability, which may be below one over
    # the number of simulations: tests of many quantities need smaller p-values.
    p_value: float
    shape: str  # what the ranks imply for the posteriors; "" if they look uniform


class RankBands:
    """Bands for samples of `count` ranks 0, ..., `largest`."""

    def __init__(self, count: int, largest: int) -> None:
        self.count, self.largest = count, largest
        below = np.arange(1, largest + 1) / (largest + 1)  # P(rank < k), k = 1, ..., L
        numbers = np.arange(count + 1)
        lower = scipy.stats.binom.cdf(numbers, count, below[:, None])
        upper = scipy.stats.binom.sf(numbers - 1, count, below[:, None])
        self.below = below
        self._depth = np.minimum(1.0, 2.0 * np.minimum(lower, upper))
        rng = np.random.default_rng(SEED)
        simulated = rng.integers(0, largest + 1, (SIMULATIONS, count))
        self._depths = np.sort([self._smallest(ranks) for ranks in simulated])

    def numbers_below(self, ranks: np.ndarray) -> np.ndarray:
        """Count the ranks below k, for k = 1, ..., L."""
        return np.cumsum(np.bincount(ranks, minlength=self.largest + 1))[:-1]

    def _smallest(self, ranks: np.ndarray) -> float:
        return float(self._depth[np.arange(self.largest), self.numbers_below(ranks)].min())

    def limits(self, probability: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the limits of the numbers of ranks below k, all inside with this probability."""
        level = np.quantile(self._depths, 1.0 - probability) / 2.0
        low, high = (scipy.stats.binom.ppf(q, self.count, self.below) for q in (level, 1.0 - level))
        return low, high

    def judge(self, ranks: np.ndarray) -> Uniformity:
        """Test ranks of shape (count,)."""
        depth = self._smallest(ranks)
        reached = np.searchsorted(self._depths, depth, side="right")
        p_value = (1.0 + float(reached)) / (1.0 + SIMULATIONS)
        if not reached:
            # Bonferroni: each of the L pointwise tests rejects with at most this probability
            p_value = min(p_value, self.largest * depth)
        return Uniformity(p_value, self._shape(ranks))

    def _shape(self, ranks: np.ndarray) -> str:
        """Name the larger of the departures in location and in spread."""
        u = (ranks + 0.5) / (self.largest + 1)
        location = (u.mean() - 0.5) * np.sqrt(12 * self.count)
        spread = ((u - 0.5) ** 2).mean() - 1 / 12
        spread /= np.sqrt((1 / 80 - 1 / 144) / self.count)
        if max(abs(location), abs(spread)) < CLEAR:
            return ""
        if abs(location) >= abs(spread):
            return TOO_HIGH if location < 0 else TOO_LOW
        return TOO_NARROW if spread > 0 else TOO_WIDE


TOO_HIGH, TOO_LOW = "posteriors lie too high", "posteriors lie too low"
TOO_NARROW, TOO_WIDE = "posteriors are too narrow", "posteriors are too wide"

# --- the result ----------------------------------------------------------------------------------

CALIBRATED, NOT_CALIBRATED = "calibrated", "not calibrated"
LEVEL = 0.01  # probability of a false alarm over all quantities
MOST_NAMED = 5  # quantities that a message lists
MOST_PICTURES = 16


class Calibration:
    """Ranks of the true values among posterior draws, and the verdict on them.

    Attributes
    ----------
    ranks
        DataFrame, one row per simulation, one column per quantity: 0, ..., L.
    table
        DataFrame, one row per quantity, the least uniform first: p_value of uniform ranks, their
        mean as a share of L (0.5 if uniform), and the meaning of their shape.
    verdict
        "calibrated", or "not calibrated" if the smallest p-value, times the number of quantities,
        is below 0.01; or if it would be, had the simulations that failed the lowest or the highest
        ranks.
    messages
        The reasons of the verdict, and notes on failures: a list of `Message`.
    failed
        Reasons of the simulations that gave no ranks.
    seed
        The seed of the calibration.
    """

    def __init__(
        self, ranks: pd.DataFrame, bands: RankBands, failed: list[str], short: int, seed: int
    ) -> None:
        self.ranks, self._bands, self.failed, self.seed = ranks, bands, failed, seed
        tests = {name: bands.judge(ranks[name].to_numpy()) for name in ranks}
        self.table = pd.DataFrame(
            {
                "p_value": {name: test.p_value for name, test in tests.items()},
                "mean_rank": (ranks + 0.5).mean() / (bands.largest + 1),
                "shape": {name: test.shape for name, test in tests.items()},
            }
        ).sort_values("p_value", kind="stable")
        flagged = self.table[self.table["p_value"] * len(self.table) < LEVEL]
        self._undecided = not len(flagged) and bool(failed) and self._depends_on_failures()
        self.verdict = NOT_CALIBRATED if len(flagged) or self._undecided else CALIBRATED
        self.messages = [self._reason(flagged), *self._notes(short)]

    def _depends_on_failures(self) -> bool:
        """Whether ranks would not be uniform if all failed simulations were at one end of them."""
        lost, largest = len(self.failed), self._bands.largest
        bands = RankBands(len(self.ranks) + lost, largest)
        smallest = min(
            bands.judge(np.append(self.ranks[name], np.full(lost, end))).p_value
            for name in self.ranks
            for end in (0, largest)
        )
        return smallest * len(self.table) < LEVEL

    def _reason(self, flagged: pd.DataFrame) -> Message:
        count, total = len(self.ranks), len(self.table)
        if not len(flagged):
            smallest = self.table["p_value"].iloc[0]
            return Message(
                "uniform_ranks",
                f"The ranks of {total} quantities in {count} simulations are as uniform as chance "
                f"allows (smallest p-value {smallest:.2g}).",
            )
        worst = [
            f"{name} (p = {row.p_value:.2g}{f', {row.shape}' if row.shape else ''})"
            for name, row in flagged.head(MOST_NAMED).iterrows()
        ]
        return Message(
            "nonuniform_ranks",
            f"The ranks of {len(flagged)} of {total} quantities are not uniform in {count} "
            f"simulations: {'; '.join(worst)}. Either program and generator disagree, or the "
            "sampler does not reach the posterior: repeat with another sampler to find out.",
        )

    def _notes(self, short: int) -> list[Message]:
        notes = []
        if self.failed:
            text = (
                f"{len(self.failed)} simulations gave no ranks, so the others may not be "
                "representative"
                + (", and too many failed to call it calibrated" if self._undecided else "")
                + f". The first failure: {self.failed[0]}"
            )
            notes.append(Message("failed_simulations", text))
        if short:
            text = (
                f"{short} simulations had fewer effective draws than ranks ({self._bands.largest}) "
                "even after their runs were lengthened: too many of their ranks are at the ends. "
                "Raise iter_sampling."
            )
            notes.append(Message("correlated_ranks", text))
        return notes

    def __repr__(self) -> str:
        return "\n".join([f"Calibration: {self.verdict}", *self.messages])

    def plot(self, path: str | PathLike | None = None) -> Any:
        """Draw the distribution function of the ranks minus the uniform, a panel per quantity.

        The band contains the whole function with a probability of 95 % if ranks are uniform. The
        16 least uniform quantities are drawn.

        Parameters
        ----------
        path
            A file for the picture; default: none.

        Returns
        -------
        matplotlib Figure
        """
        names = list(self.table.index[:MOST_PICTURES])
        figure = draw_ranks({str(n): self.ranks[n].to_numpy() for n in names}, self._bands)
        if path is not None:
            figure.savefig(Path(path))
        return figure


# --- the picture ---------------------------------------------------------------------------------


def require_picture(path: Path) -> Path:
    """Return the path; StanadaptError, stage "settings", if its ending is no format of pictures."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() in formats:
        return path
    raise StanadaptError(
        "unknown_format",
        f"the picture {path} must end in one of {', '.join(f'.{name}' for name in formats)}.",
    )


PROBABILITY = 0.95  # that a band contains the whole function


def draw_ranks(ranks: Mapping[str, np.ndarray], bands: RankBands) -> "Figure":
    """Draw ranks by quantity, each of shape (count,), in panels with common axes."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = min(4, len(ranks))
    rows = -(-len(ranks) // columns)
    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(2.6 * columns, 2.2 * rows), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for axis, (name, values) in zip(axes, ranks.items(), strict=False):
            _draw_panel(axis, name, values, bands)
        for axis in axes[len(ranks) :]:
            axis.set_axis_off()
        figure.supxlabel("rank of the true value, as a share")
        figure.supylabel("share of ranks below, minus expected")
    return figure


def _draw_panel(axis: Any, name: str, ranks: np.ndarray, bands: RankBands) -> None:
    share = bands.below
    low, high = (limit / bands.count - share for limit in bands.limits(PROBABILITY))
    below = bands.numbers_below(ranks) / bands.count - share
    axis.fill_between(share, low, high, color="0.85", step="mid", linewidth=0)
    axis.step(share, below, where="mid", color="C0", linewidth=1.2)
    axis.set_title(name, fontsize=8)
