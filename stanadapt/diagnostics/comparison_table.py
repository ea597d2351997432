"""A comparison of fits on screen: as many columns as fit, no number cut, and remarks below."""

import html
import io
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from stanadapt.diagnostics.fitting_columns import show_columns

REASONS_SHOWN = 2  # per fit, below the table; all of them are in attrs


class Column(NamedTuple):
    """A column on screen: its title, how a number is written, and how soon it is left out."""

    title: str
    form: str
    rank: int


# in the order of display; where there is no room, the highest ranks are left out first, and where
# there is none for rank 0, fits stand below each other
COLUMNS = {
    "verdict": Column("verdict", "{}", 0),
    "size": Column("draws", "{}", 1),
    "ess_bulk_min": Column("min ESS", "{:,.0f}", 0),
    "ess_bulk_median": Column("median", "{:,.0f}", 11),
    "ess_tail_min": Column("tail ESS", "{:,.0f}", 5),
    "r_hat_max": Column("R-hat", "{:.3f}", 0),
    "seconds_warmup": Column("warm-up s", "{:.2f}", 7),
    "seconds_sampling": Column("sampling s", "{:.2f}", 8),
    "seconds_compile": Column("compile s", "{:.1f}", 12),
    "ess_per_second": Column("ESS/s", "{:,.0f}", 0),
    "gradients": Column("gradients", "{:,.0f}", 9),
    "ess_per_gradient": Column("ESS/grad", "{:.4f}", 2),
    "ess_at_budget": Column("equal cost", "{:,.0f}", 0),
    "failed": Column("failed", "{:,.0f}", 10),
    "z_mean": Column("z mean", "{:.1f}", 4),
    "z_sd": Column("z sd", "{:.1f}", 6),
    "missed": Column("missed", "{:.0%}", 3),
}
# what the remarks are made of: without it, a table is shown as any other frame
NEEDED = {"verdict", "sampler", "chains", "draws", "stopped_chains", "interrupted"}


class Comparison(pd.DataFrame):
    """A comparison as a data frame, which shows itself as a table with its remarks."""

    _shown_in = 0  # number of the cell or prompt at which `present` has shown it

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    @property
    def _is_whole(self) -> bool:
        return set(self.columns) >= NEEDED and set(self.attrs.get("reasons", ())) == {*self.index}

    def __repr__(self) -> str:
        return _as_text(self) if self._is_whole else super().__repr__()

    def _repr_html_(self) -> str | None:
        return _as_html(self) if self._is_whole else super()._repr_html_()

    def _ipython_display_(self) -> None:
        """Show it as the value of a cell, unless the same cell has shown it already."""
        if not self._shown_in or self._shown_in != _cell():
            present(self)


def present(table: Comparison) -> None:
    """Show a comparison: printed, or as HTML in a notebook."""
    if Console().is_jupyter:
        from IPython.display import display

        display({"text/html": table._repr_html_(), "text/plain": repr(table)}, raw=True)
    elif table._is_whole:
        show_table(table)
    else:
        print(table)
    table._shown_in = _cell()


def _cell() -> int:
    """Number of the cell or prompt that IPython is running; 0 elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell.execution_count if shell else 0


def _as_html(table: pd.DataFrame) -> str:
    shown = cells(table)
    head = "".join(f"<th>{html.escape(title)}</th>" for title in ["fit", *shown])
    rows = [[str(name), *row] for name, row in zip(table.index, _rows(shown), strict=True)]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in r)}</tr>" for r in rows)
    notes = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in remarks(table))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _as_text(table: pd.DataFrame) -> str:
    stream = io.StringIO()
    # in a notebook, rich would display what is printed to any stream
    plain: Any = {"force_terminal": True, "force_jupyter": False, "color_system": None}
    show_table(table, Console(file=stream, width=Console().width, **plain))
    return stream.getvalue().rstrip("\n")


def show_table(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a comparison, as wide as the console is, and the remarks on it."""
    console = console or Console(file=sys.stdout)
    ranks = {column.title: column.rank for column in COLUMNS.values()}
    show_columns("fit", [str(name) for name in table.index], cells(table), ranks, console)
    for sentence in remarks(table):
        console.print(sentence, highlight=False, markup=False)


def cells(table: pd.DataFrame) -> dict[str, list[str]]:
    """Text by title and fit, in the order of display; columns without a number are left out."""
    found = {}
    for name, (title, form, _) in COLUMNS.items():
        if name == "size":
            sizes = zip(table["chains"], table["draws"], strict=True)
            column = [f"{chains} x {draws:,}" for chains, draws in sizes]
        elif name in table:
            column = ["" if value != value else form.format(value) for value in table[name]]
        else:
            continue
        if any(column):
            found[title] = column
    return found


def _rows(shown: dict[str, list[str]]) -> Iterable[tuple[str, ...]]:
    return zip(*shown.values(), strict=True)


def remarks(table: pd.DataFrame) -> list[str]:
    """Sentences on what the numbers alone do not show."""
    messages = []
    chosen = table.attrs.get("baseline")
    if chosen is not None:
        engine = table.loc[chosen, "sampler"]
        shared = ", which shares our density" if table.attrs["baseline_is_ours"] else ""
        messages.append(
            f"z: largest difference from {chosen} ({engine}{shared}) in joint Monte Carlo "
            "standard errors."
        )
    messages += table.attrs.get("budget", []) + table.attrs.get("trajectories", [])
    messages += table.attrs.get("density", []) + table.attrs.get("missed", [])
    for name, row in table.iterrows():
        messages += _remarks_on(name, row, table.attrs)
    return messages


def _remarks_on(name: Any, row: pd.Series, attrs: dict) -> list[str]:
    found = []
    reasons = attrs["reasons"][name]
    if reasons:  # a fit that is fine may have one too: the maximum tree depth
        more = len(reasons) - REASONS_SHOWN
        rest = f" {more} more: see diagnose." if more > 0 else ""
        shown = " ".join(reasons[:REASONS_SHOWN])
        found.append(f"{name}: {row['verdict']}. {shown}{rest}")
    count = attrs["separate_regions"].get(name, 1)
    if count > 1:
        found.append(f"{name}: its chains lie in {count} separate regions.")
    if row["interrupted"] == 1:
        found.append(f"{name}: interrupted; {row['draws']} draws per chain.")
    if row["stopped_chains"] > 0:
        found.append(f"{name}: failed chains, left out: {np.int64(row['stopped_chains'])}.")
    return found
