"""The summary of repeats as text, HTML and LaTeX."""

import numpy as np
import pandas as pd

from stanadapt.diagnostics import printed_tables
from stanadapt.diagnostics.comparison_table import Column
from stanadapt.errors import Message
from stanadapt.studies.repeats.summary import labels

# in the order of display; the form "" stands for three digits
COLUMNS = {
    "fine": Column("fine", "", 0),
    "size": Column("draws", "", 5),
    "ess_bulk_min": Column("bulk ESS", "", 1),
    "ess_per_second": Column("ESS/s", "", 0),
    "ess_per_gradient": Column("ESS/grad", "", 2),
    "r_hat_max": Column("R-hat", "{:.3f}", 3),
    "wall_seconds": Column("wall s", "", 4),
    "error_mean": Column("mean error", "{:.2g}", 2),
    "error_sd": Column("sd error", "{:.2g}", 3),
}
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "%": r"\%", "&": r"\&",
    "#": r"\#", "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def printed_summary(summary: pd.DataFrame, messages: list[Message]) -> printed_tables.Printed:
    """Return a summary for text and HTML, with messages below."""
    ranks = {column.title: column.rank for column in COLUMNS.values()}
    shown = {
        title: ["\n".join(cell) for cell in column] for title, column in cells(summary).items()
    }
    head = ": ".join(summary.index.names)
    table = printed_tables.PrintedTable(head, labels(summary), shown, ranks)
    return printed_tables.Printed([table], messages)


def cells(summary: pd.DataFrame) -> dict[str, list[list[str]]]:
    """Return the lines of each cell, by the title of its column; empty columns are left out.

    They have medians, and intervals that have a length.
    """
    found = {}
    for name, (title, form, _) in COLUMNS.items():
        if name == "fine":
            counts = zip(summary["fine"], summary["asked"], strict=True)
            column = [[f"{fine} of {asked}"] for fine, asked in counts]
        elif name == "size":
            sizes = zip(summary["chains"], summary["draws"], strict=True)
            column = [[f"{c:.0f} x {n:,.0f}" if c == c else ""] for c, n in sizes]
        else:
            ends = (summary[f"{name}_low"], summary[f"{name}_high"])
            column = [_spread(*line, form) for line in zip(summary[name], *ends, strict=True)]
        if any(any(cell) for cell in column) or name in ("fine", "size"):
            found[title] = column
    return found


def _spread(middle: float, low: float, high: float, form: str) -> list[str]:
    if np.isnan(middle):
        return [""]
    middle_text, low_text, high_text = (_number(x, form) for x in (middle, low, high))
    return [middle_text] if low_text == high_text else [middle_text, f"{low_text}–{high_text}"]


def _number(value: float, form: str) -> str:
    """Write a number with three digits, and all digits before the point."""
    if form:
        return form.format(value)
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def to_latex(summary: pd.DataFrame, heading: list[str]) -> str:
    r"""Return a tabular for the package booktabs; heading: lines of comments above it."""
    columns, heads = cells(summary), list(summary.index.names)
    lines = [f"% {' '.join(line.split())}" for line in heading]
    lines += [
        r"% \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{'l' * len(heads)}{'r' * len(columns)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, [*heads, *columns])) + r" \\",
        r"\midrule",
    ]
    last = None
    for i, key in enumerate(summary.index):
        names = list(key) if isinstance(key, tuple) else [str(key)]
        if len(names) > 1 and last is not None:
            lines += [r"\addlinespace"] if names[0] != last else []
        shown = [*("" if name == last else name for name in names[:-1]), names[-1]]
        last = names[0]
        row = [*map(escape_latex, shown), *(_in_latex(column[i]) for column in columns.values())]
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _in_latex(cell: list[str]) -> str:
    middle, *interval = (_powers(text).replace(" x ", r" $\times$ ") for text in cell)
    return f"{middle} ({interval[0].replace('–', '--')})" if interval else middle


def _powers(text: str) -> str:
    """Write 1.5e-05 as a power of ten, at either end of an interval."""
    ends = []
    for end in text.split("–"):
        digits, e, power = end.partition("e")
        ends.append(rf"${digits} \times 10^{{{int(power)}}}$" if e and power else end)
    return "–".join(ends)


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)
