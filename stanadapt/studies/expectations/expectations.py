"""Posterior expectations with control variates: the same draws, much smaller errors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from stanadapt import results
from stanadapt.diagnostics.control_variates.estimates import Draws
from stanadapt.diagnostics.control_variates.weights import LEAST_SHARE, stein_weights
from stanadapt.diagnostics.importance import GOOD, is_approximation, is_exact
from stanadapt.diagnostics.modes import require_fit_of
from stanadapt.diagnostics.screening import is_constant
from stanadapt.diagnostics.summary import IN_FULL, LEVELS, ordered_columns, require_probabilities
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.console import report_if_slow, status
from stanadapt.engine.interrupts import in_threads
from stanadapt.engine.one_blas_thread import one_blas_thread
from stanadapt.engine.plan import usable_cores
from stanadapt.errors import Message, StanadaptError, answers_other_words, first_of, require_flag
from stanadapt.runs.controlled import controlled_draws
from stanadapt.samplers import registered
from stanadapt.studies.expectations.table import (
    Basis,
    Expectations,
    column_names,
    draws_digest,
)
from stanadapt.targets.target import Target, parameter_draws

# log densities at these draws must agree with the fit's, up to a constant, relative to their size:
# in a small file they have four bytes
COMPARED, LARGEST_DIFFERENCE, GRADIENT_DIFFERENCE = 50, 1e-5, 1e-3
# of approximations that are corrected; chosen on 18 densities with known moments, ten seeds each
LEAST_EFFECTIVE, FEWEST_CORRECTED = 0.9, 1000
NAMED = 5  # quantities in a message
Function = Callable[[xr.Dataset], Any]


@answers_other_words
def expectations(
    fit: results.Fit,
    target: Target,
    of: str | Iterable[str] | Mapping[str, Function] | None = None,
    *,
    probabilities: Sequence[float] = LEVELS,
    weights: bool = False,
    show_progress: bool = True,
) -> Expectations:
    """Estimate posterior means, standard deviations and quantiles, with control variates.

    The gradient of the log density at the draws removes most of the Monte Carlo error of the
    estimates: their variance falls by a factor, the gain, of 10 to 10,000 and more for smooth
    posteriors, for the draws of any sampler. It costs one gradient per draw, unless the fit has
    them: `sample(save="gradient")`.

    Parameters
    ----------
    fit : Fit
        A fit of the target, by any sampler: ours, Stan's NUTS, or one of another library; or a
        result of `approximate`, which is refused unless it is close to the posterior. Means and
        standard deviations of these, with importance weights, and of fits by `ula` and `sgld` are
        corrected.
    target : Target
        The target of the fit.
    of
        Variables of the posterior, or elements of them (default: all); or functions of the
        posterior by name, which are given the posterior as an `xarray.Dataset` and return arrays of
        shape (chain, draw) or (chain, draw, ...).
    probabilities
        Of the quantiles, each strictly between 0 and 1.
    weights
        Whether to find one positive weight for each draw as well (`Expectations.weights`), for
        means of functions that are not in the table.
    show_progress
        Show the steps of a computation that takes more than some seconds.

    Returns
    -------
    Expectations
        A data frame that prints with as many digits as are known. It has a row for each element:
        mean, sd and quantiles, each with its Monte Carlo standard error (`mcse_mean`) and its gain
        (`gain_mean`), the variance without control variates over that with them. `order` is the
        degree of the polynomials that are used for the mean, 0 if control variates do not help
        there. `attrs` has the number of `gradients` that were evaluated, and `messages`: what
        limits the estimates.

        - `probability("beta[2]", 0.5)`: that of a value of at most 0.5, and its standard error.
        - `covariance(["beta[1]", "beta[2]"])`: a matrix, and its standard errors.
        - `add_to(fit)` adds the table to the fit, as a group that files keep.
        - `weights`, shape (chain, draw), or None without `weights=True`.

    Raises
    ------
    StanadaptError
        Stage "settings": a fit of another target, or one that cannot be used ("unusable_fit").

    Notes
    -----
    Columns with posterior mean zero (`stein_columns`, `direction`) are regressed out. Coefficients,
    directions and thresholds of a chain's draws are learned from the other chains, which keeps the
    errors honest; each quantity takes the columns with the smallest held-out asymptotic variance,
    and none if that gains little. Columns and functions with tails too heavy for a variance are
    not used. A posterior far from a Gaussian is straightened first, if a map is found. Estimates
    of fewer than 100 effective draws beyond a quantile, and of discrete quantities, stay as they
    are. Control variates cannot move mass between modes: a fit that lacks one has wrong means with
    small errors.

    Examples
    --------
    >>> import stanadapt as sa
    >>> program = "parameters { real x; } model { x ~ normal(3, 2); }"
    >>> target = sa.Target(program, backend="stanli", show_progress=False)
    >>> fit = sa.sample(target, seed=1, show_progress=False)
    >>> table = sa.expectations(fit, target)
    >>> bool(abs(table.loc["x", "mean"] - 3) < 1e-6)
    True
    """
    require_fit_of(target, fit, "expectations")
    levels = require_probabilities(probabilities)
    doubts = _require_usable(fit)
    corrected = _weights_of_inexact(fit, target, doubts)
    quantities = _quantities(fit, of)
    doubts += _missing(quantities)
    values = parameter_draws(target, fit)
    positions = target.unconstrain_rows(values.reshape(-1, values.shape[-1]))
    gradients, evaluated = _gradients(fit, target, positions, show_progress)
    shape = results.dataset(fit, "posterior").sizes["chain"], -1, positions.shape[1]
    if corrected is not None:
        levels = []  # Newton's method of quantiles is for draws without weights
    draws, remarks = controlled_draws(positions.reshape(shape), gradients.reshape(shape), corrected)
    with one_blas_thread(), np.errstate(all="ignore"):
        table = _table(draws, quantities, levels)
        weight = None
        if require_flag("weights", weights) and draws.usable and corrected is None:
            weight, remark = _weights(draws)
            remarks += remark
    messages = [*doubts, *remarks]
    table.attrs |= {"gradients": evaluated, "messages": messages, IN_FULL: of is not None}
    table._basis = Basis(draws, quantities, weight, draws_digest(fit))
    return table


def _weights_of_inexact(
    fit: results.Fit, target: Target, doubts: list[Message]
) -> np.ndarray | None:
    """Return weights of draws that are not exact, with a remark; None for exact ones.

    No error contains tails to which no draw came: approximations far from the posterior are
    refused, and samplers with a bias that was not measured after control variates.
    """
    if is_exact(fit):
        return None
    stats, name = results.statistics(fit), results.source_name(fit)
    sampler = registered().get(results.attribute(fit, "sampler"))
    if is_approximation(fit):
        weights, k = np.exp(stats["log_weight"]), float(results.attribute(fit, "pareto_k", np.nan))
        share = _effective_share(stats, weights / weights.sum())
        if not (k <= GOOD and share >= LEAST_EFFECTIVE and weights.size >= FEWEST_CORRECTED):
            raise StanadaptError(
                "unusable_fit",
                f"{name} is not close to the posterior; its errors are unknown: "
                f"Pareto k must be at most {GOOD}, effective draws {LEAST_EFFECTIVE:.0%} or more, "
                f"and draws {FEWEST_CORRECTED:,} or more; got {k:.2f}, {share:.0%}, "
                f"{weights.size:,}.",
            )
    # control variates were measured to remove most of the bias of `ula` and `sgld`, whose moves
    # follow the gradient; no setting makes them exact
    elif sampler and not sampler.exact and sampler.uses_gradient is True and not target.in_batches:
        sizes = results.dataset(fit, "posterior").sizes
        weights = stats.get("weight", np.ones((sizes["chain"], sizes["draw"])))
    else:
        raise StanadaptError(
            "unusable_fit",
            f"errors of expectations of this fit cannot be known: {name} does not draw from the "
            "posterior itself.",
        )
    text = f"corrected: weighted draws of {name}, after control variates. "
    text += "Errors do not contain what it misses: other modes, and tails heavier than its own."
    doubts.append(Message("corrected_approximation", text))
    return weights / weights.sum()


@np.errstate(all="ignore")  # ratios that overflow have no effective draws
def _effective_share(stats: Mapping[str, np.ndarray], weights: np.ndarray) -> float:
    """Return that of draws of the approximation, from resampled ones too: 1 / (E[r] E[1 / r])."""
    used = weights > 0.0
    log_r = (stats["lp"] - stats["lp_approx"])[used]
    ratio, weights = np.exp(log_r - np.median(log_r)), weights[used]
    return float(1.0 / ((weights @ ratio) * (weights @ (1.0 / ratio))))


def _weights(draws: Draws) -> tuple[np.ndarray | None, list[Message]]:
    """Return weights of shape (chain, draw), unless they leave few effective draws."""
    found, share = stein_weights(draws.columns.values, draws.columns.ends)
    if found is None or share < LEAST_SHARE:
        reached = f"leave only {share:.0%} of effective draws" if share else "do not exist"
        text = f"no weights: those that give all columns the mean zero {reached}."
        return None, [Message("no_weights", text)]
    return found.reshape(draws.chains, -1), []


def _require_usable(fit: results.Fit) -> list[Message]:
    """Refuse a fit that does not represent the posterior; return the remarks of its verdict."""
    # what chains_differ needs takes a third of the time of everything here
    judged = verdict(fit, recorded=("chains_differ",))
    if judged.verdict == "do not use":
        raise StanadaptError(
            "unusable_fit",
            "errors of expectations of this fit cannot be known: its verdict is 'do not use'. "
            f"{' '.join(judged.reasons[:1])}".rstrip(),
        )
    edges = results.from_json(fit, "hard_edges", [])
    if edges:
        raise StanadaptError(
            "unusable_fit",
            f"the density has edges that are not declared ({'; '.join(edges)}), at which control "
            "variates are wrong. Declare these bounds in the program, and sample again.",
        )
    fine = judged.verdict == "fine"
    return [reason for reason in judged.reasons if not fine or reason.code == "one_chain"]


def _quantities(fit: results.Fit, of: Any) -> dict[str, np.ndarray]:
    """Return columns of quantities by name, shape (chain, draw)."""
    if not isinstance(of, Mapping):
        return ordered_columns(fit, of, "of")
    posterior = results.dataset(fit, "posterior")
    taken = {*map(str, posterior.data_vars), *results.columns(fit)}
    columns = {}
    for name, function in of.items():
        for index, value in _elements(str(name), function, posterior).items():
            if index in taken:
                raise StanadaptError(
                    "wrong_quantity",
                    f"the function {str(name)!r} has the name of a variable of the fit, whose row "
                    "of a summary would show it. Give it another name.",
                )
            if index in columns:
                raise StanadaptError("wrong_quantity", f"two quantities have the name {index!r}.")
            columns[index] = value
    if not columns:
        raise StanadaptError("wrong_quantity", "of is empty: name variables, or give functions.")
    return columns


def _missing(quantities: dict[str, np.ndarray]) -> list[Message]:
    """Name quantities that are not finite at some draws."""
    counts = {name: np.count_nonzero(~np.isfinite(x)) for name, x in quantities.items()}
    lost = [f"{name} ({count:,})" for name, count in counts.items() if count]
    named = first_of(lost, NAMED)
    text = f"Not finite at some draws, with the number of these: {named}. Their rows are blank."
    return [Message("missing_quantities", text)] if lost else []


def _elements(name: str, function: Any, posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the elements of the value of a function, by name, shape (chain, draw) each."""
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    try:  # of a copy: a function may write into its argument
        value = function(posterior.copy(deep=True))
        if isinstance(value, xr.DataArray):
            value = value.transpose("chain", "draw", ..., missing_dims="ignore")
        value = np.asarray(value)
    except Exception as error:
        raise StanadaptError(
            "wrong_quantity",
            f"the function {name!r} raised {type(error).__name__}: {error}. It is given the "
            "posterior as an xarray.Dataset.",
        ) from error
    if value.shape[:2] != sizes or value.dtype.kind not in "fiub":
        raise StanadaptError(
            "wrong_quantity",
            f"the function {name!r} must return numbers of shape (chain, draw, ...), which is "
            f"{sizes} here, got {value.dtype} of shape {value.shape}.",
        )
    return {
        results.element(name, index): value[(..., *index)].astype(float)
        for index in np.ndindex(value.shape[2:])
    }


