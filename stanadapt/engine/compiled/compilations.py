"""Functions that were compiled in this process for the package, and those that may be.

What is loaded from a cache is not compiled. Functions that other packages compile for themselves,
such as ArviZ, do not count.
"""

from collections.abc import Callable, Iterable

from numba.core.dispatcher import Dispatcher

from stanadapt.engine.compiled.dependencies import named_values

# in order; a function may be compiled for several types
HISTORY: list[Callable] = []
UNDER_WAY: list[Callable] = []  # those that are compiled at this moment


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
            named = (value for _, value in named_values(function))
            pending += [value.py_func for value in named if isinstance(value, Dispatcher)]
    return found
