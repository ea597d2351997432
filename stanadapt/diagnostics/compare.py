"""Fits of one target side by side: their cost, and whether they agree."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from stanadapt import results
from stanadapt.diagnostics.efficiency import Efficiency, efficiency
from stanadapt.diagnostics.missed_modes import Columns, is_stationary, missed, separate_regions
from stanadapt.diagnostics.verdict import Verdict, verdict
from stanadapt.errors import StanadaptError
from stanadapt.samplers.renamed import with_new_names

# above it a fit is reported as not usable, whatever its effective sample size
LARGEST_R_HAT = 1.05
REASONS_SHOWN = 2  # per fit, below the table; all of them are in attrs
OLD_NAMES = {"reference": "baseline"}


def compare(
    fits: Mapping[str, Any],
    baseline: str | None = None,
    show: bool = True,
    *,
    reference: str | None = None,
) -> Any:
    """Compare fits of one target.

    Parameters
    ----------
    fits
        Results of `sample` and `stan_nuts`, by the name of their row. All must be of the same
        program and data.
    baseline
        Name of the fit that the others are measured against; default: the first result of
        `stan_nuts`, CmdStan's before the embedded engine's; without any, there is no baseline.
    show
        Also print the table.
    reference
        Old name of `baseline`.

    Returns
    -------
    pandas.DataFrame
        One row per fit. `ess_*` count all chains; `seconds_*` are sums over chains (time of one
        core), compilation excluded; `ess_per_second` and `ess_per_gradient` are the smallest bulk
        ESS over the cost of warm-up and sampling together; `gradients` includes warm-up; `z_mean`
        and `z_sd` are the largest differences from the baseline, in joint Monte Carlo standard
        errors: with many parameters, 3 to 4 is what chance gives. `missed` is the largest share
        of another fit's draws that lie where this one has none, over fits with chains that agree:
        about 0, unless it missed modes. `attrs` holds the name of the `baseline`; `density`:
        sentences on whether our density is CmdStan's; `missed`: sentences on fits that clearly
        missed something; `separate_regions`: for each fit with chains that disagree, the number
        of separate regions in which they lie.

    Raises
    ------
    StanadaptError
        Stage "settings", if there is nothing to compare, or the fits have different targets.

    """
    given = {"baseline": baseline, "reference": reference}
    given = {name: value for name, value in given.items() if value is not None}
    baseline = with_new_names("compare", given, OLD_NAMES).get("baseline")
    _check(fits, baseline)
    chosen = baseline or _default_baseline(fits)
    columns = {name: results.columns(fit) for name, fit in fits.items()}
    measured = {name: efficiency(values) for name, values in columns.items()}
    judgements = {name: verdict(fit) for name, fit in fits.items()}
    rows = {name: _row(fit, measured[name], judgements[name]) for name, fit in fits.items()}
    for name, row in rows.items():
        mean, sd = np.nan, np.nan
        if chosen and name != chosen:
            mean, sd = disagreement(measured[name], measured[chosen])
        row |= {"z_mean": mean, "z_sd": sd}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.attrs |= {"baseline": chosen, "density": _density_checks(fits)}
    found = [_trajectory(name, fit) for name, fit in fits.items()]
    table.attrs["trajectories"] = [sentence for sentence in found if sentence]
    table.attrs["reasons"] = {name: found.sentences for name, found in judgements.items()}
    _add_missed(table, columns)
    if show:
        show_table(table)
    return table


def _check(fits: Mapping[str, Any], baseline: str | None) -> None:
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "settings", "compare takes a mapping of fits by name, {'name': fit}, not one fit."
        )
    for name, fit in fits.items():
        if not results.is_fit(fit):
            raise StanadaptError(
                "settings", f"{name!r} must be a result of sample or stan_nuts, got {fit!r}."
            )
    if not fits:
        raise StanadaptError("settings", "compare needs at least one fit, got none.")
    if baseline is not None and baseline not in fits:
        names = ", ".join(fits)
        raise StanadaptError(
            "settings", f"baseline must be one of the fits ({names}), got {baseline!r}."
        )
    for what in ("program_hash", "data_hash"):
        seen = {name: results.attribute(fit, what) for name, fit in fits.items()}
        if len(set(seen.values())) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in seen.items())
            raise StanadaptError(
                "settings",
                f"all fits must be of one program and one data set, but {what} differs ({listed}).",
            )


def _default_baseline(fits: Mapping[str, Any]) -> str | None:
    # only results of Stan's NUTS have an engine: our own sampler `nuts` is no default
    nuts = [n for n, fit in fits.items() if results.attribute(fit, "engine")]
    nuts.sort(key=lambda n: -int(results.attribute(fits[n], "engine_independent", 0)))
    return nuts[0] if nuts else None


def _row(fit: Any, measured: Efficiency, judgement: Verdict) -> dict[str, Any]:
    def total(name: str) -> float:
        return float(np.sum(results.attribute(fit, name, 0)))

    warmup, sampling = total("warmup_seconds"), total("sampling_seconds")
    gradients, smallest = total("n_gradients"), _smallest(measured.ess_bulk)
    draws = results.dataset(fit, "posterior").sizes
    return {
        "verdict": judgement.verdict,
        "sampler": results.attribute(fit, "engine") or results.attribute(fit, "sampler", ""),
        "chains": draws["chain"],
        "draws": draws["draw"],
        "ess_bulk_min": smallest,
        "ess_bulk_median": _median(measured.ess_bulk),
        "ess_tail_min": _smallest(measured.ess_tail),
        "r_hat_max": float(np.nanmax(measured.r_hat, initial=np.nan))
        if np.isfinite(measured.r_hat).any()
        else np.nan,
        "seconds_warmup": warmup,
        "seconds_sampling": sampling,
        "seconds_compile": total("compile_seconds"),
        "ess_per_second": smallest / max(warmup + sampling, 1e-9),
        "gradients": int(gradients),
        "densities": int(total("n_density")),
        "ess_per_gradient": smallest / gradients if gradients else np.nan,
        "failed": int(total("n_failed") + total("n_failed_quantities")),
        "stopped_chains": int(total("n_stopped")),
        "interrupted": bool(total("interrupted")),
    }


def _smallest(values: np.ndarray) -> float:
    return float(np.nanmin(values)) if np.isfinite(values).any() else np.nan


def _median(values: np.ndarray) -> float:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan


def disagreement(one: Efficiency, other: Efficiency) -> tuple[float, float]:
    """Largest |difference| of means and of sds, in joint Monte Carlo standard errors."""
    common = [name for name in one.names if name in set(other.names)]
    if not common:
        return np.nan, np.nan
    i = [one.names.index(name) for name in common]
    j = [other.names.index(name) for name in common]
    z = []
    for value, error in (("mean", "mcse_mean"), ("sd", "mcse_sd")):
        difference = getattr(one, value)[i] - getattr(other, value)[j]
        z.append(np.abs(difference) / np.hypot(getattr(one, error)[i], getattr(other, error)[j]))
    return _largest(z[0]), _largest(z[1])


def _largest(values: np.ndarray) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else np.nan


def _trajectory(name: str, fit: Any) -> str:
    """What a sampler that chose its trajectories found out in warm-up."""
    found = results.attribute(fit, "trajectory")
    if not found:
        return ""
    sampler = results.attribute(fit, "sampler")
    return (
        f"{name}: {'' if sampler == name else f'{sampler}, '}{found} (metric: "
        f"{results.attribute(fit, 'metric')}; warm-up of "
        f"{results.attribute(fit, 'warmup_iterations')} iterations)."
    )


def _add_missed(table: pd.DataFrame, columns: dict[str, Columns]) -> None:
    """Measure every fit against those with chains that agree; others are no yardstick."""
    table["missed"], messages, regions = np.nan, [], {}
    yardsticks = [name for name in table.index if _agrees(table.loc[name], columns[name])]
    for name in table.index:
        others = [other for other in yardsticks if other != name]
        found = {other: missed(columns[other], columns[name]) for other in others}
        found = {other: share for other, share in found.items() if np.isfinite(share.share)}
        if found:
            table.loc[name, "missed"] = max(0.0, *(share.share for share in found.values()))
        clear = {other: share for other, share in found.items() if share.clear}
        if clear:
            other = max(clear, key=lambda other: clear[other].share)
            note = " It is the baseline of z." if name == table.attrs["baseline"] else ""
            messages.append(
                f"{name}: {clear[other].share:.0%} of the draws of {other} lie where it has almost "
                f"none: it missed modes, or did not reach them.{note}"
            )
        if table.loc[name, "r_hat_max"] > LARGEST_R_HAT:
            regions[name] = separate_regions(columns[name])
    table.attrs |= {"missed": messages, "separate_regions": regions}


def _agrees(row: pd.Series, columns: Columns) -> bool:
    if row["chains"] == 1:
        return is_stationary(columns, LARGEST_R_HAT)
    return bool(row["r_hat_max"] <= LARGEST_R_HAT)


def _density_checks(fits: Mapping[str, Any]) -> list[str]:
    """Sentences on the check against CmdStan, and on fits with a density that was not checked."""
    messages, checked = [], set()
    for name, fit in fits.items():
        sentence = results.attribute(fit, "density_verified")
        if sentence and results.attribute(fit, "engine_independent", 0):
            messages.append(f"{name}: {sentence}.")
            if results.attribute(fit, "density_verdict") != "not checked":
                checked.add(results.attribute(fit, "density_backend_version", ""))
    for name, fit in fits.items():
        own = results.attribute(fit, "backend_version")
        if own and checked and own not in checked:
            listed = ", ".join(sorted(checked))
            messages.append(
                f"{name}: its density is that of {own}; the one checked is that of {listed}."
            )
    return messages


COLUMNS = {
    "ess_bulk_min": ("min ESS", "{:,.0f}"),
    "ess_bulk_median": ("median", "{:,.0f}"),
    "ess_tail_min": ("tail ESS", "{:,.0f}"),
    "r_hat_max": ("R-hat", "{:.3f}"),
    "seconds_warmup": ("warm-up s", "{:.2f}"),
    "seconds_sampling": ("sampling s", "{:.2f}"),
    "seconds_compile": ("compile s", "{:.1f}"),
    "ess_per_second": ("ESS/s", "{:,.0f}"),
    "gradients": ("gradients", "{:,}"),
    "ess_per_gradient": ("ESS/grad", "{:.4f}"),
    "failed": ("failed", "{:,}"),
    "z_mean": ("z mean", "{:.1f}"),
    "z_sd": ("z sd", "{:.1f}"),
    "missed": ("missed", "{:.0%}"),
}


def show_table(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print a comparison and the remarks on it."""
    console = console or Console(file=sys.stdout)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width: long lines are better than broken words
    shown = Table(box=None, header_style="bold")
    shown.add_column("fit")
    for title, _ in COLUMNS.values():
        shown.add_column(title, justify="right")
    for name, row in table.iterrows():
        cells = [_cell(row[column], form) for column, (_, form) in COLUMNS.items()]
        shown.add_row(str(name), *cells)
    console.print(shown)
    for sentence in remarks(table):
        console.print(sentence, highlight=False)


