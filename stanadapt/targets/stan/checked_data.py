"""Data that a program accepts: arrays by name, and the JSON text in which backends read them.

Text is three times as large as its numbers. That of large data is therefore written, a part at a
time, into the file where it is read, and is not kept.
"""

import contextlib
import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson

# numbers; the text of more has a million characters, which no limit on characters exceeds
LARGE = 500_000
PART = 20_000  # numbers that are written at once


class CheckedData:
    """Data that a program accepts.

    Parameters
    ----------
    entries : mapping
        Arrays by name, and what is no array, such as tuples, as JSON has it.
    text : str, optional
        The JSON text, if there is one. Of large data it is forgotten.
    shared : collection of str
        Names of the arrays that are the user's, and may change.
    """

    def __init__(
        self, entries: Mapping[str, Any], text: str | None = None, shared: Iterable[str] = ()
    ) -> None:
        self.entries, self._shared = entries, frozenset(shared)
        count = sum(value.size for value in entries.values() if isinstance(value, np.ndarray))
        self.is_large = count > LARGE
        self._text = None if self.is_large else text or b"".join(_written(entries)).decode()
        # characters: of large data, the fewest that they can have
        self.size = 2 * count if self._text is None else len(self._text)

    @classmethod
    def of_values(cls, values: Mapping[str, Any], text: str) -> "CheckedData":
        """Return data that have these values in their JSON text."""
        arrays = {name: _as_array(value) for name, value in values.items()}
        return cls({n: values[n] if x is None else x for n, x in arrays.items()}, text)

    @property
    def is_numeric(self) -> bool:
        """Whether they are large, and arrays alone, so that files of arrays can hold them."""
        return self.is_large and all(isinstance(x, np.ndarray) for x in self.entries.values())

    @property
    def text(self) -> str:
        """The data as JSON; that of large data is written at each call."""
        return b"".join(self.parts()).decode()

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of finite numbers by name, as a reader finds them in the text."""
        found = {name: _as_array(value) for name, value in self.entries.items()}
        return {name: array for name, array in found.items() if array is not None}

    @property
    def values(self) -> dict[str, Any]:
        """The entries, single numbers being those of Python."""
        return {
            name: value.item() if isinstance(value, np.ndarray) and not value.ndim else value
            for name, value in self.entries.items()
        }

    def kept(self) -> "CheckedData":
        """Return these data in arrays of their own, which do not change with the user's."""
        entries = {n: x.copy() if n in self._shared else x for n, x in self.entries.items()}
        return CheckedData(entries, self._text)

    def parts(self, more: str = "") -> Iterator[bytes]:
        """Yield the text in parts; `more` is one more entry, as JSON."""
        if self._text is None:
            yield from _written(self.entries, more)
        elif more:
            body = self._text.strip()[:-1].rstrip()
            yield f"{body}{',' if body != '{' else ''}{more}}}".encode()
        else:
            yield self._text.encode()

    def write(self, path: Path, more: str = "") -> None:
        """Write the text into a file."""
        with path.open("wb") as file:
            file.writelines(self.parts(more))

    @contextlib.contextmanager
    def argument(self, more: str = "") -> Iterator[str]:
        """Provide what a library with BridgeStan's interface reads: text, or the name of a file."""
        with contextlib.ExitStack() as removed:
            file = self._file(removed, more) if self.is_large else None
            yield b"".join(self.parts(more)).decode() if file is None else file

    def _file(self, removed: contextlib.ExitStack, more: str) -> str | None:
        """Write a temporary file; return its name, or None if a library could not read it."""
        try:
            folder = tempfile.TemporaryDirectory(prefix="stanadapt-data-")
            file = Path(removed.enter_context(folder), "data.json")
            self.write(file, more)
        except OSError:  # no space left
            return None
        return _FileName(file) if str(file).isascii() else None  # Windows misreads other letters

    def digest(self, names: Iterable[str]) -> str:
        """Return the first 16 hexadecimal digits of a SHA-256 hash of these entries.

        It is that of their numbers, however they are written: 1 or 1.0, with spaces, in any order.
        """
        hashed = sha256()
        for name in sorted(names):
            value = self.entries[name]
            try:
                numbers = _with_shape_of_text(np.asarray(value, float))
                shape = str(numbers.shape).encode()
                size, parts = len(shape) + numbers.nbytes, map(_bytes, _blocks(numbers))
            except (TypeError, ValueError):  # tuples
                plain = json.loads(json.dumps(value), parse_int=float)
                shape, parts = json.dumps(plain).encode(), map(bytes, ())
                size = len(shape)
            hashed.update(f"{name}:{size}:".encode() + shape)
            for part in parts:
                hashed.update(part)
        return hashed.hexdigest()[:16]


class _FileName(str):
    """The name of a .json file, which BridgeStan's package would read in place of the library."""

    __slots__ = ()

    def endswith(self, *_: Any) -> bool:
        """False: it is passed on as text is."""
        return False


def _as_array(value: Any) -> np.ndarray | None:
    """Return the numbers that JSON text has for a value; None if it has strings or tuples."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    finite = array.dtype.kind in "biu" or (array.dtype.kind == "f" and np.isfinite(array).all())
    return _with_shape_of_text(array) if finite else None


def _with_shape_of_text(array: np.ndarray) -> np.ndarray:
    """Return the array; without elements, in the shape that lists show."""
    return array if array.size else np.asarray(array.tolist(), float)


def _written(entries: Mapping[str, Any], more: str = "") -> Iterator[bytes]:
    before = "{"
    for name, value in entries.items():
        yield f'{before}"{name}": '.encode()
        yield from _parts(value) if isinstance(value, np.ndarray) else [json.dumps(value).encode()]
        before = ", "
    yield f"{before.strip()}{more}}}".encode() if more else b"}" if entries else b"{}"


def _parts(array: np.ndarray) -> Iterator[bytes]:
    """Write numbers; NaN and infinity as the strings that all readers of Stan's JSON accept."""
    finite, before = np.isfinite(array).all(), b"["
    if array.size <= PART:
        yield _json(array, finite)
        return
    for block in _blocks(array):
        yield before
        yield _json(block, finite)[1:-1]
        before = b"," if finite else b", "
    yield b"]"


def _json(array: np.ndarray, finite: bool) -> bytes:
    if finite:
        option, whole = orjson.OPT_SERIALIZE_NUMPY, np.asarray(array, order="C")
        return orjson.dumps(whole, default=np.ndarray.tolist, option=option)
    objects = array.astype(object)
    objects[np.isnan(array)] = "NaN"
    objects[array == math.inf] = "Inf"
    objects[array == -math.inf] = "-Inf"
    return json.dumps(objects.tolist()).encode()


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows of an array, some at a time."""
    if array.size <= PART:
        yield array
        return
    rows = max(1, PART * len(array) // array.size)
    yield from (array[i : i + rows] for i in range(0, len(array), rows))


def _bytes(block: np.ndarray) -> bytes:
    numbers = block + 0.0  # -0.0 is 0.0
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()
