"""A comparison of fits on screen: as many columns as fit, no number cut, and remarks below.

Columns on screen: as many as fit, no number cut; where none do, a block per row.
"""

import html
import io
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 160  # a pipe has no width: long lines are better than broken words
GAP = 2  # blanks between columns


def show_columns(
    head: str,
    names: list[str],
    shown: dict[str, list[str]],
    ranks: dict[str, int],
    console: Console,
) -> None:
    """Print rows by name, under a title of their own, `head`.

    Parameters
    ----------
    shown
        Text by title and row, in the order of display. A cell may have several lines.
    ranks
        By title: where there is no room, the highest are left out first, and where there is none
        for rank 0, rows stand below each other.

    """
    first = [head, *names]
    if not console.is_terminal:
        console.width = max(PIPE_WIDTH, _width(first, shown))
    kept = fitting(first, shown, console.width, ranks)
    if kept is None:
        _show_blocks(names, shown, console)
        return
    printed = Table(box=None, header_style="bold", padding=(0, GAP, 0, 0), pad_edge=False)
    for title in (head, *kept):
        printed.add_column(Text(title), justify="left" if title == head else "right")
    for name, row in zip(names, zip(*kept.values(), strict=True), strict=True):
        printed.add_row(*(Text(cell) for cell in (name, *row)))
    console.print(printed)
    left_out = [title for title in shown if title not in kept]
    if left_out:
        console.print(f"no room for: {', '.join(left_out)}", style="dim", highlight=False)


def _show_blocks(names: list[str], shown: dict[str, list[str]], console: Console) -> None:
    """One block per row, one line per number."""
    width = max(len(title) for title in shown)
    for i, name in enumerate(names):
        console.print(name, style="bold", markup=False, highlight=False)
        for title, column in shown.items():
            cell = " ".join(column[i].splitlines())
            console.print(f"  {title:<{width}}  {cell}", markup=False, highlight=False)


def _width(names: list[str], shown: dict[str, list[str]]) -> int:
    columns = [names, *([title, *column] for title, column in shown.items())]
    return sum(max(map(_length, column)) + GAP for column in columns)


def _length(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def fitting(
    names: list[str], shown: dict[str, list[str]], width: int, ranks: dict[str, int]
) -> dict[str, list[str]] | None:
    """The columns that fit into a width, or None where not even those of rank 0 do."""
    kept = dict(shown)
    for title in sorted(shown, key=lambda title: -ranks.get(title, 0)):
        if _width(names, kept) <= width:
            return kept
        if not ranks.get(title, 0):
            return None
        del kept[title]
    return kept if _width(names, kept) <= width else None


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
# of fits that are not exact: what they cost per effective draw is beside the point
BIASED_COLUMNS = {
    "verdict": COLUMNS["verdict"],
    "size": COLUMNS["size"],
    "r_hat_max": COLUMNS["r_hat_max"],
    "bias_mean": Column("bias mean", "{:.3f}", 0),
    "z_mean": COLUMNS["z_mean"]._replace(rank=0),
    "bias_sd": Column("bias sd", "{:.1%}", 0),
    "z_sd": COLUMNS["z_sd"]._replace(rank=0),
    "missed": COLUMNS["missed"],
    "seconds_warmup": COLUMNS["seconds_warmup"],
    "seconds_sampling": COLUMNS["seconds_sampling"],
    "seconds_compile": COLUMNS["seconds_compile"],
    "gradients": COLUMNS["gradients"],
    "failed": COLUMNS["failed"],
}
# what the remarks are made of: without it, a table is shown as any other frame
NEEDED = {"verdict", "sampler", "exact", "chains", "draws", "stopped_chains", "interrupted"}


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
    found = "".join(_part_as_html(*part) for part in parts(table))
    return found + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in remarks(table))


def _part_as_html(title: str, part: pd.DataFrame, columns: dict[str, Column]) -> str:
    shown = cells(part, columns)
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in [title, *shown])
    rows = [[str(name), *row] for name, row in zip(part.index, _rows(shown), strict=True)]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in r)}</tr>" for r in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _as_text(table: pd.DataFrame) -> str:
    stream = io.StringIO()
    # in a notebook, rich would display what is printed to any stream
    plain: Any = {"force_terminal": True, "force_jupyter": False, "color_system": None}
    show_table(table, Console(file=stream, width=Console().width, **plain))
    return stream.getvalue().rstrip("\n")


def show_table(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a comparison, as wide as the console is, and the remarks on it."""
    console = console or Console(file=sys.stdout)
    for title, part, columns in parts(table):
        ranks = {column.title: column.rank for column in columns.values()}
        names = [str(name) for name in part.index]
        show_columns(title, names, cells(part, columns), ranks, console)
    for sentence in remarks(table):
        console.print(sentence, highlight=False, markup=False)


def parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, dict[str, Column]]]:
    """Title, fits and columns of the parts in which a table is shown: exact fits, and others."""
    exact = table["exact"].astype(bool)
    found = [("fit", table[exact], COLUMNS), ("not exact", table[~exact], BIASED_COLUMNS)]
    return [part for part in found if len(part[1])]


def cells(table: pd.DataFrame, columns: dict[str, Column] | None = None) -> dict[str, list[str]]:
    """Text by title and fit, in the order of display; columns without a number are left out."""
    found = {}
    for name, (title, form, _) in (columns or COLUMNS).items():
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
    messages += _on_bias(table, chosen)
    messages += table.attrs.get("budget", []) + table.attrs.get("trajectories", [])
    messages += table.attrs.get("density", [])
    for name, missed in table.attrs.get("missed", {}).items():
        messages += [f"{name}: {text}" for text in missed]
    for name, row in table.iterrows():
        messages += _remarks_on(name, row, table.attrs)
    return messages


def _on_bias(table: pd.DataFrame, baseline: Any) -> list[str]:
    """How to read the part of fits that are not exact; that the baseline itself is not."""
    biased = [str(name) for name in table.index[~table["exact"].astype(bool)]]
    if not biased:
        return []
    if baseline is None:
        return [
            f"not exact: {', '.join(biased)}. How large the bias is only a comparison with an "
            "exact fit tells: name one as baseline."
        ]
    if not table.loc[baseline, "exact"]:
        return [f"{baseline}, the baseline, is not exact: differences from it may be its own bias."]
    return [
        f"not exact: bias mean is the largest difference from {baseline} in its standard "
        "deviations, bias sd the largest relative difference of standard deviations; with z below "
        "about 4, either may be chance."
    ]


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
