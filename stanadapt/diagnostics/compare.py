"""Fits of one target side by side: their cost, and whether they agree.

Whether fits can be compared: of one target, with variables in common.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.comparison_table import Comparison, present
from stanadapt.diagnostics.importance import is_approximation, is_exact
from stanadapt.diagnostics.missed_modes import Columns, is_stationary, missed, separate_regions
from stanadapt.diagnostics.mixing import Efficiency, efficiency
from stanadapt.diagnostics.verdict import Verdict, verdict
from stanadapt.errors import StanadaptError, is_one_of, require_flag, require_names

HASHES = ("program_hash", "data_hash")


def require_comparable(fits: Mapping[str, Any], baseline: str | None) -> None:
    """Raise StanadaptError unless these are fits of one target, among them the baseline."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "settings", "compare takes a mapping of fits by name, {'name': fit}, not one fit."
        )
    for name, fit in fits.items():
        _require_printable(name)
        results.require_draws(fit, repr(name))
    if not fits:
        raise StanadaptError("settings", "compare needs at least one fit, got none.")
    if baseline is not None and not is_one_of(baseline, fits.keys()):
        names = ", ".join(map(str, fits))
        raise StanadaptError(
            "settings", f"baseline must be one of the fits ({names}), got {baseline!r}."
        )
    for what in HASHES:
        seen = {name: results.attribute(fit, what) for name, fit in fits.items()}
        known = {name: value for name, value in seen.items() if value is not None}
        if len(set(known.values())) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in known.items())
            raise StanadaptError(
                "settings",
                f"all fits must be of one program and one data set, but {what} differs ({listed}).",
            )
    _require_same_variables(fits)


def _require_printable(name: Any) -> None:
    """Tables take numbers too; None, NaN and functions mean something else to them."""
    number = isinstance(name, int | float) and not isinstance(name, bool) and name == name
    text = isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)
    if not (number or text):
        raise StanadaptError(
            "settings", f"the name of a fit must be text that can be printed, got {name!r}."
        )


def _shapes(fit: Any) -> dict[str, tuple[int, ...]]:
    variables = results.dataset(fit, "posterior").data_vars
    return {
        str(name): tuple(size for d, size in x.sizes.items() if d not in ("chain", "draw"))
        for name, x in variables.items()
    }


def _require_same_variables(fits: Mapping[str, Any]) -> None:
    """Of fits that do not record their program, the variables must tell."""
    first, *others = fits
    shapes = _shapes(fits[first])
    for name in others:
        unknown = [n for n in (first, name) if results.attribute(fits[n], HASHES[0]) is None]
        own = _shapes(fits[name])
        common = shapes.keys() & own.keys()
        different = [variable for variable in sorted(common) if shapes[variable] != own[variable]]
        if different:
            raise StanadaptError(
                "settings",
                f"{different[0]} has shape {shapes[different[0]]} in {first} and "
                f"{own[different[0]]} in {name}: fits must be of one program and one data set.",
            )
        if unknown and not common:
            raise StanadaptError(
                "settings",
                f"{first} ({', '.join(shapes)}) and {name} ({', '.join(own)}) have no variable in "
                "common: fits must be of one program and one data set.",
            )


def counted_variables(
    fits: Mapping[str, Any], var_names: Collection[str] | None
) -> Collection[str] | None:
    """Return the variables that are compared; None stands for all.

    Raises
    ------
    StanadaptError
        Stage "settings", where no fit has one of `var_names`.

    """
    if var_names is None:
        recorded = [names for names in map(results.parameters, fits.values()) if names]
        return set().union(*recorded) if recorded else None
    var_names = require_names("var_names", var_names)
    known = {name: None for fit in fits.values() for name in _shapes(fit)}
    there = f"there are {', '.join(known)}."
    if not var_names:
        raise StanadaptError("settings", f"var_names must name at least one variable; {there}")
    for name in var_names:
        if name not in known:
            raise StanadaptError("settings", f"no fit has a variable {name!r}; {there}")
    return var_names


# above it a fit is reported as not usable, whatever its effective sample size
LARGEST_R_HAT = 1.05


