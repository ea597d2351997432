"""Print tables: as many columns as fit, complete numbers, and texts below.

If not even the most important columns fit side by side, each row gets a block of lines.
"""

import html
import io
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

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
    justify: Any = "right",
) -> None:
    """Print rows by name, under the title `head` of the column of names.

    `shown` has the cells by title of their column, in the order of display; a cell may have several
    lines. Without room for all columns, those of the highest rank in `ranks` are left out first;
    without room for all of rank 0, rows are printed below each other.
    """
    first = [head, *names]
    if not console.is_terminal:
        console.width = max(PIPE_WIDTH, _width(first, shown))
    selected = select_columns(first, shown, console.width, ranks)
    if selected is None:
        _show_blocks(names, shown, console)
        return
    printed = Table(box=None, header_style="bold", padding=(0, GAP, 0, 0), pad_edge=False)
    for title in (head, *selected):
        printed.add_column(Text(title), justify="left" if title == head else justify)
    for name, row in zip(names, zip(*selected.values(), strict=True), strict=True):
        printed.add_row(*(Text(cell) for cell in (name, *row)))
    console.print(printed)
    left_out = [title for title in shown if title not in selected]
    if left_out:
        console.print(f"no room for: {', '.join(left_out)}", style="dim", highlight=False)


def _show_blocks(names: list[str], shown: dict[str, list[str]], console: Console) -> None:
    """Print one block per row, one line per number."""
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


def select_columns(
    names: list[str], shown: dict[str, list[str]], width: int, ranks: dict[str, int]
) -> dict[str, list[str]] | None:
    """Return the columns that fit into a width, or None if not even those of rank 0 do."""
    selected = dict(shown)
    for title in sorted(shown, key=lambda title: -ranks.get(title, 0)):
        if _width(names, selected) <= width:
            return selected
        if not ranks.get(title, 0):
            return None
        del selected[title]
    return selected if _width(names, selected) <= width else None


def html_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in HTML; titles and cells are plain text."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def plain_console() -> tuple[Console, io.StringIO]:
    """Return a console without colors that writes into a string, as wide as the terminal.

    Without a terminal, lines are long; the environment variable COLUMNS sets their length.
    """
    stream, terminal = io.StringIO(), Console(force_jupyter=False)
    wide = not terminal.is_terminal and "COLUMNS" not in os.environ
    # in a notebook, rich would display text that is printed to any stream
    plain: Any = {"force_terminal": not wide, "force_jupyter": False, "color_system": None}
    return Console(file=stream, width=PIPE_WIDTH if wide else terminal.width, **plain), stream


class PrintedTable(NamedTuple):
    """Rows by name, for text and HTML: as for `show_columns`."""

    head: str
    names: list[str]
    shown: dict[str, list[str]]
    ranks: dict[str, int]

    def as_html(self) -> str:
        rows = zip(self.names, *self.shown.values(), strict=True)
        lines = ([" ".join(cell.split("\n")) for cell in row] for row in rows)
        return html_table([self.head, *self.shown], lines)


class Printed(NamedTuple):
    """Tables, and texts below and above."""

    tables: list[PrintedTable]
    below: Iterable[str] = ()
    above: Iterable[str] = ()

    def show(self, console: Console) -> None:
        """Print as wide as the console is."""
        print_texts(self.above, console)
        for table in self.tables:
            show_columns(*table, console)
        print_texts(self.below, console)

    def as_text(self) -> str:
        """Return the text, as wide as the terminal."""
        console, stream = plain_console()
        self.show(console)
        return stream.getvalue().rstrip("\n")

    def as_html(self) -> str:
        tables = "".join(table.as_html() for table in self.tables)
        return html_paragraphs(self.above) + tables + html_paragraphs(self.below)


class PrintedFrame(pd.DataFrame):
    """A data frame that prints as a table with texts below; parts of it are ordinary frames."""

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def copy(self, deep: bool = True) -> Any:
        """Return a copy of the whole frame, which prints as it does; pandas' own are ordinary."""
        copied = super().copy(deep)
        return type(self)(copied).__finalize__(self) if deep else copied

    @property
    def _is_complete(self) -> bool:
        """Whether the frame has all printed columns; if not, it prints as an ordinary frame."""
        return True

    def _printed(self) -> Printed:
        """The printed parts of a complete frame."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._printed().as_text() if self._is_complete else super().__repr__()

    def _repr_html_(self) -> str | None:
        return self._printed().as_html() if self._is_complete else super()._repr_html_()


def print_texts(texts: Iterable[str], console: Console) -> None:
    for text in texts:
        console.print(text, highlight=False, markup=False)
