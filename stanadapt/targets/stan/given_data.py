"""Data as users have them: mappings, tables, xarray datasets, JSON text, and files.

Files contain JSON, R's dump format or a table (CSV), and may be compressed by gzip, bzip2 or xz.
"""

import bz2
import contextlib
import gzip
import json
import lzma
import zlib
from collections.abc import Iterator, Mapping, MappingView, Set
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.results.files import read_text
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import user_path
from stanadapt.targets.stan.r_dump import looks_like_r_dump, read_r_dump
from stanadapt.targets.stan.tables import is_table_file, read_table

_COMPRESSED = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
_BINARY_R = (b"RDX", b"RDA", b"X\n\x00", b"A\n2", b"A\n3")
_IN_R = "In R, write the data as JSON with cmdstanr's write_stan_json."
MOST_LEVELS = 64  # of lists in lists, as in NumPy; a list may hold itself
EXPECTED = (
    "The data must be a mapping of names to values, a table, JSON text, the path of a file (JSON, "
    "CSV or R's dump format) or None"
)


class GivenData(NamedTuple):
    """The data before their check."""

    values: dict[str, Any]  # numbers, lists and numpy arrays by name
    text: str | None = None  # the JSON text, if the data were given as one; None otherwise
    sizes: str = ""  # A sentence on how to add sizes, which tables lack; "" for other data
    rows: int | None = None  # of a table; None for other data


def load(data: Any) -> GivenData:
    """Return the data of the user by name; StanadaptError if there are none."""
    if data is None:
        return GivenData({})
    if isinstance(data, str | PathLike):
        return _read(data)
    if isinstance(data, CheckedData):
        return GivenData(dict(data.entries), None if data.is_large else data.text)
    if hasattr(data, "data_vars") and hasattr(data, "coords"):  # an xarray.Dataset
        sizes = 'Give {**data, "N": data.sizes[...]}: a size is the length of a dimension.'
        return _converted({**data.coords, **data.data_vars}, sizes)
    if isinstance(data, Mapping):
        return _converted(data)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        columns = {str(name): data[name] for name in data.columns}
        if len(columns) < len(data.columns):
            names = [str(name) for name in data.columns]
            twice = next(name for name in names if names.count(name) > 1)
            raise StanadaptError(
                "data_repeated", f"The table has two columns {twice}. Rename or drop one."
            )
        table = "**data" if hasattr(data, "keys") else "**data.to_dict()"
        sizes = f'A table has columns only: give {{{table}, "N": len(data)}}.'
        return _converted(columns, sizes)._replace(
            rows=max(map(len, columns.values()), default=None)
        )
    if getattr(getattr(data, "dtype", None), "names", None):  # a structured array
        columns = {name: data[name] for name in data.dtype.names}
        sizes = 'A table has columns only: give {**columns, "N": len(data)}, with a dict of these.'
        return _converted(columns, sizes)._replace(rows=len(np.atleast_1d(data)))
    name = getattr(data, "name", None)
    hint = f'{{"{name}": data}}' if isinstance(name, str) else '{"x": table["x"], ...}'
    raise StanadaptError(
        "data_wrong_type", f"{EXPECTED}, got {type(data).__name__}. Give names, such as {hint}."
    )


def file_of(data: Any) -> Path | None:
    """Return the file that data are read from; None for text, and for data in memory."""
    if not isinstance(data, str | PathLike):
        return None
    is_text = isinstance(data, str) and (
        data.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") or ("<-" in data and looks_like_r_dump(data))
    )
    return None if is_text else user_path(data)


def _read(data: str | PathLike) -> GivenData:
    path = file_of(data)
    if path is not None and is_table_file(path):
        cure = (
            "A table has columns only: compute the number in the program, as in transformed data { "
        )
        cure += "int J = max(group); }, give it as JSON, or use stan_data in Python."
        return load(read_table(path))._replace(sizes=cure)
    if path is None:
        text, source = str(data).lstrip("\ufeff"), "The data given as text"
    else:
        text, source = _uncompressed(path), f"The data file {path}"
    if looks_like_r_dump(text):
        return GivenData(read_r_dump(text, source))
    try:
        values = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        message = f"{source} is not valid JSON: {error}. Stan's data are a JSON object of numbers."
        if path is not None:
            message += " The name of a table with a header ends in .csv or .tsv."
        raise StanadaptError("data_not_json", message) from None
    if not isinstance(values, dict):
        expected = "must be a JSON object, names and values in braces"
        raise StanadaptError("data_wrong_type", f"{source} {expected}, got {describe(values)}.")
    return GivenData(values, text)


