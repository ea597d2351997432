"""A comparison of fits on screen: as many columns as fit, no number cut, and remarks below."""

import html
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

REASONS_SHOWN = 2  # per fit, below the table; all of them are in attrs
PIPE_WIDTH = 160  # a pipe has no width: long lines are better than broken words
GAP = 2  # blanks between columns


class Column(NamedTuple):
    """A column on screen: its title, how a number is written, and how soon it is left out."""

    title: str
    form: str
    rank: int


# in the order of display; where there is no room, the highest ranks are left out first, and where
# there is none for rank 0, fits stand below each other
COLUMNS = {
    "verdict": Column("verdict", "{}", 0),
    "size": Column("draws", "{}", 2),
    "ess_bulk_min": Column("min ESS", "{:,.0f}", 0),
    "ess_bulk_median": Column("median", "{:,.0f}", 10),
    "ess_tail_min": Column("tail ESS", "{:,.0f}", 4),
    "r_hat_max": Column("R-hat", "{:.3f}", 0),
    "seconds_warmup": Column("warm-up s", "{:.2f}", 6),
    "seconds_sampling": Column("sampling s", "{:.2f}", 7),
    "seconds_compile": Column("compile s", "{:.1f}", 11),
    "ess_per_second": Column("ESS/s", "{:,.0f}", 0),
    "gradients": Column("gradients", "{:,.0f}", 8),
    "ess_per_gradient": Column("ESS/grad", "{:.4f}", 1),
    "ess_at_budget": Column("", "{:,.0f}", 0),
    "failed": Column("failed", "{:,.0f}", 9),
    "z_mean": Column("z mean", "{:.1f}", 3),
    "z_sd": Column("z sd", "{:.1f}", 5),
    "missed": Column("missed", "{:.0%}", 2),
}


class Comparison(pd.DataFrame):
    """A comparison as a data frame; in a notebook it shows itself with its remarks."""

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        shown = cells(self)
        head = "".join(f"<th>{html.escape(title)}</th>" for title in ["fit", *shown])
        rows = [[str(name), *row] for name, row in zip(self.index, _rows(shown), strict=True)]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in r)}</tr>" for r in rows)
        notes = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in remarks(self))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def show_table(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a comparison, as wide as the console is, and the remarks on it."""
    console = console or Console(file=sys.stdout)
    shown = cells(table)
    names = ["fit", *(str(name) for name in table.index)]
    if not console.is_terminal:
        console.width = max(PIPE_WIDTH, _width(names, shown))
    kept = fitting(names, shown, console.width)
    if kept is None:
        _show_blocks(names[1:], shown, console)
    else:
        printed = Table(box=None, header_style="bold", padding=(0, GAP, 0, 0), pad_edge=False)
        for title in ("fit", *kept):
            printed.add_column(Text(title), justify="left" if title == "fit" else "right")
        for name, row in zip(names[1:], _rows(kept), strict=True):
            printed.add_row(*(Text(cell) for cell in (name, *row)))
        console.print(printed)
        left_out = [title for title in shown if title not in kept]
        if left_out:
            console.print(f"no room for: {', '.join(left_out)}", style="dim", highlight=False)
    for sentence in remarks(table):
        console.print(sentence, highlight=False, markup=False)


def _show_blocks(names: list[str], shown: dict[str, list[str]], console: Console) -> None:
    """One block per fit, one line per number."""
    width = max(len(title) for title in shown)
    for i, name in enumerate(names):
        console.print(name, style="bold", markup=False, highlight=False)
        for title, column in shown.items():
            console.print(f"  {title:<{width}}  {column[i]}", markup=False, highlight=False)


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
            found[table.attrs.get("titles", {}).get(name, title)] = column
    return found


def _rows(shown: dict[str, list[str]]) -> Iterable[tuple[str, ...]]:
    return zip(*shown.values(), strict=True)


def _width(names: list[str], shown: dict[str, list[str]]) -> int:
    columns = [names, *([title, *column] for title, column in shown.items())]
    return sum(max(len(cell) for cell in column) + GAP for column in columns)


def fitting(
    names: list[str], shown: dict[str, list[str]], width: int
) -> dict[str, list[str]] | None:
    """The columns that fit into a width, or None where not even those of rank 0 do."""
    ranks = {column.title: column.rank for column in COLUMNS.values()}
    kept = dict(shown)
    for title in sorted(shown, key=lambda title: -ranks.get(title, 0)):
        if _width(names, kept) <= width:
            return kept
        if not ranks.get(title, 0):
            return None
        del kept[title]
    return kept if _width(names, kept) <= width else None


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
