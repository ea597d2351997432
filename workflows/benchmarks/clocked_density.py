"""A density that adds up the time spent in its gradient: the remaining time is the sampler's.

A gradient timed alone, in consecutive calls, does not take as long as one between other code, and
on a busy machine two runs differ by more than a sampler costs: here both are timed in one run.
"""

import ctypes
import time

import numpy as np
from numba import carray, cfunc, njit

from stanadapt.engine.density import GRADIENT_SIGNATURE, call_gradient, make_density

# of the block: gradient function, its handle, dim, nanoseconds inside, and space for one reading
ADDRESS, HANDLE, DIM, INSIDE, READING, NUMBERS = 0, 1, 2, 3, 4, 6
CLOCK = time.CLOCK_MONOTONIC
_clock_gettime = ctypes.CDLL(None).clock_gettime
_clock_gettime.argtypes, _clock_gettime.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_int


@njit
def _now(reading):
    """Nanoseconds; reading has shape (2,)."""
    _clock_gettime(CLOCK, reading.ctypes.data)
    return reading[0] * 1_000_000_000 + reading[1]


@cfunc(GRADIENT_SIGNATURE)
def _gradient(block, propto, jacobian, position, out, gradient, message):
    head = carray(block, (NUMBERS,), np.int64)
    dim, reading = head[DIM], head[READING:]
    began = _now(reading)
    code, carray(out, (1,))[0] = call_gradient(
        head[ADDRESS], head[HANDLE], carray(position, (dim,)), carray(gradient, (dim,))
    )
    head[INSIDE] += _now(reading) - began
    return code


def clocked(density):
    """Return the same density with a clock, and the block in which it adds up its time."""
    block = np.zeros(NUMBERS, np.int64)
    block[:INSIDE] = density.gradient_address, density.handle, density.dim
    return make_density(0, _gradient.address, block.ctypes.data, density.dim), block


def seconds_inside(block):
    """Seconds in the gradient since the last call of this function."""
    seconds, block[INSIDE] = block[INSIDE] / 1e9, 0
    return seconds
