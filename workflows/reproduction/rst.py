"""Pieces of reStructuredText: headings, tables, images. Cells are text in that markup."""

import textwrap
from collections.abc import Iterable, Sequence


def heading(title: str, line: str = "-") -> str:
    """Return a heading, underlined."""
    return f"{title}\n{line * len(title)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Return a table; `widths` are shares."""
    lines = [_row(header), *(_row(row) for row in rows)]
    shares = " ".join(map(str, widths))
    options = f".. list-table::\n   :header-rows: 1\n   :widths: {shares}\n"
    return f"{options}\n{textwrap.indent(chr(10).join(lines), '   ')}"


def _row(cells: Sequence[str]) -> str:
    return "* - " + "\n  - ".join(cell.replace("\n", "\n    ") for cell in cells)


def lines(*parts: str) -> str:
    """Return a cell of several lines."""
    return "\n".join(f"| {part}" for part in parts)


def plain(text: str) -> str:
    """Return text that is no markup: a bar would refer to a substitution."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*")


def image(path: str, alternative: str) -> str:
    """Return an image with the text for those who cannot see it."""
    return f".. image:: {path}\n   :alt: {' '.join(alternative.split())}"


def number(value: float) -> str:
    """Write a number with about three digits; NaN is a dash."""
    if value != value:
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"


def share(value: float) -> str:
    """Write a share in percent; NaN is a dash."""
    return "–" if value != value else f"{100 * value:.0f} %"


def rate(value: float) -> str:
    """Write an acceptance rate."""
    return "–" if value != value else f"{value:.3f}"
