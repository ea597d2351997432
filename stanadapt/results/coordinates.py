"""Labels along a dimension, as kinds of values that xarray, netCDF and JSON all hold.

ArviZ and xarray take labels that no file holds: dates with a time zone, periods, intervals, tuples.
They are turned into text when a target is made, so that all later code meets numbers, text and
dates only, and a fit that can be sampled can be saved.
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
    """Return labels as an index, whose type is the one that all of them have in common."""
    days = [type(label) is datetime.date for label in elements]
    if elements and all(days):
        return pd.Index(np.array(elements, dtype="datetime64[D]").astype("datetime64[s]"))
    try:
        return pd.Index(elements, tupleize_cols=False)
    except (TypeError, ValueError, OverflowError, NotImplementedError):
        return pd.Index(range(0), dtype=object)
