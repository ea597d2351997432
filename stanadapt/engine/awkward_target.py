"""A density on which samplers are checked: asymmetric, unequally scaled, correlated, with a wall.

x[0] is the log of a gamma(SHAPE) variable; x[1] and x[2] are normal with standard deviations SCALES
and correlation RHO. Beyond a wall in x[0] the density fails, as that of a program that throws. All
moments are known. It is two C functions with BridgeStan's signatures, so that no program is needed.
"""

from typing import ClassVar

import numpy as np
from numba import carray
from scipy.special import digamma, polygamma

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, Density, make_density

SHAPE, SCALES, RHO = 2.0, np.array([0.3, 4.0]), 0.7
MEAN = np.array([digamma(SHAPE), 1.0, -2.0])
SD = np.array([np.sqrt(polygamma(1, SHAPE)), *SCALES])
DIM = 3


@jit
def _log_density(x, wall, out):
    """Fill out[0]; return the code, not zero beyond the wall."""
    if x[0] > wall:
        return -1
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    out[0] = 2.0 * x[0] - np.exp(x[0]) - 0.5 / 0.51 * (a * a - 1.4 * a * b + b * b)
    return 0


# -1 unless the flags arrive as they should
@c_function(VALUE_SIGNATURE)
def _value(wall, propto, jacobian, position, value, message):
    if propto != 1 or jacobian != 1:
        return -1
    return _log_density(carray(position, 3), carray(wall, 1, np.float64)[0], carray(value, 1))


@c_function(GRADIENT_SIGNATURE)
def _gradient(wall, propto, jacobian, position, value, gradient, message):
    if propto != 1 or jacobian != 1:
        return -1
    x, g = carray(position, 3), carray(gradient, 3)
    a, b = (x[1] - 1.0) / 0.3, (x[2] + 2.0) / 4.0
    g[0] = 2.0 - np.exp(x[0])
    g[1] = -(a - 0.7 * b) / 0.51 / 0.3
    g[2] = -(b - 0.7 * a) / 0.51 / 4.0
    return _log_density(x, carray(wall, 1, np.float64)[0], carray(value, 1))


class Awkward:
    """The target with its wall, which is never freed: densities hold its address only."""

    _walls: ClassVar[list] = []

    def __init__(self, wall: float = np.inf) -> None:
        self.wall = np.array([wall])
        self._walls.append(self.wall)

    def density(self) -> Density:
        """Make a density with its own counters."""
        return make_density(_value.address, _gradient.address, self.wall.ctypes.data, DIM)


def starts(chains: int, seed: int) -> np.ndarray:
    """Draw positions near the target's mass, shape (chain, 3)."""
    return MEAN + SD * np.random.default_rng(seed).standard_normal((chains, DIM))
