"""Fits as objects of the installed ArviZ, which is not imported for that."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from stanadapt.results.answers import Answers


class DataTree(Answers, xr.DataTree):  # under the name of its parent, which is shown
    """A fit in ArviZ 1.x."""

    __slots__ = ()


class LateInferenceData(Answers, Mapping[str, xr.Dataset]):  # as InferenceData is
    """A fit in ArviZ 0.23, which takes longer to import than most runs: it waits until needed.

    Groups and attributes can be read. Whatever else is asked of the fit makes it an InferenceData,
    and so does ArviZ, which asks for its class.
    """

    def __init__(self, attrs: Mapping[Any, Any], groups: Mapping[str, xr.Dataset]) -> None:
        vars(self).update(attrs=dict(attrs), _named=dict(groups))

    def groups(self) -> list[str]:
        """Return the names of the groups."""
        return list(self._named)

    def __getitem__(self, name: str) -> xr.Dataset:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_inference_data(self))

    def __len__(self) -> int:
        return len(_inference_data(self))

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class, for `isinstance`: ArviZ's once anybody has imported it."""
        return type(self) if "arviz" not in sys.modules else type(_inference_data(self))

    def __getattr__(self, name: str) -> Any:
        return getattr(_inference_data(self), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _inference_data(self).__reduce_ex__(protocol)


def _inference_data(fit: Any) -> Any:
    """Make a fit an InferenceData, in place, and return it."""
    from stanadapt.results.inference_data import InferenceData  # which imports ArviZ

    if type(fit) is LateInferenceData:
        kept = vars(fit)
        constructor: Any = InferenceData  # whose types change with mypy's cache
        made = constructor(attrs=kept["attrs"], **kept["_named"])
        kept.update(vars(made))  # whole before its class changes, for other threads
        object.__dict__["__class__"].__set__(fit, InferenceData)
        for name in ("attrs", "_named"):
            kept.pop(name, None)
    return fit


def _then(name: str) -> Any:
    return lambda fit, *given: getattr(_inference_data(fit), name)(*given)


for _name in (
    "__repr__", "__dir__", "__add__", "__setitem__", "__delitem__", "__setattr__", "__delattr__",
):  # fmt: skip
    setattr(LateInferenceData, _name, _then(_name))
LateInferenceData.__name__ = "InferenceData"  # which messages show


def fit_object(groups: Mapping[str, xr.Dataset], attrs: Mapping[Any, Any], tree: bool) -> Any:
    """Return the object of the installed ArviZ that has these groups, by path."""
    if tree:
        return DataTree.from_dict(groups)
    named = {path.strip("/"): group for path, group in groups.items() if path != "/"}
    named = {name: group for name, group in named.items() if name and "/" not in name}
    late = LateInferenceData(attrs, named)
    return _inference_data(late) if "arviz" in sys.modules else late
