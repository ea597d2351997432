"""Numba's compiler without its repetitions; the code is the same.

For a hundred functions Numba compares flags some ten thousand times, value by value. To type
`x[i] * y`, it tries all implementations of `operator.mul`, NumPy's among them, until one accepts
the types: once more at each place in a program, and again when it is translated. It compiles
methods twice, to know their types and to translate their calls. It takes every number out of a
tuple to count references (`reference_counts`), looks for expressions with arrays where there are
none, and describes each function for a printer.
"""

import copy
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

from numba import types
from numba.core import ir
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import AnnotateTypes, NopythonRewrites
from numba.core.typing.context import Context
from numba.extending import models, register_model

from stanadapt.engine.compiled.reference_counts import with_fewer_reads

# for these, a signature depends on types alone
PLAIN = (types.Number, types.Boolean, types.Array, types.SliceType)


# --- signatures -----------------------------------------------------------------------------------


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
        # Numba looks a method up as it is called, and once more with defaults when it is lowered
        while args and isinstance(args[-1], types.Omitted):
            args = args[:-1]
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
    attributes: dict[Any, Any]

    def _get_attribute_templates(self, typ: Any) -> Iterator[Any]:
        # with Numba's context, methods would be compiled once to be typed and once to be lowered
        for template in super()._get_attribute_templates(typ):
            if template not in self.attributes:
                self.attributes[template] = copy.copy(template)
                self.attributes[template].context = self
            yield self.attributes[template]

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
    """Return a typing context that remembers signatures, and shares all else with Numba's."""
    if isinstance(context, RememberingContext):
        return context
    if context not in _made:
        made = copy.copy(context)
        made.__class__ = RememberingContext
        made.remembered, made.attributes = {}, {}
        _made[context] = made
    return _made[context]


# --- compilation ----------------------------------------------------------------------------------


class QuickFlags(Flags):
    """Flags of a function, which Numba compares some ten thousand times."""

    DEFAULTS: ClassVar[dict[str, Any]] = {name: o.default for name, o in Flags.options.items()}
    HASH: ClassVar[int] = hash(Flags())  # in Numba, that of the names

    def values(self) -> dict[str, Any]:
        """Return all flags by name."""
        return {**self.DEFAULTS, **self._values}

    def __eq__(self, other: Any) -> bool:
        return bool(super().__eq__(other))

    def __hash__(self) -> int:
        return self.HASH


@register_pass(mutates_CFG=True, analysis_only=False)
class ArrayRewrites(NopythonRewrites):
    """Numba's changes of expressions with arrays and strings, for functions that have some."""

    _name = "stanadapt_array_rewrites"

    def run_pass(self, state: Any) -> bool:
        """Change the function, if there is anything to change; return whether there was."""
        made = {"unary", "binop", "call"}
        assigned = (
            state.typemap.get(assignment.target.name)
            for block in state.func_ir.blocks.values()
            for assignment in block.find_insts(ir.Assign)
            if isinstance(assignment.value, ir.Expr) and assignment.value.op in made
        )
        if any(isinstance(kind, types.Array) for kind in assigned) or any(
            isinstance(kind, types.StringLiteral) for kind in state.typemap.values()
        ):
            return bool(super().run_pass(state))
        return False


class Quick(Compiler):
    """Compiles with fewer repetitions than Numba, to the same code."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function."""
        state = self.state
        state.flags = QuickFlags(state.flags)
        state.targetctx = with_fewer_reads(state.targetctx)
        state.typingctx = state.targetctx.typing_context = with_signatures(state.typingctx)
        return super().compile_extra(func)

    def define_pipelines(self) -> list:
        """Return the passes, without the one that describes types for `inspect_types`."""
        (passes,) = super().define_pipelines()
        without = {AnnotateTypes: None, NopythonRewrites: ArrayRewrites}
        renewed = [(without.get(kind, kind), about) for kind, about in passes.passes]
        passes.passes = [(kind, about) for kind, about in renewed if kind is not None]
        passes.finalize()
        return [passes]
