"""Of thousands of parameters, those that a report measures: the worst, and the most different.

What a report knows of each fit: its columns, its measures, and the row of the comparison.

Which fits of a report can be used, and which one is the yardstick for the others.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from stanadapt import results
from stanadapt.diagnostics.compare import compare, counted_variables, disagreement
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.mixing import Efficiency, efficiency, worst_columns
from stanadapt.diagnostics.verdict import FINE, NOT_EXACT, ORDER
from stanadapt.errors import StanadaptError

Repeats = dict[str, list[Any]]


class Run(NamedTuple):
    """One fit of a report.

    name, repeat
        Name of its row, and its number among the repeats of that row, from 0.
    label
        What it is called in sentences.
    columns, measured
        The columns that `compare` counts, shape (chain, draw), and their `Efficiency`.
    row
        Its row of `compare`.
    reasons, missed
        Sentences of the verdict; of modes that it missed.
    regions
        Number of separate regions in which its chains lie; 1 where they agree.

    """

    name: str
    repeat: int
    label: str
    fit: Any
    columns: Columns
    measured: Efficiency
    row: pd.Series
    reasons: list[str]
    missed: list[str]
    regions: int

    @property
    def seconds(self) -> float:
        """Of one core, for warm-up and sampling; NaN if they were not recorded."""
        total = float(self.row["seconds_warmup"] + self.row["seconds_sampling"])
        return total if total > 0 else np.nan

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk ESS per second; NaN if either is unknown."""
        return float(self.row["ess_bulk_min"]) / self.seconds

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """The sample statistics of shape (chain, draw); none, if there is no such group."""
        return statistics(self.fit, "sample_stats")


def statistics(fit: Any, group: str) -> dict[str, np.ndarray]:
    """Arrays of shape (chain, draw) in a group of statistics; none, if there is no such group."""
    if group not in results.group_names(fit):
        return {}
    found = results.dataset(fit, group).data_vars
    return {str(name): v.values for name, v in found.items() if v.values.ndim == 2}


