"""Groups with the same prior are recognized, weak members included, and nothing else is."""

import numpy as np
import pytest

from stanadapt.samplers.whitened.conditionals import Draws
from stanadapt.samplers.whitened.map_groups import exact_structure
from stanadapt.samplers.whitened.map_search import in_order, reaches, search
from stanadapt.samplers.whitened.priors import Prior
from tests.helpers.hierarchy import FUNNEL, LOCATION, SCALE, SCHOOLS, Hierarchy
from tests.helpers.prior_tree import NESTED, TWO_SCALES

COUNT = 400


def structure(positions, gradients):
    """The map of these draws, learned on one half and judged on the other."""
    mean, sd = positions.mean(axis=0), positions.std(axis=0)
    halves = [Draws.standardize(positions[i::2], gradients[i::2], mean, sd) for i in range(2)]
    return exact_structure(search(*halves), *halves)


def of(target, seed=1):
    positions = target.draws(COUNT, np.random.default_rng(seed))
    return positions, target.gradients(positions)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("target", [FUNNEL, SCHOOLS], ids=["funnel", "schools"])
def test_a_hierarchy_is_one_group_of_all_its_members(target, seed):
    """A member left out would be a wall in the neck, even one whose data drown out the prior."""
    fits, groups = structure(*of(target, seed))
    assert [(group.prior, group.members) for group in groups] == [
        (Prior(SCALE, LOCATION, -1), tuple(target.members))
    ]
    # the location depends on the scale given the members, though not given their residuals
    assert set(target.members) <= set(fits.coordinate) <= {LOCATION, *target.members}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_weak_members_join_and_three_are_a_group(seed):
    """The log of a precise scale whose gradient depends on all other coordinates at once."""
    x, g = of(SCHOOLS, seed)
    rng = np.random.default_rng(seed + 100)
    value = rng.gamma(5000.0, 1.0 / 5000.0, len(x))
    rest = 0.3 * np.sqrt(5000.0) * rng.normal(size=len(x))
    x = np.column_stack([x, np.log(value) + 0.3])
    (group,) = structure(x, np.column_stack([g, 5000.0 * (1.0 - value) + rest]))[1]
    assert group.members == (*SCHOOLS.members, SCHOOLS.dim)
    assert group.unclear == (SCHOOLS.dim,)
    # not a chain, in which each is the location of the next: l is almost free
    target = Hierarchy([0.3, 0.0, 2.0], [9.0, 0.0, 4.0], v=(1.0, 3.0), location=(5.0, 9.0))
    _, groups = structure(*of(target, seed))
    assert [(group.prior, group.members) for group in groups] == [
        (Prior(SCALE, LOCATION, -1), tuple(target.members))
    ]


def test_two_hierarchies_are_two_groups():
    rng, wide = np.random.default_rng(5), Hierarchy(np.zeros(5), np.zeros(5), v=(4.0, 2.0))
    first, second = SCHOOLS.draws(COUNT, rng), wide.draws(COUNT, rng)
    gradients = np.column_stack([SCHOOLS.gradients(first), wide.gradients(second)])
    _, groups = structure(np.column_stack([first, second]), gradients)
    found = {group.prior: group.members for group in groups}
    assert found == {
        Prior(SCALE, LOCATION, -1): tuple(SCHOOLS.members),
        Prior(SCHOOLS.dim + SCALE, SCHOOLS.dim + LOCATION, -1): tuple(SCHOOLS.dim + wide.members),
    }


@pytest.mark.parametrize(("per_unit", "slope"), [(1.0, -1), (0.5, -2), (-1.0, 1)])
def test_the_slope_is_a_whole_number_per_unit(per_unit, slope):
    """Of the log of a variance, of a standard deviation, and of a precision."""
    positions, gradients = of(FUNNEL)
    positions[:, SCALE] *= per_unit
    gradients[:, SCALE] /= per_unit
    _, groups = structure(positions, gradients)
    assert [group.prior.slope for group in groups] == [slope]


