"""The fits of a report: their columns and measures, and which of them can be used.

If there are thousands of columns, a report measures the worst and the most different.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from stanadapt import results
from stanadapt.diagnostics.compare import compare, counted_variables, disagreement
from stanadapt.diagnostics.densities import has_same_data
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.mixing import Efficiency, efficiency
from stanadapt.diagnostics.reasons import FINE, NOT_EXACT, ORDER
from stanadapt.diagnostics.screening import worst_columns
from stanadapt.errors import Message, StanadaptError
from stanadapt.samplers.straightened_pair import STRAIGHTENED

Repeats = dict[str, list[Any]]


class ReportedFit(NamedTuple):
    """One fit of a report.

    Attributes
    ----------
    name, repeat
        Name of its row, and its number among the repeats of that row, from 0.
    label
        Its name in messages.
    columns, measured
        The columns that `compare` counts, shape (chain, draw), and their `Efficiency`.
    row
        Its row of `compare`.
    reasons, missed
        Messages of the verdict, and on modes that it missed.
    regions
        Number of separate regions in which its chains lie; 1 if they agree.

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
        """Seconds of one core for warm-up and sampling; NaN if they were not recorded."""
        total = float(self.row["seconds_warmup"] + self.row["seconds_sampling"])
        return total if total > 0 else np.nan

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk ESS per second; NaN if either is unknown."""
        return float(self.row["ess_bulk_min"]) / self.seconds

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """The sample statistics of shape (chain, draw); empty if there is no such group."""
        return statistics(self.fit, "sample_stats")


def statistics(fit: Any, group: str) -> dict[str, np.ndarray]:
    """Return the arrays of shape (chain, draw) in a group; empty if there is no such group."""
    if group not in results.group_names(fit):
        return {}
    variables = results.dataset(fit, group).data_vars
    return {
        str(name): v.transpose("chain", "draw").values  # other libraries use other orders
        for name, v in variables.items()
        if set(v.dims) == {"chain", "draw"}
    }


def list_repeats(fits: Any) -> Repeats:
    """Return fits as a list for each name, made text; StanadaptError unless each has a fit."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "not_fits_by_name",
            "report takes a mapping of fits by name, {'name': fit} or {'name': [fit, fit]}, not "
            f"{type(fits).__name__}.",
        )
    if not fits:
        raise StanadaptError("nothing_to_study", "report needs at least one fit, got none.")
    listed: Repeats = {}
    for name, value in fits.items():
        if str(name) in listed:
            raise StanadaptError(
                "wrong_fit_name",
                f"Two names of fits are printed alike, as {str(name)!r}: rename one.",
            )
        repeats = list(value) if isinstance(value, list | tuple) else [value]
        for fit in repeats:
            if not results.is_fit(fit):
                raise StanadaptError(
                    "not_fits_by_name",
                    f"{name!r} must be a result of sample or stan_nuts, or a list of them, got "
                    f"{type(fit).__name__}.",
                )
        if not repeats:
            text = f"{name!r} is an empty list: give at least one fit."
            raise StanadaptError("nothing_to_study", text)
        listed[str(name)] = repeats
    _require_common_variable(listed)
    return listed


def _require_common_variable(fits: Repeats) -> None:
    variables = [
        {str(v) for v in results.dataset(fit, "posterior").data_vars}
        for repeats in fits.values()
        for fit in repeats
    ]
    if not set.intersection(*variables):
        listed = "; ".join(
            f"{name}: {', '.join(sorted(names)[:5]) or 'none'}"
            for name, names in zip(fits, variables, strict=False)
        )
        raise StanadaptError(
            "nothing_in_common",
            f"the fits have no variable in common ({listed}): give fits of one program and one "
            "data set.",
        )


class RunSet(NamedTuple):
    """All runs; the name of the baseline, if there is one; notes on densities and samplers."""

    runs: list[ReportedFit]
    baseline: str | None
    notes: list[str]


def collect(fits: Repeats, baseline: str | None, table: pd.DataFrame | None) -> RunSet:
    """Compare the fits in rounds: the k-th repeat of each name with the k-th of the others.

    Parameters
    ----------
    fits
        Repeats by name. If one name has fewer, its repeats take part again in later rounds.
    baseline
        As for `compare`.
    table
        The result of `compare` for the first repeats, if there is one.

    Names in `baseline` and `table` may be numbers; those of `fits` are text.

    """
    baseline = None if baseline is None else str(baseline)
    table = None if table is None else _with_names_as_text(table)
    runs: dict[tuple[str, int], ReportedFit] = {}
    rounds = max(len(repeats) for repeats in fits.values())
    notes: dict[str, None] = {}  # in order, without repetition
    for k in range(rounds):
        round_ = {name: repeats[k % len(repeats)] for name, repeats in fits.items()}
        if table is None or k > 0:
            table = compare(round_, baseline)
        wanted = counted_variables(round_, None)
        notes |= dict.fromkeys(table.attrs["trajectories"] + table.attrs["density"])
        for name, fit in round_.items():
            key = (name, k % len(fits[name]))
            if key not in runs:
                columns = results.columns(fit, wanted=wanted)
                runs[key] = _run(*key, len(fits[name]) > 1, fit, columns, table)
        baseline = table.attrs["baseline"]
    return RunSet(list(runs.values()), baseline, list(notes))


