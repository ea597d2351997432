"""Coordinates that a program declares with bounds, such as the scales of a hierarchy."""

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.targets.target import Target

# how Stan transforms coordinates: (slope, lower bound, width) of a correlation, and the distance
# at which a bounded coordinate has reached its bound
CORRELATION, AT_BOUND = (2.0, -1.0, 2.0), 37.0
COLUMNS = 4


def declared_bounds(target: Target, *, with_ends: bool = True) -> np.ndarray:
    """Return a row for each coordinate with bounds: its number, slope, lower bound and width.

    The value is lower + width / (1 + exp(-slope z)) of a coordinate z with two bounds; with one,
    the last three are 0, and in any case without `with_ends`, which take long for many coordinates.
    """
    zero, rows = np.zeros(target.dim), []
    declared = {one.name: one for one in target.declared_parameters}
    try:
        elements = target.elements(zero) if with_ends else {}
        for i, coordinate in enumerate(target.coordinates):
            one = declared.get(coordinate.variable)
            if one is None:
                continue
            two = one.lower is not None and one.upper is not None
            if two and coordinate.name in elements:
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
