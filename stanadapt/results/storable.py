"""Names, values and labels that files hold: no paths, but numbers, text and dates.

ArviZ and xarray take labels that no file holds: dates with a time zone, periods, intervals, tuples.
They are turned into text when a target is made, so that all later code meets numbers, text and
dates only, and a fit that can be sampled can be saved. Fits of other libraries have more: their
labels become text when they are saved, and other things are refused before anything is written,
since xarray names neither the variable nor a remedy.
"""

import contextlib
import datetime
from collections.abc import Iterable, KeysView, Mapping, Set
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from stanadapt.errors import StanadaptError

# dates in a file have this unit
DATES = "datetime64[ns]"
DURATIONS = "timedelta64[ns]"
# kinds of objects that both formats hold, by pandas' names
STORED_OBJECTS = ("string", "bytes", "integer", "floating", "empty")


def coordinate(dim: str, labels: Any) -> Any:
    """Return the labels along a dimension as a list, or as an array if they are dates.

    Labels are one per element, in any ordered collection; or what `as_json` returns. Numbers, truth
    values and text are kept; dates and times without a zone become datetime64, durations
    timedelta64; anything else becomes text, tuples in the form "(A, 1)". Messages call the
    dimension `dim`.
    """
    if isinstance(labels, Mapping) and set(labels) == {"dtype", "labels"}:
        return np.array(labels["labels"], dtype=labels["dtype"])
    elements = _elements(dim, labels)
    index = _inferred(elements)
    kind = index.dtype.kind if isinstance(index.dtype, np.dtype) else "O"
    numbers = index.tolist() if kind in "biuf" else []
    if numbers and (kind != "u" or max(numbers) <= np.iinfo(np.int64).max):
        return numbers
    if kind in "Mm":
        dates = index.to_numpy()
        with contextlib.suppress(OverflowError):  # of NumPy 2.4 and later
            exact = dates.astype(DATES if kind == "M" else DURATIONS)
            if np.array_equal(exact.astype(dates.dtype), dates, equal_nan=True):
                return exact
    return [as_text(label) for label in elements]


def as_json(labels: Any) -> Any:
    """Return the labels that `coordinate` returns in a form that JSON holds."""
    if not isinstance(labels, np.ndarray):
        return list(labels)
    return {"dtype": labels.dtype.name, "labels": labels.astype(np.int64).tolist()}


def as_text(label: Any) -> str:
    """Return a label as text that UTF-8 and HDF5 hold: without surrogates and NUL."""
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if isinstance(label, tuple | list):
        label = f"({', '.join(map(as_text, label))})"
    return storable_text(str(label))


def storable_text(text: str) -> str:
    """Return text that UTF-8 and HDF5 hold: without surrogates, as in some paths, and NUL."""
    try:
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _elements(dim: str, labels: Any) -> list[Any]:
    """Return labels as a list; a column of a table and an array of xarray by their values."""
    one_axis = len(getattr(labels, "shape", (1,))) == 1  # neither a number nor a table
    ordered = not isinstance(labels, Mapping | Set | str | bytes) or isinstance(labels, KeysView)
    if not (isinstance(labels, Iterable) and ordered and one_axis):
        raise StanadaptError(
            "wrong_labels",
            f"coords of {dim} must be a list with one label per element, got {labels!r}.",
        )
    if isinstance(labels, xr.DataArray):
        labels = labels.values
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "f":
        labels = labels.astype(float)  # there are indices of two kinds of floats only
    return list(labels)


def _inferred(elements: list[Any]) -> pd.Index:
    """Return labels as an index of the type that all of them have in common."""
    days = [type(label) is datetime.date for label in elements]
    if elements and all(days):
        return pd.Index(np.array(elements, dtype="datetime64[D]").astype("datetime64[s]"))
    try:
        return pd.Index(elements, tupleize_cols=False)
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return pd.Index(range(0), dtype=object)


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
