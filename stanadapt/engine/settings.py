"""Settings of samplers: how they are declared, with their ranges, and read as a user gives them.

A setting is a field of the NamedTuple `Settings` of a sampler, with a type, a range if it has one,
a default, and a comment that explains it:

    class Settings(NamedTuple):
        target_accept: Probability = 0.55  # acceptance rate to which the step size is tuned
        leapfrogs: Annotated[int, Between(1, 1000, "[]")] = 10  # steps per iteration

The comment, beside or above the field, is shown with range and default by `stanadapt samplers NAME`
and by the page of samplers; a text within `Annotated` takes its place for a setting that several
samplers have. Values are checked and cast as declared, since a value of another type would be
compiled for a second time.
"""

import ast
import functools
import inspect
import io
import textwrap
import tokenize
import typing
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from stanadapt.errors import LARGEST_WHOLE, StanadaptError

INFINITY = float("inf")
DIRECTIVES = ("fmt:", "noqa", "type:")  # comments that explain nothing
MOST_SHOWN = 8  # numbers


class Numbers(tuple):
    """A setting of several numbers, such as a ladder; compiled code gets a read-only array."""

    __slots__ = ()


class Between(NamedTuple):
    """A range, for `Annotated[float, Between(0, 1)]`; that of `Numbers` is for each of them.

    `ends` is "()" if neither end belongs to it, "[]" if both do. Infinity never does.
    """

    low: float
    high: float = INFINITY
    ends: Literal["()", "[)", "(]", "[]"] = "()"

    def contains(self, value: float) -> bool:
        """Whether a number lies in the range."""
        above = value >= self.low if self.ends[0] == "[" else value > self.low
        below = value <= self.high if self.ends[1] == "]" else value < self.high
        return above and below and abs(value) < INFINITY

    def __str__(self) -> str:
        """Name the range, in the words of a message: "between 0 and 1"."""
        if self == Between(-INFINITY):
            return "finite"
        if self.ends == "()" and self.high < INFINITY:
            return f"between {self.low:g} and {self.high:g}"
        least = f"at least {self.low:g}" if self.ends[0] == "[" else f"above {self.low:g}"
        most = f"at most {self.high:g}" if self.ends[1] == "]" else f"below {self.high:g}"
        if self.high < INFINITY:
            return f"{least} and {most}"
        return "positive" if least == "above 0" else least


Finite = Annotated[float, Between(-INFINITY)]
Probability = Annotated[float, Between(0, 1)]
Fraction = Annotated[float, Between(0, 1, "[)")]
Share = Annotated[float, Between(0, 1, "(]")]
Positive = Annotated[float, Between(0)]
NotNegative = Annotated[float, Between(0, ends="[)")]
Count = Annotated[int, Between(1, ends="[)")]
CountOrZero = Annotated[int, Between(0, ends="[)")]
# values of a setting without a range
KINDS = {float: "a number", int: "a whole number", bool: "true or false", Numbers: "numbers"}


class Setting(NamedTuple):
    """A setting, as its field declares it."""

    name: str
    kind: Any  # float, int, bool, Numbers or an IntEnum
    range: Between | None
    default: Any
    text: str  # the comment at the field

    @property
    def values(self) -> str:
        """The values that it accepts, in words: "between 0 and 1", "true or false"."""
        if issubclass(self.kind, IntEnum):
            return f"one of {', '.join(self.kind.__members__)}"
        return KINDS[self.kind] if self.range is None else str(self.range)


@functools.cache
def declared(settings: Any) -> dict[str, Setting]:
    """Return the settings that a class `Settings` declares, by name."""
    hints, comments = typing.get_type_hints(settings, include_extras=True), field_comments(settings)
    found = {}
    for name, hint in hints.items():
        kind, *notes = typing.get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        ranges = [note for note in notes if isinstance(note, Between)]
        shared = " ".join(note for note in notes if isinstance(note, str))
        default = settings._field_defaults[name]
        range_ = ranges[0] if ranges else None
        found[name] = Setting(name, kind, range_, default, comments.get(name) or shared)
    return found


