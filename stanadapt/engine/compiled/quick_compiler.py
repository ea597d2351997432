"""Numba's compiler, without what it does again and again.

For a hundred functions Numba compares flags some ten thousand times, value by value; looks for the
signature of `*` wherever a program multiplies (`signatures`); takes arrays out of tuples to count
references to numbers (`reference_counts`); and writes a commentary on each function for a printer.
All of this together took half of the time that is spent outside of LLVM. The code is the same.
"""

from typing import Any, ClassVar

from numba import types
from numba.core import ir
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import AnnotateTypes, NopythonRewrites

from stanadapt.engine.compiled.reference_counts import with_fewer_reads
from stanadapt.engine.compiled.signatures import with_signatures


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
