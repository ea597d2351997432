"""Named tuples in compiled code: `replace(state, scale=...)`, with some fields changed, and more.

Numba supports neither `_replace` nor functions with arbitrary keyword arguments. `replace` is
therefore typed and emitted by hand for the fields of each call, at no cost at run time. So is
`write_fields`: a loop over fields of several types would be compiled for each of these types.
"""

import inspect
from typing import Any

from numba import types
from numba.core import imputils
from numba.core.cgutils import get_item_pointer, unpack_tuple
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic

# a tuple with fields of one type only has another type in Numba
NAMED_TUPLES = (types.NamedTuple, types.NamedUniTuple)
SCALARS = (types.Integer, types.Float, types.Boolean)


def shown(kind: Any) -> str:
    """Return the name of a type of Numba, short for named tuples."""
    if isinstance(kind, NAMED_TUPLES):
        return kind.instance_class.__name__
    if isinstance(kind, types.Optional):
        return f"{shown(kind.type)} or None"
    return "None" if isinstance(kind, types.NoneType) else str(kind)


def _fits(given: Any, kind: Any) -> bool:
    """Return whether a value of a type can be a field of another one without losing a part.

    Numba casts a float to an integer without a word, so that tuning would be truncated.
    """
    if isinstance(kind, types.Integer | types.Boolean):
        return isinstance(given, types.Integer | types.Boolean)
    if isinstance(kind, types.Float):
        return isinstance(given, SCALARS)
    if isinstance(kind, NAMED_TUPLES) or isinstance(given, NAMED_TUPLES):
        return given == kind
    return not (isinstance(kind, types.Array) and isinstance(given, types.Number | types.NoneType))


def _remedy(given: Any, kind: Any) -> str:
    if isinstance(kind, types.Integer | types.Boolean) and isinstance(given, types.Float):
        return ": let `init` give a float, such as 3.0 or float(n), or convert with int(...)."
    return "."


def replace(state, **changes):
    """Return a named tuple with some fields changed; an unknown field is an error."""
    return state._replace(**changes)


@infer_global(replace)
class _Replace(AbstractTemplate):
    def generic(self, args: tuple, kws: dict[str, Any]) -> Any:
        if len(args) != 1 or not isinstance(args[0], NAMED_TUPLES):
            got = ", ".join(map(shown, args)) or "nothing"
            raise TypingError(
                f"replace takes a named tuple, and its fields by keyword, such as replace(state, "
                f"scale=1.0), got {got} before the keywords."
            )
        (state,) = args
        unknown = [name for name in kws if name not in state.fields]
        if unknown:
            raise TypingError(
                f"{state.instance_class.__name__} has no field {', '.join(unknown)}; it has "
                f"{', '.join(state.fields)}."
            )
        kinds = [state.types[state.fields.index(name)] for name in kws]
        for name, kind in zip(kws, kinds, strict=True):
            if not _fits(kws[name], kind):
                place = f"{state.instance_class.__name__}.{name}"
                raise TypingError(
                    f"{place} is {shown(kind)}, and replace cannot put {shown(kws[name])} there"
                    + _remedy(kws[name], kind)
                )
        names = ["state", *kws]
        made = signature(state, state, *kinds)
        return made.replace(
            pysig=inspect.Signature(
                [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
            )
        )


@imputils.lower_builtin(replace, types.NamedTuple, types.VarArg(types.Any))
@imputils.lower_builtin(replace, types.NamedUniTuple, types.VarArg(types.Any))
def _emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    state = signature.args[0]
    parts = unpack_tuple(builder, arguments[0])
    for name, value in zip(list(signature.pysig.parameters)[1:], arguments[1:], strict=True):
        parts[state.fields.index(name)] = value
    made = context.make_tuple(builder, state, parts)
    return imputils.impl_ret_borrowed(context, builder, state, made)


@intrinsic
def write_fields(typing: Any, numbers: Any, table: Any, row: Any, column: Any) -> Any:
    """Write the fields of a named tuple of numbers into a row of a table, from a column on."""
    named = isinstance(numbers, NAMED_TUPLES)  # what else `step` returns, `require_step` refuses
    for name, kind in zip(numbers.fields, numbers.types, strict=True) if named else ():
        if not isinstance(kind, SCALARS):  # the first number of an array would be written
            place = f"{numbers.instance_class.__name__}.{name}"
            raise TypingError(
                f"`step` must return {place} as a float, int or bool, got {shown(kind)}."
            )

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, array, row, column = arguments
        array = context.make_array(table)(context, builder, array)
        for kind, value in zip(numbers.types, unpack_tuple(builder, values), strict=True):
            place = get_item_pointer(context, builder, table, array, [row, column])
            builder.store(context.cast(builder, value, kind, table.dtype), place)
            column = builder.add(column, column.type(1))
        return context.get_dummy_value()

    return types.none(numbers, table, types.intp, types.intp), emit
