"""Pieces of Markdown: headings, tables, images. Cells are text in that markup."""

from collections.abc import Iterable, Sequence


def heading(title: str, level: int = 2) -> str:
    """Return a heading."""
    return f"{'#' * level} {title}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Lines of a cell are joined."""
    lines = [_row(header), "|---" * len(header) + "|", *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


def lines(*parts: str) -> str:
    """Return a cell of several lines."""
    return "<br>".join(parts)


def plain(text: str) -> str:
    """Return text that is no markup."""
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("<", "\\<")


def image(path: str, alternative: str) -> str:
    """Return an image with the text for those who cannot see it."""
    return f"![{' '.join(alternative.split())}]({path})"


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