def _with_names_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Return a result of `compare` with the names of fits as text."""
    # an index of numbers turns 1 into 1.0; the attributes keep each name as it was given
    texts = {name: str(name) for name in table.attrs["reasons"]}
    attributes = table.attrs
    renamed = table.set_axis([texts[name] for name in table.index])
    renamed.attrs = dict(attributes)
    for key in ("reasons", "missed", "separate_regions"):
        renamed.attrs[key] = {texts[name]: value for name, value in attributes[key].items()}
    baseline = attributes["baseline"]
    renamed.attrs["baseline"] = None if baseline is None else texts[baseline]
    return renamed


def _run(
    name: str, repeat: int, several: bool, fit: Any, columns: Columns, table: pd.DataFrame
) -> ReportedFit:
    columns = {k: np.asarray(x, dtype=float) for k, x in columns.items()}
    return ReportedFit(
        name=name,
        repeat=repeat,
        label=f"{name}, repeat {repeat + 1}" if several else name,
        fit=fit,
        columns=columns,
        measured=efficiency(columns),
        row=table.loc[name],
        reasons=table.attrs["reasons"][name],
        missed=list(table.attrs["missed"].get(name, [])),
        regions=table.attrs["separate_regions"].get(name, 1),
    )


def parameters(run: ReportedFit) -> list[str]:
    """Return the names of the columns that move and are finite."""
    return [
        name
        for name, mean, sd in zip(
            run.measured.names, run.measured.mean, run.measured.sd, strict=True
        )
        if np.isfinite(mean) and np.isfinite(sd)
    ]


def representatives(runs: list[ReportedFit]) -> list[ReportedFit]:
    """Return one run per name, for the pictures: the worst by verdict, then by ESS per second."""
    worst: dict[str, ReportedFit] = {}
    for run in runs:
        other = worst.get(run.name)
        if other is None or _quality(run) < _quality(other):
            worst[run.name] = run
    return list(worst.values())


def _quality(run: ReportedFit) -> tuple[int, float]:
    return -ORDER.index(run.row["verdict"]), float(np.nan_to_num(run.ess_per_second, nan=-1.0))


# --- which fits can be used ----------------------------------------------------------------------

CHANCE = 1e-4  # that a fit without error seems to disagree, if its errors are exactly normal


class Assessment(NamedTuple):
    """The objections to each run.

    Attributes
    ----------
    reference
        The run that the others are compared with.
    sound
        Whether the reference itself passes every check.
    z
        By label: largest differences of means and of sds from the reference, in joint Monte Carlo
        standard errors; NaN for the reference and fits that cannot be compared with it.
    objections
        By label: a short reason why the run cannot be used; None if it can.

    """

    reference: ReportedFit
    sound: bool
    z: dict[str, tuple[float, float]]
    objections: dict[str, Message | None]

    def usable(self, runs: list[ReportedFit], name: str) -> bool:
        """Return whether every repeat of a name can be used."""
        return not any(self.objections[run.label] for run in runs if run.name == name)

    def uncompared(self, runs: list[ReportedFit]) -> list[str]:
        """Return the labels of the runs of which nothing was compared with the reference."""
        labels = [run.label for run in runs if run is not self.reference]
        return [label for label in labels if not np.isfinite(np.fmax(*self.z[label]))]


def assess(runs: list[ReportedFit], baseline: str | None) -> Assessment:
    """Choose the reference, and compare every run with it.

    The reference is the baseline if that passes every check; otherwise, of the runs that do, the
    one with the largest of the smallest bulk ESS. If no run does, differences from the reference
    prove nothing and are no objection.
    """
    sound = [run for run in runs if _is_sound(run)]
    preferred = [run for run in sound if run.name == baseline] or sound or runs
    reference = max(preferred, key=lambda run: np.nan_to_num(run.row["ess_bulk_min"], nan=-1.0))
    z, objections = {}, {}
    for run in runs:
        z[run.label] = np.nan, np.nan
        if run is not reference and has_same_data(run.fit, reference.fit):
            z[run.label] = disagreement(run.measured, reference.measured)
        objections[run.label] = _object(run, reference, bool(sound), z[run.label])
    return Assessment(reference, bool(sound), z, objections)


def _is_sound(run: ReportedFit) -> bool:
    fine = run.row["verdict"] == FINE and not run.missed
    return bool(fine and run.row["exact"] and run.row["chains"] > 1)


def _object(
    run: ReportedFit, reference: ReportedFit, sound: bool, z: tuple[float, float]
) -> Message | None:
    if run.row["verdict"] not in (FINE, NOT_EXACT):
        return Message("unusable_verdict", str(run.row["verdict"]))
    if run.missed:
        return Message("missed_by_fit", "missed modes")
    if not run.row["exact"]:
        return Message("inexact_sampler", "not exact")
    largest = np.fmax(*z)
    if sound and largest > largest_z(run, reference):
        return Message("disagreement", f"disagrees with {reference.name}")
    compared = sound and np.isfinite(largest)
    if run.row["chains"] == 1 and not compared:
        return Message("unchecked_chain", "a single chain with no reference fit")
    same_data = has_same_data(run.fit, reference.fit)  # other random data are no fault
    if sound and not compared and same_data and run is not reference:
        return Message("not_compared", f"not comparable with {reference.name}")
    return None


def largest_z(run: ReportedFit, reference: ReportedFit) -> float:
    """Return the bound that a fit's largest z exceeds with probability CHANCE at most.

    It is Bonferroni's bound for the means and sds of all common columns.
    """
    count = len(set(run.measured.names) & set(reference.measured.names))
    return float(scipy.stats.norm.isf(CHANCE / (4 * max(count, 1))))


# --- fits with very many columns -----------------------------------------------------------------

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
        summary = _summarize(moving)
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


def _summarize(columns: Columns) -> Summary:
    """Return the mean, and the standard deviation within chains, of each column."""
    return {name: (float(x.mean()), float(x.std(axis=1).mean())) for name, x in columns.items()}


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
