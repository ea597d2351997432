"""Columns on screen: as many as fit, no number cut; where none do, a block per row."""

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