def compare(
    fits: Mapping[str, Any],
    baseline: str | None = None,
    show: bool = True,
    *,
    var_names: Collection[str] | None = None,
    budget: str | None = None,
) -> Comparison:
    """Compare fits of one target.

    Parameters
    ----------
    fits
        Results of `sample` and `stan_nuts`, or other ArviZ objects with a posterior of the same
        variables, by the name of their row. What an object does not record, such as its time, is
        NaN.
    baseline
        Name of the fit that the others are measured against; default: the first result of
        `stan_nuts`, CmdStan's before the embedded engine's; without any, there is no baseline.
    show
        Also print the table, or show it as HTML in a notebook; as the value of the same cell it is
        not shown again.
    var_names
        Variables that count; default: the parameters of the program, without transformed
        parameters and generated quantities (all variables, where no fit records which these are).
    budget
        "seconds" or "gradients": also show what the smallest bulk ESS would be at the cost of the
        cheapest fit, warm-up counted: `ess_at_budget`, ESS being proportional to cost. Evaluations
        of the density alone count as gradients.

    Returns
    -------
    pandas.DataFrame
        One row per fit. `ess_*` count all chains; `seconds_*` are sums over chains (time of one
        core), compilation excluded; `ess_per_second` and `ess_per_gradient` are the smallest bulk
        ESS over the cost of warm-up and sampling together; `gradients` includes warm-up; `z_mean`
        and `z_sd` are the largest differences from the baseline, in joint Monte Carlo standard
        errors: with many parameters, 3 to 4 is what chance gives. `missed` is the largest share
        of another fit's draws that lie where this one has none, over fits with chains that agree:
        about 0, unless it missed modes. Fits that are not `exact` (approximations, and samplers
        that do not leave the target invariant) stand in a part of their own, without ESS per cost,
        but with `bias_mean`, the largest difference of a mean from the baseline in standard
        deviations of that, and `bias_sd`, the largest relative difference of a standard deviation:
        z says how much of both may be chance. `attrs` holds the name of the `baseline`; `density`:
        sentences on whether our density is CmdStan's; `missed`: by fit, sentences on modes that
        it clearly missed; `reasons`: those of each verdict; `separate_regions`: for each fit with
        chains that disagree, the number of separate regions in which they lie.

    Raises
    ------
    StanadaptError
        Stage "settings", if there is nothing to compare, or the fits have different targets.

    """
    require_comparable(fits, baseline)
    wanted = counted_variables(fits, var_names)
    chosen = baseline or _default_baseline(fits)
    columns = {name: results.columns(fit, wanted=wanted) for name, fit in fits.items()}
    measured = {name: efficiency(values) for name, values in columns.items()}
    judgments = {name: verdict(fit) for name, fit in fits.items()}
    measured = {n: _independent(m) if is_approximation(fits[n]) else m for n, m in measured.items()}
    rows = {name: _row(fit, measured[name], judgments[name]) for name, fit in fits.items()}
    for name, row in rows.items():
        mean, sd = np.nan, np.nan
        if chosen and name != chosen:
            mean, sd = disagreement(measured[name], measured[chosen])
        row |= {"z_mean": mean, "z_sd": sd, "bias_mean": np.nan, "bias_sd": np.nan}
        row["exact"] = is_exact(fits[name])
        if not row["exact"]:
            row |= {"ess_per_second": np.nan, "ess_per_gradient": np.nan}
            if chosen and name != chosen:
                row |= bias(measured[name], measured[chosen])
    table = Comparison(pd.DataFrame.from_dict(rows, orient="index"))
    table.attrs |= {"baseline": chosen, "density": _density_checks(fits)}
    table.attrs["baseline_is_ours"] = chosen is not None and _shares_our_density(fits[chosen])
    found = [_trajectory(name, fit) for name, fit in fits.items()]
    table.attrs["trajectories"] = [sentence for sentence in found if sentence]
    table.attrs["reasons"] = {name: found.sentences for name, found in judgments.items()}
    if budget is not None:
        _add_budget(table, budget)
    _add_missed(table, columns)
    if require_flag("show", show):
        present(table)
    return table


def _independent(measured: Efficiency) -> Efficiency:
    """Return it without effective sample sizes: of an approximation these say nothing."""
    unknown = np.full_like(measured.ess_bulk, np.nan)
    return measured._replace(ess_bulk=unknown, ess_tail=unknown, r_hat=unknown)


def _default_baseline(fits: Mapping[str, Any]) -> str | None:
    # only results of Stan's NUTS have an engine: our own sampler `nuts` is no default
    nuts = [n for n, fit in fits.items() if results.attribute(fit, "engine")]
    nuts.sort(key=lambda n: -int(results.attribute(fits[n], "engine_independent", 0)))
    return nuts[0] if nuts else None


def _shares_our_density(fit: Any) -> bool:
    ours = results.attribute(fit, "program_hash") is not None
    return ours and not results.attribute(fit, "engine_independent", 0)