@functools.cache
def field_comments(kind: type) -> dict[str, str]:
    """Return the comment of each field of a class, "" without one; {} if there is no source.

    It stands beside the field, in the lines directly above it, or in both places.
    """
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # at a prompt, or in a program without its files
        return {}
    above: dict[int, str] = {}
    beside: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not text.startswith(DIRECTIVES):
            alone = token.line.lstrip().startswith("#")
            (above if alone else beside)[token.start[0]] = text
    (definition,) = ast.parse(source).body
    found = {}
    for field in getattr(definition, "body", ()):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            first = field.lineno
            while first - 1 in above:
                first -= 1
            lines = [above[row] for row in range(first, field.lineno)]
            rows = range(field.lineno, (field.end_lineno or field.lineno) + 1)
            lines += [beside[row] for row in rows if row in beside]
            found[field.target.id] = " ".join(lines)
    return found


# --- values ---------------------------------------------------------------------------------------


def setting_error(message: str) -> StanadaptError:
    """Return the error for a setting that a sampler does not accept, to be raised by `check`.

    Parameters
    ----------
    message
        Text that begins with the sampler's name: the setting, the accepted values, and the value.
    """
    return StanadaptError("invalid_setting", message)


def typed(sampler: str, setting: Setting, value: Any) -> Any:
    """Return a value in the type and the range of a setting; StanadaptError if it has none."""
    label = f"{sampler}: {setting.name}"
    kind, range_ = setting.kind, setting.range
    if issubclass(kind, IntEnum):
        return _member(label, kind, value)
    if issubclass(kind, Numbers):
        value = _numbers(label, value)
        numbers, shown = value, shown_numbers(value)
    else:
        value = _number(label, kind, value)
        numbers, shown = (value,), value
    if range_ is not None and not all(map(range_.contains, numbers)):
        raise setting_error(f"{label} must be {_named(range_, numbers)}, got {shown}.")
    return value


def _named(range_: Between, numbers: Sequence[float]) -> str:
    """Name a range, and say that its ends do not belong to it to who gave one."""
    at_an_end = any(number in (range_.low, range_.high) for number in numbers)
    inside = at_an_end and range_.ends == "()" and range_.high < INFINITY
    return f"{range_}, without these two" if inside else str(range_)


def _number(label: str, kind: Any, value: Any) -> Any:
    try:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower(), value)
        number = kind(value)
        fits = number == float(value) if kind is int else kind is not bool or value in (0, 1)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise setting_error(f"{label} must be {KINDS[kind]}, got {value!r}.")
    if kind is int and abs(number) > LARGEST_WHOLE:
        raise setting_error(f"{label} must be at most {LARGEST_WHOLE:,} in size, got {value!r}.")
    return number


def _member(label: str, kind: type[IntEnum], value: Any) -> IntEnum:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in kind.__members__:
        names = ", ".join(kind.__members__)
        raise setting_error(f"{label} must be one of {names}, got {value!r}.")
    return kind[value]


def _numbers(label: str, value: Any) -> Numbers:
    """Read several numbers: a sequence, a text with commas between them, or one number alone."""
    given = value.replace(",", " ").split() if isinstance(value, str) else value
    try:
        array = np.array(given)
        # of truth values and complex numbers, NumPy would make others
        real = array.dtype.kind not in "bc"
        numbers = np.atleast_1d(array.astype(float)) if real else np.empty(0)
        usable = real and numbers.ndim == 1 and bool(np.isfinite(numbers).all())
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        raise setting_error(f"{label} must be finite numbers, such as 1,0.5,0.1, got {value!r}.")
    return Numbers(numbers.tolist())


def shown_numbers(numbers: Sequence[float], separator: str = ", ", digits: int = 6) -> str:
    """Show numbers, the first and last of many."""
    texts = [f"{number:.{digits}g}" for number in numbers]
    return separator.join(texts if len(texts) <= MOST_SHOWN else [*texts[:3], "...", texts[-1]])


# --- settings as a whole --------------------------------------------------------------------------


def as_chosen(settings: Any) -> dict[str, Any]:
    """Return settings by name, as a user writes them: members of an IntEnum by their names."""
    values = settings._asdict().items()
    return {name: v.name if isinstance(v, IntEnum) else v for name, v in values}


def as_compiled(settings: Any) -> Any:
    """Return settings for compiled code: members of an IntEnum as their numbers, Numbers as arrays.

    Numba reads a number in C, but an enumeration in Python, at each call; and it would compile once
    more for tuples of another length.
    """
    return type(settings)(*map(_compiled, settings))


def _compiled(value: Any) -> Any:
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, Numbers):
        array = np.array(value, dtype=float)
        array.flags.writeable = False
        return array
    return value
