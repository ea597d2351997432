"""Ranges of settings, as `check` of a sampler requires them."""

from collections.abc import Callable

from stanadapt.engine.registry import find_name
from stanadapt.errors import StanadaptError


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
