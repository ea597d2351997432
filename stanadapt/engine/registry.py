"""The samplers by name, and their settings as a user gives them.

Ranges of settings, as `check` of a sampler requires them.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from stanadapt.engine.breaches import breaches
from stanadapt.engine.protocol import REGISTRY, Sampler
from stanadapt.errors import LARGEST_WHOLE, StanadaptError, did_you_mean


def register(sampler: Sampler) -> None:
    """Make a sampler known under the name of its file.

    Raises
    ------
    StanadaptError
        Stage "sampler": one sentence for each breach of the protocol.

    """
    found = breaches(sampler, {s.name: s for s in REGISTRY.values()})
    if found:
        raise StanadaptError("sampler", "\n".join(found))
    REGISTRY[sampler.settings] = sampler


def registered() -> dict[str, Sampler]:
    """All samplers by name, in alphabetical order."""
    return {s.name: s for s in sorted(REGISTRY.values(), key=lambda s: s.name)}


def names_of(holds: Callable[[Sampler], Any]) -> str:
    """Names of the samplers for which a condition holds, for messages."""
    return ", ".join(name for name, sampler in registered().items() if holds(sampler))


def find(sampler: str | tuple, /, **chosen: Any) -> tuple[Sampler, Any]:
    """Find a sampler and its settings, in their declared types.

    Parameters
    ----------
    sampler
        Name of a sampler, or an instance of a sampler's `Settings`.
    chosen
        Settings by name; with an instance, they replace its fields.

    Returns
    -------
    sampler, settings
        `uses_gradient`, `adapts_forever`, `standardize` and `exact` of the sampler are those under
        these settings.

    """
    found, base = _look_up(sampler)
    given = _with_own_names(found, chosen)
    values = {**base._asdict(), **given}
    settings = found.settings(**{name: _typed(found, name, v) for name, v in values.items()})
    found.check(settings)
    forever = getattr(settings, "adapts_forever", found.adapts_forever)
    fixed = {}
    for name in ("uses_gradient", "standardize", "exact"):
        value = getattr(found, name)
        fixed[name] = value(settings) if callable(value) else value
    return found._replace(adapts_forever=forever, **fixed), settings


def _with_own_names(sampler: Sampler, given: dict[str, Any]) -> dict[str, Any]:
    """Settings under the sampler's own names; StanadaptError where one is given twice."""
    own: dict[str, Any] = {}
    for name, value in given.items():
        setting = sampler.setting_aliases.get(name, name)
        if setting in own or (setting != name and setting in given):
            raise StanadaptError(
                "settings", f"{sampler.name}: {name} is another name of {setting}: give one."
            )
        own[setting] = value
    return own


def with_standardized_defaults(sampler: Sampler, settings: Any, chosen: Any, dim: int) -> Any:
    """Return settings for `dim` parameters in standardized coordinates.

    Settings that were not chosen by name, and have the default of other coordinates, get their own.
    """
    defaults = sampler.settings._field_defaults
    own = {
        name: _typed(sampler, name, default(dim))
        for name, default in sampler.when_standardized.items()
        if name not in chosen and getattr(settings, name) == defaults[name]
    }
    return settings._replace(**own)


def _look_up(sampler: str | tuple) -> tuple[Sampler, Any]:
    if isinstance(sampler, str):
        known = registered()
        if sampler not in known:
            raise StanadaptError(
                "settings",
                f"sampler must be one of {', '.join(known)}, got {sampler!r}."
                + did_you_mean(sampler, known),
            )
        return known[sampler], known[sampler].settings()
    if type(sampler) in REGISTRY:
        return REGISTRY[type(sampler)], sampler
    raise StanadaptError(
        "settings",
        f"sampler must be a name ({', '.join(registered())}) or the Settings of a sampler, "
        f"got {sampler!r}.",
    )


def find_name(settings: tuple) -> str:
    """Name of the sampler that settings belong to."""
    return REGISTRY[type(settings)].name


def as_chosen(settings: Any) -> dict[str, Any]:
    """Return settings by name, as a user writes them: members of an IntEnum by their names."""
    values = settings._asdict().items()
    return {name: v.name if isinstance(v, IntEnum) else v for name, v in values}


def as_compiled(settings: Any) -> Any:
    """Return settings for compiled code: members of an IntEnum as their numbers.

    Numba reads numbers in C, but an enumeration in Python, at each call.
    """
    return type(settings)(*(int(v) if isinstance(v, IntEnum) else v for v in settings))


def _typed(sampler: Sampler, name: str, value: Any) -> Any:
    """Cast to the declared type: an int where a float was compiled means a second compilation."""
    declared = sampler.setting_types
    if name not in declared:
        raise StanadaptError(
            "settings",
            f"{sampler.name} has no setting {name!r}; it has {', '.join(declared) or 'none'}."
            + did_you_mean(name, declared),
        )
    kind: Any = declared[name]
    if issubclass(kind, IntEnum):
        return _member(sampler, name, kind, value)
    try:
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.lower(), value)
        number = kind(value)
        fits = number == float(value) if kind is int else kind is not bool or value in (0, 1)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or (isinstance(value, bool) and kind is not bool):
        what = {float: "a number", int: "a whole number", bool: "true or false"}[kind]
        raise StanadaptError("settings", f"{sampler.name}: {name} must be {what}, got {value!r}.")
    if kind is int and abs(number) > LARGEST_WHOLE:
        raise StanadaptError(
            "settings",
            f"{sampler.name}: {name} must be at most {LARGEST_WHOLE:,} in size, got {value!r}.",
        )
    return number


def _member(sampler: Sampler, name: str, kind: type[IntEnum], value: Any) -> IntEnum:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in kind.__members__:
        names = ", ".join(kind.__members__)
        raise StanadaptError(
            "settings", f"{sampler.name}: {name} must be one of {names}, got {value!r}."
        )
    return kind[value]


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
            sampler = find_name(settings)
            raise StanadaptError("settings", f"{sampler}: {name} must be {range_}, got {value}.")
