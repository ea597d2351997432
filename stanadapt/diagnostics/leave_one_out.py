"""Leave-one-out cross-validation of fits, by ArviZ.

A file of its own, since it compares programs, and `compare` fits of one.
"""

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from stanadapt import results
from stanadapt.diagnostics.ranked import size_of_mean
from stanadapt.errors import StanadaptError

COMPARED = "compared:"
FEWEST = 25  # draws: of fewer, ArviZ finds no tail
LOG_LIK = (
    "{} has no log likelihood of each observation. Add it to the generated quantities, such as "
    "`vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu[n], sigma);`, and "
    "compute it for these draws: `stanadapt generate FIT --model PROGRAM --out NEW`, and then "
    "`stanadapt loo NEW`."
)


def leave_one_out(fits: Mapping[str, Any], variable: str | None = None) -> dict[str, Any]:
    """Return ArviZ's estimate of predictive accuracy by fit; of several, also how they compare.

    The relative efficiency of draws, by which tails are smoothed, is that of the likelihoods, as in
    R's loo, averaged over observations; ArviZ's default depends on all variables of the posterior.
    """
    arviz, found = results.arviz_module(), dict[str, Any]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on Pareto k, which the tables contain
        for name, fit in fits.items():
            group = _log_likelihood(fit, name)
            if variable not in group and (variable is not None or len(group) != 1):
                listed = ", ".join(map(str, group))
                message = f"{name} has the log likelihood of {listed}: choose one with --var."
                raise StanadaptError("unknown_variable", message)
            values = group[variable or next(iter(group))]
            _require_finite(values, name)
            results.add_groups(fit, {"log_likelihood": group})
            try:
                reff = _relative_efficiency(values)
                found[name] = arviz.loo(fit, var_name=variable, pointwise=True, reff=reff)
            except ValueError as error:  # of ArviZ 1.x, if draws have the same log likelihood
                message = f"{name} has a log likelihood that ArviZ refuses: {error}."
                raise StanadaptError("no_log_likelihood", message) from None
        if len({one["n_data_points"] for one in found.values()}) > 1:
            message = "the fits have different numbers of observations, and cannot be compared."
            raise StanadaptError("other_observations", message)
        return {**found, COMPARED: arviz.compare(found).to_string()} if len(found) > 1 else found


def _require_finite(values: Any, name: str) -> None:
    """Raise StanadaptError unless there are finite numbers of observations at enough draws."""
    count = int(np.isfinite(values).sum()) if values.dtype.kind in "fiu" else 0
    draws = values.sizes.get("chain", 0) * values.sizes.get("draw", 0)
    if draws < FEWEST or not 0 < count == values.size:
        raise StanadaptError(
            "no_log_likelihood",
            f"{name} needs a finite log likelihood of each observation at {FEWEST} draws or more: "
            f"{values.name} has {count} finite numbers of {values.size}, in the shape "
            f"{dict(values.sizes)}. Check how the program computes it.",
        )


def _relative_efficiency(values: Any) -> float:
    """Return the effective sample size by draw of the likelihoods, averaged over observations."""
    rows = values.transpose(..., "chain", "draw").values
    rows = rows.reshape(-1, *rows.shape[-2:])
    sizes = [size_of_mean(np.exp(row - row.max())) / row.size for row in rows]
    found = float(np.mean(sizes))
    return found if found > 0 else 1.0  # NaN if chains are too short for an estimate


def _log_likelihood(fit: Any, name: str) -> Any:
    """Return the group of a fit, which `generate` has put among predictions of the same data."""
    groups = results.group_names(fit)
    if "log_likelihood" in groups:
        return results.dataset(fit, "log_likelihood")
    if "predictions" in groups:
        group = results.dataset(fit, "predictions")
        hashed = json.loads(group.attrs.get("origin", "[0, 0]"))[1]  # 0 if of another package
        same = hashed and hashed == results.attribute(fit, "data_hash", hashed)
        if same and "log_lik" in group:
            return group[["log_lik"]]
    raise StanadaptError("no_log_likelihood", LOG_LIK.format(name))