def _gradients(
    fit: results.Fit, target: Target, positions: np.ndarray, show_progress: bool
) -> tuple[np.ndarray, int]:
    """Return gradients at positions, and how many were evaluated: none of those that are kept.

    A few are compared with those of the fit: log densities, up to a constant, and gradients.
    """
    kept = _kept(fit, results.UNCONSTRAINED, results.GRADIENT, positions.shape)
    rows = np.arange(len(positions))
    if kept is not None:
        rows = np.linspace(0, len(rows) - 1, min(COMPARED, len(rows))).round().astype(int)
    values, gradients = _evaluated(target, positions[rows], show_progress)
    recorded = _kept(fit, "sample_stats", "lp", positions.shape[:1])
    if recorded is not None:
        _require_same_density(target, recorded[rows], values)
    if kept is None:
        return gradients, len(rows)
    size = np.abs(kept[rows]).max(axis=0)
    if (np.abs(gradients - kept[rows]) > GRADIENT_DIFFERENCE * (1.0 + size)).any():
        raise StanadaptError(
            "fit_of_another_target",
            f"the gradients in the fit and those of {target.name} at its draws differ. Give the "
            "target that was sampled, with its data.",
        )
    return kept, len(rows)


def _kept(fit: results.Fit, group: str, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a variable of a fit with a row for each draw; None if it has no such variable."""
    if group not in results.group_names(fit):
        return None
    found = results.dataset(fit, group).get(name)
    if found is None or found.size != np.prod(shape):
        return None
    return found.transpose("chain", "draw", ...).values.reshape(shape)


def _evaluated(
    target: Target, positions: np.ndarray, show_progress: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return log densities and gradients at positions, evaluated in threads."""
    values, gradients = np.full(len(positions), -np.inf), np.full(positions.shape, np.nan)
    threads = usable_cores()
    parts = np.array_split(np.arange(len(positions)), threads)
    done = np.zeros(threads, int)

    def evaluate(part: int) -> None:
        model = target.model_of(part)
        for i in parts[part]:
            done[part] += 1
            if np.isfinite(positions[i]).all():
                try:
                    values[i], gradients[i] = model.log_density_gradient(positions[i])
                except RuntimeError:
                    continue  # the density throws there

    with status(show_progress) as report:

        def text() -> str:
            return f"Evaluating gradients of {target.name}: {done.sum():,} of {len(positions):,}"

        with report_if_slow(report, text):
            in_threads(evaluate, threads)
    return values, gradients


def _require_same_density(target: Target, values: np.ndarray, log_density: np.ndarray) -> None:
    """Refuse a fit if its log densities differ from the target's by more than a constant."""
    rows = np.linspace(0, len(values) - 1, COMPARED).round().astype(int)
    difference = (values - log_density)[rows]
    difference = difference[np.isfinite(difference)]
    limit = LARGEST_DIFFERENCE * (1.0 + np.abs(values[rows]).max(initial=0.0))
    if len(difference) and np.ptp(difference) > limit:
        raise StanadaptError(
            "fit_of_another_target",
            f"the log densities in the fit and those of {target.name} at its draws differ by more "
            f"than a constant (by {difference.min():.6g} to {difference.max():.6g}). Give the "
            "target that was sampled, with its data.",
        )


def _table(
    draws: Draws, quantities: dict[str, np.ndarray], levels: Sequence[float]
) -> Expectations:
    """Return the table of estimates; a constant has no errors, draws that fail are NaN."""
    columns, rows = column_names(levels), {}
    finite = {name: x for name, x in quantities.items() if np.isfinite(x).all()}
    for name, x in finite.items():
        if is_constant(x):
            rows[name] = [x.flat[0], np.nan, np.nan, 0.0, *[np.nan] * (len(columns) - 4)]
    moving = {name: x for name, x in finite.items() if name not in rows}
    for names, batch in draws.batches(moving):
        estimates = [*batch.means_and_sds(), *(batch.quantiles(p) for p in levels)]
        found = [part for one in estimates for part in (one.value, one.error, one.gain)]
        rows |= zip(names, np.stack([*found, estimates[0].order], axis=1).tolist(), strict=True)
    table = pd.DataFrame.from_dict(rows, "index", float, columns)
    return Expectations(table.reindex(list(quantities)))
