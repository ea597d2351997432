"""The one exception users see, with the stage at which it arose; and checks of arguments."""

import difflib
import operator
import os
import sys
import warnings
from collections.abc import Collection, Iterable
from numbers import Real
from pathlib import Path
from typing import Any

_PACKAGE = f"{Path(__file__).parent}{os.sep}"  # not a neighbour whose name begins like ours
_IMPORT = "<frozen importlib"

STAGES = (
    "settings",
    "sampler",  # the code of a sampler: registration, compilation
    "syntax",
    "data",
    "initialisation",
    "sampling",
    "generated quantities",
    "installation",
    "files",
)


class StanadaptError(Exception):
    """What was expected, what came, and what to try.

    Parameters
    ----------
    stage
        One of `STAGES`: where in the life of a fit it happened.
    message
        Our own message, in complete sentences.
    stan
        Stan's message (from the compiler, the model or CmdStan), unchanged.
    fit
        The finished ArviZ object that the error is about, if there is one, so that no draw is
        lost; else None.

    """

    def __init__(self, stage: str, message: str, stan: str = "", fit: Any = None) -> None:
        if stage not in STAGES:
            raise ValueError(f"stage must be one of {', '.join(STAGES)}, got {stage!r}")
        self.stage = stage
        self.message = message
        self.stan = stan.strip()
        self.fit = fit
        super().__init__(stage, message, self.stan)

    def __str__(self) -> str:
        text = f"{self.stage}: {self.message}"
        return f"{text}\nStan says:\n{self.stan}" if self.stan else text


class ConvergenceWarning(UserWarning):
    """A fit is not exact, too short, or not to be used: the sentence says why, and what to try."""


LARGEST_WHOLE = 10**15  # beyond it, iterations do not end and sums of integers overflow


def require_whole(name: str, value: Any, smallest: int, largest: int = LARGEST_WHOLE) -> int:
    """Return value as an int; StanadaptError unless it is an integer from smallest to largest."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < smallest:
        raise StanadaptError(
            "settings", f"{name} must be a whole number, at least {smallest}, got {value!r}."
        )
    if number > largest:
        raise StanadaptError("settings", f"{name} must be at most {largest:,}, got {value!r}.")
    return number


def require_between(name: str, value: Any, low: float, high: float) -> float:
    """Return value as a float; StanadaptError unless it lies strictly between low and high."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = low
    if not low < number < high:
        raise StanadaptError(
            "settings", f"{name} must lie between {low:g} and {high:g}, got {value!r}."
        )
    return number


def is_real(value: Any) -> bool:
    """Whether value is a number that a double can hold, infinity and NaN among them."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def require_flag(name: str, value: Any) -> bool:
    """Return whether value counts as true; StanadaptError where that is not told, as of arrays."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise StanadaptError(
            "settings", f"{name} must be True or False, got {type(value).__name__}."
        ) from None


def require_names(name: str, value: Any) -> list[str]:
    """Return a name, or some, as a list; StanadaptError where value is neither."""
    found: list[str] = []
    try:
        for each in [value] if isinstance(value, str) else value:
            if not isinstance(each, str):  # at the first: there may be no end of them
                raise TypeError
            found.append(each)
    except TypeError:
        raise StanadaptError(
            "settings", f"{name} must be a name, or a list of names, got {value!r}."
        ) from None
    return found


def is_one_of(value: Any, known: Collection[Any]) -> bool:
    """Whether value is among the known; False also for what cannot be looked up, as a list."""
    try:
        hash(value)  # arrays and tables are compared with each element, and may seem to be equal
        return bool(value in known)
    except TypeError:
        return False


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question that names what is spelt most alike; "" where nothing is."""
    alike = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {alike[0]!r}?" if alike else ""


def warn(sentence: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside the package: the user's own."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, _IMPORT)):
        # frames of the import system have no level of their own
        level += not frame.f_code.co_filename.startswith(_IMPORT)
        frame = frame.f_back
    warnings.warn(sentence, category, stacklevel=level + 1)