def _row(fit: Any, measured: Efficiency, judgment: Verdict) -> dict[str, Any]:
    def total(name: str) -> float:
        # of another library, or changed by hand: what is no number is unknown
        try:
            return float(np.sum(np.asarray(results.attribute(fit, name, np.nan), float)))
        except (TypeError, ValueError):
            return np.nan

    warmup, sampling = total("warmup_seconds"), total("sampling_seconds")
    gradients, smallest = total("n_gradients"), _smallest(measured.ess_bulk)
    seconds, draws = warmup + sampling, results.dataset(fit, "posterior").sizes
    return {
        "verdict": judgment.verdict,
        "sampler": results.made_by(fit),
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
        "ess_per_second": smallest / seconds if seconds > 0.0 else np.nan,
        "gradients": _counted(gradients),
        "densities": _counted(total("n_density")),
        "ess_per_gradient": smallest / gradients if gradients > 0.0 else np.nan,
        "failed": _counted(total("n_failed") + total("n_failed_quantities")),
        "stopped_chains": _counted(total("n_stopped")),
        "interrupted": bool(total("interrupted") == 1),
    }


def _counted(number: float) -> float | int:
    return number if np.isnan(number) else int(number)


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


def bias(one: Efficiency, other: Efficiency) -> dict[str, float]:
    """Largest difference of means, in sds of the other, and largest relative one of sds."""
    at = {name: j for j, name in enumerate(other.names)}
    common = [(i, at[name]) for i, name in enumerate(one.names) if name in at]
    if not common:
        return {"bias_mean": np.nan, "bias_sd": np.nan}
    i, j = np.array(common).T
    return {
        "bias_mean": _largest(np.abs(one.mean[i] - other.mean[j]) / other.sd[j]),
        "bias_sd": _largest(np.abs(one.sd[i] / other.sd[j] - 1.0)),
    }


def _largest(values: np.ndarray) -> float:
    return float(np.nanmax(values)) if np.isfinite(values).any() else np.nan


def _trajectory(name: str, fit: Any) -> str:
    """What a sampler that chose its trajectories found in warm-up; that a fit is not exact."""
    if is_approximation(fit):
        meaning = results.attribute(fit, "pareto_k_meaning")
        return f"{name}: an approximation ({results.made_by(fit)}), not exact. {meaning}"
    found = results.attribute(fit, "trajectory")
    if not found:
        return ""
    sampler = results.attribute(fit, "sampler")
    return (
        f"{name}: {'' if sampler == name else f'{sampler}, '}{found} (metric: "
        f"{results.attribute(fit, 'metric')}; warm-up of "
        f"{results.attribute(fit, 'warmup_iterations')} iterations)."
    )


def _add_budget(table: pd.DataFrame, budget: str) -> None:
    """Add the smallest bulk ESS at the cost of the cheapest fit."""
    costs = {
        "seconds": table["seconds_warmup"] + table["seconds_sampling"],
        "gradients": table["gradients"] + table["densities"],
    }
    if not is_one_of(budget, costs.keys()):
        raise StanadaptError("settings", f"budget must be seconds or gradients, got {budget!r}.")
    cost = costs[budget].where(costs[budget] > 0.0)
    if cost.isna().all():
        raise StanadaptError("settings", f"no fit records its {budget}: leave out budget.")
    least = float(cost.min())
    table["ess_at_budget"] = (table["ess_bulk_min"] * least / cost).where(table["exact"])
    counted = "gradients (and evaluations of the density alone)"
    amount = f"{least:.3g} s of one core" if budget == "seconds" else f"{least:,.0f} {counted}"
    table.attrs["budget"] = [
        f"equal cost: the smallest bulk ESS in {amount}, warm-up counted: the cost of "
        f"{cost.idxmin()}, the cheapest."
    ]


def _add_missed(table: pd.DataFrame, columns: dict[str, Columns]) -> None:
    """Measure every fit against those with chains that agree; others are no yardstick."""
    table["missed"], messages, regions = np.nan, {}, {}
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
            messages[name] = [
                f"{clear[other].share:.0%} of the draws of {other} lie where it has almost none: "
                f"it missed modes, or did not reach them.{note}"
            ]
        if table.loc[name, "r_hat_max"] > LARGEST_R_HAT:
            regions[name] = separate_regions(columns[name])
    table.attrs |= {"missed": messages, "separate_regions": regions}


def _agrees(row: pd.Series, columns: Columns) -> bool:
    if not row["exact"]:
        return False
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
