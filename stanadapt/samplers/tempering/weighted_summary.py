"""Posterior means from draws with weights: all pseudo-samples of a run, or draws of sgld.

Iteration t, with pseudo-samples x_t1, ..., x_tN and weights w_t that sum to one, gives
h_t = sum_i w_ti f(x_ti), and E[h_t] = E[f(x)]. The posterior holds one pseudo-sample per
iteration, drawn by weight; h_t is the mean of f over that draw, given the state (Rao-Blackwell), so
that its variance is never larger. Weights are normalized within each iteration; a ratio of sums of
unnormalized weights over all iterations is a different estimate.

Draws of sgld have the size of their step as weight w_t, and E[f] is estimated by the sum of w_t f_t
over that of w_t: a ratio, with the error of the mean of w_t (f_t - mean) / (mean of w).

References
----------
Nemeth, Lindsten, Filippone and Hensman (2019), theorem 2.1; arXiv 1708.05239.
Welling and Teh (2011), ICML, equation 11: means weighted by step sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stanadapt import results
from stanadapt.diagnostics.ranked import size_of_mean
from stanadapt.errors import StanadaptError
from stanadapt.results import PSEUDO
from stanadapt.targets.pseudo_samples import TEMPERATURE, WEIGHT

Function = Callable[[Mapping[str, np.ndarray]], Any]
LABELS = ["mean", "mcse", "sd", "ess", "draws_mean", "draws_mcse"]


def weighted_summary(fit: Any, functions: Mapping[str, Function] | None = None) -> pd.DataFrame:
    """Summarize a run by all its pseudo-samples, or by weighted draws, next to its plain draws.

    Parameters
    ----------
    fit : Fit
        A fit with `save="pseudo"`; or one by sgld, with weighted draws.
    functions : mapping of str to callable, optional
        Functions of the parameters and transformed parameters, by name of row. Each gets the
        variables by name, shape (chain, draw, pseudo, ...), and returns an array of shape
        (chain, draw, pseudo): {"P(x > 0)": lambda draws: draws["x"] > 0}. With sgld, pseudo is 1.

    Returns
    -------
    pandas.DataFrame
        One row per scalar among the parameters and transformed parameters, then one per function:
        `mean`, `mcse` and `sd` from weighted pseudo-samples; `ess`, the number of independent draws
        from the posterior that would give the mean as precisely; `draws_mean` and `draws_mcse` from
        the posterior's draws.

    Raises
    ------
    StanadaptError
        Stage "settings" for a fit without pseudo-samples, or for a function that returns something
        else.

    Examples
    --------
    >>> import stanadapt as sa
    >>> from stanadapt.samplers.tempering.weighted_summary import weighted_summary
    >>> target = sa.Target(
    ...     "parameters { real x; } model { target += log_mix(0.5, normal_lpdf(x | -9, 1), "
    ...     "normal_lpdf(x | 9, 1)); }"
    ... )  # doctest: +SKIP
    >>> fit = sa.sample(target, "pseudo_extended", save="pseudo", seed=1)  # doctest: +SKIP
    >>> weighted_summary(fit, {"P(x > 0)": lambda draws: draws["x"] > 0})  # doctest: +SKIP
    """
    groups = results.group_names(fit) if results.is_fit(fit) else ()
    if PSEUDO in groups:
        columns, variables = results.columns(fit, PSEUDO), _variables(fit, PSEUDO)
        weight = columns.pop(WEIGHT)
        del columns[TEMPERATURE], variables[WEIGHT], variables[TEMPERATURE]
    else:
        weight = _step_weights(fit, groups)
        columns = {name: x[..., np.newaxis] for name, x in results.columns(fit).items()}
        variables = _variables(fit, "posterior")
    draws, plain = results.columns(fit), _variables(fit, "posterior")
    rows = {name: _row(values, weight, draws.get(name)) for name, values in columns.items()}
    for name, function in (functions or {}).items():
        values = _evaluate(name, function, variables, weight.shape)
        alone = {each: plain[each] for each in variables if each in plain}
        resampled = _evaluate(name, function, alone, (*weight.shape[:2], 1))
        rows[name] = _row(values, weight, resampled[..., 0])
    return pd.DataFrame.from_dict(rows, orient="index", columns=LABELS)


def _step_weights(fit: Any, groups: Sequence[str]) -> np.ndarray:
    """Return weights of draws with mean 1, shape (chain, draw, 1)."""
    stats = results.dataset(fit, "sample_stats") if "sample_stats" in groups else {}
    if "weight" not in stats:
        raise StanadaptError(
            "no_pseudo_samples",
            "the fit contains no pseudo-samples: sample an Extended, or use the sampler "
            "pseudo_extended, with save='pseudo'. (Draws of sgld have weights too.)",
        )
    weight = stats["weight"].values
    return (weight / weight.mean())[..., np.newaxis]


def _row(values: np.ndarray, weight: np.ndarray, draws: np.ndarray | None) -> tuple[float, ...]:
    mean = np.sum(weight * values, axis=-1).mean()
    variance = np.mean(np.sum(weight * (values - mean) ** 2, axis=-1))
    error = _error(np.sum(weight * (values - mean), axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = variance / np.square(error)
    resampled = (np.nan, np.nan) if draws is None else (float(np.mean(draws)), _error(draws))
    return mean, error, np.sqrt(variance), ess, *resampled


def _error(draws: np.ndarray) -> float:
    """Return ArviZ's mcse of the mean; NaN if draws are not finite, or all equal."""
    draws = np.asarray(draws, dtype=float)
    if not np.isfinite(draws).all() or np.all(draws == draws.flat[0]):
        return np.nan
    return float(draws.std(ddof=1) / np.sqrt(size_of_mean(draws)))


def _variables(fit: Any, group: str) -> dict[str, np.ndarray]:
    """Return variables of shape (chain, draw, pseudo, ...); those of draws as one pseudo-sample."""
    variables = {str(name): v.values for name, v in results.dataset(fit, group).data_vars.items()}
    if group == PSEUDO:
        return variables
    return {name: values[:, :, np.newaxis] for name, values in variables.items()}


def _evaluate(
    name: str, function: Function, variables: dict[str, np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    try:
        values = np.asarray(function(variables), dtype=float)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise _wrong_function(name, shape, f"it raised {error!r}") from error
    if values.shape != shape:
        raise _wrong_function(name, shape, f"it returned shape {values.shape}")
    return values


def _wrong_function(name: str, shape: tuple[int, ...], problem: str) -> StanadaptError:
    return StanadaptError(
        "wrong_function",
        f"function {name!r} must turn variables of shape (chain, draw, pseudo, ...) into numbers "
        f"of shape {shape}, but {problem}.",
    )
