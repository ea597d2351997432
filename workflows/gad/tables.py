"""Tables of a study: our medians over repeats, and the published numbers."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from workflows import conclude
from workflows.gad.published import MEASURED, PUBLISHED, Measured, Row

NO_ROW, NO_MEASURED = Row(*[np.nan] * 7), Measured(*[np.nan] * 4)
HEADINGS = {
    "acceptance": "acceptance",
    "ess_min": "min ESS",
    "ess_median": "median ESS",
    "ess_max": "max ESS",
    "bulk_min": "min bulk ESS",
    "bulk_median": "median bulk ESS",
    "bulk_max": "max bulk ESS",
    "seconds": "seconds",
    "min_ess_per_second": "min ESS/s",
    "gradients": "gradients",
    "densities": "densities",
    "min_ess_per_gradient": "min ESS/gradient",
}
PRINTED = (
    "method", "warm-up + draws", "acceptance", "ESS min/median/max", "paper",
    "bulk ESS min/median/max", "earlier", "seconds", "min ESS/s", "paper",
    "min ESS/gradient",
)  # fmt: skip
NOTE = (
    "Medians over repeats of one chain each, in brackets the smallest and largest. ESS: the "
    "paper's estimator (Geyer's monotone sequence, chains not split), then ArviZ's bulk ESS; "
    "smallest, median and largest over parameters. The paper's values of 20,000 look like a cap "
    "at the number of draws; ours are not capped. Seconds: warm-up and sampling, without "
    "compilation. 'paper': Titsias and Dellaportas (2019), 20,000 + 20,000 iterations, in MATLAB "
    "on their machine. 'earlier': one run of our first gadMALAf, bulk ESS."
)


class Block(NamedTuple):
    """One table of the Markdown file: our columns, the published ones, and their source."""

    title: str
    columns: tuple[str, ...]
    source: str


BLOCKS = (
    Block("Effective sample size", ("acceptance", "ess_min", "ess_median", "ess_max"), "paper"),
    Block("ArviZ's bulk ESS", ("bulk_min", "bulk_median", "bulk_max"), "earlier"),
    Block(
        "Cost",
        ("seconds", "min_ess_per_second", "gradients", "densities", "min_ess_per_gradient"),
        "paper",
    ),
)


def number(value: float) -> str:
    """Write a number with about three digits; NaN is empty."""
    if value != value:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _count(value: float) -> str:
    return "" if value != value else f"{value:,.0f}"


def _rate(value: float) -> str:
    return "" if value != value else f"{value:.3f}"


def _small(value: float) -> str:
    return "" if value != value else f"{value:.2g}"


FORMS = {
    "acceptance": _rate, "gradients": _count, "densities": _count, "min_ess_per_gradient": _small,
}  # fmt: skip


def _cell(line: pd.Series, name: str) -> str:
    if line["repeats"] == 0:
        return "failed"
    form = FORMS.get(name, number)
    low, high = form(line[f"{name}_low"]), form(line[f"{name}_high"])
    spread = f" ({low}–{high})" if low != high else ""
    return form(line[name]) + spread


def _published(data: str, method: str, block: Block) -> dict[str, str]:
    """Published or earlier numbers by their headings."""
    if block.source == "earlier":
        known = MEASURED.get(data, {}).get(method, NO_MEASURED)
    else:
        known = PUBLISHED.get(data, {}).get(method, NO_ROW)
    return {
        f"{block.source} {HEADINGS[name]}": FORMS.get(name, number)(getattr(known, name))
        for name in block.columns
        if name in known._fields
    }


def _iterations(line: pd.Series) -> str:
    return f"{line['warmup']:,} + {line['draws']:,}"


def _block(table: pd.DataFrame, data: str, block: Block) -> pd.DataFrame:
    """One block as text, without its empty columns."""
    rows = []
    for method, line in table.loc[data].iterrows():
        ours = {HEADINGS[name]: _cell(line, name) for name in block.columns}
        heads = {"method": method, "warm-up + draws": _iterations(line)}
        rows.append({**heads, **ours, **_published(data, method, block)})
    text = pd.DataFrame(rows)
    return text.loc[:, (text != "").any()]


def _repeats(lines: pd.DataFrame) -> str:
    fewest, most = lines["repeats"].min(), lines["repeats"].max()
    text = f"Repeats of each method: {fewest if fewest == most else f'{fewest} to {most}'}"
    failed = lines["failed"].sum()
    return f"{text}; {failed} more failed (see notes)." if failed else f"{text}."


def _densities(table: pd.DataFrame, data: str) -> str:
    """List the methods by the library that computed their density."""
    by_library: dict[str, list[str]] = {}
    for method, line in table.loc[data].iterrows():
        by_library.setdefault(line["density"] or "none (failed)", []).append(method)
    return "; ".join(f"{library}: {', '.join(names)}" for library, names in by_library.items())


def markdown(title: str, table: pd.DataFrame, caption: str, notes: list[str]) -> str:
    """Compose the whole Markdown file."""
    parts = [f"# {title}", NOTE, caption]
    for data in table.index.unique("data"):
        parts += [
            f"## {data}",
            f"{_repeats(table.loc[data])} Density by {_densities(table, data)}.",
        ]
        for block in BLOCKS:
            parts += [
                f"### {data}: {block.title}",
                conclude.markdown_table(_block(table, data, block), 2),
            ]
    parts += ["## Notes", *(f"- {note}" for note in notes)] if notes else []
    return "\n\n".join(part for part in parts if part) + "\n"


def show(table: pd.DataFrame) -> None:
    """Print medians and the published numbers, one table per data set."""
    for data, group in table.groupby(level="data", sort=False):
        rows = [_printed(data, method, line) for (_, method), line in group.iterrows()]
        conclude.show(data, pd.DataFrame(rows, columns=list(PRINTED)))


def _printed(data: str, method: str, line: pd.Series) -> list[str]:
    paper = PUBLISHED.get(data, {}).get(method, NO_ROW)
    earlier = MEASURED.get(data, {}).get(method, NO_MEASURED)
    if line["repeats"] == 0:
        return [method, _iterations(line), "failed", *[""] * (len(PRINTED) - 3)]
    return [
        method,
        _iterations(line),
        _rate(line["acceptance"]),
        _slashed(line[["ess_min", "ess_median", "ess_max"]]),
        _slashed(paper[1:4]),
        _slashed(line[["bulk_min", "bulk_median", "bulk_max"]]),
        _slashed(earlier[:3]),
        number(line["seconds"]),
        number(line["min_ess_per_second"]),
        number(paper.min_ess_per_second),
        _small(line["min_ess_per_gradient"]),
    ]


def _slashed(values: Iterable[float]) -> str:
    numbers = [number(value) for value in values]
    return " / ".join(numbers) if all(numbers) else ""


def write(
    folder: Path, name: str, rows: pd.DataFrame, table: pd.DataFrame, text: str
) -> list[Path]:
    """Write every repeat and the summary as CSV, and the Markdown file; returns the paths."""
    paths = [folder / f"{name}_repeats.csv", folder / f"{name}.csv", folder / f"{name}.md"]
    rows.to_csv(paths[0], index=False)
    _with_published(table).to_csv(paths[1])
    paths[2].write_text(text, encoding="utf-8")
    return paths


def _with_published(table: pd.DataFrame) -> pd.DataFrame:
    """The summary with the known numbers as further columns, paper_* and earlier_*."""
    wide = table.copy()
    for prefix, source, empty in (
        ("paper", PUBLISHED, NO_ROW),
        ("earlier", MEASURED, NO_MEASURED),
    ):
        known = [source.get(data, {}).get(method, empty) for data, method in table.index]
        for name in empty._fields:
            wide[f"{prefix}_{name}"] = [getattr(row, name) for row in known]
    return wide
