"""Constrained values as a position, or an error that names the value and its bound.

A file of its own: `initial_values` is about the forms of `inits`, this about values in them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.results import element
from stanadapt.targets.target import Target


def unconstrained(
    target: Target, inside: Mapping[str, np.ndarray], values: Mapping[str, Any]
) -> np.ndarray:
    """Return the position of given values of some parameters, shape (dim,).

    values are in their declared shapes; for other parameters, those of `inside` are taken, which
    have a position. StanadaptError, stage "initialization", with the parameter, its value and its
    declaration, if a value is not finite, violates a bound or a constraint, or is on a bound.
    """
    for name, value in values.items():
        if _is_other(value):
            raise _refused(target, name, f"{name} = {value!r}, which is not a number")
        for label, number in _elements(name, value):
            if not np.isfinite(number):
                raise _refused(target, name, f"{label} = {number}, which is not a finite number")
    try:
        position = target.unconstrain({**inside, **values})
    except StanadaptError as error:
        for name, label, number, alone in _one_by_one(target, inside, values):
            if not _has_position(target, alone):
                text = f"{label} = {number} violates a bound"
                raise _refused(target, name, text, "invalid_position", error.stan) from None
        raise
    if np.isfinite(position).all():
        return position
    for name, label, number, alone in _one_by_one(target, inside, values):
        if not _has_position(target, alone, finite=True):
            text = f"{label} = {number} is on a bound, where the density has no position"
            raise _refused(target, name, text)
    for name, value in values.items():  # a simplex, say: its elements depend on each other
        if not _has_position(target, {**inside, name: value}, finite=True):
            text = f"{name} = {_short(value)} is on a bound, where the density has no position"
            raise _refused(target, name, text)
    return position


def _is_other(value: Any) -> bool:
    """Whether it is a truth value, a text or nothing, or has one of these as an element."""
    if isinstance(value, list | tuple):
        return any(map(_is_other, value))
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value is None or isinstance(value, bool | str | bytes) or kind in ("b", "S", "U")


def _short(value: Any) -> str:
    return np.array2string(np.asarray(value, dtype=float), precision=3, threshold=8, edgeitems=3)


def _refused(
    target: Target, name: str, problem: str, code: str = "invalid_inits", stan: str = ""
) -> StanadaptError:
    """Return the error of a value; the declaration of its parameter has the bounds."""
    declared = [one.to_stan() for one in target.declared_parameters if one.name == name]
    declaration = f"; the program declares `{declared[0]}`" if declared else ""
    text = f"inits: {problem}{declaration}. Give a value in the interior."
    return StanadaptError(code, text, stan)


def _one_by_one(
    target: Target, inside: Mapping[str, np.ndarray], values: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any, dict[str, Any]]]:
    """Yield each number with separate bounds, and values of which it alone was given.

    Bounds may depend on other parameters: those without bounds are taken as they were given, unless
    they have no position themselves.
    """
    bounded = {one.name for one in target.declared_parameters if one.lower or one.upper}
    base: dict[str, Any] = dict(inside)
    for name, value in values.items():
        if name not in bounded and _has_position(target, {**base, name: value}, finite=True):
            base[name] = value
    for name, value in values.items():
        given = np.asarray(value)
        if name not in bounded or given.dtype.kind not in "biuf":
            continue
        for index in np.ndindex(given.shape):
            alone = np.array(inside[name], dtype=float)
            alone[index] = given[index]
            yield name, element(name, index), given[index], {**base, name: alone}


def _has_position(target: Target, values: Mapping[str, Any], finite: bool = False) -> bool:
    try:
        position = target.unconstrain(values)
    except StanadaptError:
        return False
    return not finite or bool(np.isfinite(position).all())


def _elements(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a value; Stan answers to anything else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return
    if array.dtype.kind not in "biuf":
        return
    for index in np.ndindex(array.shape):
        yield element(name, index), float(array[index])
