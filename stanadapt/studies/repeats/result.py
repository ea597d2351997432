"""The result of a repeated comparison: a tidy table, its summary, and ways to show both."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from stanadapt.results import write_text
from stanadapt.studies.repeats.page import repeats_page
from stanadapt.studies.repeats.picture import draw_repeats
from stanadapt.studies.repeats.summary import describe, summarize
from stanadapt.studies.repeats.table import printed_summary, to_latex


class RepeatedComparison:
    """Several samplers on one or more targets, each with several seeds.

    It shows itself as its summary: no number is cut, and columns without room are named below.

    Attributes
    ----------
    rows
        DataFrame, one row per target, sampler and repeat (1, 2, ...): seed, verdict with its
        reasons, failure as text ("" if there is a fit), chains, draws, and measures under the
        names of the table of `compare`; `wall_seconds` is the wall time from call to result
        without compilation, `seconds` the time of warm-up and sampling, summed over chains.
    summary
        DataFrame, one row per sampler, indexed by (target, sampler) if there are several targets:
        the numbers of repeats `asked` for, those with a fit (`repeats`), `failed` and `fine`; the
        median of each measure, and as *_low and *_high the interval that the column `interval`
        names: the central 80%, from the 10th to the 90th percentile, or the range if fewer than
        five repeats gave a fit.
    messages
        The kind of interval, failures and doubtful fits: a list of `Message`.
    origin
        Versions, hashes of program and data, settings, seeds: as in the JSON file.
    interrupted
        Whether Ctrl-C ended the comparison.
    """

    def __init__(
        self,
        rows: pd.DataFrame,
        origin: dict[str, Any],
        samplers: list[str],
        repeats: int,
        interrupted: bool,
        targets: Sequence[str] = (),
    ) -> None:
        self.rows, self.origin, self.interrupted = rows, origin, interrupted
        self.summary = summarize(rows, samplers, repeats, targets)
        self.messages = describe(rows, self.summary)

    def __repr__(self) -> str:
        return printed_summary(self.summary, self.messages).as_text()

    def _repr_html_(self) -> str:
        return printed_summary(self.summary, self.messages).as_html()

    def to_latex(self) -> str:
        """Return the summary as a tabular for the LaTeX package booktabs."""
        return to_latex(self.summary, [*self._heading(), *self.messages])

    def plot(self) -> Any:
        """Return a matplotlib Figure: medians as dots with their intervals, on a log scale.

        It shows the effective sample size per second and per gradient. Faint dots are the repeats,
        and a hollow median has repeats that are not fine.
        """
        return draw_repeats(self.rows, self.summary)

    def report(self, path: str | PathLike, *, command: str = "") -> Path:
        """Write recommendation, table, picture, problems and origin as one HTML file.

        Parameters
        ----------
        path
            The file.
        command
            The command that made the comparison, to be shown; "" from Python.
        """
        content = repeats_page(self.rows, self.summary, self._heading(), command, self.origin)
        return write_text(path, content)

    def _heading(self) -> list[str]:
        targets, versions = self.origin["targets"], self.origin["versions"]
        if isinstance(self.summary.index, pd.MultiIndex):
            summarized = {target for target, _ in self.summary.index}
            targets = {name: one for name, one in targets.items() if name in summarized}
        return [
            *(
                f"{name}: {one['model']} (program {one['program_hash']}, data {one['data_hash']})"
                for name, one in targets.items()
            ),
            f"stanadapt {versions['stanadapt']}; seed {self.origin['settings']['seed']}",
        ]
