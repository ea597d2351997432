"""The types and the shape of the state with which a chain begins, once per chain.

A file of its own, since it is plain Python: an edit recompiles no sampler.
"""

import typing
from numbers import Integral, Real
from typing import Any

import numpy as np

from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError


def require_state(sampler: Sampler, state: Any, size: int) -> None:
    """Raise StanadaptError, stage "sampler", unless a state of `init` is as it is declared.

    Compiled code takes the types of this state for those of all others. An integer in place of a
    float would truncate what `adapt` puts there, and a position of another length be read beyond
    its end.
    """
    problem = _misplaced(sampler, state, size)
    if problem:
        raise StanadaptError("invalid_state", f"{sampler.name}: `init` {problem}.")


def _misplaced(sampler: Sampler, state: Any, size: int) -> str:
    if not isinstance(state, sampler.state):
        name = sampler.state.__name__
        return f"must return a {name}, got {type(state).__name__}: write `return {name}(...)`"
    position = getattr(state.current, "position", None)
    if not isinstance(position, np.ndarray) or position.shape != (size,):
        got = position.shape if isinstance(position, np.ndarray) else type(position).__name__
        return (
            f"must give State.current.position the shape of the position that it gets, ({size},), "
            f"got {got}"
        )
    if position.dtype != np.float64 or not position.flags.c_contiguous:
        kind = f"{position.dtype}{'' if position.flags.c_contiguous else ', not contiguous'}"
        return (
            "must give State.current.position as a contiguous array of float64, "
            f"got {kind}: write position.copy(), or .astype(np.float64)"
        )
    return _undeclared("State", state)


def _undeclared(name: str, value: Any) -> str:
    """Return a text for the first number of another type than its tuple declares; "" for none."""
    try:
        declared = typing.get_type_hints(type(value))
    except (NameError, TypeError, AttributeError):
        return ""
    for field, kind in declared.items():
        part, place = getattr(value, field), f"{name}.{field}"
        if hasattr(part, "_fields"):
            problem = _undeclared(place, part)
            if problem:
                return problem
        elif kind in (float, int, bool) and not _is_a(kind, part):
            remedy = f": write {part}.0 or float(...)" if kind is float else ""
            return f"must give {place} as {kind.__name__}, got {part!r}{remedy}"
    return ""


def _is_a(kind: type, value: Any) -> bool:
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, Integral | np.bool_)
    return isinstance(value, bool | np.bool_ if kind is bool else Integral)