def as_repeats(fits: Any) -> Repeats:
    """Return fits as a list for each name; StanadaptError unless there is a fit in each."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "settings",
            "report takes a mapping of fits by name, {'name': fit} or {'name': [fit, fit]}, not "
            f"{type(fits).__name__}.",
        )
    if not fits:
        raise StanadaptError("settings", "report needs at least one fit, got none.")
    listed = {}
    for name, given in fits.items():
        repeats = list(given) if isinstance(given, list | tuple) else [given]
        for fit in repeats:
            if not results.is_fit(fit):
                raise StanadaptError(
                    "settings",
                    f"{name!r} must be a result of sample or stan_nuts, or a list of them, got "
                    f"{type(fit).__name__}.",
                )
        if not repeats:
            raise StanadaptError("settings", f"{name!r} is an empty list: give at least one fit.")
        listed[str(name)] = repeats
    _check_common(listed)
    return listed


def _check_common(fits: Repeats) -> None:
    variables = [
        {str(v) for v in results.dataset(fit, "posterior").data_vars}
        for repeats in fits.values()
        for fit in repeats
    ]
    if not set.intersection(*variables):
        listed = "; ".join(
            f"{name}: {', '.join(sorted(found)[:5]) or 'none'}"
            for name, found in zip(fits, variables, strict=False)
        )
        raise StanadaptError(
            "settings",
            f"the fits have no variable in common ({listed}): give fits of one program and one "
            "data set.",
        )


class Compared(NamedTuple):
    """All runs; the name of the baseline, if there is one; sentences on densities and samplers."""

    runs: list[Run]
    baseline: str | None
    notes: list[str]


def collect(fits: Repeats, baseline: str | None, table: pd.DataFrame | None) -> Compared:
    """Compare the fits in rounds: the k-th repeat of each name with the k-th of the others.

    A name with fewer repeats than another takes part in later rounds with the same ones again.
    `table` is what `compare` said of the same fits, where it was asked before.
    """
    runs: dict[tuple[str, int], Run] = {}
    rounds = max(len(repeats) for repeats in fits.values())
    notes: dict[str, None] = {}  # in order, without repetition
    for k in range(rounds):
        chosen = {name: repeats[k % len(repeats)] for name, repeats in fits.items()}
        if table is None or k > 0:
            table = compare(chosen, baseline, show=False)
        wanted = counted_variables(chosen, None)
        notes |= dict.fromkeys(table.attrs["trajectories"] + table.attrs["density"])
        for name, fit in chosen.items():
            key = (name, k % len(fits[name]))
            if key not in runs:
                columns = results.columns(fit, wanted=wanted)
                runs[key] = _run(*key, len(fits[name]) > 1, fit, columns, table)
        baseline = table.attrs["baseline"]
    return Compared(list(runs.values()), baseline, list(notes))


def _run(
    name: str, repeat: int, several: bool, fit: Any, columns: Columns, table: pd.DataFrame
) -> Run:
    columns = {k: np.asarray(x, dtype=float) for k, x in columns.items()}
    return Run(
        name=name,
        repeat=repeat,
        label=f"{name}, repeat {repeat + 1}" if several else name,
        fit=fit,
        columns=columns,
        measured=efficiency(columns),
        row=table.loc[name],
        reasons=table.attrs["reasons"][name],
        missed=[s.partition(": ")[2] for s in table.attrs["missed"] if s.startswith(f"{name}: ")],
        regions=table.attrs["separate_regions"].get(name, 1),
    )


def parameters(run: Run) -> list[str]:
    """Names of the moving, finite columns."""
    return [
        name
        for name, mean, sd in zip(
            run.measured.names, run.measured.mean, run.measured.sd, strict=True
        )
        if np.isfinite(mean) and np.isfinite(sd)
    ]


def representatives(runs: list[Run]) -> list[Run]:
    """Return one run per name, for the pictures: the worst by verdict, then by ESS per second."""
    chosen: dict[str, Run] = {}
    for run in runs:
        other = chosen.get(run.name)
        if other is None or _badness(run) < _badness(other):
            chosen[run.name] = run
    return list(chosen.values())


def _badness(run: Run) -> tuple[int, float]:
    return -ORDER.index(run.row["verdict"]), float(np.nan_to_num(run.ess_per_second, nan=-1.0))


CHANCE = 1e-4  # that a fit without error is said to disagree, were its errors exactly normal


class Standing(NamedTuple):
    """What is held against each run.

    reference
        The run that the others are measured against.
    sound
        Whether the reference itself passes every check.
    z
        By label: largest differences of means and of sds from the reference, in joint Monte Carlo
        standard errors; NaN for the reference.
    objections
        By label: in a few words why the run cannot be used, "" if it can.

    """

    reference: Run
    sound: bool
    z: dict[str, tuple[float, float]]
    objections: dict[str, str]

    def usable(self, runs: list[Run], name: str) -> bool:
        """Whether every repeat of a name can be used."""
        return not any(self.objections[run.label] for run in runs if run.name == name)


def standing(runs: list[Run], baseline: str | None) -> Standing:
    """Choose the yardstick and hold every run against it.

    It is the baseline, if that passes every check, else the run that does with the largest of the
    smallest bulk ESS; if none does, differences from it prove nothing, and are not held against
    anyone.
    """
    sound = [run for run in runs if _sound(run)]
    preferred = [run for run in sound if run.name == baseline] or sound or runs
    reference = max(preferred, key=lambda run: np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))
    z, objections = {}, {}
    for run in runs:
        nothing = (np.nan, np.nan)
        z[run.label] = (
            nothing if run is reference else disagreement(run.measured, reference.measured)
        )
        objections[run.label] = _objection(run, reference, bool(sound), z[run.label])
    return Standing(reference, bool(sound), z, objections)


def _sound(run: Run) -> bool:
    fine = run.row["verdict"] == FINE and not run.missed
    return bool(fine and run.row["exact"] and run.row["chains"] > 1)


def _objection(run: Run, reference: Run, sound: bool, z: tuple[float, float]) -> str:
    if run.row["verdict"] not in (FINE, NOT_EXACT):
        return str(run.row["verdict"])
    if run.missed:
        return "missed modes"
    if not run.row["exact"]:
        return "not exact"
    largest = np.fmax(*z)
    if sound and largest > largest_z(run, reference):
        return f"disagrees with {reference.name}"
    if run.row["chains"] == 1 and not (sound and np.isfinite(largest)):
        return "one chain, and nothing to hold it against"
    return ""


def largest_z(run: Run, reference: Run) -> float:
    """Size that a fit's largest difference in standard errors exceeds with probability CHANCE.

    Bonferroni's bound for the means and sds of all common columns.
    """
    count = len(set(run.measured.names) & set(reference.measured.names))
    return float(norm.isf(CHANCE / (4 * max(count, 1))))


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
