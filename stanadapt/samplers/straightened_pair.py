"""Draws of one coordinate before and after straightening, as a group of the result.

Shows which dependence a map has removed. Of the mapped coordinates, the one is chosen that depends
most on another: its conditional standard deviation, or the curve of its conditional mean, varies
most over the draws. The group `straightened` has, along the dimension `point`, the variables
`driver` (the coordinate on which it depends), `coordinate` (itself) and `residual` (itself as the
map standardizes it, given the coordinates on which it depends). Their attribute `name` is that of
the coordinate; values are on the program's unconstrained scale.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from stanadapt.engine.straightened_density import residuals
from stanadapt.engine.triangular_map import (
    COORDINATE,
    LARGEST_EXPONENT,
    LOCATION_DRIVER,
    NONE,
    P0,
    SCALE_DRIVER,
    SECOND_DRIVER,
    A,
    B,
    C,
    F,
    Q,
    S,
    T,
)
from stanadapt.results.datasets import draws_dataset

STRAIGHTENED = "straightened"
DRIVER, MEMBER, RESIDUAL, POINT = "driver", "coordinate", "residual", "point"
# draws of all chains together that the group holds
MOST_POINTS = 400


def straightened_pair(
    rows: np.ndarray, positions: np.ndarray, names: Sequence[str]
) -> dict[str, xr.Dataset]:
    """Return the group, or nothing if no coordinate is mapped.

    rows are those of a `TriangularMap`, shape (mapped, COLUMNS); positions are draws on the
    program's unconstrained scale, shape (m, dim).
    """
    x = np.ascontiguousarray(positions[np.isfinite(positions).all(axis=1)], dtype=float)
    if not len(rows) or len(x) < 2:
        return {}
    member, driver = _most_dependent(rows, x)
    y = np.empty_like(x)
    residuals(np.ascontiguousarray(rows), x, y)
    values = {DRIVER: x[:, driver], MEMBER: x[:, member], RESIDUAL: y[:, member]}
    group = draws_dataset(values, leading=(POINT,))
    for variable, number in ((DRIVER, driver), (MEMBER, member), (RESIDUAL, member)):
        group[variable].attrs["name"] = names[number]
    return {STRAIGHTENED: group}


@np.errstate(all="ignore")
def _most_dependent(rows: np.ndarray, x: np.ndarray) -> tuple[int, int]:
    """Return the numbers of the coordinate that depends most on another, and of that one.

    A scale depends by the standard deviation of the log of the conditional sd over the draws, and a
    location by that of the part of the conditional mean that is quadratic, in conditional sds.
    """
    a, b, c, s, t, own = (rows[:, [column]] for column in (A, B, C, S, T, P0))
    scale, second, location = (
        rows[:, column].astype(int) for column in (SCALE_DRIVER, SECOND_DRIVER, LOCATION_DRIVER)
    )
    # numbers of absent drivers are 0
    first_part, second_part = b * (x.T[scale] - c), s * (x.T[second] - t)
    exponent = a + first_part + second_part
    learned = np.exp(np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    precision = own + learned
    bend = rows[:, [Q]] * (x.T[location] - rows[:, [F]]) ** 2 * learned / precision
    of_scale = np.nan_to_num(0.5 * np.log(precision).std(axis=1))
    of_location = np.nan_to_num(bend.std(axis=1) * np.sqrt(np.median(precision, axis=1)))
    most = int(np.argmax(np.maximum(of_scale, of_location)))
    if of_location[most] > of_scale[most]:
        driver = location[most]
    elif second_part[most].std() > first_part[most].std():
        driver = second[most]
    else:
        driver = scale[most]
    if driver == NONE:
        driver = location[most]
    return int(rows[most, COORDINATE]), int(driver)