def _uncompressed(path: Path) -> str:
    start = b""
    with contextlib.suppress(OSError, ValueError):  # read_text reports them
        if path.is_file():  # a pipe could be read only once
            with path.open("rb") as file:
                start = file.read(6)
    module: Any = next((m for magic, m in _COMPRESSED.items() if start.startswith(magic)), None)
    if module is None and not start.startswith(_BINARY_R):
        return read_text(path, "data file")
    content = start
    try:
        if module is not None:
            with module.open(path, "rb") as file:
                content = file.read()
        if content.startswith(_BINARY_R):
            problem = f"is in R's binary format. {_IN_R}"
        else:
            text = content.decode("utf-8-sig")
            return text.replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        problem = f"cannot be decompressed: {error}. Compress it again."
    except UnicodeDecodeError:
        problem = "contains no UTF-8 text. Compress a JSON file."
    raise StanadaptError("file_unreadable", f"The data file {path} {problem}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):  # the embedded backend would use the last, CmdStan refuses
        names = [name for name, _ in pairs]
        twice = next(name for name in values if names.count(name) > 1)
        raise StanadaptError(
            "data_repeated", f"The data give {twice} twice. Remove one of the two."
        )
    return values


def _converted(values: Mapping, sizes: str = "") -> GivenData:
    return GivenData({name: _plain(values[name]) for name in values}, None, sizes)


def _plain(value: Any) -> Any:
    """Convert a value to numbers, lists and numpy arrays; masked elements become NaN.

    What cannot be converted is kept: it may be an entry that the program does not declare.
    """
    if isinstance(value, np.ma.MaskedArray) or _holds_masked(value):
        return _filled(value)
    try:
        if hasattr(value, "to_numpy"):
            return value.to_numpy()
        if hasattr(value, "__array__") and not isinstance(value, Mapping):
            return np.asarray(value)
    except Exception as error:  # of another package: a tensor on a GPU, or with a gradient
        return Unreadable(value, str(error))
    return np.asarray(value) if isinstance(value, range) else value


def _holds_masked(value: Any) -> bool:
    """Return whether lists or tuples hold masked arrays, without a call for each number."""
    level = [value]
    for _ in range(MOST_LEVELS):
        kinds = set(map(type, level))
        if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            return True
        if not any(issubclass(kind, list | tuple) for kind in kinds):
            return False
        level = list(chain.from_iterable(x for x in level if isinstance(x, list | tuple)))
    return False


def _filled(value: Any) -> Any:
    """Replace masked elements, which NumPy would read as if they were not masked, by NaN."""
    if isinstance(value, list | tuple):
        filled = [_filled(item) for item in value]
        return filled if isinstance(value, list) else tuple(filled)
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.is_masked(value) or value.dtype.kind in "mM":  # which are no numbers at all
        return value.data
    numeric = value.dtype.kind in "biuf"
    return np.ma.filled(value.astype(float if numeric else object), np.nan)


class Unreadable(NamedTuple):
    """A value that its own package does not convert to an array, and the reason."""

    value: Any
    reason: str


def not_a_list(value: Any, name: str) -> tuple[str, str] | None:
    """Return problem and cure for a value that holds numbers in another form; None for others."""
    kind = type(value).__name__
    if isinstance(value, Unreadable):
        return f"is a {type(value.value).__name__} and not an array", f"{value.reason}"
    if hasattr(value, "toarray"):
        return f"is a sparse matrix ({kind})", f"Give {name}.toarray()."
    if isinstance(value, Mapping):
        cure = f"Give its values, list({name}.values()); of a table, table.to_dict('list')."
        return "is a mapping of keys to values", cure
    if isinstance(value, MappingView | Iterator):
        return f"is a {kind}", f"Give list({name})."
    if isinstance(value, Set):
        return f"is a {kind}, which has no order", f"Give sorted({name}), or a list."
    return None


def describe(value: Any) -> str:
    """Describe a value for an error message."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {str: f"the string {value!r}"[:60], list: "a list", dict: "an object"}
    return kinds.get(type(value), f"{type(value).__name__} {value!r}"[:60])
