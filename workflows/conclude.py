"""The end of a workflow: tables on the screen and in files, with the settings next to them."""

import argparse
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console
from rich.table import Table

from workflows import record

QUICK_NOTE = "quick run: too short for its numbers to mean anything."
LEFT = ("method", "from")  # columns that are justified to the left


def text_table(lines: list[dict[str, str]]) -> pd.DataFrame:
    """Return rows as a table, with the columns, and their order, of the row that has most."""
    return pd.DataFrame(lines, columns=list(max(lines, key=len))).fillna("")


def markdown_table(text: pd.DataFrame, left: int | None = None) -> str:
    """Write a table of text in Markdown; columns after the first `left` are justified right."""
    count = text.shape[1]
    marks = ["---"] * (count if left is None else left)
    cells = [list(text.columns), [*marks, *["---:"] * (count - len(marks))], *text.to_numpy()]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def show(
    title: str | None, text: pd.DataFrame, left: Collection[str] = LEFT, width: int = 180
) -> None:
    """Print a table of text, the columns `left` to the left; rows not from here are dim."""
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = width  # a pipe has no width: long lines are better than broken words
    shown = Table(title=title, box=None, header_style="bold")
    for heading in text:
        shown.add_column(heading, justify="left" if heading in left else "right")
    for _, line in text.iterrows():
        shown.add_row(*line, style=None if line.get("from", "here") == "here" else "dim")
    console.print(shown)


class Results(NamedTuple):
    """The results of a workflow.

    sections
        Tables of text by title.
    parts
        Every chain in full precision, in tables to be joined.
    notes, figures
        Messages for the reader; files that are already written.
    """

    sections: dict[str, pd.DataFrame]
    parts: list[pd.DataFrame]
    notes: list[str]
    figures: list[Path]


def conclude(
    name: str, args: argparse.Namespace, results: Results, caption: str, began: float
) -> None:
    """Print the tables, write them and the settings, and print the names of the files."""
    if not results.parts:
        message = "No method was finished: nothing was written."
        raise SystemExit("\n".join([*results.notes, message]))
    folder, stem = record.folder(name, args.out), name.rpartition("/")[2]
    notes = [QUICK_NOTE] * args.quick + results.notes
    for title, text in results.sections.items():
        show(title, text)
    paths = [folder / f"{stem}.csv", folder / f"{stem}.md"]
    pd.concat(results.parts, ignore_index=True).to_csv(paths[0], index=False)
    text = _markdown(name, results.sections, caption, notes)
    paths[1].write_text(text, encoding="utf-8")
    settings = {**vars(args), "caption": caption, "notes": notes}
    finish(folder / f"{stem}.json", settings, [*paths, *results.figures], began)


def finish(record_file: Path, settings: dict[str, Any], paths: list[Path], began: float) -> None:
    """Write settings and seconds; print the caption and notes among them, and all files."""
    settings = {**settings, "seconds_in_all": time.perf_counter() - began}
    lines = [settings["caption"], *settings.get("notes", ()), "Written:"]
    paths = [*paths, record.write_settings(record_file, settings)]
    print("\n".join([*lines, *(f"  {path}" for path in paths)]))


def _markdown(name: str, sections: dict[str, pd.DataFrame], caption: str, notes: list[str]) -> str:
    parts = [f"# {name}", caption]
    for title, text in sections.items():
        parts += [f"## {title}", markdown_table(text)]
    parts += ["## Notes", "\n".join(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(parts) + "\n"
