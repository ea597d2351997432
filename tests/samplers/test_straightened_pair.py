"""The pair of coordinates that a result shows before and after straightening."""

import numpy as np
import pytest

from stanadapt.engine.triangular_map import NO_BLOCK, NONE, NUMBERS, make_map
from stanadapt.samplers.straightened_pair import DRIVER, MEMBER, RESIDUAL, straightened_pair

NAMES = ["v", "w", "small", "steep", "bent", "both"]
# coordinate, drivers of the scale, driver of the location, then a, b, c, P0, d, e, w, q, f, s, t
SMALL = [2, 0, NONE, NONE, 3.0, -0.2, 5.0, 0, 0, 1.0, 0, 0, 0, 0, 0]
STEEP = [3, 0, NONE, 1, -4.0, -1.0, 5.0, 0, 0, 0, 2.0, 0, 0, 0, 0]
# the same exponent, but for the data, which fix the coordinate whatever the driver is
KNOWN = [3, 0, NONE, 1, -4.0, -1.0, 5.0, 1e6, 7.0, 0, 2.0, 0, 0, 0, 0]
BENT = [4, NONE, NONE, 1, 6.0, 0, 0, 0, 0, 2.0, 1.0, 0.5, -30.0, 0, 0]
BOTH = [5, 0, 1, NONE, 1.0, -0.4, 5.0, 0, 0, -8.0, 0, 0, 0, -3.0, -30.0]


def rows_of(*rows):
    table = np.array(rows, float).reshape(-1, 4 + NUMBERS)
    drivers = table[:, :4].astype(np.int64).T.copy()
    return make_map(*drivers, np.ascontiguousarray(table[:, 4:])).rows


@pytest.fixture
def draws():
    """Draws of v and w, and of the others as STEEP, BENT, BOTH and SMALL describe them."""
    z = np.random.default_rng(3).normal(size=(500, 6))
    v, w = 5.0 + 2.0 * z[:, 0], -30.0 + z[:, 1]
    small = 1.0 + np.exp(-0.5 * (3.0 - 0.2 * (v - 5.0))) * z[:, 2]
    steep = 2.0 * w + np.exp(-0.5 * (-4.0 - (v - 5.0))) * z[:, 3]
    bent = 2.0 + (w + 30.0) + 0.5 * (w + 30.0) ** 2 + np.exp(-3.0) * z[:, 4]
    both = -8.0 + np.exp(-0.5 * (1.0 - 0.4 * (v - 5.0) - 3.0 * (w + 30.0))) * z[:, 5]
    return np.stack([v, w, small, steep, bent, both], axis=1), z


@pytest.mark.parametrize(
    ("rows", "driver", "member"),
    [
        ([SMALL], "v", "small"),
        ([SMALL, STEEP], "v", "steep"),
        ([STEEP, SMALL], "v", "steep"),
        ([SMALL, KNOWN], "v", "small"),
        ([SMALL, BENT], "w", "bent"),
        ([SMALL, BOTH], "w", "both"),
    ],
)
def test_the_strongest_dependence_is_shown(draws, rows, driver, member):
    x, z = draws
    (group,) = straightened_pair(rows_of(*rows), NO_BLOCK, x, NAMES).values()
    assert (group[DRIVER].attrs["name"], group[MEMBER].attrs["name"]) == (driver, member)
    np.testing.assert_array_equal(group[DRIVER][0], x[:, NAMES.index(driver)])
    np.testing.assert_array_equal(group[MEMBER][0], x[:, NAMES.index(member)])
    np.testing.assert_allclose(group[RESIDUAL][0], z[:, NAMES.index(member)], atol=1e-9)


def test_numbers_that_no_float_holds(draws):
    x, _ = draws
    x[7, 5] = np.nan
    (group,) = straightened_pair(rows_of(STEEP), NO_BLOCK, x, NAMES, chains=2).values()
    assert group.sizes == {"chain": 2, "point": len(x) // 2}
    assert group[MEMBER].isnull().sum() == 1
    assert np.isnan(group[MEMBER][0, 7])
    x, _ = draws
    huge = [*STEEP]
    huge[5] = -1e300
    assert len(straightened_pair(rows_of(huge), NO_BLOCK, x, NAMES)) == 1


@pytest.mark.parametrize("rows", [[], [STEEP]])
def test_nothing_to_show(draws, rows):
    positions = np.full((3, 6), np.nan) if rows else draws[0]
    assert straightened_pair(rows_of(*rows), NO_BLOCK, positions, NAMES) == {}
