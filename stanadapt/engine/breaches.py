"""What is wrong with a sampler that somebody wants to register: one sentence for each breach."""

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from numba.core.dispatcher import Dispatcher

from stanadapt.engine.protocol import Sampler

SETTING_TYPES = "float, int, bool or an IntEnum"
# compiled functions and what they are called with
SIGNATURES = {
    "init": ("density", "settings", "position", "rng"),
    "step": ("density", "settings", "state", "rng"),
    "adapt": ("density", "settings", "state", "info", "t", "iter_warmup"),
    "freeze": ("settings", "state"),
    "init_from_draws": ("density", "settings", "state", "positions", "rng"),
    "init_from_network": ("density", "settings", "position", "rng", "network"),
}


def breaches(sampler: Sampler, registered: Mapping[str, Sampler]) -> list[str]:
    """Return a sentence for each breach of the protocol, the sampler's name in front."""
    classes = {part: getattr(sampler, part) for part in ("settings", "state", "info")}
    wrong = [
        f"{part} must be a NamedTuple class, got {given!r}"
        for part, given in classes.items()
        if not _is_named_tuple(given)
    ]
    if wrong:
        return [f"{sentence}." for sentence in wrong]
    found = [*_name(sampler, registered), *_settings(sampler), *_info(sampler), *_state(sampler)]
    found += [sentence for part in SIGNATURES for sentence in _function(sampler, part)]
    found += [*_check(sampler), *_coordinates(sampler), *_exactness(sampler)]
    return [f"{sampler.name}: {sentence}." for sentence in found]


def _is_named_tuple(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, tuple) and hasattr(given, "_fields")


def _name(sampler: Sampler, registered: Mapping[str, Sampler]) -> Iterator[str]:
    other = registered.get(sampler.name)
    # the same file may be imported again, after an edit
    if other is not None and other.settings.__module__ != sampler.settings.__module__:
        yield (
            f"the name is taken by the sampler of {other.settings.__module__}; a sampler is named "
            "after its file: rename the file"
        )


def _types(given: type, part: str) -> tuple[dict[str, Any], list[str]]:
    """Declared types of a NamedTuple, or a sentence on why they are not known.

    With `from __future__ import annotations` they are strings, which name things that must be
    visible at the top of the file.
    """
    try:
        return typing.get_type_hints(given), []
    except (NameError, TypeError, AttributeError) as error:
        return {}, [
            f"the types of {part} cannot be resolved ({error}): import their names at the top of "
            "the file, outside `if TYPE_CHECKING`, or leave out the `from __future__` import of "
            "annotations"
        ]


def _settings(sampler: Sampler) -> Iterator[str]:
    declared, unresolved = _types(sampler.settings, "Settings")
    yield from unresolved
    for name, kind in declared.items():
        if name not in sampler.settings._field_defaults:
            yield f"Settings.{name} must have a default"
        if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
            yield (
                f"Settings.{name} is declared as {_shown(kind)}, but compiled code takes one type: "
                f"declare {SETTING_TYPES}, and let a number such as 0 mean 'not given'"
            )
        elif not (kind in (float, int, bool) or _is_int_enum(kind)):
            yield f"Settings.{name} must be {SETTING_TYPES}, not {_shown(kind)}"


def _is_int_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, IntEnum)


def _info(sampler: Sampler) -> Iterator[str]:
    declared, unresolved = _types(sampler.info, "Info")
    yield from unresolved
    if "acceptance_rate" not in sampler.info._fields:
        yield "Info must have a field acceptance_rate: float, the acceptance probability"
    for name, kind in declared.items():
        if kind not in (float, int, bool):
            yield f"Info.{name} must be float, int or bool, not {_shown(kind)}"


def _state(sampler: Sampler) -> Iterator[str]:
    declared, unresolved = _types(sampler.state, "State")
    yield from unresolved
    if "current" not in sampler.state._fields:
        yield (
            "State must have a field current, a ValuePoint, a GradientPoint or a NamedTuple like "
            "them: what a draw is read from"
        )
        return
    kind = declared.get("current")
    if kind is None:
        return
    lacking = [
        field for field in ("position", "log_density") if field not in getattr(kind, "_fields", ())
    ]
    if lacking:
        yield f"State.current must be a NamedTuple with {' and '.join(lacking)}, not {_shown(kind)}"


def _function(sampler: Sampler, part: str) -> Iterator[str]:
    function = getattr(sampler, part)
    if function is None:
        return
    if not isinstance(function, Dispatcher):
        yield f"{part} must be compiled: decorate it with jit"
        return
    yield from _arity(part, function.py_func, SIGNATURES[part])


def _check(sampler: Sampler) -> Iterator[str]:
    if not callable(sampler.check):
        yield f"check must be a function of settings, got {sampler.check!r}"
        return
    yield from _arity("check", sampler.check, ("settings",))


def _coordinates(sampler: Sampler) -> Iterator[str]:
    known = ("full", "diagonal", "no")
    if sampler.standardize not in known and not callable(sampler.standardize):
        yield f"standardize must be 'full', 'diagonal' or 'no', got {sampler.standardize!r}"
    for name in sampler.when_standardized:
        if name not in sampler.settings._fields:
            yield f"when_standardized names {name}, which is no field of Settings"


def _exactness(sampler: Sampler) -> Iterator[str]:
    if not isinstance(sampler.exact, bool) and not callable(sampler.exact):
        yield f"exact must be True, False or a function of settings, got {sampler.exact!r}"


def _arity(part: str, function: Callable, wanted: tuple[str, ...]) -> Iterator[str]:
    given = inspect.signature(function).parameters
    if len(given) != len(wanted):
        yield (
            f"{part} must take {len(wanted)} argument{'s' if len(wanted) > 1 else ''} "
            f"({', '.join(wanted)}), but takes {len(given)} ({', '.join(given)})"
        )


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
