"""The same arrays without their reference counts, for the inside of an iteration.

Numba counts references whenever a tuple of arrays is taken apart or handed on: two atomic
operations an array. Where moves take two dozen arrays through five levels of functions, this cost
as much as a third of a gradient (measured on a 26-dimensional Boltzmann relaxation, 2 us).
"""

from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def borrowed(typing, things):
    """Return a tuple of arrays, numbers and such tuples whose arrays own nothing.

    Only while the tuple itself lives, and never to be kept or returned: what they point to goes
    away with it.
    """

    def emit(context, builder, signature, arguments):
        return _bare(context, builder, signature.args[0], arguments[0])

    return things(things), emit


def _bare(context, builder, kind, value):
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value)
        bare = [_bare(context, builder, k, v) for k, v in zip(kind.types, parts, strict=True)]
        return context.make_tuple(builder, kind, bare)
    return value
