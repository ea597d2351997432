"""What is compiled in this process for the package: functions one after the other.

Numba compiles under a lock, so that its events come one after the other, callees within callers.
What is loaded from a cache gives no event. Functions that other packages compile for themselves,
such as ArviZ, do not count.
"""

from collections.abc import Callable, Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from stanadapt.engine.compiled.callees import is_ours

# in order; a function may be compiled for several types
HISTORY: list[Callable] = []


class _Compilations(event.Listener):
    """Appends each function to the history when its compilation begins."""

    depth = 0  # of our functions

    def on_start(self, event: Any) -> None:
        """Add the function, if it is ours, or compiled for one of ours."""
        self.depth += is_ours(event)
        if self.depth:
            HISTORY.append(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        """Leave one level."""
        self.depth -= is_ours(event)


event.register("numba:compile", _Compilations())


def reachable(functions: Iterable[Callable]) -> set[Callable]:
    """Return the Python functions of compiled functions, and all compiled ones that they name.

    Functions that Numba chooses by types are not named; nor are NumPy's.
    """
    found: set[Callable] = set()
    pending = [getattr(function, "py_func", function) for function in functions]
    while pending:
        function = pending.pop()
        if function not in found:
            found.add(function)
            pending += [callee.py_func for callee in named_by(function)]
    return found


def named_by(function: Callable) -> Iterator[Dispatcher]:
    """Yield the compiled functions that a function names, directly or as module.name."""
    names = names_in(function.__code__)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        members = vars(value) if isinstance(value, ModuleType) else {name: value}
        yield from (
            member
            for name, member in members.items()
            if name in names and isinstance(member, Dispatcher)
        )


def names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in a code object and those within it."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)
