"""Compare fits of one target: convergence, precision, cost and agreement."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.comparison_table import Comparison
from stanadapt.diagnostics.densities import density_remarks, has_same_data, shares_our_density
from stanadapt.diagnostics.importance import is_approximation, is_exact
from stanadapt.diagnostics.missed_modes import (
    Columns,
    is_stationary,
    missed_share,
    separate_regions,
)
from stanadapt.diagnostics.mixing import R_HAT_UNUSABLE, Efficiency, efficiency, mixing_of
from stanadapt.diagnostics.summary import controlled
from stanadapt.diagnostics.verdict import Verdict, verdict
from stanadapt.errors import (
    Message,
    StanadaptError,
    answers_other_words,
    did_you_mean,
    first_of,
    is_one_of,
    require_names,
)
from stanadapt.results import Fit

HASHES = {
    "program_hash": "program: `stanadapt loo`, or arviz.compare, compares their predictions",
    "data_hash": "data: `summary` shows their estimates side by side",
}
Fits = Mapping[str, Fit]
MOST_NAMED = 3  # quantities of a fit that a message lists


def require_comparable(fits: Fits, baseline: str | None) -> None:
    """Raise StanadaptError unless these are fits of one target, with the baseline among them."""
    if not isinstance(fits, Mapping) or hasattr(fits, "attrs"):
        raise StanadaptError(
            "not_fits_by_name",
            "compare takes a mapping of fits by name, {'name': fit, 'other': fit}, not "
            f"{type(fits).__name__}.",
        )
    for name, fit in fits.items():
        results.require_draws(fit, repr(name))
    if not fits:
        raise StanadaptError("no_fits", "compare needs at least one fit, got none.")
    if baseline is not None and not is_one_of(baseline, fits.keys()):
        names = ", ".join(map(str, fits))
        raise StanadaptError(
            "unknown_baseline", f"baseline must be one of the fits ({names}), got {baseline!r}."
        )
    for attribute, remedy in HASHES.items():
        values = {name: results.attribute(fit, attribute) for name, fit in fits.items()}
        recorded = {name: value for name, value in values.items() if value is not None}
        if len(set(recorded.values())) > 1:
            first, value = next(iter(recorded.items()))
            other = next(name for name, theirs in recorded.items() if theirs != value)
            raise StanadaptError(
                "different_targets",
                "All fits must have the same program and the same data, but those of "
                f"{first} ({value}) and {other} ({recorded[other]}) differ in their {remedy}.",
            )
    _require_same_variables(fits)


def _shapes(fit: Fit) -> dict[str, tuple[int, ...]]:
    variables = results.dataset(fit, "posterior").data_vars
    return {
        str(name): tuple(size for d, size in x.sizes.items() if d not in ("chain", "draw"))
        for name, x in variables.items()
    }


def _require_same_variables(fits: Fits) -> None:
    """Require variables of the same shapes, and common ones if a program is not recorded."""
    first, *others = fits
    shapes = _shapes(fits[first])
    for name in others:
        unknown = [n for n in (first, name) if results.attribute(fits[n], "program_hash") is None]
        theirs = _shapes(fits[name])
        common = shapes.keys() & theirs.keys()
        different = [x for x in sorted(common) if shapes[x] != theirs[x]]
        if different:
            raise StanadaptError(
                "different_targets",
                f"{different[0]} has shape {shapes[different[0]]} in {first} and "
                f"{theirs[different[0]]} in {name}: fits must have the same program and data.",
            )
        if unknown and not common:
            raise StanadaptError(
                "different_targets",
                f"{first} ({', '.join(shapes)}) and {name} ({', '.join(theirs)}) have no variable "
                "in common: fits must have the same program and data.",
            )


def counted_variables(fits: Fits, var_names: Collection[str] | None) -> Collection[str] | None:
    """Return the names of the variables that are compared; None stands for all."""
    if var_names is None:
        recorded = [names for names in map(results.parameters, fits.values()) if names]
        return set().union(*recorded) if recorded else None
    return require_variables(var_names, {name: 0 for f in fits.values() for name in _shapes(f)})


def require_variables(var_names: Collection[str], present: Collection[str]) -> list[str]:
    """Return the names as a list; StanadaptError unless these variables are present."""
    var_names = require_names("var_names", var_names)
    listed = f"the variables are {', '.join(present)}."
    if not var_names:
        raise StanadaptError(
            "unknown_variable", f"var_names must name at least one variable; {listed}"
        )
    for name in var_names:
        if name not in present:
            text = f"There is no variable {name!r}; {listed}{did_you_mean(str(name), present)}"
            raise StanadaptError("unknown_variable", text)
    return var_names


@answers_other_words
def compare(
    fits: Fits,
    baseline: str | None = None,
    *,
    var_names: Collection[str] | None = None,
    budget: Literal["seconds", "gradients"] | None = None,
) -> Comparison:
    """Compare fits of one target: convergence, precision, cost and agreement.

    Parameters
    ----------
    fits : mapping of str to Fit
        Results of `sample` and `stan_nuts`, or other ArviZ objects with a posterior of the same
        variables. The names become the rows of the table. Numbers that a fit does not record, such
        as its time, are NaN.
    baseline : str, optional
        Name of the fit with which the others are compared. Default: the first result of
        `stan_nuts`, preferably by CmdStan; without one, there is no baseline.
    var_names : str or iterable of str, optional
        Variables to compare. Default: the parameters of the program, without transformed parameters
        and generated quantities, or all variables if no fit records the names of the parameters.
    budget : {"seconds", "gradients"}, optional
        Also compute `ess_at_budget`: the smallest bulk ESS at the cost of the cheapest fit, warm-up
        included, assuming that ESS is proportional to cost. An evaluation of the density without a
        gradient counts as a gradient.

    Returns
    -------
    Comparison
        A pandas.DataFrame with one row per fit, which prints as a table with remarks.

        - `ess_*` are effective sample sizes of all chains together.
        - `seconds_*` are sums over chains (the time that one core would need), without compilation.
        - `gradients` includes warm-up. `ess_per_second` and `ess_per_gradient` are the smallest
          bulk ESS divided by the cost of warm-up and sampling.
        - `failed` counts evaluations of the density that failed and were rejected, and draws at
          which generated quantities failed.
        - `z_mean` and `z_sd` are the largest differences from the baseline, in joint Monte Carlo
          standard errors: with many parameters, 3 to 4 is usual by chance. They are NaN if no
          quantity varies in both.
        - `missed` is the largest share of another fit's draws that lie in regions without draws of
          this fit. Only fits with chains that agree count as other fits. It is about 0, unless this
          fit missed modes.
        - Fits that are not `exact` (approximations, and samplers that do not leave the target
          invariant) are listed separately, without ESS per cost, but with `bias_mean`, the largest
          difference of a mean from the baseline in standard deviations of the baseline, and
          `bias_sd`, the largest relative difference of a standard deviation. If z is small, both
          may be due to chance.

        `attrs` contains: `baseline`, its name; `reasons`, the reasons of each verdict; `missed`,
        remarks on fits that clearly missed modes, by fit; `unlike`, remarks on fits without a
        quantity in common with the baseline, by fit; `density`, remarks on the agreement of
        our density with CmdStan's; `separate_regions`, by fit, the number of separate regions if
        its chains disagree.

    Raises
    ------
    StanadaptError
        Stage "settings", if there is nothing to compare, or the fits have different targets.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(1, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> run = {"seed": 1, "show_progress": False}
    >>> fits = {name: sa.sample(target, name, **run) for name in ("rwm", "am")}
    >>> table = sa.compare(fits, baseline="am")
    >>> list(table.index), table.attrs["baseline"]
    (['rwm', 'am'], 'am')
    """
    require_comparable(fits, baseline)
    require_budget(budget)
    wanted = counted_variables(fits, var_names)
    measures = {name: measure(fit, wanted) for name, fit in fits.items()}
    return compare_measured(fits, measures, baseline, budget)


class Measures(NamedTuple):
    """The columns of a fit, shape (chain, draw), and their measures."""

    columns: Columns
    efficiency: Efficiency


def measure(fit: Fit, wanted: Collection[str] | None) -> Measures:
    """Measure the columns of some variables, or of all: None."""
    columns = results.columns(fit, wanted=wanted)
    return Measures(columns, efficiency(columns, measure=mixing_of(fit)))


def compare_measured(
    fits: Fits, measures: Mapping[Any, Measures], baseline: str | None, budget: str | None = None
) -> Comparison:
    """Compare fits whose columns have been measured; see `compare`, which checks the fits."""
    if baseline is None:
        # only results of Stan's NUTS have an engine; our sampler `nuts` is not a default baseline
        nuts = [n for n, fit in fits.items() if results.attribute(fit, "engine")]
        nuts.sort(key=lambda n: -int(results.attribute(fits[n], "engine_independent", 0)))
        baseline = nuts[0] if nuts else None
    judgments = {name: verdict(fit) for name, fit in fits.items()}
    measured = {
        n: _independent(m.efficiency) if is_approximation(fits[n]) else m.efficiency
        for n, m in measures.items()
    }
    precise = {name: _with_controlled(fits[name], one) for name, one in measured.items()}
    rows = {name: _row(fit, measured[name], judgments[name]) for name, fit in fits.items()}
    unlike: dict[Any, list[Message]] = {}
    for name, row in rows.items():
        row |= dict.fromkeys(("z_mean", "z_sd", "bias_mean", "bias_sd"), np.nan)
        row["exact"] = is_exact(fits[name])
        if not row["exact"]:
            row |= {"ess_per_second": np.nan, "ess_per_gradient": np.nan}
        # 0 and "" are names
        if baseline is None or name == baseline or not has_same_data(fits[name], fits[baseline]):
            continue
        own, reference = precise[name], precise[baseline]
        row["z_mean"], row["z_sd"] = disagreement(own, reference)
        if not row["exact"]:
            row["bias_mean"], row["bias_sd"] = bias(own, reference)
        if not {*own.names} & {*reference.names}:
            unlike[name] = [_why_unlike(own, reference, baseline)]
    table = Comparison(pd.DataFrame.from_dict(rows, orient="index"))
    table.attrs |= {"baseline": baseline, "density": density_remarks(fits), "unlike": unlike}
    table.attrs["controlled"] = [
        str(name) for name in fits if baseline is not None and precise[name] is not measured[name]
    ]
    table.attrs["baseline_is_ours"] = baseline is not None and shares_our_density(fits[baseline])
    trajectories = [_describe_trajectory(name, fit) for name, fit in fits.items()]
    table.attrs["trajectories"] = [message for message in trajectories if message is not None]
    table.attrs["reasons"] = {name: judgment.reasons for name, judgment in judgments.items()}
    if budget is not None:
        _add_budget(table, budget)
    _add_missed(table, {name: one.columns for name, one in measures.items()}, fits)
    return table


def _with_controlled(fit: Fit, measured: Efficiency) -> Efficiency:
    """Replace means, sds and their errors by those with control variates, as far as there are."""
    kept = controlled(fit)
    if kept is None:
        return measured
    kept = kept.reindex(measured.names)
    known = kept[["mcse_mean", "mcse_sd"]].notna().all(axis=1).to_numpy()
    better = {name: np.where(known, kept[name], getattr(measured, name)) for name in kept}
    return measured._replace(**better)


def _independent(measured: Efficiency) -> Efficiency:
    """Remove effective sample sizes and R-hat, which do not apply to an approximation."""
    unknown = np.full_like(measured.ess_bulk, np.nan)
    return measured._replace(ess_bulk=unknown, ess_tail=unknown, r_hat=unknown)


def _why_unlike(one: Efficiency, other: Efficiency, baseline: Any) -> Message:
    """Say why a fit was not compared with the baseline."""
    its, theirs = (first_of(each.names, MOST_NAMED) or "none" for each in (one, other))
    text = (
        f"not compared with {baseline}, since no quantity varies in both: {its} here, and {theirs} "
        "there. Name variables of both as var_names, or another baseline."
    )
    return Message("unlike_baseline", text)


def _row(fit: Fit, measured: Efficiency, judgment: Verdict) -> dict[str, Any]:
    def total(name: str) -> float:
        # attributes of other libraries may not be numbers
        try:
            return float(np.sum(np.asarray(results.attribute(fit, name, np.nan), float)))
        except (TypeError, ValueError):
            return np.nan

    warmup, sampling = total("warmup_seconds"), total("sampling_seconds")
    gradients, smallest = total("n_gradients"), _finite(np.nanmin, measured.ess_bulk)
    gradients = _steps(fit) if np.isnan(gradients) else gradients
    seconds, draws = warmup + sampling, results.dataset(fit, "posterior").sizes
    return {
        "verdict": judgment.verdict,
        "sampler": results.source_name(fit),
        "chains": draws["chain"],
        "draws": draws["draw"],
        "ess_bulk_min": smallest,
        "ess_bulk_median": _finite(np.nanmedian, measured.ess_bulk),
        "ess_tail_min": _finite(np.nanmin, measured.ess_tail),
        "r_hat_max": _finite(np.nanmax, measured.r_hat),
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


def _steps(fit: Fit) -> float:
    """Return the steps of trajectories of all iterations, each a gradient; NaN if some are unknown.

    Fits of other libraries record them for each draw, and for warm-up if it was saved.
    """
    phases = [results.statistics(fit, f"{prefix}sample_stats") for prefix in ("", "warmup_")]
    known = all("n_steps" in stats and "diverging" in stats for stats in phases)
    if not known or results.attribute(fit, "thin", 1) != 1:
        return np.nan
    return float(sum(np.sum(stats["n_steps"]) for stats in phases))


def _counted(number: float) -> float | int:
    return number if np.isnan(number) else int(number)


def _finite(measure: Callable[[np.ndarray], Any], values: np.ndarray) -> float:
    """Measure values; NaN if none of them is finite."""
    return float(measure(values)) if np.isfinite(values).any() else np.nan


def disagreement(one: Efficiency, other: Efficiency) -> tuple[float, float]:
    """Return the largest |difference| of means and of sds, in joint Monte Carlo errors."""
    _, (z_mean, z_sd) = differences(one, other)
    return _finite(np.nanmax, z_mean), _finite(np.nanmax, z_sd)


def differences(one: Efficiency, other: Efficiency) -> tuple[list[str], np.ndarray]:
    """Return the names of common columns, and |z| of their means and sds, shape (2, column)."""
    one, other = _common(one, other)
    z_mean = (one.mean - other.mean) / np.hypot(one.mcse_mean, other.mcse_mean)
    z_sd = (one.sd - other.sd) / np.hypot(one.mcse_sd, other.mcse_sd)
    return one.names, np.abs([z_mean, z_sd])


def bias(one: Efficiency, other: Efficiency) -> tuple[float, float]:
    """Return the largest difference of means in sds of the other, and of sds relative to it."""
    one, other = _common(one, other)
    of_means, of_sds = (one.mean - other.mean) / other.sd, one.sd / other.sd - 1.0
    return _finite(np.nanmax, np.abs(of_means)), _finite(np.nanmax, np.abs(of_sds))


def _common(*both: Efficiency) -> list[Efficiency]:
    """Return the columns that both have, in the same order."""
    places = [{name: i for i, name in enumerate(one.names)} for one in both]
    names = [name for name in both[0].names if name in places[1]]
    rows = [np.array([at[name] for name in names], dtype=int) for at in places]
    return [Efficiency(names, *(x[i] for x in one[1:])) for one, i in zip(both, rows, strict=True)]


def _describe_trajectory(name: str, fit: Fit) -> Message | None:
    """Describe the trajectories that a sampler chose in warm-up, or an approximation."""
    if is_approximation(fit):
        meaning = results.attribute(fit, "pareto_k_meaning")
        text = f"{name}: an approximation ({results.source_name(fit)}), not exact. {meaning}"
        return Message("how_drawn", text)
    trajectory = results.attribute(fit, "trajectory")
    if not trajectory:
        return None
    sampler, straightened = (results.attribute(fit, key) for key in ("sampler", "straightening"))
    return Message(
        "how_drawn",
        f"{name}: {'' if sampler == name else f'{sampler}, '}{trajectory} (metric: "
        f"{results.attribute(fit, 'metric')}; warm-up of "
        f"{results.attribute(fit, 'warmup_iterations')} iterations)."
        + (f" {straightened}." if straightened else ""),
    )


def require_budget(budget: Any) -> None:
    """Raise StanadaptError unless it is a cost that `compare` knows, or None."""
    if budget is not None and not is_one_of(budget, {"seconds", "gradients"}):
        raise StanadaptError(
            "unknown_budget", f"budget must be seconds or gradients, got {budget!r}."
        )


def _add_budget(table: pd.DataFrame, budget: str) -> None:
    """Add the smallest bulk ESS at the cost of the cheapest fit."""
    costs = {
        "seconds": table["seconds_warmup"] + table["seconds_sampling"],
        "gradients": table["gradients"] + table["densities"],
    }
    cost = costs[budget].where(costs[budget] > 0.0)
    if cost.isna().all():
        raise StanadaptError("cost_not_recorded", f"No fit records its {budget}: leave out budget.")
    least = float(cost.min())
    table["ess_at_budget"] = (table["ess_bulk_min"] * least / cost).where(table["exact"])
    unit = "gradients (and evaluations of the density alone)"
    amount = f"{least:.3g} s of one core" if budget == "seconds" else f"{least:,.0f} {unit}"
    text = (
        f"equal cost: the smallest bulk ESS in {amount}, warm-up included: the cost of "
        f"{cost.idxmin()}, the cheapest."
    )
    table.attrs["budget"] = [Message("how_to_read", text)]


def _add_missed(table: pd.DataFrame, columns: dict[str, Columns], fits: Fits) -> None:
    """Add the share of draws that each fit missed, with fits as reference if their chains agree."""
    table["missed"], remarks, regions = np.nan, {}, {}
    references = [name for name in table.index if _agrees(table.loc[name], columns[name])]
    for name in table.index:
        others = [
            other
            for other in references
            if other != name and has_same_data(fits[other], fits[name])
        ]
        shares = {other: missed_share(columns[other], columns[name]) for other in others}
        shares = {other: share for other, share in shares.items() if np.isfinite(share.share)}
        if shares:
            table.loc[name, "missed"] = max(0.0, *(share.share for share in shares.values()))
        clear = {other: share for other, share in shares.items() if share.clear}
        if clear:
            other = max(clear, key=lambda other: clear[other].share)
            note = " It is the baseline of z." if name == table.attrs["baseline"] else ""
            text = (
                f"{clear[other].share:.0%} of the draws of {other} are in regions with almost no "
                f"draws of this fit: it missed modes, or did not reach these regions.{note}"
            )
            remarks[name] = [Message("missed_modes", text)]
        if table.loc[name, "r_hat_max"] > R_HAT_UNUSABLE:
            regions[name] = separate_regions(columns[name])
    table.attrs |= {"missed": remarks, "separate_regions": regions}


def _agrees(row: pd.Series, columns: Columns) -> bool:
    if not row["exact"]:
        return False
    if row["chains"] == 1:
        return is_stationary(columns, R_HAT_UNUSABLE)
    return bool(row["r_hat_max"] <= R_HAT_UNUSABLE)
