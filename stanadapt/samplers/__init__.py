"""Families of samplers, a folder each; importing this package registers all samplers.

Every folder and every module here is imported, so that a family can be added or deleted as a whole.
"""

from importlib import import_module
from pkgutil import iter_modules

from stanadapt.engine.registry import find, registered

__all__ = ["find", "registered"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)
