"""Functions of arrays with the C library's results, which are also those of compiled code.

NumPy has other functions for whole arrays, faster, and different in the last digit on some
processors. What Python learns between compiled blocks must not depend on that.
"""

import math
from collections.abc import Callable

import numpy as np


def logs(x: np.ndarray) -> np.ndarray:
    return _each(math.log, np.log, x)


def exponentials(x: np.ndarray) -> np.ndarray:
    return _each(math.exp, np.exp, x)


def powers(x: np.ndarray, exponent: float) -> np.ndarray:
    return _each(lambda one: math.pow(one, exponent), lambda all_: np.power(all_, exponent), x)


def _each(function: Callable, whole: Callable, x: np.ndarray) -> np.ndarray:
    try:
        return np.array([function(one) for one in np.ravel(x).tolist()]).reshape(np.shape(x))
    except (ValueError, OverflowError):  # NumPy returns the infinite ones, instead
        return np.asarray(whole(x))