def test_units_constants_and_circles_change_no_group():
    """The scale is that of a parameter in other units: members are still a group."""
    positions, gradients = of(FUNNEL)
    units = np.ones(FUNNEL.dim)
    units[1:] = 1e-5
    _, groups = structure(positions * units, gradients / units)
    assert [group.members for group in groups] == [tuple(FUNNEL.members)]
    # normal(x | 0, exp(y / 2)) normal(y | 0, exp(x / 2)) up to a bound: either may be mapped
    rng = np.random.default_rng(4)
    positions = rng.standard_normal((COUNT, 2))
    x, y = positions.T
    slope_x = -x * np.exp(-y) + 0.5 * y**2 * np.exp(-x) - 0.5
    slope_y = -y * np.exp(-x) + 0.5 * x**2 * np.exp(-y) - 0.5
    fits, _ = structure(positions, np.column_stack([slope_x, slope_y]))
    assert len(fits.coordinate) <= 1


@pytest.mark.parametrize("seed", [1, 2])
def test_gaussians_have_no_map_and_drowned_priors_have(seed):
    rng = np.random.default_rng(seed)
    factor = np.tril(rng.standard_normal((12, 12))) * 10.0 ** rng.uniform(-3, 3, (12, 1))
    positions = rng.standard_normal((COUNT, 12)) @ factor.T
    gradients = -np.linalg.solve(factor @ factor.T, positions.T).T
    fits, groups = structure(positions, gradients)
    assert len(fits.coordinate) == len(groups) == 0
    # its own fit shows nothing of the prior, whose term in the gradient has coefficient 1
    x, g = of(TWO_SCALES, seed)
    number, prior, data, mean = TWO_SCALES.dim, np.exp(1.0 - x[:, 0] - 2.0 * x[:, 1]), 4.0, -5.0
    center = (prior * x[:, 2] + data * mean) / (prior + data)
    own = center + np.random.default_rng(seed).standard_normal(COUNT) / np.sqrt(prior + data)
    away = own - x[:, 2]
    g[:, :3] -= np.outer(0.5 * (1.0 - prior * away**2), [1.0, 2.0, 0.0])
    g[:, 2] += prior * away
    slope = -prior * away - data * (own - mean)
    (group,) = structure(np.column_stack([x, own]), np.column_stack([g, slope]))[1]
    assert group.prior == Prior(0, 2, -1, 1, -2)
    assert group.members == (*TWO_SCALES.members, number)


def test_drivers_come_first_and_independent_coordinates_have_none():
    drivers = {0: {3}, 1: {0, 2}, 3: {2}, 4: set()}
    order = in_order(drivers)
    assert sorted(order) == [0, 1, 3, 4]
    assert order.index(3) < order.index(0) < order.index(1)
    assert reaches(drivers, {1}, 2)
    assert not reaches(drivers, {0}, 1)
    rng = np.random.default_rng(3)
    positions = np.log(rng.gamma(1.5, size=(COUNT, 6)))
    fits, _ = structure(positions, 1.5 - np.exp(positions))
    assert len(fits.coordinate) == 0


def priors(groups):
    return {j: group.prior for group in groups for j in group.members}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_units_of_a_nested_hierarchy_are_found_before_their_groups(seed):
    """Given its units, no group is normal: a map of it would keep theirs out, in a circle."""
    found = priors(structure(*of(NESTED, seed))[1])
    wanted = {j: Prior(m.scale, m.location, m.slope) for j, m in NESTED.members.items() if j >= 7}
    # the unit that is alone is its group's equal
    assert wanted.items() - found.items() <= {(12, wanted[12])}
    assert found.keys() - wanted.keys() <= {5}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 13))
def test_few_draws_of_a_nested_hierarchy_are_enough_for_a_search(seed):
    """Each coordinate may be claimed by several priors in turn; what is left has no circle."""
    positions = NESTED.draws(60, np.random.default_rng(seed))
    likelihood = -0.05 * np.tanh(positions / 10.0) * np.arange(NESTED.dim)
    fits, groups = structure(positions, NESTED.gradients(positions) + likelihood)
    drivers = dict(zip(fits.coordinate.tolist(), fits.drivers, strict=True))
    assert set(priors(groups)) <= set(drivers)
    assert not any(reaches(drivers, needs, j) for j, needs in drivers.items())
