"""Tables of the benchmark of expectations: gains and shares within errors, over the fits there are.

A file of its own, since `precision` makes the fits.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import stanadapt as sa
from stanadapt import results
from workflows.conclude import markdown_table

PAGE = Path("docs/benchmarks/expectations.md")
KINDS = {"mean": "means", "sd": "sds", "q5": "5 %", "q95": "95 %"}
PARTS = ("", " error", " crude", " crude error")  # of an estimate
COUNTS = ("gradients", "warmup", "extra")
COLUMNS = (
    "program",
    "seed",
    "refused",
    "quantity",
    *COUNTS,
    *(k + p for k in KINDS for p in PARTS),
)
MEASURES = ("", ", lowest", " < 2", " < 2, crude")
LINE = (
    "program", "fits", "refused", "gradients", "to 1 %, crude",
    *(kind + measure for kind in KINDS for measure in MEASURES),
)  # fmt: skip
LONG = 0  # the "seed" of the long run of nuts
MOST = 24  # quantities of a program
SHARE = 0.01
LARGEST_SHOWN = 10_000  # errors are never claimed to be less than a hundredth of the crude ones
EDGES = [-np.inf, *range(-4, 5), np.inf]  # of the histogram of differences


def quantities(fit):
    """Return the names of up to MOST elements that vary."""
    names = [name for name, x in results.columns(fit).items() if np.ptp(x) > 0.0]
    return [names[i] for i in np.unique(np.linspace(0, len(names) - 1, MOST).astype(int))]


def of_fit(fit, target, names):
    """Return a row for each quantity: estimates and errors, crude ones too, and gradients."""
    found = sa.expectations(fit, target, names, probabilities=(0.05, 0.95), show_progress=False)
    table, draws = found.loc[names], results.columns(fit)
    flat = np.stack([draws[name].ravel() for name in names])
    crude = flat.mean(axis=1), flat.std(axis=1, ddof=1), *np.quantile(flat, (0.05, 0.95), axis=1)
    taken, warmup = (
        float(results.attribute(fit, f"n_gradients{part}", 0)) for part in ("", "_warmup")
    )
    counts = zip(COUNTS, (taken, warmup, found.attrs["gradients"]), strict=True)
    rows = pd.DataFrame({"quantity": names, **dict(counts)})
    for kind, value in zip(KINDS, crude, strict=True):
        error = table[f"mcse_{kind}"].to_numpy()
        crude_error = error * np.sqrt(table[f"gain_{kind}"].to_numpy())
        for part, of in zip(
            PARTS, (table[kind].to_numpy(), error, value, crude_error), strict=True
        ):
            rows[kind + part] = of
    return rows


def of_fits(fits):
    """Return a line for each program, and counts of differences from the long runs."""
    lines, away = [], {kind: [] for kind in KINDS}
    for name, part in fits.groupby("program", sort=False):
        long, seeds = part[part["seed"] == LONG], part[part["seed"] != LONG]
        used = seeds[seeds["refused"].isna()]
        line = {"program": name, "fits": used["seed"].nunique()}
        lines.append(line | {"refused": seeds["seed"].nunique() - line["fits"]})
        if line["fits"] > 1:
            lines[-1] |= _gradients(used)
            for kind in KINDS:
                lines[-1] |= _of_kind(used, long.set_index("quantity"), kind, away[kind])
    counts = {"z": [f"{a:g} to {b:g}" for a, b in pairwise(EDGES)]}
    for kind, z in away.items():
        counts[KINDS[kind]] = np.histogram(z, EDGES)[0]
    return pd.DataFrame(lines, columns=LINE), pd.DataFrame(counts)


def _gradients(fits):
    """Return the median number of gradients, and of those to an error of 1 % of a crude mean."""
    worst = (fits["mean crude error"] / fits["sd"]).groupby(fits["seed"]).max()
    each = fits.groupby("seed").first()
    to_share = each["warmup"] + (each["gradients"] - each["warmup"]) * (worst / SHARE) ** 2
    taken = each["gradients"] + each["extra"]
    return {"gradients": taken.median(), "to 1 %, crude": to_share.median()}


def _of_kind(fits, long, kind, away):
    """Return gains and shares within two errors; add differences from the long run to a list."""
    values, errors, crude, crude_errors = (
        fits.pivot_table(index="seed", columns="quantity", values=kind + part, dropna=False)
        for part in PARTS
    )
    known = (values + errors + crude + crude_errors).notna().all(axis=0)
    names = values.columns[known]
    if not len(names):
        return {}
    values, errors, crude, crude_errors = (
        table[names].to_numpy() for table in (values, errors, crude, crude_errors)
    )
    weight = errors**-2.0
    total, weighted = weight.sum(axis=0), (weight * values).sum(axis=0)
    others = total - weight
    truth = (weighted - weight * values) / others
    within, crude_within = (
        np.mean(np.abs(x - truth) < 2.0 * np.sqrt(error**2 + 1.0 / others))
        for x, error in ((values, errors), (crude, crude_errors))
    )
    ratio = crude.var(axis=0, ddof=1) / values.var(axis=0, ddof=1)
    if len(long) and long["refused"].isna().all():
        value, error = (long[kind + part].reindex(names).to_numpy() for part in PARTS[:2])
        z = (weighted / total - value) / np.sqrt(1.0 / total + error**2)
        away += z[np.isfinite(z)].tolist()
    found = np.median(ratio), ratio.min(), within, crude_within
    return {kind + measure: x for measure, x in zip(MEASURES, found, strict=True)}


def as_text(table):
    """Return the lines of programs as on the page, with percentages of estimates within errors."""
    text = table[["program", "fits"]].astype(str)
    for kind, title in KINDS.items():
        gains = zip(table[kind], table[f"{kind}, lowest"], strict=True)
        text[title] = ["no error" if a != a else f"{_gain(a)} ({_gain(b)})" for a, b in gains]
    shares = [
        table[[f"{kind} < 2{part}" for kind in KINDS]].to_numpy(float) for part in ("", ", crude")
    ]
    text["within two errors"] = [
        f"{_percent(own)} ({_percent(crude)})" for own, crude in zip(*shares, strict=True)
    ]
    return text


def _gain(ratio):
    return f"> {LARGEST_SHOWN:,}" if ratio > LARGEST_SHOWN else f"{float(f'{ratio:.2g}'):,g}"


def _percent(shares):
    return ", ".join("–" if share != share else f"{100 * share:.0f}" for share in shares)


def publish(fits):
    """Write the tables of the page."""
    table, counts = of_fits(fits)
    table = table[table["fits"] > 1]
    lost = table[table["refused"] > 0]
    parts = [markdown_table(as_text(table)) + "\n"]
    if len(lost):
        listed = (f"{row.program} ({row.refused})" for row in lost.itertuples())
        parts.append(f"Fits that were refused: {', '.join(listed)}.\n")
    unfit = fits[(fits["seed"] == LONG) & fits["refused"].notna()]["program"].unique()
    if len(unfit):
        parts.append(f"Long runs that are no reference, by their verdicts: {', '.join(unfit)}.\n")
    parts += [
        "Differences between the mean over these fits and a long run of `nuts`, in standard errors "
        "of both, over all quantities:\n",
        markdown_table(counts.astype(str)) + "\n",
    ]
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    table.to_csv(PAGE.with_suffix(".csv"), index=False, float_format="%.4g")
    print(f"tables: {PAGE}")
