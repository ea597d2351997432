"""The table of a comparison of fits: its columns, and the remarks below."""

from typing import Any, NamedTuple

import pandas as pd

from stanadapt.diagnostics import printed_tables
from stanadapt.errors import Message

REASONS_SHOWN = 2  # per fit, below the table; attrs has all of them


class Column(NamedTuple):
    """A printed column: title, format of its numbers, rank in `printed_tables.show_columns`."""

    title: str
    form: str
    rank: int


# in the order of display
COLUMNS = {
    "verdict": Column("verdict", "{}", 0),
    "size": Column("draws", "{}", 1),
    "ess_bulk_min": Column("bulk ESS", "{:,.0f}", 0),
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
# of fits that are not exact, whose cost per effective draw is irrelevant
OF_BIASED = {
    "bias_mean": Column("bias mean", "{:.3f}", 0),
    "z_mean": COLUMNS["z_mean"]._replace(rank=0),
    "bias_sd": Column("bias sd", "{:.1%}", 0),
    "z_sd": COLUMNS["z_sd"]._replace(rank=0),
}
BIASED_COLUMNS = {
    name: (COLUMNS | OF_BIASED)[name]
    for name in (
        "verdict", "size", "r_hat_max", *OF_BIASED, "missed", "seconds_warmup", "seconds_sampling",
        "seconds_compile", "gradients", "failed",
    )
}  # fmt: skip
# the remarks need these columns; without them, a comparison is printed as an ordinary frame
NEEDED = {"verdict", "sampler", "exact", "chains", "draws", "stopped_chains", "interrupted"}


class Comparison(printed_tables.PrintedFrame):
    """A comparison of fits: a data frame that prints as a table with remarks."""

    @property
    def _is_complete(self) -> bool:
        return set(self.columns) >= NEEDED and set(self.attrs.get("reasons", ())) == {*self.index}

    def _printed(self) -> printed_tables.Printed:
        return printed_table(self)


def printed_table(table: pd.DataFrame) -> printed_tables.Printed:
    """Return the parts of a comparison, and the remarks on it."""
    tables = [
        printed_tables.PrintedTable(
            title, [str(name) for name in part.index], cells(part, columns),
            {column.title: column.rank for column in columns.values()},
        )
        for title, part, columns in parts(table)
    ]  # fmt: skip
    return printed_tables.Printed(tables, remarks(table))


def parts(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, dict[str, Column]]]:
    """Return title, fits and columns of the parts of a table: exact fits, and others."""
    exact = table["exact"].astype(bool)
    both = [("fit", table[exact], COLUMNS), ("not exact", table[~exact], BIASED_COLUMNS)]
    return [part for part in both if len(part[1])]


def cells(table: pd.DataFrame, columns: dict[str, Column] | None = None) -> dict[str, list[str]]:
    """Return cells by title, in the order of display, without columns that have no number."""
    shown = {}
    for name, (title, form, _) in (columns or COLUMNS).items():
        if name == "size":
            sizes = zip(table["chains"], table["draws"], strict=True)
            column = [f"{chains} x {draws:,}" for chains, draws in sizes]
        elif name in table:
            column = ["" if value != value else form.format(value) for value in table[name]]
        else:
            continue
        if any(column):
            shown[title] = column
    return shown


def remarks(table: pd.DataFrame) -> list[Message]:
    """Return messages with the facts that the numbers alone do not show."""
    attrs, baseline = table.attrs, table.attrs.get("baseline")
    every = []
    if baseline is not None:
        engine = table.loc[baseline, "sampler"]
        shared = ", which shares our density" if attrs["baseline_is_ours"] else ""
        text = (
            f"z: largest difference from {baseline} ({engine}{shared}) in joint Monte Carlo "
            "standard errors."
        )
        if attrs.get("controlled"):
            text += f" With control variates: {', '.join(attrs['controlled'])}."
        code = "shared_density" if shared else "how_to_read"
        every.append(Message(code, text))
    every += _describe_bias(table, baseline)
    every += attrs.get("budget", []) + attrs.get("trajectories", []) + attrs.get("density", [])
    for name in table.index:
        for kind in ("unlike", "missed"):
            every += [m.extended(f"{name}: ") for m in attrs.get(kind, {}).get(name, [])]
    for name, row in table.iterrows():
        every += _describe_fit(name, row, attrs)
    return every


def _describe_bias(table: pd.DataFrame, baseline: Any) -> list[Message]:
    """Explain the part of fits that are not exact; warn if the baseline is not exact."""
    biased = [str(name) for name in table.index[~table["exact"].astype(bool)]]
    if not biased:
        return []
    if baseline is None:
        text = (
            f"not exact: {', '.join(biased)}. The size of the bias is unknown without a comparison "
            "with an exact fit: name one as baseline."
        )
        return [Message("bias_unknown", text)]
    if not table.loc[baseline, "exact"]:
        text = (
            f"The baseline {baseline} is not exact: differences from it may be due to the bias of "
            "the baseline."
        )
        return [Message("bias_unknown", text)]
    text = (
        f"not exact: bias mean is the largest difference of a mean from {baseline}, in standard "
        f"deviations of {baseline}, and bias sd is the largest relative difference of a standard "
        "deviation; if z is below about 4, both may be due to chance."
    )
    return [Message("how_to_read", text)]


def _describe_fit(name: Any, row: pd.Series, attrs: dict) -> list[Message]:
    every = []
    reasons = attrs["reasons"][name]
    if reasons:  # a fit that is fine may also have one, such as the maximum tree depth
        more = len(reasons) - REASONS_SHOWN
        rest = f" {more} more: see diagnose." if more > 0 else ""
        shown = " ".join(reasons[:REASONS_SHOWN])
        every.append(Message(reasons[0].code, f"{name}: {row['verdict']}. {shown}{rest}"))
    regions = attrs["separate_regions"].get(name, 1)
    stopped = row["stopped_chains"]
    facts = (
        ("separate_regions", regions > 1, f"its chains lie in {regions} separate regions."),
        (
            "interrupted_fit",
            row["interrupted"] == 1,
            f"interrupted; {row['draws']} draws per chain.",
        ),
        ("stopped_chains", stopped > 0, f"failed chains, left out: {stopped:.0f}."),
    )
    return every + [Message(code, f"{name}: {text}") for code, holds, text in facts if holds]
