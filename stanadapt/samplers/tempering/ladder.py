"""A ladder of inverse temperatures, and its spacing.

The rejection rates of swaps between neighbors add up to the communication barrier Lambda, which
hardly depends on the number of levels. Round trips are fastest on a ladder with neighbors at equal
distances in Lambda.

References
----------
Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a scalable
highly parallel MCMC scheme, JRSS B 84: the barrier (section 4), its use for the ladder (section 5).
Deviation: Lambda is interpolated linearly in b; they use a monotone cubic.

"""

from typing import NamedTuple

import numpy as np

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.numerics.vectors import copy

# lower bound on rejection rates: at 0 two levels would coincide
SMALLEST_REJECTION = 1e-3
# shape of the first ladder: b = (k / (levels - 1))^4, denser near the reference
FIRST_POWER = 4.0


class Ladder(NamedTuple):
    """Levels 0, 1, ... from hot to cold; arrays have room for more, and are updated in place.

    levels
        Columns: inverse temperature (B), increasing to 1; estimate of log Z(b) minus that of the
        first level (LOG_Z); log step size of the moves (LOG_STEP); Lambda between the first level
        and this one (BARRIER); shape (room, 4).
    scale
        Diagonal factor of the moves' metric at each level, shape (room, dim).
    size
        Number of levels in use, shape (1,).

    """

    levels: np.ndarray
    scale: np.ndarray
    size: np.ndarray


B, LOG_Z, LOG_STEP, BARRIER = 0, 1, 2, 3


@jit
def no_ladder(room, dim):
    """Return a Ladder without levels."""
    # columns are contiguous, since every draw of a level reads them
    return Ladder(np.zeros((4, room)).T, np.ones((room, dim)), np.zeros(1, np.int64))


@jit
def first_ladder(ladder, count, min_inverse_temperature, log_step):
    """Write an initial ladder: `count` levels, the first at b = min_inverse_temperature."""
    for k in range(count):
        share = (k / (count - 1)) ** FIRST_POWER if count > 1 else 1.0
        ladder.levels[k, B] = min_inverse_temperature + (1.0 - min_inverse_temperature) * share
        ladder.levels[k, LOG_Z] = 0.0
        ladder.levels[k, LOG_STEP] = log_step
    ladder.size[0] = count


@jit
def set_levels(ladder, inverse_temperatures):
    """Give the levels these inverse temperatures, listed from cold to hot."""
    count = inverse_temperatures.shape[0]
    for k in range(count):
        ladder.levels[k, B] = inverse_temperatures[count - 1 - k]
    ladder.size[0] = count


@jit
def measure(ladder, rejection):
    """Write Lambda at each level; returns its value at the last, which is the barrier.

    rejection[k] is the rejection rate of swaps between levels k and k + 1.
    """
    ladder.levels[0, BARRIER] = 0.0
    for k in range(ladder.size[0] - 1):
        rate = max(rejection[k], SMALLEST_REJECTION)
        ladder.levels[k + 1, BARRIER] = ladder.levels[k, BARRIER] + rate
    return ladder.levels[ladder.size[0] - 1, BARRIER]


@jit
def respace(old, new, count):
    """Write into `new` a ladder of `count` levels, equally spaced in the Lambda of `old`.

    The other columns are interpolated with the same weights as b.
    """
    last, j = old.size[0] - 1, 0
    for k in range(count):
        j = _interpolate(old, BARRIER, old.levels[last, BARRIER] * k / (count - 1), j, new, k)
    new.levels[count - 1, B] = 1.0
    new.size[0] = count


@jit
def place(old, new, inverse_temperatures):
    """Write into `new` levels at inverse temperatures, from cold to hot; the rest is interpolated.

    They must not be hotter than the first level of `old`.
    """
    set_levels(new, inverse_temperatures)
    j = 0
    for k in range(new.size[0]):
        b = new.levels[k, B]
        j = _interpolate(old, B, b, j, new, k)
        new.levels[k, B] = b


@jit
def _interpolate(old, coordinate, position, first, new, k):
    """Write into level k of `new` the point of `old` where a column has the value `position`.

    The column increases; the search begins at level `first`. Returns the level below the point.
    """
    j, values = first, old.levels[:, coordinate]
    while j < old.size[0] - 2 and values[j + 1] < position:
        j += 1
    share = min(max((position - values[j]) / (values[j + 1] - values[j]), 0.0), 1.0)
    for column in range(4):
        below, above = old.levels[j, column], old.levels[j + 1, column]
        new.levels[k, column] = (1.0 - share) * below + share * above
    for i in range(old.scale.shape[1]):
        # scales are positive and span orders of magnitude: their logs are interpolated
        new.scale[k, i] = old.scale[j, i] * (old.scale[j + 1, i] / old.scale[j, i]) ** share
    return j


@jit
def copy_ladder(source, target):
    """Copy a ladder into another that has room for it."""
    count = source.size[0]
    for k in range(count):
        copy(source.levels[k], target.levels[k])
        copy(source.scale[k], target.scale[k])
    target.size[0] = count