def _cell(value: Any, form: str) -> str:
    return "" if value != value else form.format(value)


def remarks(table: pd.DataFrame) -> list[str]:
    """Sentences on what the numbers alone do not show."""
    messages = []
    chosen = table.attrs.get("baseline")
    if chosen is not None:
        engine = table.loc[chosen, "sampler"]
        shared = "" if str(engine).startswith("cmdstan") else ", which shares our density"
        messages.append(
            f"z: largest difference from {chosen} ({engine}{shared}) in joint Monte Carlo "
            "standard errors."
        )
    messages += table.attrs.get("trajectories", [])
    messages += table.attrs.get("density", []) + table.attrs.get("missed", [])
    for name, row in table.iterrows():
        reasons = table.attrs["reasons"][name][:REASONS_SHOWN]
        if reasons:  # a fit that is fine may have one too: the maximum tree depth
            messages.append(f"{name}: {row['verdict']}. {' '.join(reasons)}")
        count = table.attrs["separate_regions"].get(name, 1)
        if count > 1:
            messages.append(f"{name}: its chains lie in {count} separate regions.")
        if row["interrupted"]:
            messages.append(f"{name}: interrupted; {row['draws']} draws per chain.")
        if row["stopped_chains"]:
            messages.append(f"{name}: failed chains, left out: {row['stopped_chains']}.")
    return messages
