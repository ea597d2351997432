"""The summary of repeated fits: medians with intervals, and messages on failures and doubts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stanadapt.errors import Message

ERRORS = ("error_mean", "error_sd")  # against reference draws
# measured in every repeat: those of `compare`, and wall time
MEASURES = (
    "ess_bulk_min", "ess_tail_min", "ess_per_second", "ess_per_gradient", "r_hat_max",
    "wall_seconds", "seconds", "gradients", "densities", *ERRORS,
)  # fmt: skip
# quantiles of fewer repeats would be little more than the extremes
FEWEST_FOR_QUANTILES = 5
CENTRAL, EXTREMES = "central 80%", "smallest to largest"
Key = str | tuple[str, str]


def summarize(
    rows: pd.DataFrame, samplers: Sequence[str], repeats: int, targets: Sequence[str] = ()
) -> pd.DataFrame:
    """Return medians and intervals over the repeats of each sampler, on each target.

    Rows and columns are described at `RepeatedComparison`. The lines are in the order of targets
    and samplers; repeats with a later number, and values that are not finite, are left out.
    """
    lines = {}
    several = len(targets) > 1
    keys: list[Key] = [(t, s) for t in targets for s in samplers] if several else [*samplers]
    for key in keys:
        made = select_repeats(rows, key, repeats)
        drawn = made[made["failure"] == ""]
        enough = len(drawn) >= FEWEST_FOR_QUANTILES
        line = {
            "asked": repeats,
            "repeats": len(drawn),
            "failed": len(made) - len(drawn),
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


def select_repeats(rows: pd.DataFrame, key: Any, repeats: int) -> pd.DataFrame:
    """Return the rows behind one line of a summary."""
    *target, sampler = key if isinstance(key, tuple) else (key,)
    selected = (rows["sampler"] == sampler) & (rows["repeat"] <= repeats)
    return rows[selected & (rows["target"] == target[0])] if target else rows[selected]


def labels(summary: pd.DataFrame) -> list[str]:
    """Return the names of the lines of a summary."""
    return [": ".join(key) if isinstance(key, tuple) else str(key) for key in summary.index]


def _spread(values: np.ndarray, enough: bool) -> tuple[float, float, float]:
    """Return lower end, median and upper end; NaN if there is no number."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.nan, np.nan, np.nan
    ends = (0.1, 0.5, 0.9) if enough else (0.0, 0.5, 1.0)
    low, middle, high = np.quantile(finite, ends)
    return float(low), float(middle), float(high)


def describe(rows: pd.DataFrame, summary: pd.DataFrame) -> list[Message]:
    """Return messages on the intervals of a summary and on the doubts about each line."""
    lines = zip(labels(summary), doubts(rows, summary), strict=True)
    return intervals(summary) + [
        message.extended(f"{name}: ") for name, messages in lines for message in messages
    ]


def intervals(summary: pd.DataFrame) -> list[Message]:
    """Return which interval the numbers of a summary have."""
    kinds, names = dict.fromkeys(summary["interval"]), labels(summary)
    messages = []
    for kind in kinds:
        pairs = zip(names, summary["interval"], strict=True)
        messages.append(_describe_interval(kind, [n for n, one in pairs if one == kind], kinds))
    if summary[list(ERRORS)].notna().any(axis=None):
        text = (
            "mean error, sd error: the largest differences from the reference draws, in standard "
            "deviations of these, and relative to them."
        )
        messages.append(Message("how_to_read", text))
    return messages


def doubts(rows: pd.DataFrame, summary: pd.DataFrame) -> list[list[Message]]:
    """Return, for each line of a summary, messages on missing, failed and doubtful repeats."""
    return [
        list(_doubts(line, select_repeats(rows, key, line["asked"])))
        for key, line in summary.iterrows()
    ]


def _describe_interval(kind: str, names: list[str], kinds: dict[str, None]) -> Message:
    about = f"{', '.join(names)}: m" if len(kinds) > 1 else "M"
    interval = (
        f"the {CENTRAL} of the repeats (10th to 90th percentile)"
        if kind == CENTRAL
        else "the smallest and the largest of the repeats"
    )
    return Message("intervals", f"{about}edians, with {interval}.")


def _doubts(line: pd.Series, made: pd.DataFrame) -> Iterator[Message]:
    if line["failed"]:
        first = made.loc[made["failure"] != "", "failure"].iloc[0]
        text = f"{line['failed']} of {line['asked']} repeats failed. The first failure: {first}"
        yield Message("failed_repeats", text)
    missing = line["asked"] - len(made)
    if missing:
        yield Message("missing_repeats", f"{missing} of {line['asked']} repeats were not run.")
    drawn = made[made["failure"] == ""]
    for measure in ("ess_bulk_min", "r_hat_max"):
        lost = int((~np.isfinite(drawn[measure].to_numpy(float))).sum())
        if lost:
            text = f"{measure} is not a number in {lost} repeats, which do not count for it."
            yield Message("missing_measures", text)
    doubtful = drawn[drawn["verdict"] != "fine"]
    if len(doubtful):
        first = doubtful.iloc[0]
        why = f" {first['reasons']}" if first["reasons"] else ""
        text = (
            f"{len(doubtful)} of {len(drawn)} fits are not fine. The first, repeat "
            f"{first['repeat']}: {first['verdict']}.{why}"
        )
        yield Message("doubtful_repeats", text)
