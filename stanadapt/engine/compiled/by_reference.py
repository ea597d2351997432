"""Tuples of many arrays passed as one pointer, for the inside of a loop.

Numba passes a tuple by value and counts a reference to each of its arrays: some seven words and two
atomic operations per array, at every call. A tempering sampler has four dozen arrays and five
levels of functions. Passing them took as long as one and a half gradients of a 26-dimensional
Boltzmann relaxation (2 us each), and most of the compilation time.

`by_reference` copies the tuples inside a state into the frame of the calling function and replaces
them by pointers with the same fields, to arrays that own nothing. `restoring` undoes this.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model

from stanadapt.engine.compiled.replace import NAMED_TUPLES


class ByReference(types.Type):
    """The type of a pointer to a named tuple, with the same fields."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(name=f"ByReference({kind})")

    @property
    def key(self) -> Any:
        """What Numba compares: classes may have one name."""
        return self.kind

    @property
    def instance_class(self) -> type:
        """Class of the tuple, which overloads use to choose functions."""
        return self.kind.instance_class


register_model(ByReference)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = ByReference

    def generic_resolve(self, pointer: ByReference, name: str) -> Any:
        if name in pointer.kind.fields:
            return _field_type(pointer.kind.types[pointer.kind.fields.index(name)])
        return None


def _field_type(kind: Any) -> Any:
    return ByReference(kind) if isinstance(kind, NAMED_TUPLES) else kind


@lower_getattr_generic(ByReference)
def _field(context: Any, builder: Any, pointed: ByReference, pointer: Any, name: str) -> Any:
    index = pointed.kind.fields.index(name)
    owner = builder.bitcast(pointer, context.get_value_type(pointed.kind).as_pointer())
    field = cgutils.gep_inbounds(builder, owner, 0, index)
    if isinstance(pointed.kind.types[index], NAMED_TUPLES):
        return builder.bitcast(field, cgutils.voidptr_t)
    return _bare(context, builder, pointed.kind.types[index], builder.load(field))


@intrinsic
def by_reference(typing: Any, state: Any) -> Any:
    """Return a state with pointers in place of its tuples, except `current`, which holds the draw.

    Valid only while the calling function runs; no part of it may be kept or returned.
    """
    passed, emit = referring(state)
    return passed(state), emit


def referring(state: Any, replaced: Sequence[str] = ()) -> tuple[Any, Callable]:
    """Return the type of a state by reference, and the function that emits it.

    Fields named in `replaced` are passed by value, with references to their arrays.
    """
    names, kinds = state.fields, state.types

    def is_passed_by_reference(name: str, kind: Any) -> bool:
        by_value = name == "current" or name in replaced
        return not by_value and isinstance(kind, NAMED_TUPLES)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = []
        for name, kind, part in zip(
            names, kinds, cgutils.unpack_tuple(builder, arguments[0]), strict=True
        ):
            if is_passed_by_reference(name, kind):
                slot = cgutils.alloca_once_value(builder, part)
                parts.append(builder.bitcast(slot, cgutils.voidptr_t))
            elif name in replaced:
                context.nrt.incref(builder, kind, part)
                parts.append(part)
            else:
                parts.append(_bare(context, builder, kind, part))
        return context.make_tuple(builder, signature.return_type, parts)

    passed = [
        ByReference(kind) if is_passed_by_reference(name, kind) else kind
        for name, kind in zip(names, kinds, strict=True)
    ]
    return types.NamedTuple(passed, state.instance_class), emit


@intrinsic
def pointer_to(typing: Any, value: Any) -> Any:
    """Return a pointer to a tuple, under the conditions of `by_reference`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(cgutils.alloca_once_value(builder, arguments[0]), cgutils.voidptr_t)

    return ByReference(value)(value), emit


def restoring(owned: Any, replaced: Sequence[str] = ()) -> tuple[Any, Callable]:
    """Return the type of a restored state, and the function that emits it, as in `referring`."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = _owned(context, builder, owned, *arguments, replaced)
        context.nrt.incref(builder, owned, whole)
        return whole

    return owned, emit


def _owned(
    context: Any, builder: Any, kind: Any, value: Any, owner: Any, replaced: Sequence[str] = ()
) -> Any:
    """Return the value with the owner's arrays; the owner itself if the value is a pointer.

    The arrays of the fields named in `replaced` are those of the value.
    """
    if isinstance(kind, types.Array) or isinstance(value.type, ir.PointerType):
        return owner
    if not isinstance(kind, NAMED_TUPLES):
        return value
    parts = zip(
        kind.fields, kind.types, cgutils.unpack_tuple(builder, value),
        cgutils.unpack_tuple(builder, owner), strict=True,
    )  # fmt: skip
    made = [
        part if name in replaced else _owned(context, builder, inner, part, original)
        for name, inner, part, original in parts
    ]
    return context.make_tuple(builder, kind, made)


def _bare(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the value with arrays that own nothing, so that no references are counted."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, NAMED_TUPLES):
        parts = cgutils.unpack_tuple(builder, value)
        bare = [_bare(context, builder, k, v) for k, v in zip(kind.types, parts, strict=True)]
        return context.make_tuple(builder, kind, bare)
    return value
