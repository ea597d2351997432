"""Repeated fits in one line per sampler: medians, and intervals that show their spread."""

from collections.abc import Iterator, Sequence

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


def summarise(rows: pd.DataFrame, samplers: Sequence[str], repeats: int) -> pd.DataFrame:
    """Medians and intervals over the repeats of each sampler.

    Parameters
    ----------
    rows
        One row per sampler and repeat (1, 2, ...): `sampler`, `repeat`, `verdict`, `failure` ("" if
        there is a fit) and `MEASURES`.
    samplers
        In the order of the summary.
    repeats
        How many were asked for; later ones are left out.

    Returns
    -------
    pandas.DataFrame
        One row per sampler: `asked`; `repeats`, those that gave a fit; `failed`; `fine`, those with
        that verdict; `interval`, which one `*_low` and `*_high` are: from the 10th to the 90th
        percentile (linear interpolation), and from the smallest to the largest where fewer than
        five repeats gave a fit; `chains`, and `draws` of each. Medians have the names of the
        measures. What is not a number in some repeats is left out there.

    """
    lines = {}
    for name in samplers:
        own = rows[(rows["sampler"] == name) & (rows["repeat"] <= repeats)]
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
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis("sampler")


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
    kinds = dict.fromkeys(summary["interval"])
    said = [_interval(kind, summary.index[summary["interval"] == kind], kinds) for kind in kinds]
    for name, line in summary.iterrows():
        own = rows[(rows["sampler"] == name) & (rows["repeat"] <= line["asked"])]
        said += _doubts(str(name), line, own)
    return said


def _interval(kind: str, names: pd.Index, kinds: dict[str, None]) -> str:
    about = f"{', '.join(map(str, names))}: m" if len(kinds) > 1 else "M"
    what = (
        f"the {CENTRAL} of the repeats (10th to 90th percentile)"
        if kind == CENTRAL
        else "the smallest and the largest of the repeats"
    )
    return f"{about}edians, with {what}."


def _doubts(name: str, line: pd.Series, own: pd.DataFrame) -> Iterator[str]:
    """Failures, missing repeats, numbers that are missing, and verdicts that are not fine."""
    if line["failed"]:
        first = own.loc[own["failure"] != "", "failure"].iloc[0]
        yield f"{name}: {line['failed']} of {line['asked']} repeats failed. The first: {first}"
    missing = line["asked"] - len(own)
    if missing:
        yield f"{name}: {missing} of {line['asked']} repeats were not made."
    drawn = own[own["failure"] == ""]
    for measure in ("ess_bulk_min", "r_hat_max"):
        lost = int((~np.isfinite(drawn[measure].to_numpy(float))).sum())
        if lost:
            yield f"{name}: {measure} is not a number in {lost} repeats, and left out there."
    doubtful = drawn[drawn["verdict"] != "fine"]
    if len(doubtful):
        one = doubtful.iloc[0]
        why = f" {one['reasons']}" if one["reasons"] else ""
        yield (
            f"{name}: {len(doubtful)} of {len(drawn)} fits are not fine. The first, repeat "
            f"{one['repeat']}: {one['verdict']}.{why}"
        )
