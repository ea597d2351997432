"""The curved targets of the Kameleon paper, as C functions made by Numba, with their coverage.

Bananas B(b, 100) and the flower F(10, 6, 6, 1) in eight dimensions. Each has mean zero, and
coordinates in which the squared radius is chi-squared: the shares of draws inside its quantiles
show how well the whole distribution is covered, tails and center.
"""

from typing import ClassVar

import numpy as np
from numba import carray
from scipy.stats import chi2

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, Density, make_density

DIM = 8
LEVELS = np.arange(1, 10) / 10


@jit
def _rest(x):
    total = 0.0
    for i in range(2, DIM):
        total -= 0.5 * x[i] * x[i]
    return total


@c_function(VALUE_SIGNATURE)
def _banana(bend, propto, jacobian, position, value, message):
    x, out, b = carray(position, DIM), carray(value, 1), carray(bend, 1, np.float64)[0]
    out[0] = _rest(x) - x[0] ** 2 / 200.0 - 0.5 * (x[1] - b * (x[0] ** 2 - 100.0)) ** 2
    return 0


@c_function(VALUE_SIGNATURE)
def _flower(bend, propto, jacobian, position, value, message):
    x, out = carray(position, DIM), carray(value, 1)
    radius = 10.0 + 6.0 * np.cos(6.0 * np.arctan2(x[1], x[0]))
    out[0] = _rest(x) - 0.5 * (np.hypot(x[0], x[1]) - radius) ** 2
    return 0


@c_function(GRADIENT_SIGNATURE)
def _banana_gradient(bend, propto, jacobian, position, value, gradient, message):
    x, out, slope = carray(position, DIM), carray(value, 1), carray(gradient, DIM)
    b = carray(bend, 1, np.float64)[0]
    off = x[1] - b * (x[0] ** 2 - 100.0)
    out[0] = _rest(x) - x[0] ** 2 / 200.0 - 0.5 * off**2
    for i in range(DIM):
        slope[i] = -x[i]
    slope[0], slope[1] = -x[0] / 100.0 + 2.0 * b * x[0] * off, -off
    return 0


@c_function(GRADIENT_SIGNATURE)
def _flower_gradient(bend, propto, jacobian, position, value, gradient, message):
    x, out, slope = carray(position, DIM), carray(value, 1), carray(gradient, DIM)
    radius, angle = np.hypot(x[0], x[1]), np.arctan2(x[1], x[0])
    off = radius - 10.0 - 6.0 * np.cos(6.0 * angle)
    turn = 36.0 * np.sin(6.0 * angle) / radius**2
    out[0] = _rest(x) - 0.5 * off**2
    for i in range(DIM):
        slope[i] = -x[i]
    slope[0] = -off * (x[0] / radius - turn * x[1])
    slope[1] = -off * (x[1] / radius + turn * x[0])
    return 0


class Curved:
    """One of the targets, never freed: densities hold only its address."""

    _bends: ClassVar[list] = []

    def __init__(self, bend: float | None) -> None:
        self.bend = np.array([0.0 if bend is None else bend])
        self.flower = bend is None
        self._bends.append(self.bend)

    def density(self) -> Density:
        """Make a density with its own counters."""
        value, gradient = (
            (_flower, _flower_gradient) if self.flower else (_banana, _banana_gradient)
        )
        return make_density(value.address, gradient.address, self.bend.ctypes.data, DIM)

    def coverage(self, draws: np.ndarray) -> np.ndarray:
        """Share of draws, shape (draw, 8), inside the regions of probability LEVELS."""
        x, y, rest = draws[:, 0], draws[:, 1], (draws[:, 2:] ** 2).sum(axis=1)
        if self.flower:
            radius = 10.0 + 6.0 * np.cos(6.0 * np.arctan2(y, x))
            squares, degrees = rest + (np.hypot(x, y) - radius) ** 2, DIM - 1
        else:
            bent = y - self.bend[0] * (x**2 - 100.0)
            squares, degrees = rest + x**2 / 100.0 + bent**2, DIM
        return (squares[:, None] <= chi2.ppf(LEVELS, degrees)).mean(axis=0)


# name: target, iterations of warm-up and of sampling, bandwidth in the paper
PAPER = {
    "slight": (Curved(0.03), 20_000, 20_000, 5.0),
    "strong": (Curved(0.1), 40_000, 40_000, 10.0),
    "flower": (Curved(None), 60_000, 60_000, 5.0),
}
