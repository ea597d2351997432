"""Parts in one block of memory, and a density in front of another, whose C functions read them.

The parts are a NamedTuple of numbers, arrays and further such tuples, whose fields are declared as
int, float, `Vector`, `Matrix` or `Integers`. `packed` copies them into one block of memory, and
`parts_in` returns them as views of it, so that some of them can be workspace: a state with one
array is compiled faster than one with many.

`wrapped` puts the block after the counters of a Density; its C functions get the address of the
block as their handle, and read the parts back with `parts_at`. The Density's `calls` is a view of
the same memory, which therefore lives as long as the Density. The caller must keep the other
density, and the model behind it, alive.
"""

import typing
from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from stanadapt.engine.density import COUNTERS, Density

Vector = Annotated[np.ndarray, types.float64[::1]]
Matrix = Annotated[np.ndarray, types.float64[:, ::1]]
Integers = Annotated[np.ndarray, types.int64[::1]]
KINDS: dict[Any, Any] = {int: types.int64, float: types.float64}

_WORD, _WORD_BYTES = cgutils.intp_t, 8


class Program(NamedTuple):
    """The C functions of the density behind, and their handle."""

    value_address: int
    gradient_address: int
    handle: int


def program_of(density: Density) -> Program:
    """Return the C functions of a density."""
    return Program(density.value_address, density.gradient_address, density.handle)


def packed(parts: Any) -> np.ndarray:
    """Return parts as a block, an array of words of eight bytes.

    First come the numbers, and for each array its place in the block and its shape; then the
    entries of the arrays.
    """
    kinds = list(_leaves(_compiled(type(parts))))
    at = sum(kind.ndim + 1 if isinstance(kind, types.Array) else 1 for kind in kinds)
    header, contents = [], []
    for kind, part in zip(kinds, _flat(parts), strict=True):
        words = np.asarray(part, as_dtype(getattr(kind, "dtype", kind))).ravel().view(np.int64)
        if isinstance(kind, types.Array):
            header += [at, *part.shape]
            contents.append(words)
            at += words.size
        else:
            header += [words[0]]
    return np.concatenate([np.array(header, np.int64), *contents])


def wrapped(density: Density, parts: Any, value: Any, gradient: Any) -> Density:
    """Return a density with new counters, whose C functions find `parts` at their handle.

    Dimensions and flags are those of the given density.
    """
    block = np.concatenate([np.zeros(COUNTERS, np.int64), packed(parts)])
    return density._replace(
        value_address=value.address,
        gradient_address=gradient.address,
        handle=block[COUNTERS:].ctypes.data,
        calls=block[:COUNTERS],
        failed_position=np.full(density.size, np.nan),
    )


def parts_of(density: Density, kind: Any) -> Any:
    """Return the parts of a density from `wrapped`, of the given class, as views of its memory."""
    return parts_in(density.calls.base[COUNTERS:], kind)  # type: ignore[index]


def is_packed(block: np.ndarray, kind: Any) -> bool:
    """Whether a block from a file has the layout of `packed` parts of the given class.

    The first part must be an array: it begins after the header, whose length depends on the class.
    """
    header = sum(getattr(leaf, "ndim", 0) + 1 for leaf in _leaves(_compiled(kind)))
    return bool(block.size >= header and block.view(np.int64)[0] == header)


def parts_in(block: np.ndarray, kind: Any) -> Any:
    """Return the parts, of the given class, of a block from `packed`, as views of it."""
    block = block.view(np.int64)
    words = iter(block.tolist())

    def read(kind: Any) -> Any:
        if isinstance(kind, types.NamedTuple):
            return kind.instance_class(*map(read, kind.types))
        word = next(words)
        if not isinstance(kind, types.Array):
            return np.int64(word).view(as_dtype(kind)).item()
        shape = [next(words) for _ in range(kind.ndim)]
        entries = block[word : word + int(np.prod(shape))]
        return entries.view(as_dtype(kind.dtype)).reshape(shape)

    return read(_compiled(kind))


@intrinsic
def parts_at(typing: Any, place: Any, kind: Any) -> Any:
    """Only for compiled code: the parts, of the given class, in a block or at its address."""
    parts = _compiled(kind.instance_class)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = arguments[0]
        if isinstance(place, types.Array):
            address = context.make_array(place)(context, builder, address).data
        block = builder.bitcast(address, _WORD.as_pointer())
        return _emit_part(context, builder, parts, block, count())

    return parts(place, kind), emit


def _emit_part(context: Any, builder: Any, kind: Any, block: Any, places: Iterator[int]) -> Any:
    """Emit the part that begins at the next of the places in the header."""
    if isinstance(kind, types.NamedTuple):
        made = [_emit_part(context, builder, inner, block, places) for inner in kind.types]
        return context.make_tuple(builder, kind, made)

    def word() -> Any:
        return builder.load(cgutils.gep_inbounds(builder, block, next(places)))

    first = word()
    if not isinstance(kind, types.Array):
        return builder.bitcast(first, context.get_value_type(kind))
    shape, strides = [word() for _ in range(kind.ndim)], [_WORD(_WORD_BYTES)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    array = context.make_array(kind)(context, builder)
    data = builder.bitcast(builder.gep(block, [first]), array.data.type)
    populate_array(array, data, shape, strides, _WORD(_WORD_BYTES), meminfo=None)
    return array._getvalue()


def _compiled(kind: Any) -> Any:
    """Return the type in compiled code of a class of parts, or of the declaration of a field."""
    if hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind, include_extras=True)
        return types.NamedTuple([_compiled(hints[name]) for name in kind._fields], kind)
    return KINDS[kind] if kind in KINDS else kind.__metadata__[0]


def _leaves(kind: Any) -> Iterator[Any]:
    """The types of all numbers and arrays, in order."""
    if isinstance(kind, types.NamedTuple):
        for inner in kind.types:
            yield from _leaves(inner)
    else:
        yield kind


def _flat(parts: Any) -> Iterator[Any]:
    """All numbers and arrays, in order."""
    for part in parts:
        if hasattr(part, "_fields"):
            yield from _flat(part)
        else:
            yield part
