"""States of chains as text and arrays: nested tuples, numbers and arrays.

An array that a state holds twice is written once, and is one array again when it is read: compiled
code may rely on it. Other arrays own their memory, without gaps. No code is run from a
file: classes are only looked up among the named tuples and enumerations of loaded modules.
Densities are addresses within a process, so a file holds a placeholder, which the reader's density
replaces.
"""

import json
import sys
from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stanadapt.engine.density import Density
from stanadapt.engine.starts import PRIOR_HANDLES
from stanadapt.errors import Message, StanadaptError

TREE = "tree"
PLAIN = (bool, int, float, str, type(None))

# number and contents of each array, by address, shape, strides and type
Arrays = dict[tuple, tuple[int, np.ndarray]]


class Fresh(NamedTuple):
    """Objects of this process that replace the placeholders in a file."""

    density: Density  # of the chain
    prior_handle: int = 0  # of the program under prior-only data, if there is one


def packed(thing: Any) -> dict[str, np.ndarray]:
    """Return named arrays from which `unpacked` builds an equal object.

    Raises StanadaptError: "state_not_writable" if the object contains a class that cannot be
    written, or arrays that overlap or have gaps.
    """
    arrays: Arrays = {}
    tree = _encode(thing, arrays)
    held = [array for _, array in arrays.values()]
    ends = sorted((_address(array), array.nbytes) for array in held if array.size)
    if any(first + size > second for (first, size), (second, _) in pairwise(ends)):
        raise _not_writable("arrays that overlap")
    copies = {f"array_{i}": array.copy(order="K") for i, array in enumerate(held)}
    return {TREE: np.frombuffer(json.dumps(tree).encode(), np.uint8), **copies}


def unpacked(held: Mapping[str, np.ndarray], fresh: Fresh | None = None) -> Any:
    """Return the object that was packed; `fresh` is required if it contains densities.

    Raises StanadaptError: "run_unreadable" if this version of the package cannot read the arrays.
    """
    # several objects may be built from the same arrays, and change theirs in place
    copies = {name: array.copy(order="K") for name, array in held.items()}
    try:
        return _decode(json.loads(held[TREE].tobytes()), copies, fresh)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise StanadaptError(
            "run_unreadable",
            f"the state of the chains cannot be read by this version of stanadapt: {error!r}. "
            "Resume with the version that wrote it, or sample again: stanadapt.load returns the "
            "draws so far.",
        ) from None


def _encode(thing: Any, arrays: Arrays) -> Any:
    """Return JSON for an object; arrays are added to the others and referred to by number."""
    kind = type(thing)
    if kind in PLAIN:
        return thing
    if isinstance(thing, Message):
        return {"message": str(thing.code), "text": str(thing)}
    if isinstance(thing, Density):
        return {"density": True}
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "fiub":
        if not thing.flags.forc:
            raise _not_writable("an array with gaps")
        place = _address(thing), thing.shape, thing.strides, thing.dtype.str
        number, _ = arrays.setdefault(place, (len(arrays), thing))
        return {"array": number}
    if isinstance(thing, Enum):
        return {"member": _name(kind), "value": thing.value}
    if isinstance(thing, np.generic):
        return {"number": thing.dtype.str, "value": thing.item()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        values = [_encode(value, arrays) for value in thing]
        return {"class": _name(kind), "fields": list(thing._fields), "values": values}
    if kind in (tuple, list):
        return {kind.__name__: [_encode(value, arrays) for value in thing]}
    if kind is dict:
        return {"dict": [[k, _encode(value, arrays)] for k, value in thing.items()]}
    raise _not_writable(f"a {kind.__name__}")


def _not_writable(what: str) -> StanadaptError:
    return StanadaptError(
        "state_not_writable",
        f"a state with {what} cannot be written to a run folder, or sent to a worker: states are "
        "named tuples of numbers and of arrays, each with its own memory. Copy an array that is "
        "part of another one, or sample without `run` and `executor`.",
    )


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _decode(tree: Any, held: Mapping[str, np.ndarray], fresh: Fresh | None) -> Any:
    if type(tree) in PLAIN:
        return tree
    ((kind, content), *_) = tree.items()
    if kind == "array":
        return held[f"array_{content}"]
    if kind == "density":
        return _require(fresh).density
    if kind == "message":
        return Message(content, tree["text"])
    if kind == "number":
        return np.dtype(content).type(tree["value"])
    if kind == "member":
        return _class(content, Enum)(tree["value"])
    if kind == "dict":
        return {k: _decode(value, held, fresh) for k, value in content}
    if kind in ("tuple", "list"):
        values = [_decode(value, held, fresh) for value in content]
        return tuple(values) if kind == "tuple" else values
    return _named_tuple(_class(content, tuple), tree, held, fresh)


def _named_tuple(kind: Any, tree: Any, held: Mapping, fresh: Fresh | None) -> Any:
    if list(kind._fields) != tree["fields"]:
        raise ValueError(f"{kind.__name__} has other fields: {tree['fields']}")
    value = kind(*(_decode(value, held, fresh) for value in tree["values"]))
    if getattr(value, "is_of_other_layout", False):  # compiled code would read past its end
        raise ValueError(f"the array of {kind.__name__} has another layout")
    if kind in PRIOR_HANDLES:
        return value._replace(**{PRIOR_HANDLES[kind]: _require(fresh).prior_handle})
    return value


def _require(fresh: Fresh | None) -> Fresh:
    if fresh is None:
        raise ValueError("a density where none is expected")
    return fresh


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, base: type) -> Any:
    """Look up a class that is loaded; a name in a file imports nothing."""
    module, _, path = name.partition(":")
    kind: Any = sys.modules[module]
    for part in path.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise ValueError(f"{name} is not a class of a state")
    return kind
