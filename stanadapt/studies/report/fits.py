"""The fits of a report: their columns and their measures."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.compare import compare, counted_variables
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.mixing import Efficiency, efficiency, mixing_of
from stanadapt.diagnostics.reasons import ORDER
from stanadapt.errors import StanadaptError

Repeats = dict[str, list[Any]]


class ReportedFit(NamedTuple):
    name: str  # of its row
    repeat: int  # its number among the repeats of that row, from 0
    label: str  # its name in messages
    fit: Any
    columns: Columns  # those that `compare` counts, shape (chain, draw)
    measured: Efficiency
    row: pd.Series  # of `compare`
    reasons: list[str]  # of the verdict
    missed: list[str]  # messages on modes that it missed
    regions: int  # in which its chains lie; 1 if they agree

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
    variables = results.standard_names(results.dataset(fit, group)).data_vars
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

    If one name has fewer repeats, these take part again in later rounds. The table is the result of
    `compare` for the first repeats, if there is one. Names in it and the baseline may be numbers;
    those of the fits are text.
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
        measured=efficiency(columns, measure=mixing_of(fit)),
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
