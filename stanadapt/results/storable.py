"""Names, values and labels that files hold: no paths, but numbers, text and dates.

Fits of other libraries have more. Labels become text; other things are refused before anything is
written, since xarray names neither the variable nor a remedy.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from stanadapt.errors import StanadaptError
from stanadapt.results.coordinates import coordinate, storable_text

# kinds of objects that both formats hold, by pandas' names
STORED_OBJECTS = ("string", "bytes", "integer", "floating", "empty")


def require_storable(groups: Mapping[str, xr.Dataset]) -> None:
    """Raise StanadaptError, before anything is written, for things that files cannot hold.

    These are names with "/", which both formats take for a folder, so that a zarr store would lose
    the variable without a word; and variables of objects that are neither numbers nor text.
    """
    for group, data in groups.items():
        for name in dict.fromkeys([*data.variables, *data.dims]):
            if not is_storable_name(name):
                raise StanadaptError(
                    "result_refused",
                    f"the fit could not be saved: a file cannot contain the name {name!r} in the "
                    f"group {group}. Rename it, for example with xarray's rename, to a text "
                    "without '/'.",
                )
        for name, variable in data.data_vars.items():
            if not _is_storable(variable):
                left_out = str(name) if "draw" in data.dims else group
                raise StanadaptError(
                    "result_refused",
                    f"the fit could not be saved: a file cannot store {name} in the group {group}, "
                    "whose values are neither numbers nor text. Convert it, or leave it out "
                    f"(exclude={left_out!r}).",
                )


def is_storable_name(name: Any) -> bool:
    """Whether a name is text that files hold, and take for no folder."""
    is_text = isinstance(name, str) and storable_text(name) == name
    return is_text and name not in ("", ".", "..") and "/" not in name


def _is_storable(variable: xr.DataArray) -> bool:
    """Whether the values of a variable are of a type that files hold."""
    if not isinstance(variable.dtype, np.dtype):  # one of pandas, such as categories
        return False
    if variable.dtype.kind != "O":
        return True
    return pd.api.types.infer_dtype(variable.values.ravel(), skipna=True) in STORED_OBJECTS


def with_storable_labels(data: xr.Dataset) -> xr.Dataset:
    """Return a dataset in which labels that files cannot hold are those that a target would have.

    Other libraries have periods, intervals, tuples and several levels; the levels stay too.
    """
    of_levels = [dim for dim in data.dims if isinstance(data.indexes.get(dim), pd.MultiIndex)]
    changed = {}
    for name, labels in data.coords.items():
        if name in of_levels or not _is_storable(labels):
            # values of an index with a time zone lack it
            flat = data.indexes[name] if name in data.indexes else labels.values.ravel()
            texts = np.asarray(coordinate(str(name), list(flat)))
            changed[name] = (labels.dims, texts.reshape(labels.shape), labels.attrs)
    return data.reset_index(of_levels).assign_coords(changed) if changed else data
