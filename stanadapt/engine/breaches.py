"""Breaches of the protocol by a sampler: of its declarations, and of the state of a chain.

`breaches` checks the declarations when a sampler is registered. Each of its checks yields messages
without the name of the sampler, which `breaches` puts in front. `require_state` checks the state
with which a chain begins.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum
from numbers import Integral
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from stanadapt.engine.protocol import AUTO, PRESET, Sampler, declared_types, keep
from stanadapt.engine.settings import Numbers, declared, field_comments, typed
from stanadapt.engine.starts import START_OPTIONS
from stanadapt.engine.warmup import END, Stage, Warmup
from stanadapt.errors import Message, StanadaptError

# what `sample` takes besides settings and the names in START_OPTIONS; it is out of reach from here
ARGUMENTS = frozenset({
    "target", "sampler", "chains", "iter_warmup", "iter_sampling", "seed", "inits", "warm_start",
    "until_ess", "until_mcse", "max_minutes", "thin", "parallel_chains", "standardize",
    "save_warmup", "save", "run", "executor", "show_progress", "threads_per_chain",
})  # fmt: skip
# statistics that a result has of every sampler, and names of its dimensions
STATISTICS = {
    "lp": "every result has it, the log density of the draw",
    "n_evaluations": "every result has it, the number of evaluations of an iteration",
    "chain": "it is a dimension of the result",
    "draw": "it is a dimension of the result",
}
# functions and their arguments
SIGNATURES = {
    "init": ("density", "settings", "position", "rng"),
    "step": ("density", "settings", "state", "rng"),
    "adapt": ("density", "settings", "state", "info", "t", "iter_warmup"),
    "freeze": ("settings", "state"),
    "init_from_draws": ("density", "settings", "state", "positions", "rng"),
    "check": ("settings",),
}
# functions of a table of stages of warm-up, and of one stage, which Python calls
CHANGE = ("settings", "progress", "states")
CHOICE = ("settings", "before", "progress", "states")
OF_WARMUP = {
    "begin": CHANGE, "finish": CHANGE, "prepare": ("density", "state"), "for_scales": CHOICE,
    "revise": CHOICE,
}  # fmt: skip
OF_STAGE = {"set_up": CHANGE, "learn": CHANGE, "length": ("settings", "progress")}
# those that Python calls, at most once per chain: a plain function will do
BY_PYTHON = ("init", "init_from_draws", "freeze", "check")
COORDINATES = ("full", "diagonal", "no")


def breaches(sampler: Sampler, registered: Mapping[str, Sampler]) -> list[Message]:
    """Return a message for each breach of the protocol, beginning with the sampler's name.

    `registered` are the samplers that are registered already, by name.
    """
    classes = {part: getattr(sampler, part) for part in ("settings", "state", "info")}
    file = getattr(sampler.settings, "__module__", "a sampler").rpartition(".")[2]
    wrong = [
        Message(
            "invalid_sampler_tuple", f"{file}: {part} must be a NamedTuple class, got {value!r}."
        )
        for part, value in classes.items()
        if not _is_named_tuple(value)
    ]
    functions = [text for part in SIGNATURES for text in _function(sampler, part)]
    if wrong:
        code = "invalid_sampler_function"
        return [*wrong, *(Message(code, f"{file}: {text}.") for text in functions)]
    texts = {
        "sampler_name_taken": [*_name(sampler, registered)],
        "settings_taken": [*_former_functions(sampler, registered)],
        "invalid_sampler_tuple": [*_settings(sampler), *_info(sampler), *_state(sampler)],
        "invalid_sampler_function": functions,
        "invalid_sampler_option": [*_options(sampler)],
        "invalid_warmup": [*_warmup(sampler)],
    }
    return [
        Message(code, f"{sampler.name}: {text}.") for code, wrong in texts.items() for text in wrong
    ]


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _name(sampler: Sampler, registered: Mapping[str, Sampler]) -> Iterator[str]:
    if sampler.name == AUTO:
        yield (
            f"the name is taken: sampler={AUTO!r} means the one that suits the target; a sampler "
            "is named after its file: rename the file"
        )
    other = registered.get(sampler.name)
    if other is None:
        return
    if other.settings.__module__ != sampler.settings.__module__:
        yield (
            f"the name is taken by the sampler of {other.settings.__module__}; a sampler is named "
            "after its file: rename the file"
        )
    # the same file may be imported again, after an edit; another sampler in it would replace this
    # one by name, and continue its runs
    elif other.settings.__qualname__ != sampler.settings.__qualname__:
        yield (
            f"the name is taken by the sampler of {other.settings.__qualname__} in the same file, "
            f"and a file holds one sampler: put that of {sampler.settings.__qualname__} into a "
            "file of its own, or start Python again if you renamed the class"
        )


def _former_functions(sampler: Sampler, registered: Mapping[str, Sampler]) -> Iterator[str]:
    other = registered.get(sampler.name)
    if other is None or other.settings is not sampler.settings:
        return
    if other.chosen_by_class != sampler.chosen_by_class or other.info is not sampler.info:
        yield (
            "these Settings are registered with other functions, and the code that was compiled "
            "for this class is kept: define the class Settings again too, or start Python again"
        )


# --- tuples ---------------------------------------------------------------------------------------


def _types(named_tuple: type, part: str) -> tuple[dict[str, Any], list[str]]:
    """Return the declared types of a NamedTuple, or why they cannot be resolved.

    With `from __future__ import annotations` they are strings, and the names in them must be
    visible at the top of the file.
    """
    try:
        return declared_types(named_tuple), []
    except (NameError, TypeError, AttributeError) as error:
        return {}, [
            f"the types of {part} cannot be resolved ({error}): import their names at the top of "
            "the file, outside `if TYPE_CHECKING`, or leave out the `from __future__` import of "
            "annotations"
        ]


def _settings(sampler: Sampler) -> Iterator[str]:
    wrong = [*_fields_of_settings(sampler)]
    yield from wrong
    for name, setting in {} if wrong else declared(sampler.settings).items():
        # without a source, at a prompt, there are no comments
        if not setting.text and name in field_comments(sampler.settings):
            yield f"Settings.{name} must have a comment, beside or above it, that explains it"
        values = {"the default": setting.default}
        for title, preset in sampler.presets.items():
            values |= {f"preset {title}": v for n, v in preset.settings.items() if n == name}
        for owner, value in values.items():
            try:
                typed(owner, setting, value)
            except StanadaptError as error:
                yield error.message.rstrip(".")


def _fields_of_settings(sampler: Sampler) -> Iterator[str]:
    kinds, unresolved = _types(sampler.settings, "Settings")
    yield from unresolved
    for name, kind in kinds.items():
        if name not in sampler.settings._field_defaults:
            yield f"Settings.{name} must have a default"
        if not (kind in (float, int, bool, Numbers) or _is_int_enum(kind)):
            yield (
                f"Settings.{name} must be float, int, bool, Numbers or an IntEnum, since compiled "
                f"code takes one type, not {_shown(kind)}: a number such as 0 may mean 'not given'"
            )
    # no call could set these: `sample` would take the keyword for itself
    for name in (*sampler.settings._fields, *sampler.setting_aliases):
        if name in (*ARGUMENTS, *START_OPTIONS, PRESET):
            yield f"a setting must have another name than {name}, which is an argument of `sample`"


def _is_int_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, IntEnum)


def _info(sampler: Sampler) -> Iterator[str]:
    kinds, unresolved = _types(sampler.info, "Info")
    yield from unresolved
    if "acceptance_rate" not in sampler.info._fields:
        yield "Info must have a field acceptance_rate: float, the acceptance probability"
    for name, kind in kinds.items():
        if kind not in (float, int, bool):
            yield f"Info.{name} must be float, int or bool, not {_shown(kind)}"
    for name in sampler.info._fields:
        if name in STATISTICS:
            yield f"Info.{name} must have another name: {STATISTICS[name]}"


def _state(sampler: Sampler) -> Iterator[str]:
    kinds, unresolved = _types(sampler.state, "State")
    yield from unresolved
    if "current" not in sampler.state._fields:
        yield (
            "State must have a field current, from which draws are read: a ValuePoint, a "
            "GradientPoint or a NamedTuple like them"
        )
        return
    kind = kinds.get("current")
    if kind is None:
        return
    lacking = [
        field for field in ("position", "log_density") if field not in getattr(kind, "_fields", ())
    ]
    if lacking:
        yield f"State.current must be a NamedTuple with {' and '.join(lacking)}, not {_shown(kind)}"


# --- functions and options ------------------------------------------------------------------------


def _function(sampler: Sampler, part: str) -> Iterator[str]:
    function = getattr(sampler, part)
    if function is None and part in Sampler._fields:
        yield f"{part} is missing: define a function {part}({', '.join(SIGNATURES[part])})"
    if function is None or function is keep:
        return
    if part not in BY_PYTHON and not isinstance(function, Dispatcher):
        yield f"{part} must be compiled: decorate it with jit"
    yield from _arguments(part, function, SIGNATURES[part])


def _arguments(part: str, function: Any, expected: tuple[str, ...]) -> Iterator[str]:
    if not callable(function):
        yield f"{part} must be a function, got {function!r}"
        return
    signature = inspect.signature(getattr(function, "py_func", function))
    try:
        signature.bind(*expected)
    except TypeError:
        actual = signature.parameters
        yield (
            f"{part} must take {len(expected)} argument{'s' if len(expected) > 1 else ''} "
            f"({', '.join(expected)}), but takes {len(actual)} ({', '.join(actual)})"
        )


def _options(sampler: Sampler) -> Iterator[str]:
    if sampler.standardize not in COORDINATES and not callable(sampler.standardize):
        yield f"standardize must be 'full', 'diagonal' or 'no', got {sampler.standardize!r}"
    named = {
        "when_standardized": [*sampler.when_standardized],
        "setting_aliases": [*sampler.setting_aliases.values()],
        "memory": [*sampler.memory.settings],
    }
    for title, preset in sampler.presets.items():
        named[f"the preset {title}"] = [*preset.settings, *preset.by_dimension]
        if preset.standardize not in COORDINATES:
            yield f"the preset {title} must have standardize 'full', 'diagonal' or 'no'"
    for owner, names in named.items():
        for name in names:
            if name not in sampler.settings._fields:
                yield f"{owner} names {name}, but Settings has no such field"


def _warmup(sampler: Sampler) -> Iterator[str]:
    warmup = sampler.warmup
    for name, value in vars(sys.modules[sampler.settings.__module__]).items():
        if isinstance(value, Warmup) and value is not warmup:
            yield f"the stages {name} are not used: write register(__name__, warmup={name})"
    if warmup is None:
        return
    stages = getattr(warmup, "stages", None)
    if not isinstance(stages, Mapping) or not all(isinstance(s, Stage) for s in stages.values()):
        yield f"warmup must be a Warmup with a dict of Stage by name, got {warmup!r:.80}"
        return
    named = {"first": warmup.first, "without_room": warmup.without_room}
    named |= {f"`then` of stage {name!r}": stage.then for name, stage in stages.items()}
    for place, name in named.items():
        if name not in [*stages, END] or (place == "first" and name == END):
            yield f"warmup: {place} is {name!r}, which is no stage; there are {[*stages]}"
    if END in stages:
        yield f"warmup: a stage must have another name than {END!r}, which is the end of warm-up"
    for part, expected in OF_WARMUP.items():
        if getattr(warmup, part) is not None:
            yield from _arguments(f"warmup: {part}", getattr(warmup, part), expected)
    for name, stage in stages.items():
        for part, expected in OF_STAGE.items():
            function, place = getattr(stage, part), f"warmup: {part} of stage {name!r}"
            if part != "length" or callable(function):
                yield from _arguments(place, function, expected)
            elif not isinstance(function, Integral) or isinstance(function, bool) or function < 1:
                yield f"{place} must be a whole number, at least 1, or a function, got {function!r}"


def _shown(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


# --- the state of a chain -------------------------------------------------------------------------


def require_state(sampler: Sampler, state: Any, size: int) -> None:
    """Raise StanadaptError, stage "sampler", unless a state of `init` is as it is declared.

    A position of another length would be read beyond its end. For a number of another type than
    declared, `replace` raises the error.
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
    return ""
