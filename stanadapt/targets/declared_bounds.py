"""Coordinates that a program declares with bounds, such as the scales of a hierarchy."""

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.targets.target import Target

# how Stan transforms coordinates: (slope, lower bound, width) of a correlation, and the distance
# at which a bounded coordinate has reached its bound
CORRELATION, AT_BOUND = (2.0, -1.0, 2.0), 37.0
COLUMNS = 4


def declared_bounds(target: Target, *, most_ends: float = np.inf) -> np.ndarray:
    """Return a row for each coordinate with bounds: its number, slope, lower bound and width.

    The value is lower + width / (1 + exp(-slope z)) of a coordinate z with two bounds; with one,
    the last three are 0, and in any case if more than `most_ends` have two: to see all would take
    long.
    """
    zero, rows = np.zeros(target.dim), []
    declared = {one.name: one for one in target.declared_parameters}
    try:
        kinds = [declared.get(coordinate.variable) for coordinate in target.coordinates]
        two = [one is not None and None not in (one.lower, one.upper) for one in kinds]
        elements = target.elements(zero) if sum(two) <= most_ends else {}
        for i, (coordinate, one) in enumerate(zip(target.coordinates, kinds, strict=True)):
            if one is None:
                continue
            if two[i] and coordinate.name in elements:
                ends = []
                for at in (-AT_BOUND, AT_BOUND):
                    position = zero.copy()
                    position[i] = at
                    ends.append(target.elements(position)[coordinate.name])
                rows.append((i, 1.0, ends[0], ends[1] - ends[0]))
            elif one.lower is not None or one.upper is not None:
                rows.append((i, 0.0, 0.0, 0.0))
            elif one.base in ("cholesky_factor_corr", "corr_matrix") and tuple(
                target.parameters[one.name].dimensions[-2:]
            ) == (2, 2):
                rows.append((i, *CORRELATION))
    except (RuntimeError, StanadaptError):  # Stan refuses a bound
        rows = []
    return np.array(rows, float).reshape(-1, COLUMNS)
