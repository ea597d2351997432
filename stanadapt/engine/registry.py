"""Samplers by name, and their settings as a user gives them.

`register` adds a sampler and `find` looks one up. Settings are cast to their declared types when
they are looked up, since a value of another type would be compiled for a second time. The
`require_` functions are for the `check` of a sampler.
"""

import sys
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module
from typing import Any

import numpy as np

from stanadapt.engine.breaches import breaches
from stanadapt.engine.compiled.jit import remember_sources
from stanadapt.engine.compiled.sources import remember_class
from stanadapt.engine.protocol import PARTS, PRESET, REGISTRY, Numbers, Preset, Sampler
from stanadapt.errors import LARGEST_WHOLE, StanadaptError, did_you_mean

ABOUT_PRESETS = (
    "Presets: published settings, by first author and year (preset=NAME). Settings that are given, "
    "and standardize, override them."
)
SAMPLERS = "stanadapt.samplers"
# a message shows the first and last of more numbers; the dimension of an example
MOST_SHOWN, SOME = 8, 100

# --- samplers -------------------------------------------------------------------------------------


def register(sampler: Sampler | str, **options: Any) -> None:
    """Add a sampler under the name of its file.

    Parameters
    ----------
    sampler
        `__name__` of the file: its parts are found by their names, `PARTS`; or a whole sampler.
    options
        Fields of `Sampler` that differ from their defaults.

    Raises
    ------
    StanadaptError
        Stage "sampler": a line for each breach of the protocol.

    """
    if isinstance(sampler, str):
        names = vars(sys.modules[sampler])
        found = {part: names[name] for part, name in PARTS.items() if name in names}
        sampler = Sampler(**{**found, **options})
    if not str(getattr(sampler.settings, "__module__", "")).startswith(f"{SAMPLERS}."):
        import_module(SAMPLERS)  # their names are taken, whether or not they were needed so far
    problems = breaches(sampler, registered())
    if problems:
        code = problems[0].code if len(problems) == 1 else "invalid_sampler"
        raise StanadaptError(code, "\n".join(problems))
    # their files may be edited before they are run
    remember_class(sampler.settings)
    remember_sources(sampler.compiled_parts)
    REGISTRY[sampler.settings] = sampler


def registered() -> dict[str, Sampler]:
    """Return all samplers by name, in alphabetical order."""
    return {s.name: s for s in sorted(REGISTRY.values(), key=lambda s: s.name)}


def names_of(condition: Callable[[Sampler], Any]) -> str:
    """Return the names of the samplers that meet a condition, for messages."""
    return ", ".join(name for name, sampler in registered().items() if condition(sampler))


def find_name(settings: tuple) -> str:
    """Return the name of the sampler that settings belong to."""
    return REGISTRY[type(settings)].name


def find(sampler: str | tuple, /, **chosen: Any) -> tuple[Sampler, Any]:
    """Find a sampler and its settings, in their declared types.

    Parameters
    ----------
    sampler
        Name of a sampler, or an instance of a sampler's `Settings`.
    chosen
        Settings by name; if an instance is given, they replace its fields. `preset` names
        published settings, which others then replace.

    Returns
    -------
    sampler, settings
        `uses_gradient`, `adapts_forever`, `standardize` and `exact` of the sampler are the values
        that hold under these settings.

    """
    sampler, base = _look_up(sampler)
    preset = _preset(sampler, chosen.pop(PRESET, None))
    published = {} if preset is None else preset.settings
    values = {**base._asdict(), **published, **_without_aliases(sampler, chosen)}
    settings = sampler.settings(**{name: _typed(sampler, name, v) for name, v in values.items()})
    sampler.check(settings)
    if preset is not None:
        sampler = sampler._replace(standardize=preset.standardize)
    forever = getattr(settings, "adapts_forever", sampler.adapts_forever)
    fixed = {}
    for name in ("uses_gradient", "standardize", "exact"):
        value = getattr(sampler, name)
        fixed[name] = value(settings) if callable(value) else value
    return sampler._replace(adapts_forever=forever, **fixed), settings


