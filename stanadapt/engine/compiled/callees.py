"""Functions that only compiled code calls: typed and lowered, but optimized in their callers.

Numba optimizes and emits each function with all that it calls, and again as a part of each of its
callers. At the bottom of eight levels a function was optimized nine times, which was three quarters
of the time for compilation. Nothing calls these intermediate functions from Python. Here, `Callee`
compiles them to LLVM's language only, and `Entry` a function for Python: it is linked to its
callees, at all levels, and the whole is optimized and emitted once.

A function of `jit` may have both: see `EntryDispatcher`. On disk, a callee is kept as LLVM bitcode.
Code that Numba adds for them (array indexing, generators) is not emitted either.

This changes parts of Numba that are not public: see `own_way`.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numba import types
from numba.core import config, event
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, compile_result
from numba.core.errors import ForceLiteralArg, TypingError
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.extending import overload

from stanadapt.engine.compiled.compilations import HISTORY, UNDER_WAY
from stanadapt.engine.compiled.garbage import not_collected
from stanadapt.engine.compiled.machine_code import MachineCode
from stanadapt.engine.compiled.own_way import own_way_works


class OurLibrary(JITCodeLibrary):
    """Code whose functions are simplified one by one; what they are linked to is optimized."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        tuning = llvm.create_pipeline_tuning_options(speed_level=1)
        for function in module.functions:
            builder = llvm.create_pass_builder(self._codegen._tm, tuning)
            passes = builder.getFunctionPassManager()
            passes.add_refprune_pass()
            passes.run(function, builder)


class EntryLibrary(OurLibrary):
    """Code that Python calls, optimized as a whole.

    As in Numba, cheap passes come first, so that counts of references that cancel are seen. Loops
    are vectorized, but neither interleaved nor unrolled: that doubles the code, and the time to
    emit it, and loops over some ten or hundred parameters are not faster for it.
    """

    def _optimize_final_module(self) -> None:
        self._run_passes(self._codegen._opt_level, self._codegen._loopvect, first=True)
        self._run_passes(int(config.OPT), bool(config.LOOP_VECTORIZE), first=False)

    def _run_passes(self, level: int, vectorize: bool, first: bool) -> None:
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization, tuning.slp_vectorization = vectorize, False
        tuning.loop_interleaving = tuning.loop_unrolling = False
        builder = llvm.create_pass_builder(self._codegen._tm, tuning)
        passes = builder.getModulePassManager()
        if first and level == 0 and config.OPT != 0:
            passes.add_loop_rotate_pass()
            passes.add_instruction_combine_pass()
            passes.add_jump_threading_pass()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)


class CalleeLibrary(OurLibrary):
    """Code that is linked, but neither optimized as a whole nor emitted."""

    def _optimize_final_module(self) -> None:
        """Leave this to the function that is called from Python."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Return bitcode: there is no object code."""
        return self.serialize_using_bitcode()


class OptimizedLibrary(CalleeLibrary):
    """Code that is optimized before it is linked, but not emitted."""

    _optimize_final_module = JITCodeLibrary._optimize_final_module


class Callee(Compiler):
    """Compiles for calls from compiled code alone."""

    library: type[CalleeLibrary] = CalleeLibrary

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function without machine code."""
        if not own_way_works(_trial):
            return super().compile_extra(func)
        state = self.state
        state.library = self.library(state.targetctx.codegen(), func.__qualname__)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        result = super().compile_extra(func)._replace(entry_point=_placeholder())
        state.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        return result


def _placeholder() -> Any:
    """Return a new key for a function, of the type that Numba requires; a call raises KeyError."""
    return {}.__getitem__


class NumbasCallee(Callee):
    """Compiles Numba's own functions for ours.

    They are small, and optimized in advance: otherwise a loop that draws normal numbers takes twice
    as long as it should.
    """

    library = OptimizedLibrary


class Entry(Compiler):
    """Compiles for calls from Python, with the environments of all callees."""

    library: type[JITCodeLibrary] = EntryLibrary
    # a wrapper for C, which optimizes the function once more, is not needed
    for_c = False

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function."""
        if not own_way_works(_trial):
            return super().compile_extra(func)
        codegen = self.state.targetctx.codegen()
        self.state.library = self.library(codegen, func.__qualname__)
        self.state.library.enable_object_caching()
        self.state.flags.no_cfunc_wrapper = not self.for_c
        with not_collected():  # Numba compiles under its lock
            result = super().compile_extra(func)
        for environment in () if self.for_c else result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


class EntryForC(Entry):
    """Compiles for calls from C."""

    for_c = True


class UnoptimizedLibrary(JITCodeLibrary):
    """Code that is optimized function by function, without inlining."""

    def _optimize_final_module(self) -> None:
        """Save what takes longest."""


class RareEntry(Entry):
    """For functions that Python calls a few times a run: compiled faster, to slower code."""

    library = UnoptimizedLibrary


