"""What repeats of a comparison found: a tidy table, and its summary."""

import io
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from stanadapt.results import write_text
from stanadapt.studies.repeats.page import repeats_page
from stanadapt.studies.repeats.picture import draw_repeats
from stanadapt.studies.repeats.summary import sentences, summarize
from stanadapt.studies.repeats.table import show_summary, to_latex


class RepeatedComparison:
    """Several samplers on one or more targets, each with several seeds.

    Attributes
    ----------
    rows
        DataFrame, one row per target, sampler and repeat (1, 2, ...): seed, verdict with its
        reasons, failure in words ("" if there is a fit), chains, draws, and measures under the
        names that the table of `compare` has; `wall_seconds` are those of the clock from
        call to result, compilation excluded, `seconds` those of warm-up and sampling, summed over
        chains.
    summary
        DataFrame, one row per sampler, indexed by (target, sampler) where there are several
        targets: how many repeats were asked for, gave a fit (`repeats`),
        failed, are fine; the median of each measure, and as *_low and *_high the interval that the
        column `interval` names: the central 80 %, from the 10th to the 90th percentile, or the
        smallest and largest where fewer than five repeats gave a fit.
    sentences
        Which interval it is, and what failed or is doubtful.
    origin
        Versions, hashes of program and data, settings, seeds: as in the JSON file.
    interrupted
        Whether it was ended by Ctrl-C.

    """

    def __init__(
        self, rows: pd.DataFrame, origin: dict[str, Any], samplers: list[str], repeats: int,
        interrupted: bool, targets: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.rows, self.origin, self.interrupted = rows, origin, interrupted
        self.summary = summarize(rows, samplers, repeats, targets)
        self.sentences = sentences(rows, self.summary)

    def __repr__(self) -> str:
        stream = io.StringIO()
        # in a notebook, rich would display what is printed to any stream
        plain: Any = {"force_terminal": True, "force_jupyter": False, "color_system": None}
        self.show(Console(file=stream, width=Console().width, **plain))
        return stream.getvalue().rstrip("\n")

    def show(self, console: Console | None = None) -> None:
        """Print the summary: no number is cut, columns without room are named below."""
        show_summary(self.summary, self.sentences, console)

    def to_latex(self) -> str:
        """Return the summary as a tabular, for the LaTeX package booktabs."""
        return to_latex(self.summary, [*self._heading(), *self.sentences])

    def plot(self) -> Any:
        """Return a matplotlib Figure: medians as dots with their intervals, on a log scale.

        Effective sample size per second and per gradient; faint dots are the repeats, and a
        hollow median means that not all of these are fine.
        """
        return draw_repeats(self.rows, self.summary)

    def report(self, path: str | PathLike, *, command: str = "") -> Path:
        """Write which sampler, table, picture, problems and origin as one HTML file."""
        content = repeats_page(self.rows, self.summary, self._heading(), command, self.origin)
        return write_text(path, content)

    def _heading(self) -> list[str]:
        targets, versions = self.origin["targets"], self.origin["versions"]
        named = (
            {}
            if not isinstance(self.summary.index, pd.MultiIndex)
            else {key[0]: None for key in self.summary.index}
        )
        shown = [name for name in targets if not named or name in named]
        return [
            *(
                f"{name}: {targets[name]['model']} (program {targets[name]['program_hash']}, data "
                f"{targets[name]['data_hash']})"
                for name in shown
            ),
            f"stanadapt {versions['stanadapt']}; seed {self.origin['settings']['seed']}",
        ]
