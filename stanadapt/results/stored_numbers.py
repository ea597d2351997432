"""What of a result goes into a file, and with how many bits."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError, require_flag, require_names, require_whole

# rounding may be this share of a variable's standard deviation, far below any Monte Carlo error
LARGEST_ROUNDING = 1e-4
# what is drawn; statistics of the sampler, such as a log density of -1e8, keep all their digits
DRAWN = (
    "posterior", "posterior_predictive", "log_likelihood", "unconstrained_posterior", "prior",
    "prior_predictive", "pseudo",
)  # fmt: skip
COMPRESSION = 1  # of zlib: higher levels save another per cent of random numbers


def reduced(
    groups: Mapping[str, xr.Dataset], thin: Any, exclude: Iterable[str]
) -> dict[str, xr.Dataset]:
    """Every `thin`-th draw, without the variables and groups that are named.

    Raises
    ------
    StanadaptError
        Stage "settings", for a name that is not there, or where no draw would be left.

    """
    thin = require_whole("thin", thin, 1)
    names = set(require_names("exclude", exclude))
    _require_known(names, groups)
    kept = {}
    for group, held in groups.items():
        if group in names:
            continue
        drawn = "draw" in held.dims
        if drawn:
            held = held.drop_vars([name for name in names if name in held.data_vars])
            held = held.isel(draw=slice(None, None, thin))
        if held.data_vars or not drawn:
            kept[group] = held
    if "posterior" not in kept:
        raise StanadaptError("settings", "exclude would leave no variable in the posterior.")
    return kept


def _require_known(names: Collection[str], groups: Mapping[str, xr.Dataset]) -> None:
    drawn = [held for held in groups.values() if "draw" in held.dims]
    known = {*groups, *(str(name) for held in drawn for name in held.data_vars)}
    unknown = sorted(str(name) for name in names if name not in known)
    if unknown:
        raise StanadaptError(
            "settings",
            f"exclude names {unknown[0]!r}, but the variables and groups of the result are "
            f"{', '.join(sorted(known))}.",
        )


def encoding(group: str, held: xr.Dataset, float32: bool, compression: Any) -> dict[str, dict]:
    """How xarray is to write each variable of a group, by name."""
    level = require_whole("compression", compression, 0, 9)
    drawn = group.removeprefix("warmup_") in DRAWN
    chosen = {}
    for name, variable in held.data_vars.items():
        one: dict[str, Any] = {}
        if level and variable.size > 1 and variable.dtype.kind in "fiub":
            # bytes of equal weight together: those of signs and exponents are often the same
            one = {"zlib": True, "complevel": level, "shuffle": True}
        if require_flag("float32", float32) and drawn and _bears_rounding(variable):
            one["dtype"] = "float32"
        if one:
            chosen[str(name)] = one
    return chosen


def _bears_rounding(variable: xr.DataArray) -> bool:
    """Whether four bytes hold draws to far below their spread, in every component."""
    if variable.dtype != np.float64 or "draw" not in variable.dims:
        return False
    over: Any = [dim for dim in ("chain", "draw") if dim in variable.dims]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = variable.astype("float32").astype("float64")
        error = np.abs(rounded - variable).max(over)  # without what is not a number
        spread = variable.where(np.isfinite(variable)).std(over)
    lost = np.isfinite(variable) & ~np.isfinite(rounded)
    fine = (error <= LARGEST_ROUNDING * spread) | (error == 0)
    return bool(fine.all()) and not bool(lost.any())
