"""Rehearse a result before its first draw, so that no name or attribute can lose a finished run.

What can fail after the last draw is rehearsed here: the datasets, the ArviZ object, and the names,
labels and attributes in a file, which is written and read back in memory. Draws themselves cannot
fail: they are numbers, and `datasets` gives their dimensions names. The file is HDF5, on which
netCDF is built: a netCDF file of the same contents takes ten times as long. Short texts and numbers
under plain names need no file.
"""

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from stanadapt.errors import StanadaptError
from stanadapt.results import arviz_object
from stanadapt.results.attributes import origin
from stanadapt.results.labels import phase_groups

# kinds of numbers, text and dates that netCDF holds
STORED = "biufUmM"
# names that HDF5 takes, and characters of a text that it takes as an attribute
PLAIN, SHORT = re.compile(r"\w+(\.\w+)*", re.ASCII), 16_000
# names of attributes that netCDF writes by itself
OF_NETCDF = frozenset({
    "CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_NCProperties", "_Netcdf4Coordinates",
    "_Netcdf4Dimid", "_nc3_strict",
})  # fmt: skip


def rehearse_draws(
    program: Any,
    plan: Any,
    statistics: Sequence[str],
    attributes: Mapping[str, Any],
    further: Collection[str] = (),
    own: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Rehearse the result of draws from a program, by any sampler or engine.

    `program` is the `Target`, `plan` has the lengths of the run, and `attributes` are those of the
    result that are known before it. `further` names variables on the unconstrained scale, and `own`
    holds groups of the sampler's own with one draw. The error is "result_refused".
    """
    twice = sorted({name for name in statistics if list(statistics).count(name) > 1})
    if twice:
        raise StanadaptError(
            "result_refused",
            f"the sampler has two statistics of the name {twice[0]!r}: rename the one in its Info.",
        )
    row = np.zeros((1, 1, len(program.column_names)))
    draws = arviz_object.variables(program.column_names, row, program.program.integers)
    groups: arviz_object.Groups = {}
    for prefix in ("", "warmup_") if plan.save_warmup else ("",):
        stats = {name: np.zeros((1, 1)) for name in statistics}
        groups |= phase_groups(program.labels, prefix, draws, stats)
    groups[arviz_object.UNCONSTRAINED] = {name: np.zeros((1, 1, program.dim)) for name in further}
    groups |= {**own, **program.data_groups}
    known = {"backend_reason": program.backend_reason, "noise": list(program.noise)}
    rehearse(groups, {**origin(program, plan), **known, **attributes})


def rehearse(groups: arviz_object.Groups, attributes: Mapping[str, Any]) -> None:
    """Build a result of one draw, and write and read its names, labels and attributes.

    The arguments are those of `build`; the error is "result_refused", with which nothing is lost.
    """
    try:
        fit = arviz_object.build(groups, attributes)
        made = {name: arviz_object.dataset(fit, name) for name in arviz_object.group_names(fit)}
        missing = [
            name
            for group, values in groups.items()
            for name in (values if isinstance(values, dict) else values.data_vars)
            if name not in made.get(group, {}) or name not in made[group].data_vars
        ]
        every = [pair for group in made.values() for pair in group.variables.items()]
        unstorable = [name for name, x in every if x.dtype.kind not in STORED and x.size]
        faults = [*missing, *unstorable, *_lost(made, fit.attrs)]
        faults += sorted(OF_NETCDF & set(fit.attrs))
    except (ValueError, TypeError, KeyError, OSError, RuntimeError, AttributeError) as error:
        raise _refused(str(error)) from None
    if faults:
        raise _refused(f"a file cannot hold {faults[0]!r}")


def _refused(reason: str) -> StanadaptError:
    return StanadaptError(
        "result_refused",
        f"the result of this run could not be saved: {reason}. Nothing was sampled. Rename what "
        "the message names, in the program, the labels or the sampler.",
    )


def _lost(groups: Mapping[str, xr.Dataset], attributes: Mapping[Any, Any]) -> list[Any]:
    """Return the names that come back from a file in memory otherwise than they went in."""
    inside = (name for group in groups.values() for name in (*group.variables, *group.dims))
    names = dict.fromkeys(map(str, (*groups, *inside)))
    texts = {
        f"labels of {name}": x.values
        for group in groups.values()
        for name, x in group.coords.items()
        if x.dtype.kind == "U"
    }
    short = (isinstance(x, int | float) or len(x) < SHORT for x in attributes.values())
    if not texts and all(short) and all(map(PLAIN.fullmatch, (*names, *map(str, attributes)))):
        return []
    import h5py  # takes a tenth of a second

    # of this thread alone: HDF5 opens no two files in memory under one name
    own = f"rehearsal {threading.get_ident()}"
    with h5py.File(own, "w", driver="core", backing_store=False) as file:
        for name in names:
            file.create_group(name)
        for number, text in enumerate(texts.values()):
            kind = h5py.string_dtype()
            file.attrs.create(f"{number}", np.asarray(text, dtype=object), dtype=kind)
        for name, value in attributes.items():
            file.attrs[name] = value
        lost: list[Any] = sorted(names.keys() ^ set(file))
        lost += [
            name
            for number, (name, text) in enumerate(texts.items())
            if not np.array_equal(file.attrs[f"{number}"].astype(str), text)
        ]
        lost += [name for name, value in attributes.items() if not _same(file.attrs[name], value)]
    return lost


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other or (one != one and other != other))
