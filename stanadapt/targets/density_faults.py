"""Faults of a log density in Python, apart from points outside its support.

Outside its support, a function returns -inf or raises an error of values, arithmetic or linear
algebra, as `reject` does in Stan. Any other exception, and a value that is not real, is a fault of
the function: to take it for an end of the support would hide it. A file of its own, since this rule
is one for authors of densities, and calls are another matter.
"""

import contextlib
import reprlib
import traceback
from typing import Any

import numpy as np

OUTSIDE = (ValueError, ArithmeticError, RuntimeWarning)
LINEAR_ALGEBRA = ("LinAlgError", "_LinAlgError")  # of NumPy and others; of PyTorch
_NOT_THE_USERS = ("site-packages", "targets/python_density.py")


class Fault(RuntimeError):
    """A function raised or returned something that does not mean: outside the support."""


def is_outside(error: Exception) -> bool:
    """Whether an exception means that a point is outside the support."""
    named = any(kind.__name__ in LINEAR_ALGEBRA for kind in type(error).__mro__)
    return named or isinstance(error, OUTSIDE)


def described(error: Exception) -> str:
    """Name an exception and the last line of the user's code that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not any(part in f.filename for part in _NOT_THE_USERS)]
    where = f" in {users[-1].name}, line {users[-1].lineno}" if users else ""
    return f"raised {type(error).__name__}: {error}{where}"


def real_array(value: Any) -> np.ndarray:
    """Return a log density or a gradient as an array; `Fault` if it is not of real numbers."""
    with contextlib.suppress(Exception):  # of another package: a tensor with a gradient
        array = np.asarray(value)
        if value is not None and array.dtype.kind not in "cSU":
            return array.astype(float, copy=False)
    raise Fault(f"returned {reprlib.repr(value)}, which is not real")
