"""The fits of a report: their columns and their measures."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.compare import (
    Measures,
    compare_measured,
    counted_variables,
    measure,
    require_comparable,
)
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.mixing import Efficiency
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
        return results.statistics(self.fit)


def list_repeats(fits: Any) -> Repeats:
    """Return fits as a list for each name, made text; `compare` checks the fits themselves."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "not_fits_by_name",
            "report takes a mapping of fits by name, {'name': fit} or {'name': [fit, fit]}, not "
            f"{type(fits).__name__}.",
        )
    listed = {
        str(name): list(value) if isinstance(value, list | tuple) else [value]
        for name, value in fits.items()
    }
    if not listed or not all(listed.values()):
        empty = [name for name, repeats in listed.items() if not repeats]
        text = f"report needs at least one fit{f' of {empty[0]!r}' if empty else ''}, got none."
        raise StanadaptError("nothing_to_study", text)
    return listed


class RunSet(NamedTuple):
    """All runs; the name of the baseline, if there is one; notes on densities and samplers."""

    runs: list[ReportedFit]
    baseline: str | None
    notes: list[str]


def collect(fits: Repeats, baseline: str | None, table: pd.DataFrame | None) -> RunSet:
    """Compare the fits in rounds: the k-th repeat of each name with the k-th of the others.

    If one name has fewer repeats, these take part again in later rounds. The table is the result of
    `compare` for the first repeats, if there is one; for names that are not text, made again.
    """
    if baseline is None and table is not None:
        baseline = table.attrs["baseline"]
    baseline = None if baseline is None else str(baseline)
    if table is not None and list(table.index) != list(fits):
        table = None
    runs: dict[tuple[str, int], ReportedFit] = {}
    rounds = max(len(repeats) for repeats in fits.values())
    measures: dict[tuple[str, int], Measures] = {}
    notes: dict[str, None] = {}  # in order, without repetition
    for k in range(rounds):
        round_ = {name: repeats[k % len(repeats)] for name, repeats in fits.items()}
        require_comparable(round_, baseline)
        wanted = counted_variables(round_, None)
        keys = {name: (name, k % len(fits[name])) for name in fits}
        for name, key in keys.items():
            if key not in measures:
                measures[key] = measure(round_[name], wanted)
        if table is None or k > 0:
            own = {name: measures[key] for name, key in keys.items()}
            table = compare_measured(round_, own, baseline)
        notes |= dict.fromkeys(table.attrs["trajectories"] + table.attrs["density"])
        for name, key in keys.items():
            if key not in runs:
                several = len(fits[name]) > 1
                runs[key] = _run(*key, several, round_[name], measures[key], table)
        baseline = table.attrs["baseline"]
    return RunSet(list(runs.values()), baseline, list(notes))


def _run(
    name: str, repeat: int, several: bool, fit: Any, measures: Measures, table: pd.DataFrame
) -> ReportedFit:
    return ReportedFit(
        name=name,
        repeat=repeat,
        label=f"{name}, repeat {repeat + 1}" if several else name,
        fit=fit,
        columns={n: np.asarray(x, dtype=float) for n, x in measures.columns.items()},
        measured=measures.efficiency,
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
