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


def replace(state, **changes):
    """Return a named tuple with some fields changed; an unknown field is an error."""
    return state._replace(**changes)


@infer_global(replace)
class _Replace(AbstractTemplate):
    def generic(self, args: tuple, kws: dict[str, Any]) -> Any:
        (state,) = args
        if not isinstance(state, NAMED_TUPLES):
            return None
        unknown = [name for name in kws if name not in state.fields]
        if unknown:
            raise TypingError(
                f"{state.instance_class.__name__} has no field {', '.join(unknown)}; it has "
                f"{', '.join(state.fields)}."
            )
        kinds = [state.types[state.fields.index(name)] for name in kws]
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

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, array, row, column = arguments
        array = context.make_array(table)(context, builder, array)
        for kind, value in zip(numbers.types, unpack_tuple(builder, values), strict=True):
            place = get_item_pointer(context, builder, table, array, [row, column])
            builder.store(context.cast(builder, value, kind, table.dtype), place)
            column = builder.add(column, column.type(1))
        return context.get_dummy_value()

    return types.none(numbers, table, types.intp, types.intp), emit
