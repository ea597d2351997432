"""Turn runs of the benchmark against NUTS into the tables of the documentation.

    python -m workflows.benchmarks.publish output/benchmarks/against_nuts

Writes docs/benchmarks/against_nuts.md, with versions and machine, and its numbers as .csv. Several
folders, of samplers or programs measured one after the other, are combined.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from workflows import terminal
from workflows.benchmarks.against_nuts import (
    MEASURES,
    NUTS,
    cases,
    mean_of,
    summary,
    with_usable_nuts,
)
from workflows.conclude import markdown_table

DOCS = Path("docs/benchmarks")
PREAMBLE = """# Samplers against Stan's NUTS

The tables have the smallest effective sample size over the parameters, divided by that of Stan's
NUTS with its defaults in the same run, with warm-up included. It is that of the bulk, of squared
deviations from the mean, and of the tails (5 and 95 percent quantiles), per gradient (for samplers
without gradients: per density) and per processor second of the whole call. Numbers above 1 are in
favor of our sampler. Each data set has four chains and {seeds} seeds; the worst is that of a single
seed. A fit is usable if R-hat is below 1.01 and bulk and tail effective sample sizes are above
400. The error is the largest difference of a median from that of all runs of NUTS together, in
half widths of the central 68 percent, for the worst seed.

Left out are programs with separate modes, between which neither sampler moves, and those without a
gradient.
"""
OVERALL = """## All data sets

Geometric means and the lowest number over the data sets on which every run of NUTS is usable: if
NUTS fails, its effective sample size measures how badly, and a ratio to it means nothing.
"""


def overall(table, runs):
    """One row per sampler: geometric means over data sets, and the lowest."""
    rows = []
    for sampler, part in table.groupby("sampler", sort=False):
        ours, stan = (runs[runs["sampler"] == name] for name in (sampler, NUTS))
        both = ours.merge(stan, on=["program", "data", "seed"], suffixes=("", " NUTS"))
        served = both[both["usable NUTS"]]
        part = with_usable_nuts(part)
        row = {"sampler": sampler, "data sets": len(part)}
        row["usable"] = f"{ours['usable'].mean():.0%}"
        row["usable when NUTS is"] = f"{served['usable'].mean():.0%}"
        for unit in ("gradient", "s"):
            for name in MEASURES:
                row[f"{name}/{unit}"] = figure(mean_of(part[f"{name}/{unit}"]))
            row[f"lowest bulk/{unit}"] = figure(part[f"bulk/{unit}"].min())
        rows.append(row)
    return pd.DataFrame(rows)


def by_program(table, sampler):
    """One row per data set of a sampler."""
    part = table[table["sampler"] == sampler].drop(columns="sampler")
    names = {"worst bulk/gradient": "worst seed/gradient", "worst bulk/s": "worst seed/s"}
    part = part.rename(columns=names)
    for column in part:
        if "/" in column or column == "error":
            part[column] = part[column].map(figure)
    return part


def figure(number):
    """Two significant digits, without an exponent."""
    if not np.isfinite(number):
        return ""
    return np.format_float_positional(number, precision=2, fractional=False, trim="-")


def _as_text(table):
    return markdown_table(table.astype(str)) + "\n"


def page(runs, settings):
    """The text of the page."""
    table = summary(runs)
    table = table[~table["program"].isin(("geometric mean", "worst"))]
    versions = ", ".join(f"{name} {number}" for name, number in settings["versions"].items())
    engines = ", ".join(sorted(set(runs.loc[runs["sampler"] == NUTS, "engine"])))
    parts = [PREAMBLE.format(seeds=runs["seed"].nunique())]
    measured = set(zip(runs["program"], runs["data"], strict=True))
    lacking = ["/".join(case) for case in cases() if case not in measured]
    if lacking:
        parts.append(f"Not measured this time: {', '.join(lacking)}.\n")
    parts.append(OVERALL)
    parts.append(_as_text(overall(table, runs)))
    for sampler in table["sampler"].unique():
        parts += [f"## {sampler}\n", _as_text(by_program(table, sampler))]
    parts.append(
        f"Made by `python -m workflows.benchmarks.against_nuts` and `... .publish` on "
        f"{settings['machine']}, Python {settings['python']}, {versions}; NUTS: {engines}.\n"
    )
    return table, "\n".join(parts)


def in_order(runs):
    """Return runs in the order of the bundled programs, however they lie in several folders."""
    place = {case: i for i, case in enumerate(cases())}
    wanted = [
        place.get(case, len(place)) for case in zip(runs["program"], runs["data"], strict=True)
    ]
    return runs.iloc[np.argsort(wanted, kind="stable")]


def main(words=None):
    """Read, and write."""
    parser = terminal.parser(__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    folders = parser.parse_args(words).folders
    texts = {"chosen": str, "engine": str}
    parts = [pd.read_csv(f / "runs.csv", dtype=texts) for f in folders]
    runs = pd.concat(parts, ignore_index=True).fillna(dict.fromkeys(texts, ""))
    runs = runs.drop_duplicates(["program", "data", "sampler", "seed"], keep="last")
    runs = in_order(runs)
    settings = json.loads((folders[-1] / "settings.json").read_text(encoding="utf-8"))
    table, text = page(runs, settings)
    DOCS.mkdir(parents=True, exist_ok=True)
    numbers = table.select_dtypes("number").columns
    table[numbers] = table[numbers].map(lambda x: float(f"{x:.3g}"))
    table.to_csv(DOCS / "against_nuts.csv", index=False)
    (DOCS / "against_nuts.md").write_text(text, encoding="utf-8")
    print(f"tables: {DOCS}")


if __name__ == "__main__":
    main()
