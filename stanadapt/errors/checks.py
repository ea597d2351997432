"""Checks of arguments: each returns the value that it was given, in its proper type."""

import difflib
import operator
from collections.abc import Collection, Iterable
from numbers import Real
from reprlib import Repr
from typing import Any

from stanadapt.errors.exceptions import StanadaptError

LARGEST_WHOLE = 10**15  # larger runs never end, and sums of integers would overflow
_SHORT = Repr()
_SHORT.maxstring = 80  # of a whole program, no more than its beginning and end


def require_whole(name: str, value: Any, smallest: int, largest: int = LARGEST_WHOLE) -> int:
    """Return value as an int; StanadaptError unless it is an integer from smallest to largest."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < smallest:
        raise StanadaptError(
            "out_of_range", f"{name} must be a whole number, at least {smallest}, got {value!r}."
        )
    if number > largest:
        raise StanadaptError("out_of_range", f"{name} must be at most {largest:,}, got {value!r}.")
    return number


def require_between(name: str, value: Any, low: float, high: float) -> float:
    """Return value as a float; StanadaptError unless it lies strictly between low and high."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = low
    if not low < number < high:
        raise StanadaptError(
            "out_of_range", f"{name} must lie between {low:g} and {high:g}, got {value!r}."
        )
    return number


def is_real(value: Any) -> bool:
    """Whether value is a number that a double can hold, infinity and NaN included."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def require_flag(name: str, value: Any) -> bool:
    """Return whether value is true; StanadaptError if that is ambiguous, as for arrays and "no"."""
    try:
        if isinstance(value, str):
            raise TypeError
        return bool(value)
    except (TypeError, ValueError):
        shown = repr(value) if isinstance(value, str) else type(value).__name__
        raise StanadaptError("not_a_flag", f"{name} must be True or False, got {shown}.") from None


def require_names(name: str, value: Any) -> list[str]:
    """Return one or several names as a list; StanadaptError for anything else."""
    names: list[str] = []
    try:
        for each in [value] if isinstance(value, str) else value:
            if not isinstance(each, str):  # at the first: an iterator may never end
                raise TypeError
            names.append(each)
    except TypeError:
        raise StanadaptError(
            "not_a_name", f"{name} must be a name, or a list of names, got {value!r}."
        ) from None
    return names


def is_one_of(value: Any, choices: Collection[Any]) -> bool:
    """Whether value is one of the choices; False also if it cannot be hashed, such as a list."""
    try:
        hash(value)  # arrays and tables are compared with each element, and may seem to be equal
        return bool(value in choices)
    except TypeError:
        return False


def described(thing: Any) -> str:
    """Return a short description of an argument of a wrong type."""
    plain = thing is None or isinstance(thing, str | int | float | type)
    return _SHORT.repr(thing) if plain else f"an object of type {type(thing).__name__}"


def first_of(names: Iterable[Any], most: int) -> str:
    """Return the first names of a list, and how many others there are: "a, b and 3 more"."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with the name that is spelled most like another; "" without any.

    Stan's `lp__` is no variable of a fit: the text says where it is.
    """
    if name == "lp__":
        return ' Log densities of draws are in fit["sample_stats"]["lp"].'
    by_lower = {each.lower(): each for each in names}
    alike = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[alike[0]]!r}?" if alike else ""
