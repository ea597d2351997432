"""What simulation-based calibration found: ranks, a verdict, pictures."""

from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from stanadapt.studies.calibration.uniform_ranks import RankBands

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
        from stanadapt.studies.calibration.rank_picture import draw_ranks

        chosen = list(self.table.index[:MOST_PICTURES])
        figure = draw_ranks({str(n): self.ranks[n].to_numpy() for n in chosen}, self._bands)
        if path is not None:
            figure.savefig(Path(path))
        return figure