def _look_up(sampler: str | tuple) -> tuple[Sampler, Any]:
    if isinstance(sampler, str):
        samplers = registered()
        if sampler not in samplers:
            raise StanadaptError(
                "unknown_sampler",
                f"sampler must be one of {', '.join(samplers)}, got {sampler!r}."
                + did_you_mean(sampler, samplers),
            )
        return samplers[sampler], samplers[sampler].settings()
    if type(sampler) in REGISTRY:
        return REGISTRY[type(sampler)], sampler
    raise StanadaptError(
        "unknown_sampler",
        f"sampler must be a name ({', '.join(registered())}) or the Settings of a sampler, "
        f"got {sampler!r}.",
    )


# --- settings -------------------------------------------------------------------------------------


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


def with_standardized_defaults(sampler: Sampler, settings: Any, chosen: Any, dim: int) -> Any:
    """Return settings for `dim` parameters in standardized coordinates.

    A setting that neither the user nor a preset chose by name, and that has the default of other
    coordinates, gets the default of these.
    """
    defaults, preset = sampler.settings._field_defaults, _preset(sampler, chosen.get(PRESET))
    kept = {*chosen} if preset is None else {*chosen, *preset.settings, *preset.by_dimension}
    changes = {
        name: _typed(sampler, name, default(dim))
        for name, default in sampler.when_standardized.items()
        if name not in kept and getattr(settings, name) == defaults[name]
    }
    return settings._replace(**changes)


def with_settings_of_size(sampler: Sampler, settings: Any, chosen: Any, dim: int) -> Any:
    """Return settings with those that the sampler's preset computes from the dimension."""
    preset = _preset(sampler, chosen.get(PRESET))
    if preset is None or not preset.by_dimension:
        return settings
    named = _without_aliases(sampler, {k: v for k, v in chosen.items() if k != PRESET})
    changes = {
        name: _typed(sampler, name, value(dim))
        for name, value in preset.by_dimension.items()
        if name not in named
    }
    settings = settings._replace(**changes)
    sampler.check(settings)
    return settings


def shown_preset(sampler: Sampler, name: str) -> str:
    """Return the settings of a preset in one line: those that differ from the defaults, by name."""
    preset = sampler.presets[name]
    settings, defaults = (
        as_chosen(find(sampler.name, preset=name)[1]),
        as_chosen(sampler.settings()),
    )
    shown = [f"{k}={_short(v)}" for k, v in settings.items() if v != defaults[k]]
    for k, value in preset.by_dimension.items():
        shown.append(f"{k}={value(SOME):g} of {SOME} parameters")
    kind = {"no": "false", "full": "true"}.get(preset.standardize, preset.standardize)
    return ", ".join([*shown, f"standardize={kind}"])


def _short(value: Any) -> str:
    """Show a setting, the first and last of many numbers."""
    if not isinstance(value, Numbers):
        return str(value)
    numbers = [f"{number:.3g}" for number in value]
    return ",".join(numbers if len(numbers) <= MOST_SHOWN else [*numbers[:3], "...", numbers[-1]])


def _preset(sampler: Sampler, name: Any) -> Preset | None:
    """Return the preset of that name, None for None; StanadaptError for an unknown name."""
    if name is None:
        return None
    if isinstance(name, str) and name in sampler.presets:
        return sampler.presets[name]
    others = names_of(lambda other: isinstance(name, str) and name in other.presets)
    hint = (
        f" {name} is a preset of {others}." if others else did_you_mean(str(name), sampler.presets)
    )
    raise StanadaptError(
        "unknown_preset",
        f"{sampler.name} has no preset {name!r}; it has {', '.join(sampler.presets) or 'none'}."
        + hint,
    )


