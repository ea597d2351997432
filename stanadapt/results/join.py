"""Join fits of several jobs, each with chains of the same program, data and sampler, to one fit."""

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError
from stanadapt.results.arviz_object import (
    Fit,
    Groups,
    attribute,
    build,
    dataset,
    from_json,
    group_names,
)

# attributes in which fits agree that belong together, if they record them
SHARED = ("program_hash", "data_hash", "sampler", "engine", "settings", "thin")
# attributes that are sums over chains, or have a number for each chain
SUMS = (
    "compile_seconds", "n_gradients", "n_gradients_warmup", "n_density", "n_density_warmup",
    "n_failed", "n_failed_quantities", "n_stopped",
)  # fmt: skip
OF_CHAINS = (
    "warmup_seconds", "sampling_seconds", "warmup_processor_seconds", "sampling_processor_seconds",
)  # fmt: skip
SAME = "the same chain twice would count as two"


def join(fits: Mapping[str, Fit]) -> Fit:
    """Return one fit, not judged yet, with the chains of all, numbered in the order of the names.

    Raises StanadaptError: "fits_do_not_join" if they differ in program, data, sampler, variables or
    number of draws, "same_chain_twice" if two chains have the same draws.
    """
    (first, one), *others = fits.items()
    for name, fit in others:
        _require_alike(first, one, name, fit)
    require_different(
        {
            f"chain {chain + 1} of {name}": _of_chain(dataset(fit, "posterior"), chain)
            for name, fit in fits.items()
            for chain in range(dataset(fit, "posterior").sizes["chain"])
        }
    )
    every = list(fits.values())
    chains = sum(dataset(fit, "posterior").sizes["chain"] for fit in every)
    shared = [name for name in group_names(one) if all(name in group_names(f) for f in every)]
    parts = {group: [dataset(fit, group) for fit in every] for group in shared}
    # groups of warm-ups that ended after different numbers of iterations are left out
    groups: Groups = {
        group: _joined(found)
        for group, found in parts.items()
        if len({part.sizes.get("draw") for part in found}) == 1
    }
    return build(groups, _attributes(every, chains))


def require_different(chains: Mapping[str, np.ndarray]) -> None:
    """Raise StanadaptError, "same_chain_twice", if two chains have the same draws."""
    seen: dict[str, str] = {}
    for name, draws in chains.items():
        if (draws == draws[:1]).all():  # of fixed parameters, and of chains that do not move
            continue
        digest = hashlib.sha256(np.ascontiguousarray(draws).tobytes()).hexdigest()
        if digest in seen:
            raise StanadaptError(
                "same_chain_twice",
                f"{name} has the draws of {seen[digest]}: {SAME}. Leave out one of them, or give "
                "each job another seed.",
            )
        seen[digest] = name


def _of_chain(posterior: xr.Dataset, chain: int) -> np.ndarray:
    """Return the draws of a chain, shape (draw, number)."""
    variables = [posterior[name] for name in sorted(posterior.data_vars, key=str)]
    tables = [v.isel(chain=chain).transpose("draw", ...).values for v in variables]
    rows = [table.reshape(len(table), -1) for table in tables if table.dtype.kind in "biufc"]
    return np.concatenate(rows, axis=1)


def _shape(fit: Fit) -> dict[Hashable, Any]:
    posterior = dataset(fit, "posterior")
    sizes: dict[Hashable, Any] = {"draws": posterior.sizes["draw"]}
    for name, variable in posterior.data_vars.items():
        sizes[name] = {str(d): n for d, n in variable.sizes.items() if d != "chain"}
    return sizes


def _require_alike(first: str, one: Fit, name: str, other: Fit) -> None:
    differing = [
        (key, attribute(one, key), attribute(other, key))
        for key in SHARED
        if None not in (attribute(one, key), attribute(other, key))
        and attribute(one, key) != attribute(other, key)
    ]
    ours, theirs = _shape(one), _shape(other)
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        if ours.get(key) != theirs.get(key):
            differing.append((str(key), ours.get(key, "missing"), theirs.get(key, "missing")))
    if differing:
        key, here, there = differing[0]
        raise StanadaptError(
            "fits_do_not_join",
            f"{name} does not belong to {first}: {key} is {there} there and {here} here. Only "
            "chains of one program, data set and sampler, equally long, can be one fit.",
        )


def _joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return the chains of all parts in one dataset; the rest is that of the first."""
    variables = {}
    for name, variable in parts[0].data_vars.items():
        found = [part[name] for part in parts if name in part]
        # the attribute is the name of what a picture shows
        shown = {(one.dims, one.attrs.get("name")) for one in found}
        if len(found) == len(parts) and len(shown) == 1:
            if "chain" in variable.dims:
                found = [one.drop_vars("chain", errors="ignore") for one in found]
                variables[name] = xr.concat(found, "chain", join="override", coords="minimal",
                                            compat="override")  # fmt: skip
            else:
                variables[name] = variable
    joined = xr.Dataset(variables, attrs=parts[0].attrs)
    if "chain" in joined.sizes:
        joined = joined.assign_coords(chain=np.arange(joined.sizes["chain"]))
    return joined


def _attributes(fits: Sequence[Fit], chains: int) -> dict[str, Any]:
    attributes = {
        name: value
        for name, value in fits[0].attrs.items()
        if all(name in fit.attrs and np.array_equal(fit.attrs[name], value) for fit in fits)
    }
    # chains of two runs with the same start are not numbered in turn
    dropped = ("verdict", "note", "superchains")
    for name in [name for name in attributes if str(name).startswith(dropped)]:
        del attributes[name]
    for names, combined in ((SUMS, np.sum), (OF_CHAINS, np.concatenate)):
        for name in names:
            values = [np.atleast_1d(attribute(fit, name, np.nan)) for fit in fits]
            if all(name in fit.attrs for fit in fits):
                total = combined([np.sum(x) for x in values] if names is SUMS else values)
                attributes[name] = total.tolist()
    every = [from_json(fit, "every_iteration", {}) for fit in fits]
    if all(every):
        merged = {key: [x for part in every for x in part[key]] for key in every[0]}
        attributes["every_iteration"] = json.dumps(merged)
    attributes["interrupted"] = any(bool(attribute(fit, "interrupted", 0)) for fit in fits)
    attributes["seeds"] = np.array([attribute(fit, "seed", -1) for fit in fits]).tolist()
    attributes["chains_kept"] = list(range(1, chains + 1))
    return attributes
