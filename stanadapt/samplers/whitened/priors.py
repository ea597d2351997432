"""The priors behind a fitted map: which coordinates set the scale and location of others exactly.

Coordinates with the same prior form a group.
"""

from typing import NamedTuple

import numpy as np

from stanadapt.samplers.whitened.conditionals import Fits
from stanadapt.samplers.whitened.map_candidates import NONE
from stanadapt.samplers.whitened.map_search import EXACT

# fewest coordinates that are a group
LEAST_MEMBERS = 2


class Prior(NamedTuple):
    """Drivers of scale and location, and the slopes of the log precision in the former.

    A second driver of the scale, and the slope in it, may be absent.
    """

    scale: int
    location: int
    slope: int
    second: int = NONE
    second_slope: int = 0

    @property
    def drivers(self) -> set[int]:
        """Numbers of its drivers."""
        return {driver for driver in (self.scale, self.second, self.location) if driver >= 0}

    @property
    def scales(self) -> list[tuple[int, int]]:
        """The drivers of the scale, each with its slope."""
        both = (self.scale, self.slope), (self.second, self.second_slope)
        return [(driver, slope) for driver, slope in both if driver >= 0]


class Group(NamedTuple):
    """Coordinates with the same prior, by their numbers.

    The draws do not tell whether unclear members have this prior, since the data say much more: to
    map one too many costs nothing, and one too few cuts off a neck.
    """

    prior: Prior
    members: tuple[int, ...]
    unclear: tuple[int, ...] = ()


class Mapped:
    """The mapped coordinates: their fits, and the exact priors of some.

    Parameters
    ----------
    fits
        By coordinate, one row each.

    """

    def __init__(self, fits: dict[int, Fits]) -> None:
        self.fits = fits
        self.priors: dict[int, Prior] = {}
        self.rest: dict[int, float] = {}
        self.unclear: set[int] = set()

    def set_exact(self, fits: Fits, slopes: np.ndarray, rest: np.ndarray) -> None:
        """Replace the fits of some coordinates by exact ones, with their held-out divergence."""
        for row, j in enumerate(fits.coordinate):
            first, second = (int(slope) for slope in slopes[row])
            prior = Prior(
                int(fits.scale[row]), int(fits.location[row]), first, int(fits.second[row]), second
            )
            self.fits[int(j)], self.priors[int(j)] = fits.take(np.array([row])), prior
            self.rest[int(j)] = float(rest[row])

    def remove(self, j: int) -> None:
        """Leave a coordinate as it is."""
        del self.fits[j]
        self.priors.pop(j, None)

    @property
    def drivers(self) -> dict[int, set[int]]:
        """What each mapped coordinate depends on."""
        return {j: fits.drivers[0] for j, fits in self.fits.items()}

    @property
    def groups(self) -> list[Group]:
        """Those with enough members, the largest first."""
        members: dict[Prior, list[int]] = {}
        for j, prior in sorted(self.priors.items()):
            members.setdefault(prior, []).append(j)
        groups = [
            Group(prior, tuple(found), tuple(j for j in found if j in self.unclear))
            for prior, found in members.items()
        ]
        large = [group for group in groups if len(group.members) >= LEAST_MEMBERS]
        return sorted(large, key=lambda group: (-len(group.members), group.prior))

    @property
    def singles(self) -> list[Group]:
        """Priors of one coordinate each that leave nothing, such as a horseshoe's coefficients."""
        grouped = {j for group in self.groups for j in group.members}
        return [
            Group(prior, (j,))
            for j, prior in sorted(self.priors.items())
            if j not in grouped and self.rest[j] <= EXACT
        ]
