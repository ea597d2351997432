"""Signatures of functions for numbers and arrays, each found once in a process.

To type `x[i] * y`, Numba tries all implementations of `operator.mul`, NumPy's among them, until one
accepts the types: once more at each place in a program, and again when it is translated. This took
an eighth of the time for compilation.
"""

import copy
import weakref
from typing import Any

from numba import types
from numba.core.targetconfig import ConfigStack
from numba.core.typing.context import Context
from numba.extending import models, register_model

# what a function does with these depends on nothing but their types
PLAIN = (types.Number, types.Boolean, types.Array, types.SliceType)


class RememberedFunction(types.Function):
    """A function as Numba has it, with the signatures that were found for it."""

    def __init__(self, function: types.Function) -> None:
        super().__init__(function.templates)
        self.function = function
        self.found: dict[Any, Any] = {}

    def augment(self, other: Any) -> Any:
        """Return the function with the implementations of another; it remembers nothing."""
        return self.function.augment(other)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature for types of arguments."""
        if kws or not all(isinstance(kind, PLAIN) for kind in args):
            return super().get_call_type(context, args, kws)
        # implementations are compiled with some of the flags of their caller
        key = context, tuple(args), ConfigStack.top_or_none()
        if key not in self.found:
            self.found[key] = super().get_call_type(context, args, kws)
        return self.found[key]


register_model(RememberedFunction)(models.OpaqueModel)


class RememberingContext(Context):
    """Finds functions as Numba does, and remembers their signatures."""

    remembered: dict[types.Function, RememberedFunction]

    def _lookup_global(self, gv: Any) -> Any:
        # another package may give a function more implementations: then Numba has a new one
        function = super()._lookup_global(gv)
        if type(function) is not types.Function:
            return function
        if function not in self.remembered:
            self.remembered[function] = RememberedFunction(function)
        return self.remembered[function]


_made: weakref.WeakKeyDictionary[Any, RememberingContext] = weakref.WeakKeyDictionary()


def with_signatures(context: Any) -> Any:
    """Return a typing context that shares all that Numba's knows, and remembers signatures."""
    if isinstance(context, RememberingContext):
        return context
    if context not in _made:
        made = copy.copy(context)
        made.__class__ = RememberingContext
        made.remembered = {}
        _made[context] = made
    return _made[context]
