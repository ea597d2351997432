"""What a paper gives the page: its tables, figures and items.

A paper's folder has a module `section` with a function `section()`; `page.PAPERS` lists them.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from workflows.reproduction import markdown
from workflows.reproduction.recorded import Run

# of an item of a source: it works; a part of it is missing; it is missing; it is only mentioned
STATUSES = ("works", "partly", "missing", "mention")


class Item(NamedTuple):
    """A formula, table, figure or claim of a source; `reason` says what a partly lacks."""

    number: int
    item: str
    status: str
    where: str
    reason: str


class TableOfResults(NamedTuple):
    """A table: its title, its text as Markdown, and the class of each row."""

    title: str
    text: str
    classes: list[str]

    @classmethod
    def of(
        cls, title: str, header: Sequence[str], rows: Iterable[Sequence[str]],
        note: str = "", below: Sequence[str] = (), classes: Sequence[str] = (),
    ) -> "TableOfResults":  # fmt: skip
        """Make a table of cells, with texts above and below it."""
        texts = [*filter(None, [note]), markdown.table(header, rows), *below]
        return cls(title, "\n\n".join(texts), list(classes))


class Drawing(NamedTuple):
    """A figure: its file's name, caption, and a function that draws it into a folder."""

    name: str
    title: str
    caption: str
    draw: Callable[[Path], object]


class Section(NamedTuple):
    """One paper on the page."""

    title: str
    introduction: str
    tables: list[TableOfResults]
    figures: list[Drawing]
    items: list[Item]
    runs: list[Run]


def items(path: Path) -> list[Item]:
    """Read the items of a source from a CSV file with the columns of `Item`."""
    with path.open(encoding="utf-8", newline="") as file:
        return [Item(**{**line, "number": int(line["number"])}) for line in csv.DictReader(file)]
