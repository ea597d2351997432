"""Posteriors made of priors alone, whose scales and locations are other coordinates.

Hubs are normal. A member x_j is normal around x_l, or 0, with log precision

    a + b x_k + s x_h

in one or two other coordinates. All may be drawn one after the other.
"""

from typing import NamedTuple

import numpy as np

NONE = -1


class Member(NamedTuple):
    """Drivers of the scale, slopes of the log precision in them, location, and the constant a."""

    scale: int
    slope: int
    location: int = NONE
    second: int = NONE
    second_slope: int = 0
    a: float = 0.0


class PriorTree:
    """Hubs by number, as mean and standard deviation, and members that follow their drivers."""

    def __init__(self, hubs, members):
        self.hubs, self.members = hubs, members
        self.dim = len(hubs) + len(members)

    def draws(self, count, rng):
        """Independent draws, shape (count, dim)."""
        x = np.zeros((count, self.dim))
        for j, (mean, sd) in self.hubs.items():
            x[:, j] = mean + sd * rng.standard_normal(count)
        for j, member in self.members.items():
            precision, center = self._conditional(x, member)
            x[:, j] = center + rng.standard_normal(count) / np.sqrt(precision)
        return x

    def gradients(self, x):
        """Gradients at rows."""
        out = np.zeros(x.shape)
        for j, (mean, sd) in self.hubs.items():
            out[:, j] = -(x[:, j] - mean) / sd**2
        for j, member in self.members.items():
            precision, center = self._conditional(x, member)
            away = x[:, j] - center
            out[:, j] -= precision * away
            if member.location >= 0:
                out[:, member.location] += precision * away
            by_log = 0.5 * (1.0 - precision * away**2)
            out[:, member.scale] += member.slope * by_log
            if member.second >= 0:
                out[:, member.second] += member.second_slope * by_log
        return out

    def _conditional(self, x, member):
        log_precision = member.a + member.slope * x[:, member.scale]
        if member.second >= 0:
            log_precision = log_precision + member.second_slope * x[:, member.second]
        center = x[:, member.location] if member.location >= 0 else 0.0
        return np.exp(log_precision), center


# logs of the sds of groups and units, the mean of groups; groups 3 to 6; units 7 to 14, of which
# one is alone in its group
NESTED = PriorTree(
    {0: (1.0, 1.2), 1: (-2.0, 0.7), 2: (40.0, 3.0)},
    {j: Member(0, -2, location=2) for j in range(3, 7)}
    | {j: Member(1, -2, location=g) for j, g in enumerate([3, 3, 3, 4, 4, 5, 6, 6], 7)},
)
# the log of a variance and of an sd, both of which scale all members around the third
TWO_SCALES = PriorTree(
    {0: (0.5, 1.5), 1: (3.0, 0.8), 2: (-7.0, 4.0)},
    {j: Member(0, -1, location=2, second=1, second_slope=-2, a=1.0) for j in range(3, 8)},
)
# a common log sd and one of each coefficient
HORSESHOE = PriorTree(
    {0: (-3.0, 1.2), 1: (0.0, 1.5), 2: (0.0, 1.5), 3: (0.0, 1.5)},
    {4 + i: Member(0, -2, second=1 + i, second_slope=-2) for i in range(3)},
)
# a random walk with an unknown step; a chain of 14, of which only the last has an exact conditional
WALK = PriorTree(
    {0: (-1.0, 0.9), 1: (5.0, 2.0)}, {j: Member(0, -2, location=j - 1) for j in range(2, 15)}
)
