"""A ladder of inverse temperatures, and its spacing.

The rejection rates of swaps between neighbors add up to the communication barrier Lambda, which
hardly depends on the number of levels. Round trips are fastest on a ladder with neighbors at equal
distances in Lambda.

References
----------
Those of `swaps`: the barrier (section 4), its use for the ladder (section 5). Deviation: Lambda is
interpolated linearly in b; they use a monotone cubic.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stanadapt.engine.numerics.elementwise import powers

# lower bound on rejection rates: at 0 two levels would coincide
SMALLEST_REJECTION = 1e-3
# shape of the first ladder: b = (k / (levels - 1))^4, denser near the reference
FIRST_POWER = 4.0


class Ladder(NamedTuple):
    """Levels 0, 1, ... from hot to cold; arrays have room for more, and are updated in place."""

    # columns: inverse temperature (B), increasing to 1; estimate of log Z(b) minus that of the
    # first level (LOG_Z); log step size of the moves (LOG_STEP); Lambda between the first level and
    # this one (BARRIER); shape (room, 4)
    levels: np.ndarray
    scale: np.ndarray  # diagonal factor of the moves' metric at each level, shape (room, dim)
    size: np.ndarray  # number of levels in use, shape (1,)


B, LOG_Z, LOG_STEP, BARRIER = 0, 1, 2, 3


def no_ladder(room: int, dim: int) -> Ladder:
    """Return a Ladder without levels."""
    # columns are contiguous, since every draw of a level reads them
    return Ladder(np.zeros((4, room)).T, np.ones((room, dim)), np.zeros(1, np.int64))


def first_ladder(
    ladder: Ladder, count: int, min_inverse_temperature: float, log_step: float
) -> None:
    """Write an initial ladder: `count` levels, the first at b = min_inverse_temperature."""
    for k in range(count):
        share = (k / (count - 1)) ** FIRST_POWER if count > 1 else 1.0
        ladder.levels[k, B] = min_inverse_temperature + (1.0 - min_inverse_temperature) * share
    ladder.levels[:count, LOG_Z] = 0.0
    ladder.levels[:count, LOG_STEP] = log_step
    ladder.size[0] = count


def set_levels(ladder: Ladder, inverse_temperatures: Sequence[float] | np.ndarray) -> None:
    """Give the levels these inverse temperatures, listed from cold to hot."""
    ladder.size[0] = len(inverse_temperatures)
    ladder.levels[: ladder.size[0], B] = inverse_temperatures[::-1]


def measure(ladder: Ladder, rejection: np.ndarray) -> float:
    """Write Lambda at each level; returns its value at the last, which is the barrier.

    rejection[k] is the rejection rate of swaps between levels k and k + 1.
    """
    count = ladder.size[0]
    rates = np.maximum(rejection[: count - 1], SMALLEST_REJECTION)
    ladder.levels[:count, BARRIER] = np.cumsum([0.0, *rates])
    return float(ladder.levels[count - 1, BARRIER])


def respace(old: Ladder, new: Ladder, count: int) -> None:
    """Write into `new` a ladder of `count` levels, equally spaced in the Lambda of `old`.

    The other columns are interpolated with the same weights as b.
    """
    barrier = old.levels[old.size[0] - 1, BARRIER]
    for k in range(count):
        _interpolate(old, BARRIER, barrier * k / (count - 1), new, k)
    new.levels[count - 1, B] = 1.0
    new.size[0] = count


def place(old: Ladder, new: Ladder, inverse_temperatures: Sequence[float] | np.ndarray) -> None:
    """Write into `new` levels at inverse temperatures, from cold to hot; the rest is interpolated.

    They must not be hotter than the first level of `old`.
    """
    set_levels(new, inverse_temperatures)
    for k in range(new.size[0]):
        b = new.levels[k, B]
        _interpolate(old, B, b, new, k)
        new.levels[k, B] = b


def _interpolate(old: Ladder, coordinate: int, position: float, new: Ladder, k: int) -> None:
    """Write into level k of `new` the point of `old` at which a column has the value `position`."""
    values = old.levels[: old.size[0], coordinate]
    j = min(max(int(np.searchsorted(values, position)) - 1, 0), old.size[0] - 2)
    share = min(max((position - values[j]) / (values[j + 1] - values[j]), 0.0), 1.0)
    new.levels[k] = (1.0 - share) * old.levels[j] + share * old.levels[j + 1]
    # scales are positive and span orders of magnitude: their logs are interpolated
    new.scale[k] = old.scale[j] * powers(old.scale[j + 1] / old.scale[j], share)


def copy_ladder(source: Ladder, target: Ladder) -> None:
    """Copy a ladder into another that has room for it."""
    count = target.size[0] = source.size[0]
    target.levels[:count], target.scale[:count] = source.levels[:count], source.scale[:count]
