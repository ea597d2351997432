"""Functions that only compiled code calls: typed and lowered, but optimized in their callers.

Numba optimizes and emits each function with all that it calls, and again as a part of each of its
callers. At the bottom of eight levels a function was optimized nine times, which was three quarters
of the time for compilation. Nothing calls these intermediate functions from Python. Here, `Callee`
compiles them to LLVM's language only, and `Entry` a function for Python: it is linked to its
callees, at all levels, and the whole is optimized and emitted once.

A function of `jit` may have both: see `EntryDispatcher`. On disk, a callee is kept as LLVM bitcode.
What Numba compiles of its own for them (array indexing, generators) is not emitted either.
"""

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any

from llvmlite import binding as llvm
from numba import types
from numba.core import event
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.registry import CPUDispatcher

from stanadapt.engine.compiled.reference_counts import with_fewer_reads


class CalleeLibrary(JITCodeLibrary):
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

    def _optimize_final_module(self) -> None:
        JITCodeLibrary._optimize_final_module(self)


class Callee(Compiler):
    """Compiles for calls from compiled code alone."""

    library: type[CalleeLibrary] = CalleeLibrary

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function without machine code."""
        state = self.state
        state.targetctx = with_fewer_reads(state.targetctx)
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

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function; a C wrapper, which optimizes it once more, is not needed."""
        self.state.targetctx = with_fewer_reads(self.state.targetctx)
        self.state.flags.no_cfunc_wrapper = True
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


class _Garbage:
    """Whether garbage is collected; not while functions are compiled, in any thread.

    Numba makes some million objects for a sampler and keeps most of them. To look through these,
    again and again, took a sixth of the time.
    """

    lock, compiling, collected = threading.Lock(), 0, True

    @classmethod
    @contextlib.contextmanager
    def kept(cls) -> Iterator[None]:
        """Collect no garbage in the body, and then as before."""
        with cls.lock:
            if cls.compiling == 0:
                cls.collected = gc.isenabled()
                gc.disable()
            cls.compiling += 1
        try:
            yield
        finally:
            with cls.lock:
                cls.compiling -= 1
                if cls.compiling == 0 and cls.collected:
                    gc.enable()


class UnoptimizedLibrary(JITCodeLibrary):
    """Code of which each function is optimized, but not the whole: none becomes part of another."""

    def _optimize_final_module(self) -> None:
        """Save what takes longest."""


class SeldomEntry(Entry):
    """Compiles for a few calls from Python in a run."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a Python function in less time, to code that takes longer."""
        codegen = self.state.targetctx.codegen()
        self.state.library = UnoptimizedLibrary(codegen, func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class EntryDispatcher(CPUDispatcher):
    """A compiled function as Python calls it; compiled code is given `callee` in its place."""

    callee: CPUDispatcher

    def compile(self, sig: Any) -> Any:
        """Compile for a signature, or load from the cache, without collections of garbage."""
        with _Garbage.kept():
            return super().compile(sig)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        # a recursive function calls itself, as it is being compiled
        return types.Dispatcher(self if self.is_compiling else self.callee)


class CalleeCacheImpl(CompileResultCacheImpl):
    """Loads callees from disk without emitting them."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return the result of an earlier compilation."""
        (name, _, bitcode), fndesc, environment, signature, objectmode, lifted, *rest = payload
        annotation, reload_init, environments = rest
        for function in reload_init:
            function()
        library = CalleeLibrary(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(bitcode)
        library._finalize_final_module()
        return CompileResult(
            target_context=target_context, typing_context=target_context.typing_context,
            library=library, environment=environment, entry_point=_placeholder(), fndesc=fndesc,
            type_annotation=annotation, signature=signature, objectmode=objectmode, lifted=lifted,
            typing_error=None, call_helper=None, metadata=None, reload_init=reload_init,
            referenced_envs=environments,
        )  # fmt: skip


class _NumbasOwn(event.Listener):
    """Makes callees of the functions that Numba compiles for ours: implementations of NumPy's.

    Events come one after the other, since Numba compiles under a lock. `numba.typed` has functions
    for Python.
    """

    depth = 0  # of our compilations

    def on_start(self, event: Any) -> None:
        """Change how a function of Numba's is compiled, before it is."""
        compiler = _compiler_of(event)
        if is_ours(event):
            self.depth += 1
        elif self.depth and getattr(compiler, "pipeline_class", None) is Compiler:
            module = event.data["dispatcher"].py_func.__module__ or ""
            if module.startswith("numba.") and not module.startswith("numba.typed"):
                compiler.pipeline_class = NumbasCallee
                self.depth += 1

    def on_end(self, event: Any) -> None:
        """Leave one level."""
        if is_ours(event):
            self.depth -= 1


def _compiler_of(event: Any) -> Any:
    """Return the compiler of the function; loops in object mode have none."""
    return getattr(event.data["dispatcher"], "_compiler", None)


def is_ours(event: Any) -> bool:
    """Whether an event is about a function that is compiled as one of ours."""
    pipeline = getattr(_compiler_of(event), "pipeline_class", Compiler)
    return issubclass(pipeline, (Callee, Entry))


event.register("numba:compile", _NumbasOwn())
