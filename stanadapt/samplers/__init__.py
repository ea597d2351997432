"""Families of samplers, a folder each; importing this package registers all samplers.

Every folder and every module here is imported, so that a family can be added or deleted as a whole.
`check_sampler` is offered here, where all samplers are known.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from stanadapt.engine.registry import find, registered, resolve

if TYPE_CHECKING:
    from stanadapt.engine.checks import check_sampler

__all__ = ["check_sampler", "find", "registered", "resolve"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)


def __getattr__(name: str) -> Any:
    """Import `check_sampler` at its first use: it takes half a second."""
    if name == "check_sampler":
        return import_module("stanadapt.engine.checks").check_sampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
