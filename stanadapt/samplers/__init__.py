"""Families of samplers, a folder each, imported when they are needed: `engine/registry.py`.

Every folder and every module here is one, so that a family can be added or deleted as a whole.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from stanadapt.engine.registry import find, registered

if TYPE_CHECKING:
    from stanadapt.engine.checks import check_sampler

__all__ = ["check_sampler", "find", "registered"]


def __getattr__(name: str) -> Any:
    """Import a family, or `check_sampler`, which takes half a second, at its first use."""
    if name == "check_sampler":
        return import_module("stanadapt.engine.checks").check_sampler
    if name in {module.name for module in iter_modules(__path__)}:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