def _without_aliases(sampler: Sampler, values: dict[str, Any]) -> dict[str, Any]:
    """Return settings under the sampler's names; StanadaptError if one is given twice."""
    named: dict[str, Any] = {}
    for name, value in values.items():
        setting = sampler.setting_aliases.get(name, name)
        if setting in named or (setting != name and setting in values):
            raise setting_error(
                f"{sampler.name}: {name} is another name of {setting}: give only one."
            )
        named[setting] = value
    return named


def _typed(sampler: Sampler, name: str, value: Any) -> Any:
    """Cast to the declared type: an int where a float was compiled means a second compilation."""
    declared = sampler.setting_types
    if name not in declared:
        raise StanadaptError(
            "unknown_setting",
            f"{sampler.name} has no setting {name!r}; it has {', '.join(declared) or 'none'}."
            + did_you_mean(name, declared),
        )
    kind: Any = declared[name]
    if issubclass(kind, IntEnum):
        return _member(sampler, name, kind, value)
    if issubclass(kind, Numbers):
        return _numbers(sampler, name, value)
    try:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower(), value)
        number = kind(value)
        fits = number == float(value) if kind is int else kind is not bool or value in (0, 1)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or (isinstance(value, bool) and kind is not bool):
        expected = {float: "a number", int: "a whole number", bool: "true or false"}[kind]
        raise setting_error(f"{sampler.name}: {name} must be {expected}, got {value!r}.")
    if kind is int and abs(number) > LARGEST_WHOLE:
        raise setting_error(
            f"{sampler.name}: {name} must be at most {LARGEST_WHOLE:,} in size, got {value!r}."
        )
    return number


def _member(sampler: Sampler, name: str, kind: type[IntEnum], value: Any) -> IntEnum:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in kind.__members__:
        names = ", ".join(kind.__members__)
        raise setting_error(f"{sampler.name}: {name} must be one of {names}, got {value!r}.")
    return kind[value]


def _numbers(sampler: Sampler, name: str, value: Any) -> Numbers:
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
        raise setting_error(
            f"{sampler.name}: {name} must be finite numbers, such as 1,0.5,0.1, got {value!r}."
        )
    return Numbers(numbers.tolist())


# --- ranges, for the `check` of a sampler ---------------------------------------------------------


def setting_error(message: str) -> StanadaptError:
    """Return the error for a setting that a sampler does not accept, to be raised by `check`.

    Parameters
    ----------
    message
        Text that begins with the sampler's name: the setting, the accepted values, and the value.

    """
    return StanadaptError("invalid_setting", message)


def require_positive(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting is a finite number above zero."""
    _require(settings, names, lambda v: 0 < v < float("inf"), "positive")


def require_probability(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies strictly between 0 and 1."""
    _require(settings, names, lambda v: 0 < v < 1, "between 0 and 1")


def require_fraction(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies in [0, 1)."""
    _require(settings, names, lambda v: 0 <= v < 1, "at least 0 and below 1")


def require_share(settings: tuple, *names: str) -> None:
    """Raise StanadaptError unless each named setting lies in (0, 1]."""
    _require(settings, names, lambda v: 0 < v <= 1, "above 0 and at most 1")


def require_at_least(settings: tuple, least: float, *names: str) -> None:
    """Raise StanadaptError unless each named setting is finite and not below `least`."""
    _require(settings, names, lambda v: least <= v < float("inf"), f"at least {least}")


def require_at_most(settings: tuple, most: float, *names: str) -> None:
    """Raise StanadaptError unless no named setting is above `most`."""
    _require(settings, names, lambda v: v <= most, f"at most {most}")


def _require(
    settings: tuple, names: tuple[str, ...], holds: Callable[[float], bool], range_: str
) -> None:
    for name in names:
        value = getattr(settings, name)
        if not holds(value):
            raise setting_error(f"{find_name(settings)}: {name} must be {range_}, got {value}.")
