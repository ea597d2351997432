"""Targets without Stan: C functions with BridgeStan's signatures, made by Numba.

The target of most tests is deliberately awkward: asymmetric in one coordinate, correlated and
unequally scaled in the others, with known moments, and a wall behind which the "model" throws.
"""

from typing import ClassVar

import numpy as np
from numba import carray, cfunc, njit, types
from scipy.special import digamma, polygamma

from stanadapt.density import Density, make_density

# x[0]: log of a gamma(SHAPE) variable; x[1], x[2]: normal with SCALES and correlation RHO
SHAPE, SCALES, RHO = 2.0, np.array([0.3, 4.0]), 0.7
MEAN = np.array([digamma(SHAPE), 1.0, -2.0])
SD = np.array([np.sqrt(polygamma(1, SHAPE)), *SCALES])

_POINTER = types.CPointer(types.float64)
_FLAG = types.int32


@njit
def _log_density(x, wall, out):
    """Fill out[0]; return the code, not zero behind the wall."""
    if x[0] > wall:
        return -1
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    out[0] = 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    return 0


# -1 unless the flags arrive as they should and no message is asked for
@cfunc(types.int32(_POINTER, _FLAG, _FLAG, _POINTER, _POINTER, types.intp))
def _value(wall, propto, jacobian, position, value, message):
    if propto != 1 or jacobian != 1 or message != 0:
        return -1
    return _log_density(carray(position, 3), wall[0], carray(value, 1))


@cfunc(types.int32(_POINTER, _FLAG, _FLAG, _POINTER, _POINTER, _POINTER, types.intp))
def _gradient(wall, propto, jacobian, position, value, gradient, message):
    if propto != 1 or jacobian != 1 or message != 0:
        return -1
    x, g = carray(position, 3), carray(gradient, 3)
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    g[0] = 2.0 - np.exp(x[0])
    g[1] = -(a - 0.7 * b) / 0.51 / 0.3
    g[2] = -(b - 0.7 * a) / 0.51 / 4.0
    return _log_density(x, wall[0], carray(value, 1))


class Awkward:
    """The target with its wall, which lives for ever: densities hold its address only."""

    _walls: ClassVar[list] = []

    def __init__(self, wall: float = np.inf) -> None:
        self.wall = np.array([wall])
        self._walls.append(self.wall)

    def density(self) -> Density:
        """Make a density with its own counters."""
        return make_density(_value.address, _gradient.address, self.wall.ctypes.data, 3)


def starts(chains: int, seed: int) -> np.ndarray:
    """Draw positions near the target's mass, shape (chain, 3)."""
    return MEAN + SD * np.random.default_rng(seed).standard_normal((chains, 3))
