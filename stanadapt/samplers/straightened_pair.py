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

from stanadapt.engine import triangular_map as maps
from stanadapt.engine.block_map import unpacked
from stanadapt.engine.straightened_density import residuals
from stanadapt.results.datasets import draws_dataset

STRAIGHTENED = "straightened"
DRIVER, MEMBER, RESIDUAL, POINT = "driver", "coordinate", "residual", "point"
# draws of all chains together that the group holds
MOST_POINTS = 400


def straightened_pair(
    rows: np.ndarray,
    block: np.ndarray,
    positions: np.ndarray,
    names: Sequence[str],
    chains: int = 1,
) -> dict[str, xr.Dataset]:
    """Return the group, or nothing if no coordinate is mapped.

    rows and block are those of a `TriangularMap`; positions are draws on the program's
    unconstrained scale, shape (m, dim), equally many of each chain. Those that are not finite are
    NaN in the group.
    """
    finite = np.isfinite(positions).all(axis=1)
    x = np.ascontiguousarray(positions[finite], dtype=float)
    if not len(rows) + len(block) or len(x) < 2:
        return {}
    straightening = maps.no_map(block)._replace(rows=np.ascontiguousarray(rows))
    y = np.empty_like(x)
    residuals(maps.with_memory(straightening, x.shape[1]), x, y)
    # the pair is one of the block, if there is one: its hubs are on the program's scale
    member, driver = _most_dependent_in(block, x, y) if len(block) else _most_dependent(rows, x)
    every = np.full((3, len(positions)), np.nan)
    every[:, finite] = x[:, driver], x[:, member], y[:, member]
    # with chains, since ArviZ concatenates no group without them
    values = zip((DRIVER, MEMBER, RESIDUAL), every.reshape(3, chains, -1), strict=True)
    group = draws_dataset(dict(values), leading=("chain", POINT))
    for variable, number in ((DRIVER, driver), (MEMBER, member), (RESIDUAL, member)):
        group[variable].attrs["name"] = names[number]
    return {STRAIGHTENED: group}


@np.errstate(all="ignore")
def _most_dependent_in(block: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """Return the member of a block and the hub with the largest correlation of their sizes.

    The size of a member is the logarithm of its distance from its median.
    """
    parts = unpacked(block)
    members, hubs = x[:, parts.block], x[:, parts.hubs]
    sizes = np.log(np.abs(members - np.median(members, axis=0)) + 1e-300)
    sizes = (sizes - sizes.mean(axis=0)) / sizes.std(axis=0)
    found = np.abs(sizes.T @ ((hubs - hubs.mean(axis=0)) / hubs.std(axis=0)))
    member, hub = np.unravel_index(np.argmax(np.nan_to_num(found)), found.shape)
    return int(parts.block[member]), int(parts.hubs[hub])


@np.errstate(all="ignore")
def _most_dependent(rows: np.ndarray, x: np.ndarray) -> tuple[int, int]:
    """Return the numbers of the coordinate that depends most on another, and of that one.

    A scale depends by the standard deviation of the log of the conditional sd over the draws, and a
    location by that of the part of the conditional mean that is quadratic, in conditional sds.
    """
    a, b, c, s, t, own = (
        rows[:, [column]] for column in (maps.A, maps.B, maps.C, maps.S, maps.T, maps.P0)
    )
    scale, second, location = (
        rows[:, column].astype(int)
        for column in (maps.SCALE_DRIVER, maps.SECOND_DRIVER, maps.LOCATION_DRIVER)
    )
    # numbers of absent drivers are 0
    first_part, second_part = b * (x.T[scale] - c), s * (x.T[second] - t)
    exponent = a + first_part + second_part
    learned = np.exp(np.clip(exponent, -maps.LARGEST_EXPONENT, maps.LARGEST_EXPONENT))
    precision = own + learned
    bend = rows[:, [maps.Q]] * (x.T[location] - rows[:, [maps.F]]) ** 2 * learned / precision
    of_scale = np.nan_to_num(0.5 * np.log(precision).std(axis=1))
    of_location = np.nan_to_num(bend.std(axis=1) * np.sqrt(np.median(precision, axis=1)))
    most = int(np.argmax(np.maximum(of_scale, of_location)))
    if of_location[most] > of_scale[most]:
        driver = location[most]
    elif second_part[most].std() > first_part[most].std():
        driver = second[most]
    else:
        driver = scale[most]
    if driver == maps.NONE:
        driver = location[most]
    return int(rows[most, maps.COORDINATE]), int(driver)