class CalleeDispatcher(CPUDispatcher):
    """A function that compiled code calls, and is compiled while its caller is."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the type of a call; that of `f(0)` is that of `f(row)`, for an integer `row`.

        Numba would compile a function once more for each constant that a call contains.
        """
        plain = tuple(map(_any_value, args)), {name: _any_value(kws[name]) for name in kws}
        if plain == (tuple(args), dict(kws)):
            return super().get_call_template(args, kws)
        try:
            return super().get_call_template(*plain)
        except (ForceLiteralArg, TypingError):  # it must know the constant
            return super().get_call_template(args, kws)


def _any_value(kind: Any) -> Any:
    """Return the type without the value of a constant."""
    constant = isinstance(kind, (types.IntegerLiteral, types.BooleanLiteral))
    return types.unliteral(kind) if constant else kind


class EntryDispatcher(CPUDispatcher):
    """A compiled function as Python calls it; compiled code is given `callee` in its place."""

    callee: CalleeDispatcher

    @property
    def _numba_type_(self) -> types.Dispatcher:
        # a recursive function calls itself, as it is being compiled
        itself = self.is_compiling or not own_way_works(_trial)
        return types.Dispatcher(self if itself else self.callee)


def rebuilt_callee(target_context: Any, *payload: Any) -> Any:
    """Return the result of an earlier compilation from its parts on disk, without emitting it."""
    (name, _, bitcode), description, environment, signature, *_, reload_init, environments = payload
    for function in reload_init:
        function()
    library = CalleeLibrary(target_context.codegen(), name)
    library._final_module = llvm.parse_bitcode(bitcode)
    library._finalize_final_module()
    return compile_result(
        target_context=target_context, typing_context=target_context.typing_context,
        library=library, environment=environment, entry_point=_placeholder(), fndesc=description,
        signature=signature, objectmode=False, lifted=(), reload_init=reload_init,
        referenced_envs=environments,
    )  # fmt: skip


def dispatcher(function: Callable, options: Any, rarely: bool) -> EntryDispatcher:
    """Return a compiled function, optimized as a whole unless it is called rarely."""
    pipeline = RareEntry if rarely else Entry
    compiled = EntryDispatcher(function, {}, {**options, "nopython": True}, pipeline)
    compiled.callee = CalleeDispatcher(function, {}, {**options, "nopython": True}, Callee)
    compiled._cache = MachineCode(function, (pipeline.__name__, options))
    compiled.callee._cache = MachineCode(function, ("callee", options), rebuilt_callee)
    return compiled


def _trial() -> None:
    """Compile a function that calls another, and one of Numba's; then load its callee."""

    def doubled(x):
        """Only for compiled code."""

    def called(vector, i):
        return vector[i] + 1.0

    def of_numba(x):
        return 2.0 * x

    of_numba.__module__ = "numba.trial"
    overload(doubled)(lambda x: of_numba)
    callee = dispatcher(called, {}, rarely=False)
    entry = dispatcher(lambda vector: doubled(callee(vector, 0)), {}, rarely=False)
    for each in (callee.callee, entry):  # kept code was compiled by a process before
        each._cache = NullCache()
    if entry(np.array([3.0])) != 8.0:
        raise ValueError("wrong numbers")
    (made,) = callee.callee.overloads.values()
    rebuilt_callee(made.target_context, *pickle.loads(dumps(made._reduce())))


class _Events(event.Listener):
    """Adds functions to the history, and makes callees of those that Numba compiles for ours.

    Such are implementations of NumPy's functions. Events come one after the other, callees within
    callers, since Numba compiles under a lock. `numba.typed` has functions for Python.
    """

    depth = 0  # of our compilations

    def on_start(self, event: Any) -> None:
        """Change how a function of Numba's is compiled, before it is."""
        function = event.data["dispatcher"].py_func
        if self.depth and _pipeline(event) is Compiler:
            module = function.__module__ or ""
            if module.startswith("numba.") and not module.startswith("numba.typed"):
                event.data["dispatcher"]._compiler.pipeline_class = NumbasCallee
        self.depth += _is_ours(event)
        if self.depth:
            HISTORY.append(function)
            UNDER_WAY.append(function)

    def on_end(self, event: Any) -> None:
        """Leave one level."""
        if self.depth:
            UNDER_WAY.remove(event.data["dispatcher"].py_func)
        self.depth -= _is_ours(event)


def _pipeline(event: Any) -> Any:
    """Return the compiler of the function; loops in object mode have none."""
    return getattr(getattr(event.data["dispatcher"], "_compiler", None), "pipeline_class", None)


def _is_ours(event: Any) -> bool:
    pipeline = _pipeline(event)
    return isinstance(pipeline, type) and issubclass(pipeline, (Callee, Entry))


event.register("numba:compile", _Events())
