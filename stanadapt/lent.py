"""Tuples of many arrays as one pointer, for the inside of a loop.

Numba hands a tuple on by value and counts a reference of each of its arrays: some seven words and
two atomic operations an array, at every call. A tempering has four dozen arrays and five levels of
functions. Handing them on took as long as one and a half gradients of a 26-dimensional Boltzmann
relaxation (2 us each), and most of the time of compilation.

`lend` puts the tuples inside a state into the frame of the calling function, and in their place
gives pointers with the same fields, whose arrays own nothing. `take_back` undoes it.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model


class Lent(types.Type):
    """A pointer to a named tuple that somebody else owns; it has the fields of the tuple."""

    def __init__(self, kind: types.NamedTuple) -> None:
        self.kind = kind
        super().__init__(name=f"Lent({kind})")

    @property
    def instance_class(self) -> type:
        """Class of the tuple, by which `density` and `protocol` choose functions."""
        return self.kind.instance_class


register_model(Lent)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Lent

    def generic_resolve(self, lent: Lent, name: str) -> Any:
        if name in lent.kind.fields:
            return _inside(lent.kind.types[lent.kind.fields.index(name)])
        return None


def _inside(kind: Any) -> Any:
    return Lent(kind) if isinstance(kind, types.NamedTuple) else kind


@lower_getattr_generic(Lent)
def _field(context: Any, builder: Any, lent: Lent, pointer: Any, name: str) -> Any:
    place = lent.kind.fields.index(name)
    whole = builder.bitcast(pointer, context.get_value_type(lent.kind).as_pointer())
    found = cgutils.gep_inbounds(builder, whole, 0, place)
    if isinstance(lent.kind.types[place], types.NamedTuple):
        return builder.bitcast(found, cgutils.voidptr_t)
    return _bare(context, builder, lent.kind.types[place], builder.load(found))


@intrinsic
def lend(typing: Any, state: Any) -> Any:
    """Return a state whose tuples are lent, but for `current`: what a draw is read from.

    Good for as long as the calling function runs; nothing of it may be kept or returned.
    """
    names, kinds = state.fields, state.types

    def lends(name: str, kind: Any) -> bool:
        return name != "current" and isinstance(kind, types.NamedTuple)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lent = []
        for name, kind, part in zip(
            names, kinds, cgutils.unpack_tuple(builder, arguments[0]), strict=True
        ):
            if lends(name, kind):
                slot = cgutils.alloca_once_value(builder, part)
                lent.append(builder.bitcast(slot, cgutils.voidptr_t))
            else:
                lent.append(_bare(context, builder, kind, part))
        return context.make_tuple(builder, signature.return_type, lent)

    found = [Lent(k) if lends(n, k) else k for n, k in zip(names, kinds, strict=True)]
    return types.NamedTuple(found, state.instance_class)(state), emit


@intrinsic
def take_back(typing: Any, state: Any, owned: Any) -> Any:
    """Return `owned` with the numbers of a state that was lent from it, all arrays in place."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _owned(context, builder, owned, *arguments)
        context.nrt.incref(builder, owned, found)
        return found

    return owned(state, owned), emit


def _owned(context: Any, builder: Any, kind: Any, value: Any, owner: Any) -> Any:
    """Return a value with the arrays of the owner; the owner where the value is a pointer."""
    if isinstance(kind, types.Array) or isinstance(value.type, ir.PointerType):
        return owner
    if not isinstance(kind, types.NamedTuple):
        return value
    parts = zip(
        kind.types, cgutils.unpack_tuple(builder, value), cgutils.unpack_tuple(builder, owner),
        strict=True,
    )  # fmt: skip
    return context.make_tuple(builder, kind, [_owned(context, builder, *part) for part in parts])


def _bare(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value whose arrays own nothing: to count references of no owner is no work."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.NamedTuple):
        parts = cgutils.unpack_tuple(builder, value)
        bare = [_bare(context, builder, k, v) for k, v in zip(kind.types, parts, strict=True)]
        return context.make_tuple(builder, kind, bare)
    return value
