"""A hierarchy in its centered form, whose marginal distributions are known.

Coordinates: the log v of a variance, a location l, and members x_j:

    v ~ normal(mean_v, sd_v),  l ~ normal(mean_l, sd_l),  x_j ~ normal(l, exp(v / 2)),

and, for members with data, d_j ~ normal(x_j, 1 / sqrt(p_j)). A member with p_j = 0 has no data.
"""

from typing import ClassVar

import numpy as np
from numba import carray
from scipy.special import logsumexp
from scipy.stats import norm

from stanadapt.engine.compiled.jit import c_function, jit
from stanadapt.engine.density import GRADIENT_SIGNATURE, VALUE_SIGNATURE, Density, make_density

SCALE, LOCATION, FIRST = 0, 1, 2  # numbers of the coordinates


@jit
def _density(known, x, slope):
    members, mean_v, sd_v, mean_l, sd_l = known[0], known[1], known[2], known[3], known[4]
    n = int(members)
    v, l = x[0], x[1]  # noqa: E741
    from_v, from_l, precision = (v - mean_v) / sd_v, (l - mean_l) / sd_l, np.exp(-v)
    total = -0.5 * (from_v**2 + from_l**2 + n * v)
    slope[0], slope[1] = -from_v / sd_v - 0.5 * n, -from_l / sd_l
    for j in range(n):
        away, own, off = x[2 + j] - l, known[5 + j], x[2 + j] - known[5 + n + j]
        total -= 0.5 * (precision * away**2 + own * off**2)
        slope[0] += 0.5 * precision * away**2
        slope[1] += precision * away
        slope[2 + j] = -precision * away - own * off
    return total


@c_function(VALUE_SIGNATURE)
def _value(handle, propto, jacobian, position, value, message):
    n = int(carray(handle, 1, np.float64)[0])
    known, x = carray(handle, 5 + 2 * n, np.float64), carray(position, 2 + n)
    carray(value, 1)[0] = _density(known, x, np.empty(2 + n))
    return 0


@c_function(GRADIENT_SIGNATURE)
def _gradient(handle, propto, jacobian, position, value, gradient, message):
    n = int(carray(handle, 1, np.float64)[0])
    known, x = carray(handle, 5 + 2 * n, np.float64), carray(position, 2 + n)
    carray(value, 1)[0] = _density(known, x, carray(gradient, 2 + n))
    return 0


class Hierarchy:
    """The target; precisions and data have one entry per member."""

    _kept: ClassVar[list] = []  # densities hold an address only

    def __init__(self, precisions, data, v=(1.0, 1.5), location=(5.0, 2.0)):
        self.precisions, self.data = np.asarray(precisions, float), np.asarray(data, float)
        self.v, self.location, self.dim = v, location, 2 + len(self.precisions)
        self.members = np.arange(FIRST, self.dim)
        self.memory = np.concatenate(
            [[len(self.precisions)], v, location, self.precisions, self.data]
        )
        self._kept.append(self.memory)

    def density(self) -> Density:
        """Make a density with its own counters."""
        return make_density(_value.address, _gradient.address, self.memory.ctypes.data, self.dim)

    def gradients(self, positions):
        """Gradients at rows of positions, shape (row, dim)."""
        out = np.empty(positions.shape)
        for x, slope in zip(positions, out, strict=True):
            _density(self.memory, x, slope)
        return out

    def draws(self, count, rng):
        """Independent draws: v and l from a fine grid with jitter, members given them."""
        v, location, weight = self._grid()
        cell = rng.choice(weight.size, count, p=weight.ravel())
        row, column = np.unravel_index(cell, weight.shape)
        v_drawn = v[row] + (v[1] - v[0]) * rng.uniform(-0.5, 0.5, count)
        l_drawn = location[column] + (location[1] - location[0]) * rng.uniform(-0.5, 0.5, count)
        learned = np.exp(-v_drawn)[:, None]
        precision = learned + self.precisions
        mean = (learned * l_drawn[:, None] + self.precisions * self.data) / precision
        members = mean + rng.standard_normal(mean.shape) / np.sqrt(precision)
        return np.column_stack([v_drawn, l_drawn, members])

    def quantile_of_v(self, probability):
        """Exact, from the marginal distribution of v with members and l integrated out."""
        v, _, weight = self._grid()
        below = np.cumsum(weight.sum(axis=1))
        return np.interp(probability, below, v + 0.5 * (v[1] - v[0]))

    def _grid(self):
        """Return values of v and of l, and the probability of each cell, shape (v, l)."""
        v = np.linspace(self.v[0] - 9 * self.v[1], self.v[0] + 9 * self.v[1], 2001)
        location = np.linspace(
            self.location[0] - 7 * self.location[1], self.location[0] + 7 * self.location[1], 401
        )
        log = norm.logpdf(v, *self.v)[:, None] + norm.logpdf(location, *self.location)
        for own, data in zip(self.precisions, self.data, strict=True):
            if own > 0.0:
                sd = np.sqrt(np.exp(v) + 1.0 / own)[:, None]
                log = log + norm.logpdf(data, location, sd)
        return v, location, np.exp(log - logsumexp(log))


# the neck of a funnel in raw units, without data
FUNNEL = Hierarchy(np.zeros(8), np.zeros(8), v=(-3.0, 2.5), location=(40.0, 0.02))
# strong and weak data, with a few members whose data drown out the prior
SCHOOLS = Hierarchy(
    [0.01, 0.02, 0.003, 4.0, 0.01, 60.0, 0.05, 0.02],
    [28.0, 8.0, -3.0, 7.0, -1.0, 4.0, 18.0, 12.0],
    v=(1.0, 3.0), location=(5.0, 4.0),
)  # fmt: skip
