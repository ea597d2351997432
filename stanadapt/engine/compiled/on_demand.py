"""Functions that few runs need, which compiled code calls by a pointer: compiled when first called.

Their machine code is in none of their callers, which are compiled and loaded faster for it. The
pointer is in a variable of this process that compiled code knows by a name, so that callers can be
kept on disk. At first it is null: then callers call Python code, which compiles the function, or
loads it, and puts its address there.
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
PREPARE = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t)
# the address of the function, if it is compiled, that of `_prepare`, and whether this has failed
WORDS, ADDRESS_WORD, PREPARE_WORD, FAILED_WORD = ctypes.c_void_p * 3, 0, 1, 2
POINTERS: list["Pointer"] = []
AGAIN = 0.05  # seconds until Ctrl-C comes once more, if it came while a function was compiled


class Pointer:
    """The words that compiled code knows by a name: see `WORDS`."""

    def __init__(self, name: str, kinds: Any, function: Callable) -> None:
        self._compiled = CFunction(kinds, function)
        self._python = PREPARE(self._prepare)
        self._words = WORDS(None, ctypes.cast(self._python, ctypes.c_void_p), None)
        llvm.add_symbol(name, ctypes.addressof(self._words))
        POINTERS.append(self)

    def compile(self) -> None:
        """Compile the function, or load it from the cache."""
        self._words[ADDRESS_WORD] = self._compiled.address

    def _prepare(self, attempt: int) -> None:
        """Compile for compiled code, which tries again until there is an address, or a failure.

        It sees no exception. Ctrl-C may end this before the first statement.
        """
        self._words[FAILED_WORD] = None
        try:
            self.compile()
        except KeyboardInterrupt:
            return
        except BaseException:
            self._words[FAILED_WORD] = 1
            raise  # Python prints it
        if attempt:
            threading.Timer(AGAIN, signal.raise_signal, [signal.SIGINT]).start()


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
    return builder.call(builder.bitcast(_emit_address(context, builder, name), function), passed)


def _emit_address(context: Any, builder: Any, name: str) -> Any:
    """Load the address of a function, after calls of `_prepare` until there is one."""
    words = builder.module.globals.get(name)
    if words is None:
        kind = ir.ArrayType(cgutils.voidptr_t, WORDS._length_)
        words = ir.GlobalVariable(builder.module, kind, name)

    def word(number: int) -> Any:
        return builder.load(cgutils.gep_inbounds(builder, words, 0, number))

    before = builder.block
    seek, prepare, found = (
        builder.append_basic_block(part) for part in ("seek", "prepare", "found")
    )
    builder.branch(seek)
    builder.position_at_end(seek)
    attempt = builder.phi(cgutils.intp_t)
    attempt.add_incoming(cgutils.intp_t(0), before)
    address = word(ADDRESS_WORD)
    builder.cbranch(cgutils.is_null(builder, address), prepare, found)
    builder.position_at_end(prepare)
    call = ir.FunctionType(ir.VoidType(), [cgutils.intp_t]).as_pointer()
    builder.call(builder.bitcast(word(PREPARE_WORD), call), [attempt])
    with builder.if_then(cgutils.is_not_null(builder, word(FAILED_WORD)), likely=False):
        text = f"{name} could not be compiled: see the exception that was printed"
        context.call_conv.return_user_exc(builder, RuntimeError, (text,))
    attempt.add_incoming(builder.add(attempt, cgutils.intp_t(1)), builder.block)
    builder.branch(seek)
    builder.position_at_end(found)
    return address
