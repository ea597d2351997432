"""Repeated fits in one line per sampler: medians, and intervals that show their spread."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

# measured in every repeat: those of `compare`, and seconds by the clock
MEASURES = (
    "ess_bulk_min", "ess_tail_min", "ess_per_second", "ess_per_gradient", "r_hat_max",
    "wall_seconds", "seconds", "gradients", "densities",
)  # fmt: skip
# of fewer repeats, quantiles would be little more than the extremes
FEWEST_FOR_QUANTILES = 5
CENTRAL, EXTREMES = "central 80 %", "smallest to largest"


Key = str | tuple[str, str]


def summarize(
    rows: pd.DataFrame, samplers: Sequence[str], repeats: int, targets: Sequence[str] = ()
) -> pd.DataFrame:
    """Medians and intervals over the repeats of each sampler, on each target.

    Parameters
    ----------
    rows
        One row per sampler and repeat (1, 2, ...): `sampler`, `repeat`, `verdict`, `failure` ("" if
        there is a fit) and `MEASURES`; `target`, where there are several.
    samplers
        In the order of the summary.
    repeats
        How many were asked for; later ones are left out.
    targets
        In the order of the summary, if there are several.

    Returns
    -------
    pandas.DataFrame
        One row per sampler, or per (target, sampler) where there are several targets: `asked`;
        `repeats`, those that gave a fit; `failed`; `fine`, those with that verdict; `interval`,
        which one `*_low` and `*_high` are: from the 10th to the 90th percentile (linear
        interpolation), and from the smallest to the largest where fewer than five repeats gave a
        fit; `chains`, and `draws` of each. Medians have the names of the measures. What is not a
        number in some repeats is left out there.

    """
    lines = {}
    several = len(targets) > 1
    keys: list[Key] = [(t, s) for t in targets for s in samplers] if several else [*samplers]
    for key in keys:
        own = repeats_of(rows, key, repeats)
        drawn = own[own["failure"] == ""]
        enough = len(drawn) >= FEWEST_FOR_QUANTILES
        line = {
            "asked": repeats,
            "repeats": len(drawn),
            "failed": len(own) - len(drawn),
            "fine": int((drawn["verdict"] == "fine").sum()),
            "interval": CENTRAL if enough else EXTREMES,
            "chains": drawn["chains"].median(),
            "draws": drawn["draws"].median(),
        }
        for measure in MEASURES:
            low, middle, high = _spread(drawn[measure].to_numpy(float), enough)
            line |= {measure: middle, f"{measure}_low": low, f"{measure}_high": high}
        lines[key] = line
    table = pd.DataFrame(list(lines.values()))
    if several:
        table.index = pd.MultiIndex.from_tuples(lines, names=["target", "sampler"])
        return table
    table.index = pd.Index(list(lines), name="sampler")
    return table


def repeats_of(rows: pd.DataFrame, key: Any, repeats: int) -> pd.DataFrame:
    """Rows of one line of a summary."""
    *target, sampler = key if isinstance(key, tuple) else (key,)
    chosen = (rows["sampler"] == sampler) & (rows["repeat"] <= repeats)
    return rows[chosen & (rows["target"] == target[0])] if target else rows[chosen]


def labels(summary: pd.DataFrame) -> list[str]:
    """Names of the lines of a summary."""
    return [": ".join(key) if isinstance(key, tuple) else str(key) for key in summary.index]


def _spread(values: np.ndarray, enough: bool) -> tuple[float, float, float]:
    """Lower end, median and upper end; NaN where there is no number."""
    known = values[np.isfinite(values)]
    if not known.size:
        return np.nan, np.nan, np.nan
    ends = (0.1, 0.5, 0.9) if enough else (0.0, 0.5, 1.0)
    low, middle, high = np.quantile(known, ends)
    return float(low), float(middle), float(high)


def sentences(rows: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """What the numbers of a summary are, and what they leave out."""
    doubtful = zip(labels(summary), doubts(rows, summary), strict=True)
    return intervals(summary) + [f"{name}: {text}" for name, own in doubtful for text in own]


def intervals(summary: pd.DataFrame) -> list[str]:
    """Which interval the numbers of a summary have."""
    kinds, names = dict.fromkeys(summary["interval"]), labels(summary)
    said = []
    for kind in kinds:
        of_kind = zip(names, summary["interval"], strict=True)
        said.append(_interval(kind, [name for name, one in of_kind if one == kind], kinds))
    return said


def doubts(rows: pd.DataFrame, summary: pd.DataFrame) -> list[list[str]]:
    """For each line of a summary, what it leaves out and what is not fine."""
    return [
        list(_doubts(line, repeats_of(rows, key, line["asked"])))
        for key, line in summary.iterrows()
    ]


def _interval(kind: str, names: list[str], kinds: dict[str, None]) -> str:
    about = f"{', '.join(names)}: m" if len(kinds) > 1 else "M"
    what = (
        f"the {CENTRAL} of the repeats (10th to 90th percentile)"
        if kind == CENTRAL
        else "the smallest and the largest of the repeats"
    )
    return f"{about}edians, with {what}."


def _doubts(line: pd.Series, own: pd.DataFrame) -> Iterator[str]:
    """Failures, missing repeats, numbers that are missing, and verdicts that are not fine."""
    if line["failed"]:
        first = own.loc[own["failure"] != "", "failure"].iloc[0]
        yield f"{line['failed']} of {line['asked']} repeats failed. The first: {first}"
    missing = line["asked"] - len(own)
    if missing:
        yield f"{missing} of {line['asked']} repeats were not made."
    drawn = own[own["failure"] == ""]
    for measure in ("ess_bulk_min", "r_hat_max"):
        lost = int((~np.isfinite(drawn[measure].to_numpy(float))).sum())
        if lost:
            yield f"{measure} is not a number in {lost} repeats, and left out there."
    doubtful = drawn[drawn["verdict"] != "fine"]
    if len(doubtful):
        one = doubtful.iloc[0]
        why = f" {one['reasons']}" if one["reasons"] else ""
        yield (
            f"{len(doubtful)} of {len(drawn)} fits are not fine. The first, repeat "
            f"{one['repeat']}: {one['verdict']}.{why}"
        )
