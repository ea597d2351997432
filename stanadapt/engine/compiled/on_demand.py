"""Functions that few runs need, which compiled code calls by a pointer: compiled when first called.

Their machine code is in none of their callers, which are compiled and loaded faster for it. The
pointer is in a variable of this process that compiled code knows by a name, so that callers can be
kept on disk. At first it points to Python code, which compiles the function, or loads it, and puts
its address there.
"""

import ctypes
import inspect
import signal
import threading
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from stanadapt.engine.compiled.jit import CFunction

ADDRESS = types.CPointer(types.float64)
IN_C = {types.float64: ctypes.c_double, types.intp: ctypes.c_ssize_t}
POINTERS: list["Pointer"] = []
AGAIN = 0.05  # seconds until Ctrl-C comes once more, if it came while a function was compiled


class Pointer:
    """The variable with the address of a function, or, before it is compiled, of Python code."""

    def __init__(self, name: str, kinds: Any, function: Callable) -> None:
        self._compiled = CFunction(kinds, function)
        parts = [IN_C.get(kind, ctypes.c_void_p) for kind in (kinds.return_type, *kinds.args)]
        self._prototype = ctypes.CFUNCTYPE(*parts)
        self._python = self._prototype(self._first_call)
        self._variable = ctypes.cast(self._python, ctypes.c_void_p)
        llvm.add_symbol(name, ctypes.addressof(self._variable))
        POINTERS.append(self)

    def compile(self) -> int:
        """Compile the function, or load it from the cache; return its address."""
        self._variable.value = address = self._compiled.address
        return address

    def _first_call(self, *arguments: Any) -> Any:
        address, pressed = 0, False
        while not address:  # compiled code does not see an exception
            try:
                address = self.compile()
            except KeyboardInterrupt:
                pressed = True
        if pressed:
            threading.Timer(AGAIN, signal.raise_signal, [signal.SIGINT]).start()
        return self._prototype(address)(*arguments)


def on_demand(kinds: Any) -> Callable[[Callable], Any]:
    """Make a function for compiled code of one for C, with a signature of Numba's.

    It takes addresses and numbers. Callers pass arrays, contiguous in C, in place of addresses.
    """

    def made(function: Callable) -> Any:
        name = f"{function.__module__}.{function.__qualname__}"
        Pointer(name, kinds, function)

        def call(typing: Any, *given: Any) -> Any:
            taken = [
                own if isinstance(own, types.Array) else kind
                for own, kind in zip(given, kinds.args, strict=True)
            ]
            if not all(kind.is_c_contig for kind in taken if isinstance(kind, types.Array)):
                raise TypingError(f"{name} takes arrays that are contiguous in C, got {given}.")

            def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return _emit_call(context, builder, name, signature, arguments)

            return kinds.return_type(*taken), emit

        names = [Parameter("typing", Parameter.POSITIONAL_ONLY)]
        call.__signature__ = Signature(  # type: ignore[attr-defined]
            [*names, *inspect.signature(function).parameters.values()]
        )
        return intrinsic(call)

    return made


def _emit_call(context: Any, builder: Any, name: str, signature: Any, arguments: Any) -> Any:
    passed = []
    for kind, argument in zip(signature.args, arguments, strict=True):
        if isinstance(kind, types.Array):
            argument = context.make_array(kind)(context, builder, argument).data
        passed.append(argument)
    result = context.get_value_type(signature.return_type)
    function = ir.FunctionType(result, [argument.type for argument in passed]).as_pointer()
    variable = builder.module.globals.get(name)
    if variable is None:
        variable = ir.GlobalVariable(builder.module, cgutils.voidptr_t, name)
    return builder.call(builder.bitcast(builder.load(variable), function), passed)
