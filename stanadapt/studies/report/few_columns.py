"""Of thousands of parameters, those that a report measures: the worst, and the most different."""

import json
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.comparable import counted_variables
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.studies.report.runs import Repeats

MOST = 100  # columns of a fit that are all measured: some 10 ms each
MOST_DIFFERENT = 8
BLOCK = 256
Summary = dict[str, tuple[float, float]]


def with_few_columns(fits: Repeats) -> tuple[Repeats, str]:
    """Return fits with at most some hundred columns, and a sentence on how these were chosen.

    Chosen are the columns that the screening of the verdict finds worst in any fit, and those with
    the most different means; the sentence is empty where there are few enough.
    """
    flat = {f"{name} {k}": fit for name, own in fits.items() for k, fit in enumerate(own)}
    wanted = counted_variables(flat, None)
    tables = [results.columns(fit, wanted=wanted) for fit in flat.values()]
    count = max(len(columns) for columns in tables)
    if count <= MOST:
        return fits, ""
    chosen: set[str] = set()
    first: Summary = {}
    for columns in tables:
        moving, broken = _moving(columns)
        chosen.update(_worst(moving))
        summary = _summary(moving)
        first = first or summary
        chosen.update(_different(summary, first))
        chosen.update(broken[:1])
    remaining = iter(tables)
    reduced = {
        name: [_reduced(fit, next(remaining), chosen) for fit in repeats]
        for name, repeats in fits.items()
    }
    return reduced, (
        f"Of {count:,} columns of the fits, {len(chosen)} are measured here: in each fit those "
        "with the largest R-hat and the smallest effective sample size, by a cheap screening of "
        "all, and those with the most different means. Medians are over these."
    )


def _moving(columns: Columns) -> tuple[Columns, list[str]]:
    """Columns that are finite and not constant; the names of those that are not finite."""
    moving, broken = {}, []
    for name, values in columns.items():
        x = np.array(values, dtype=float, order="C")  # a column of a large array is slow to read
        low, high = x.min(), x.max()  # infinite, or not a number, if any draw is
        if not np.isfinite([low, high]).all():
            broken.append(name)
        elif high > low:
            moving[name] = x
    return moving, broken


def _worst(columns: Columns) -> list[str]:
    """Screen in blocks that a processor's cache can hold, then the worst of these."""
    names = list(columns)
    found: list[str] = []
    for first in range(0, len(names), BLOCK):
        found += worst_columns({name: columns[name] for name in names[first : first + BLOCK]})
    return worst_columns({name: columns[name] for name in found}) if found else []


def _summary(columns: Columns) -> Summary:
    """Mean, and standard deviation within chains, of each column."""
    return {name: (float(x.mean()), float(x.std(axis=1).mean())) for name, x in columns.items()}


def _different(one: Summary, other: Summary) -> list[str]:
    """Columns with the largest differences of means, in standard deviations within chains."""
    scores = {}
    for name in one.keys() & other.keys():
        spread = np.hypot(one[name][1], other[name][1])
        scores[name] = abs(one[name][0] - other[name][0]) / spread if spread > 0 else 0.0
    worst = sorted(scores, key=lambda name: (-scores[name], name))[:MOST_DIFFERENT]
    return [name for name in worst if scores[name] > 0]


def _reduced(fit: Any, columns: Columns, chosen: set[str]) -> Any:
    """Return the fit with scalar variables of the chosen columns; what else it holds is kept."""
    groups: results.Groups = {"posterior": {n: x for n, x in columns.items() if n in chosen}}
    for group in ("sample_stats", "warmup_sample_stats"):
        if group in results.group_names(fit):
            groups[group] = results.dataset(fit, group)
    kept = {name: value for name, value in fit.attrs.items() if name != "created_at"}
    reduced = results.build(groups, kept | {"parameters": json.dumps(sorted(chosen))})
    if "created_at" in fit.attrs:
        reduced.attrs["created_at"] = fit.attrs["created_at"]
    return reduced
