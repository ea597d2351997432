"""Fits with thousands of columns: a report measures the worst and the most different."""

import json
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.compare import counted_variables
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.errors import Message
from stanadapt.samplers.straightened_pair import STRAIGHTENED
from stanadapt.studies.report.fits import Repeats

MOST = 100  # columns; a fit with more is reduced, since each takes some 10 ms
MOST_DIFFERENT = 8
BLOCK = 256  # columns that fit into a processor's cache
Summary = dict[str, tuple[float, float]]


def reduce_columns(fits: Repeats) -> tuple[Repeats, Message | None]:
    """Return fits with at most some hundred columns, and a note on the selection.

    Selected are the columns that the screening of the verdict finds worst in any fit, and those
    with the most different means. The note is None if there are few enough columns.
    """
    flat = {f"{name} {k}": fit for name, each in fits.items() for k, fit in enumerate(each)}
    wanted = counted_variables(flat, None)
    tables = [results.columns(fit, wanted=wanted) for fit in flat.values()]
    count = max(len(columns) for columns in tables)
    if count <= MOST:
        return fits, None
    selected: set[str] = set()
    first: Summary = {}
    for columns in tables:
        moving, broken = _split_moving(columns)
        selected.update(_screen(moving))
        # the mean, and the standard deviation within chains
        summary = {n: (float(x.mean()), float(x.std(axis=1).mean())) for n, x in moving.items()}
        first = first or summary
        selected.update(_most_different(summary, first))
        selected.update(broken[:1])
    remaining = iter(tables)
    reduced = {
        name: [_reduce(fit, next(remaining), selected) for fit in repeats]
        for name, repeats in fits.items()
    }
    return reduced, Message(
        "selected_columns",
        f"Of the {count:,} columns of the fits, {len(selected)} are measured here: those with the "
        "largest R-hat and the smallest effective sample size in each fit, according to a quick "
        "screening of all, and those with the most different means. Medians are over these.",
    )


def _split_moving(columns: Columns) -> tuple[Columns, list[str]]:
    """Return the columns that are finite and not constant, and the names of those not finite."""
    moving, broken = {}, []
    for name, values in columns.items():
        x = np.array(values, dtype=float, order="C")  # a column of a large array is slow to read
        low, high = x.min(), x.max()  # infinite, or not a number, if any draw is
        if not np.isfinite([low, high]).all():
            broken.append(name)
        elif high > low:
            moving[name] = x
    return moving, broken


def _screen(columns: Columns) -> list[str]:
    """Return the worst of the columns that are worst in their block."""
    names = list(columns)
    worst: list[str] = []
    for first in range(0, len(names), BLOCK):
        worst += worst_columns({name: columns[name] for name in names[first : first + BLOCK]})
    return worst_columns({name: columns[name] for name in worst}) if worst else []


def _most_different(one: Summary, other: Summary) -> list[str]:
    """Return the columns with the largest differences of means, relative to sds within chains."""
    scores = {}
    for name in one.keys() & other.keys():
        spread = np.hypot(one[name][1], other[name][1])
        scores[name] = abs(one[name][0] - other[name][0]) / spread if spread > 0 else 0.0
    worst = sorted(scores, key=lambda name: (-scores[name], name))[:MOST_DIFFERENT]
    return [name for name in worst if scores[name] > 0]


def _reduce(fit: Any, columns: Columns, selected: set[str]) -> Any:
    """Return the fit with the selected columns as scalar variables, and its statistics."""
    groups: results.Groups = {"posterior": {n: x for n, x in columns.items() if n in selected}}
    for group in ("sample_stats", "warmup_sample_stats", STRAIGHTENED):
        if group in results.group_names(fit):
            groups[group] = results.dataset(fit, group)
    attributes = {name: value for name, value in fit.attrs.items() if name != "created_at"}
    reduced = results.build(groups, attributes | {"parameters": json.dumps(sorted(selected))})
    if "created_at" in fit.attrs:
        reduced.attrs["created_at"] = fit.attrs["created_at"]
    return reduced
