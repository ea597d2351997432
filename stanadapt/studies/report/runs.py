"""What a report knows of each fit: its columns, its measures, and the row of the comparison."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.comparable import counted_variables
from stanadapt.diagnostics.compare import compare
from stanadapt.diagnostics.efficiency import Efficiency, efficiency
from stanadapt.diagnostics.missed_modes import Columns
from stanadapt.diagnostics.verdict import ORDER
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
