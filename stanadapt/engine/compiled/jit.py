"""The decorators of compiled functions: `jit`, `inline`, `rarely_called`; for C, `c_function`."""

import threading
from collections.abc import Callable
from typing import Any

from numba import config, njit, types
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from stanadapt.engine.compiled.compilations import HISTORY, UNDER_WAY
from stanadapt.engine.compiled.machine_code import MachineCode
from stanadapt.engine.compiled.own_way import give_up
from stanadapt.errors import Message, warn

try:
    from stanadapt.engine.compiled import callees
except (ImportError, AttributeError) as error:  # parts of Numba have moved
    callees = None  # type: ignore[assignment]
    give_up(error)

# forceinline is set to False explicitly: otherwise the callees of an inlined function inherit the
# flag from whichever caller is compiled first, and are optimized again at every level above
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "forceinline": False}
# of an overload, which nothing but compiled code calls
OVERLOAD_OPTIONS: Any = OPTIONS | ({"pipeline_class": callees.Callee} if callees else {})
FOR_C: Any = {"pipeline_class": callees.EntryForC} if callees else {}

if config.DISABLE_JIT:
    # Python could not run our code, which calls C functions by their addresses
    warn(
        Message(
            "jit_cannot_be_disabled",
            "NUMBA_DISABLE_JIT has no effect: stanadapt requires compilation.",
        )
    )
    config.DISABLE_JIT = 0


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk."""
    return _compiled(function)


def rarely_called(function: Callable) -> Callable:
    """`jit` for a function that is called a few times in a run, such as `init` of a sampler.

    As a whole it is not optimized, and takes a few times longer. Results are the same.
    """
    return _compiled(function, rarely=True)


def inline(function: Callable) -> Callable:
    """`jit` for a function called in a hot loop: its machine code is inlined into the caller's."""
    return _compiled(function, forceinline=True)


def _compiled(function: Callable, rarely: bool = False, **options: Any) -> Callable:
    """Return a compiled function, optimized once with its callees if this Numba allows it."""
    options = OPTIONS | options
    if callees is None:
        plain = njit(**options)(function)
        plain._cache = MachineCode(function, options)
        return plain
    return callees.dispatcher(function, options, rarely)


def as_python(compiled: Any) -> Callable:
    """Return the Python function behind one of `jit`, for calls that are not worth compiling.

    Only for those that do what they do in Python: they divide by no zero and call no intrinsic.
    """
    function: Callable = compiled.py_func
    return function


@intrinsic
def never_inline(context: Any) -> Any:
    """Keep the function that calls this from being inlined into its callers.

    For large functions at the bottom of a deep call chain. Their code would be optimized again, as
    part of each caller, at every level of the chain, which takes most of a minute.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), emit


class CFunction:
    """A function that C code can call, made by `c_function`."""

    def __init__(self, signature: Any, function: Callable) -> None:
        self.__doc__, self._signature, self._function = function.__doc__, signature, function
        self._lock, self._compiled = threading.Lock(), None

    @property
    def address(self) -> int:
        """The address; the first access compiles the function, or loads it from the cache."""
        with self._lock:
            if self._compiled is None:
                kinds = normalize_signature(self._signature)
                compiled = CFunc(self._function, kinds, locals={}, options={}, **FOR_C)
                compiled._cache = MachineCode(self._function, "for C")
                UNDER_WAY.append(self._function)
                try:
                    compiled.compile()
                finally:
                    UNDER_WAY.remove(self._function)
                if not compiled.cache_hits:  # Numba reports no event
                    HISTORY.append(self._function)
                self._compiled = compiled
            return self._compiled.address


def c_function(signature: Any) -> Callable[[Callable], CFunction]:
    """Make a function with a Numba signature callable from C, compiled at first use, not import."""
    return lambda function: CFunction(signature, function)
