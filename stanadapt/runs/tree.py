"""States of chains as text and arrays: nested tuples, numbers and arrays.

Arrays of a state may share memory, and compiled code relies on it: overlapping arrays are written
as one block of bytes, and become views of one block when read. No code is run from a file: classes
are only looked up among the named tuples and enumerations of loaded modules. Densities are
addresses within a process, so a file holds a placeholder, which the reader's density replaces.
"""

import ctypes
import json
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from stanadapt.engine.density import Density
from stanadapt.engine.starts import PRIOR_HANDLES
from stanadapt.errors import Message, StanadaptError

TREE = "tree"
PLAIN = (bool, int, float, str, type(None))


class Fresh:
    """Objects of this process that replace the placeholders in a file.

    density
        Density of the chain.
    prior_handle
        Handle of the program under prior-only data, if there is one.

    """

    def __init__(self, density: Density, prior_handle: int = 0) -> None:
        self.density, self.prior_handle = density, prior_handle


def packed(thing: Any) -> dict[str, np.ndarray]:
    """Return named arrays from which `unpacked` builds an equal object.

    Raises
    ------
    StanadaptError
        Stage "sampler" if the object contains a class that cannot be written.

    """
    arrays: list[np.ndarray] = []
    tree = _encode(thing, arrays)
    starts, stops = _blocks(arrays)
    ends = zip(starts, stops, strict=True)
    blocks = {f"block_{i}": _bytes(low, high) for i, (low, high) in enumerate(ends)}
    places = [_place(array, starts) for array in arrays]
    text = json.dumps({"tree": tree, "arrays": places})
    return {TREE: np.frombuffer(text.encode(), np.uint8), **blocks}


def unpacked(packed_arrays: Mapping[str, np.ndarray], fresh: Fresh | None = None) -> Any:
    """Return the object that was packed; `fresh` is required if it contains densities.

    Raises
    ------
    StanadaptError
        Stage "files" if this version of the package cannot read the arrays.

    """
    try:
        text = json.loads(packed_arrays[TREE].tobytes())
        count = sum(name.startswith("block_") for name in packed_arrays)
        blocks = [_align(packed_arrays[f"block_{i}"]) for i in range(count)]
        arrays = [_array(place, blocks) for place in text["arrays"]]
        return _decode(text["tree"], arrays, fresh)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise StanadaptError(
            "run_unreadable",
            f"the state of the chains cannot be read by this version of stanadapt: {error!r}. "
            "Resume with the version that wrote it, or sample again.",
        ) from None


def _encode(thing: Any, arrays: list[np.ndarray]) -> Any:
    """Return JSON for an object; arrays are appended to the list and referred to by number."""
    kind = type(thing)
    if kind in PLAIN:
        return thing
    if isinstance(thing, Message):
        return {"message": str(thing.code), "text": str(thing)}
    if isinstance(thing, Density):
        return {"density": True}
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "fiub":
        arrays.append(thing)
        return {"array": len(arrays) - 1}
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
    raise StanadaptError(
        "state_not_writable",
        f"a state with a {kind.__name__} cannot be written to a run folder: states are named "
        "tuples of numbers and arrays. Sample without `run`.",
    )


def _decode(tree: Any, arrays: list[np.ndarray], fresh: Fresh | None) -> Any:
    if type(tree) in PLAIN:
        return tree
    ((kind, content), *_) = tree.items()
    if kind == "array":
        return arrays[content]
    if kind == "density":
        return _require(fresh).density
    if kind == "message":
        return Message(content, tree["text"])
    if kind == "number":
        return np.dtype(content).type(tree["value"])
    if kind == "member":
        return _class(content, Enum)(tree["value"])
    if kind == "dict":
        return {k: _decode(value, arrays, fresh) for k, value in content}
    if kind in ("tuple", "list"):
        values = [_decode(value, arrays, fresh) for value in content]
        return tuple(values) if kind == "tuple" else values
    return _named_tuple(_class(content, tuple), tree, arrays, fresh)


def _named_tuple(kind: Any, tree: Any, arrays: list[np.ndarray], fresh: Fresh | None) -> Any:
    if list(kind._fields) != tree["fields"]:
        raise ValueError(f"{kind.__name__} has other fields: {tree['fields']}")
    value = kind(*(_decode(value, arrays, fresh) for value in tree["values"]))
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


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """First address of an array, and the one after its last byte."""
    first = array.__array_interface__["data"][0]
    reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    below, above = (sum(r for r in reach if (r > 0) == up) for up in (False, True))
    return first + below, first + above + array.itemsize


def _blocks(arrays: list[np.ndarray]) -> tuple[list[int], list[int]]:
    """First and last addresses of the blocks of memory that contain overlapping arrays."""
    starts: list[int] = []
    stops: list[int] = []
    for low, high in sorted(_bounds(array) for array in arrays if array.size):
        if stops and low < stops[-1]:
            stops[-1] = max(stops[-1], high)
        else:
            starts.append(low)
            stops.append(high)
    return starts, stops


def _bytes(start: int, stop: int) -> np.ndarray:
    memory = (ctypes.c_uint8 * (stop - start)).from_address(start)
    return np.frombuffer(memoryview(memory), np.uint8).copy()


def _place(array: np.ndarray, starts: list[int]) -> dict[str, Any]:
    block = offset = 0
    if array.size:
        low = _bounds(array)[0]
        block = int(np.searchsorted(starts, low, side="right")) - 1
        offset = array.__array_interface__["data"][0] - starts[block]
    return {
        "block": block, "offset": offset, "shape": array.shape, "strides": array.strides,
        "dtype": array.dtype.str, "writeable": bool(array.flags.writeable),
    }  # fmt: skip


def _align(block: np.ndarray) -> np.ndarray:
    """Copy bytes to an address that is aligned for numbers."""
    words = np.empty(-(-block.size // 8), np.int64)
    aligned = words.view(np.uint8)[: block.size]
    aligned[:] = block
    return aligned


def _array(place: Mapping[str, Any], blocks: list[np.ndarray]) -> np.ndarray:
    shape, kind = tuple(place["shape"]), np.dtype(place["dtype"])
    if 0 in shape:
        return np.empty(shape, kind)
    block, strides = blocks[place["block"]], tuple(place["strides"])
    array = np.ndarray(shape, kind, block, place["offset"], strides)
    array.flags.writeable = place["writeable"]
    return array
