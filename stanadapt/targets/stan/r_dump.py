"""Data in R's dump format, which CmdStan reads as well: `y <- structure(c(1, 2), .Dim = c(1, 2))`.

R writes it by dump and rstan's stan_rdump. The text is parsed, not evaluated: it may contain
numbers, ranges, vectors, and arrays with dimensions, whose first index runs fastest.
"""

import contextlib
import re
from typing import Any, NoReturn

import numpy as np

from stanadapt.errors import StanadaptError

_SKIPPED = re.compile(r"(?:\s|;|#[^\n]*)*")
_NAME = re.compile(r"""(?P<quote>["'`]?)(?P<name>[A-Za-z.][\w.]*)(?P=quote)\s*(?:<-|=(?!=))""")
_NUMBER = re.compile(
    r"[-+]?\s*(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?L?|(?:NA(?:_\w+_)?|NaN|Inf|TRUE|FALSE|NULL)\b)"
)
_WORD = re.compile(r"[A-Za-z.][\w.]*")
_STRING = re.compile(r""" "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' """, re.VERBOSE)
_WORDS = {"NaN": np.nan, "NULL": np.nan, "Inf": np.inf, "TRUE": 1, "FALSE": 0}
_EMPTY = ("integer", "double", "numeric", "logical")
_DIMENSIONS = (".Dim", "dim")


def looks_like_r_dump(text: str) -> bool:
    """Return whether text begins, after comments, with an assignment of R."""
    return _NAME.match(text, _SKIPPED.match(text).end()) is not None  # type: ignore[union-attr]


def read_r_dump(text: str, source: str) -> dict[str, Any]:
    """Return the values by name: numbers, and arrays of float64 or int64.

    `source` is a noun for the text in messages, such as "The data file data.R".

    Examples
    --------
    >>> read_r_dump("N <- 2L; y <- c(1.5, -2)", "The text")
    {'N': 2, 'y': array([ 1.5, -2. ])}
    """
    reader = _Reader(text, source)
    with contextlib.suppress(ValueError, TypeError, OverflowError, MemoryError, RecursionError):
        return reader.assignments()
    # NumPy's errors, of lengths and dimensions that no array has
    reader.fail("a length and dimensions that an array can have")


class _Reader:
    """A position in the text, which each method moves behind its own part."""

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source, self.at = text, source, 0

    def assignments(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        self.skip()
        while self.at < len(self.text):
            name = self.take(_NAME, "an assignment such as `N <- 3`")["name"]
            if name in values:
                message = f"{self.source} gives {name} twice. Remove one of the two."
                raise StanadaptError("data_repeated", message)
            values[name] = self.value()
            self.skip()
        return values

    def value(self) -> Any:
        """Read a number, a range, or an array."""
        self.skip()
        word = _WORD.match(self.text, self.at)
        if word and not _NUMBER.match(self.text, self.at):
            return self.call(word[0])
        if string := _STRING.match(self.text, self.at):
            self.at = string.end()
            return string[0]
        first = _number(self.take(_NUMBER, "a number")[0])
        if not self.follows(":"):
            return first
        last = self.value()
        if not isinstance(first, int) or not isinstance(last, int):
            self.fail("whole numbers around the colon")
        step = 1 if last >= first else -1
        return np.arange(first, last + step, step)

    def call(self, function: str) -> Any:
        if function not in ("structure", "c", "list", *_EMPTY):
            self.fail("numbers, which are not computed")
        self.at += len(function)
        if not self.follows("("):
            self.fail("a number")
        if function == "structure":
            return self.structure()
        parts = [value for _, value in self.arguments()]
        if function in _EMPTY:
            kind = np.int64 if function in ("integer", "logical") else np.float64
            return np.zeros(parts[0] if parts else 0, kind)
        if function == "list":  # names of dimensions; as data, `_numbers` refuses it
            return parts
        if any(isinstance(part, str) for part in parts):
            return parts
        return np.concatenate([np.atleast_1d(part) for part in parts]) if parts else np.zeros(0)

    def structure(self) -> Any:
        (_, value), *attributes = self.arguments() or self.fail("the values of the structure")
        dims = next((v for name, v in attributes if name in _DIMENSIONS), None)
        if dims is None:
            return value
        shape, array = np.atleast_1d(dims).astype(int), np.atleast_1d(value)
        if array.size != shape.prod():
            self.fail(f"{shape.prod()} numbers for the dimensions, not {array.size}")
        return array.reshape(shape, order="F")

    def arguments(self) -> list[tuple[str, Any]]:
        """Read values up to the closing parenthesis, with their names, if they have any."""
        found: list[tuple[str, Any]] = []
        if self.follows(")"):
            return found
        while True:
            self.skip()
            named = _NAME.match(self.text, self.at)
            self.at = named.end() if named else self.at
            found.append((named["name"] if named else "", self.value()))
            if self.follows(")"):
                return found
            if not self.follows(","):
                self.fail("a comma or a closing parenthesis")

    def skip(self) -> None:
        self.at = _SKIPPED.match(self.text, self.at).end()  # type: ignore[union-attr]

    def follows(self, sign: str) -> bool:
        self.skip()
        found = self.text.startswith(sign, self.at)
        self.at += found
        return found

    def take(self, pattern: re.Pattern, expected: str) -> re.Match:
        match = pattern.match(self.text, self.at)
        if match is None:
            self.fail(expected)
        self.at = match.end()
        return match

    def fail(self, expected: str) -> NoReturn:
        line = self.text.count("\n", 0, self.at) + 1
        found = repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "its end"
        raise StanadaptError(
            "data_not_r_dump",
            f"{self.source} is not in R's dump format: line {line} should contain {expected}, "
            f"before {found}. Write the data as JSON, in R by cmdstanr's write_stan_json.",
        )


def _number(token: str) -> int | float:
    """Return an int for 3, 3L and 1e5, which R writes for 100000, and a float for 3.0."""
    token = token.replace(" ", "")
    sign, bare = (-1 if token[0] == "-" else 1), token.lstrip("+-")
    if bare.startswith("NA_") or bare == "NA":
        return np.nan
    if bare in _WORDS:
        return sign * _WORDS[bare]
    bare = bare.removesuffix("L")
    if bare.isdigit():
        return sign * int(bare)
    number = sign * float(bare)
    return int(number) if "." not in bare and number.is_integer() else number
