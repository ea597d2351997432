"""Maps are learned on some draws and judged on others, and the default samples funnels on them."""

from functools import partial

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.chain import Keeper, run
from stanadapt.engine.density import value
from stanadapt.engine.triangular_map import COORDINATE, A, make_map, with_memory
from stanadapt.engine.triangular_map import NUMBERS as MAP_NUMBERS
from stanadapt.samplers.whitened.findings import dependencies, listed, straightening
from stanadapt.samplers.whitened.map_stages import MOST_ATTEMPTS, fits_all_chains
from stanadapt.samplers.whitened.priors import Group, Prior
from stanadapt.samplers.whitened.stage_parts import STRAIGHTEN
from stanadapt.samplers.whitened.straighten import LEAST_DRAWS, straighten
from stanadapt.samplers.whitened.straightened import (
    UNCHANGED,
    Straightened,
    apply_map,
    distances,
    in_coordinates_of,
)
from stanadapt.samplers.whitened.window import LOG_DENSITY, NUMBERS, Window
from stanadapt.targets.stan import bundled
from tests.helpers.chains import column
from tests.helpers.gaussian_target import drawn, draws_of, every_draw, make_chains_at
from tests.helpers.hierarchy import FUNNEL, LOCATION, SCALE, SCHOOLS, Hierarchy
from tests.helpers.known_moments import surprise, surprise_of_share
from tests.helpers.prior_tree import HORSESHOE, NESTED, TWO_SCALES, WALK
from tests.helpers.seldom_parameters import slow_except

COUNT = 450
TARGETS = {"funnel": FUNNEL, "schools": SCHOOLS}
FUNNEL_DENSITY = partial(value, FUNNEL.density())


def of(target, count=COUNT, seed=1):
    positions = target.draws(count, np.random.default_rng(seed))
    return positions, target.gradients(positions)


def starts(target, chains=4, seed=1):
    spread = np.random.default_rng(seed).uniform(-2, 2, (chains, target.dim))
    spread[:, LOCATION:] += target.location[0]
    return spread


# --- learning ------------------------------------------------------------------------------------


def test_the_distance_of_a_gaussian_is_zero_and_a_funnel_becomes_one():
    rng = np.random.default_rng(1)
    factor = np.tril(rng.standard_normal((5, 5))) * [[1e-3], [1.0], [20.0], [1.0], [1e4]]
    x = 7.0 + rng.standard_normal((COUNT, 5)) @ factor.T
    g = -np.linalg.solve(factor @ factor.T, (x - 7.0).T).T
    none = UNCHANGED.straightening
    assert distances(none, (x[::2], g[::2]), (x[1::2], g[1::2])).max() < 1e-6
    found = straighten(x, g, UNCHANGED, 0.0)
    assert not found.map_is_used
    assert found.distance == found.distance_before
    found = straighten(*of(FUNNEL), UNCHANGED, 0.03)
    assert list(found.straightening.coordinate) == list(FUNNEL.members)
    assert found.distance < 1e-8 < 1.0 < found.distance_before
    x, g, log_jacobian = apply_map(found.straightening, *of(FUNNEL, seed=2))
    v, location = of(FUNNEL, seed=2)[0][:, :2].T
    members = of(FUNNEL, seed=2)[0][:, 2:]
    # to the bit in the location: an error is a wall in the neck
    residuals = (members - location[:, None]) * np.exp(-v / 2)[:, None]
    scale = x[:, 2:] / residuals
    np.testing.assert_allclose(scale, scale[0, 0], rtol=1e-6)
    np.testing.assert_allclose(g[:, 2:], -x[:, 2:] / scale[0, 0] ** 2, rtol=1e-5, atol=1e-5)
    slope = np.polyfit(v, log_jacobian, 1)[0]
    assert slope == pytest.approx(0.5 * len(FUNNEL.members), rel=1e-9)


def test_locations_are_mapped_and_judged_by_other_draws():
    """Strong data on a few members make it narrow where the scale is small."""
    found = straighten(*of(SCHOOLS), UNCHANGED, 0.03)
    assert [group.members for group in found.groups] == [tuple(SCHOOLS.members)]
    assert list(found.straightening.coordinate) == [LOCATION, *SCHOOLS.members]
    assert found.distance < 0.05
    # the last third of the draws decides: with other gradients there, a perfect map is refused
    x, g = of(FUNNEL)
    assert straighten(x, g, UNCHANGED, 0.0).map_is_used
    noise = np.random.default_rng(2).standard_normal(g.shape) / x.std(axis=0)
    g[2::3] = noise[2::3]
    assert not straighten(x, g, UNCHANGED, 0.0).map_is_used


@pytest.mark.parametrize("tree", [NESTED, TWO_SCALES, HORSESHOE], ids=["nested", "two", "local"])
def test_priors_on_priors_become_a_gaussian(tree):
    """Every member is mapped: one that is left out is a wall in the neck."""
    found = straighten(*of(tree), UNCHANGED, 0.03)
    assert found.distance_before > 1.0
    assert found.distance < 1e-6
    assert set(found.straightening.coordinate) == set(tree.members)
    assert {j: group.prior for group in found.groups for j in group.members} == {
        j: Prior(m.scale, m.location, m.slope, m.second, m.second_slope)
        for j, m in tree.members.items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("seed", slow_except([1], [1, 2, 3]))
def test_a_random_walk_with_an_unknown_step_is_straightened(seed):
    """Each step depends on both its neighbors: which comes first is not clear from the draws."""
    found = straighten(*of(WALK, seed=seed), UNCHANGED, 0.03)
    assert found.distance < 0.2 < 1.0 < found.distance_before


def test_little_is_left_alone_and_much_refused():
    """Of a distance below the least one, and of too few or no usable draws."""
    x, g = of(Hierarchy(np.zeros(6), np.zeros(6), v=(1.0, 0.5), location=(5.0, 0.2)))
    found = straighten(x, g, UNCHANGED, 0.0)
    assert found.map_is_used
    assert straighten(x, g, UNCHANGED, 1.1 * found.distance_before).map_is_used is False
    few = slice(0, LEAST_DRAWS - 1)
    assert straighten(x[few], g[few], UNCHANGED, 0.0).map_is_used is False
    g[LEAST_DRAWS - 1 :, 0] = np.nan
    assert straighten(x, g, UNCHANGED, 0.0).map_is_used is False
    # A gamma distribution whose rate depends on another coordinate: from 1.4 to 0.7 only
    rng = np.random.default_rng(4)
    x = 2.0 * rng.standard_normal(COUNT)
    y = np.log(rng.gamma(0.6, size=COUNT) / (x**2 + 1.0))
    g = np.column_stack([
        -x / 4.0 + 1.2 * x / (x**2 + 1.0) - 2.0 * x * np.exp(y), 0.6 - (x**2 + 1.0) * np.exp(y),
    ])  # fmt: skip
    positions = np.column_stack([x, y])
    assert straighten(positions, g, UNCHANGED, 0.0).map_is_used is False


def skewed(count, seed=3):
    """Independent coordinates that no map makes a Gaussian, D about 0.6."""
    x = np.log(np.random.default_rng(seed).gamma(0.4, size=(COUNT, count)))
    return x, 0.4 - np.exp(x)


@pytest.mark.thorough
@pytest.mark.parametrize("count", slow_except([2], [2, 60]))
def test_other_coordinates_have_no_say(count):
    """A funnel is straightened, however many coordinates next to it no map would improve."""
    (x, g), (others, slopes) = of(SCHOOLS), skewed(count)
    found = straighten(np.column_stack([x, others]), np.column_stack([g, slopes]), UNCHANGED, 1e9)
    assert found.distance_before < 1e9
    assert list(found.straightening.coordinate) == [LOCATION, *SCHOOLS.members]
    assert found.distance < found.distance_before


def test_a_former_map_is_kept_if_it_is_better_and_exact():
    exact = straighten(*of(FUNNEL), UNCHANGED, 0.0)
    # too few draws to find one, enough to judge one
    x, g = of(FUNNEL, LEAST_DRAWS + 3, seed=5)
    again = straighten(x, g, exact, 0.0)
    assert again.distance < 1e-8
    assert again.groups == exact.groups
    # A location that is free is off by a little, which no part of D shows: a wall in the neck
    former = straighten(*of(FUNNEL), UNCHANGED, 0.03)
    nearly = former._replace(groups=())
    found = straighten(*of(FUNNEL, seed=2), nearly, 0.03)
    assert found.groups == former.groups
    assert not found.confirmed


@pytest.mark.parametrize("target", [FUNNEL, NESTED])
def test_a_former_map_that_leaves_nothing_is_confirmed(target):
    former = straighten(*of(target), UNCHANGED, 0.03)
    again = straighten(*of(target, seed=2), former, 0.03)
    assert again.straightening is former.straightening
    assert again.distance_before != former.distance_before
    assert again.distance < 1e-6
    assert again.confirmed
    assert not former.confirmed


def test_hubs_do_not_count():
    """A map changes nothing of the hub itself, which may be far from a Gaussian."""
    hub = FUNNEL.draws(COUNT, np.random.default_rng(3))
    gradients = FUNNEL.gradients(hub)
    gradients[:, SCALE] += hub[:, SCALE] - np.exp(hub[:, SCALE] - hub[:, SCALE].mean())
    former = straighten(*of(FUNNEL), UNCHANGED, 0.03)
    found = straighten(hub, gradients, former, 0.03)
    assert found.confirmed
    assert found.distance > 0.01


def test_a_former_map_that_is_incomplete_is_replaced():
    former = straighten(*of(SCHOOLS), UNCHANGED, 0.03)
    rows = former.straightening.rows
    (group,) = former.groups
    short = group._replace(members=group.members[:-1])
    without_one = former._replace(
        straightening=former.straightening._replace(
            rows=rows[rows[:, COORDINATE] != group.members[-1]]
        ),
        groups=(short,),
    )
    found = straighten(*of(SCHOOLS, seed=2), without_one, 0.03)
    assert found.groups == former.groups


def test_powers_of_years_and_bananas_become_gaussians():
    """The distance is the same in any coordinates that are a linear function of others."""
    years = np.linspace(1950.0, 2020.0, 60)
    columns = np.stack([years**0, years, years**2], axis=1)
    root = np.linalg.inv(np.linalg.qr(columns, mode="r"))
    z = np.random.default_rng(5).standard_normal((300, 3))
    x, g = z @ root.T, -np.linalg.solve(root.T, z.T).T
    assert np.linalg.cond(np.cov(x.T) / np.outer(x.std(axis=0), x.std(axis=0))) > 1e9
    none = UNCHANGED.straightening
    assert distances(none, (x[::2], g[::2]), (x[1::2], g[1::2])).max() < 0.01
    target = sa.Target(*bundled.find("banana", "strong"))
    begin = np.random.default_rng(2).uniform(-2, 2, (4, 8))
    chains = drawn(target, begin, draws=5000)
    progress = chains[0].progress.learned
    assert list(progress.straightened.straightening.coordinate) == [1]
    draws = draws_of(chains)
    for i, sd in ((0, 10.0), (1, np.sqrt(1.0 + 2e4 * 0.1**2))):
        assert abs(surprise(draws[:, :, i], 0.0)) < 4.5
        assert abs(surprise((draws[:, :, i] / sd) ** 2, 1.0)) < 4.5


def test_a_window_in_new_coordinates_has_their_density():
    x, g = of(FUNNEL, 200)
    window = Window(x[None], g[None], np.zeros((1, 200, NUMBERS)), np.ones(1, bool))
    found = straighten(*of(FUNNEL), UNCHANGED, 0.0)
    inside = in_coordinates_of(found.straightening, window)
    _, _, log_jacobian = apply_map(found.straightening, x, g)
    np.testing.assert_array_equal(inside.numbers[0, :, LOG_DENSITY], log_jacobian)
    assert not window.numbers.any()
    assert in_coordinates_of(UNCHANGED.straightening, window) is window


def window_of(positions, levels):
    """A window of four chains with these draws and gradients, and a level of each."""
    numbers = np.zeros((4, len(positions) // 4, NUMBERS))
    numbers[:, :, LOG_DENSITY] = [
        [FUNNEL_DENSITY(x) + level for x in rows]
        for rows, level in zip(np.split(positions, 4), levels, strict=True)
    ]
    shape = 4, -1, FUNNEL.dim
    gradients = FUNNEL.gradients(positions)
    return Window(positions.reshape(shape), gradients.reshape(shape), numbers, np.ones(4, bool))


def test_a_map_is_for_chains_in_one_region():
    """Levels of the log density differ by far in a funnel, but not those of its residuals."""
    found = straighten(*of(FUNNEL), UNCHANGED, 0.0).straightening
    positions = FUNNEL.draws(400, np.random.default_rng(3))
    # each chain at scales of its own: their mean levels are far apart without the map
    positions = positions[np.argsort(positions[:, SCALE])]
    alike = window_of(positions, np.zeros(4))
    assert alike.levels_differ()
    assert fits_all_chains(found, alike)
    assert not fits_all_chains(found, window_of(positions, [0.0, 0.0, -60.0, 0.0]))


def test_a_map_is_not_for_chains_that_drift_apart():
    """An improper posterior is one with any map: x + y is normal, and x has no bound."""
    rng = np.random.default_rng(4)
    x = np.cumsum(rng.standard_normal((4, 300)), axis=1) * [[30.0], [-40.0], [25.0], [-15.0]]
    total = rng.standard_normal((4, 300))
    positions = np.stack([x, total - x], axis=2)
    gradients = np.repeat(-total[:, :, None], 2, axis=2)
    window = Window(positions, gradients, np.zeros((4, 300, NUMBERS)), np.ones(4, bool))
    found = straighten(*window.pooled, UNCHANGED, 0.0)
    curve = make_map(
        np.array([1]), *np.array([[-1], [-1], [0]]), [[0, 0, 0, 0, 0, 0.0, -1.0, 0, 0, 0, 0]]
    )
    assert not fits_all_chains(curve, window)
    assert not found.map_is_used or not fits_all_chains(found.straightening, window)


# --- sampling ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=TARGETS)
def hierarchy(request):
    """The chains of a default run of 4 x 5,000 draws."""
    target = TARGETS[request.param]
    return target, drawn(target, starts(target), draws=5000)


@pytest.mark.thorough
def test_quantiles_of_the_scale_are_exact(hierarchy):
    """Those at the neck too: five numbers within 4.5 of their Monte Carlo errors."""
    target, chains = hierarchy
    v = draws_of(chains)[:, :, SCALE]
    for p in (0.01, 0.05, 0.5, 0.95, 0.99):
        assert abs(surprise_of_share(v, target.quantile_of_v(p), p)) < 4.5


def test_members_are_normal_and_the_map_is_cheap(hierarchy):
    target, chains = hierarchy
    draws = draws_of(chains)
    precision = np.exp(-draws[:, :, [SCALE]]) + target.precisions
    prior = np.exp(-draws[:, :, [SCALE]]) * draws[:, :, [LOCATION]]
    z = (draws[:, :, 2:] - (prior + target.precisions * target.data) / precision) * precision**0.5
    for member in np.moveaxis(z, 2, 0):
        assert abs(surprise(member, 0.0, 1.0)) < 4.5
        assert abs(surprise(member**2, 1.0, np.sqrt(2.0))) < 4.5
    # no divergence, and at most four gradients a draw: NUTS without a map needs about fifty
    target, chains = hierarchy
    progress = chains[0].progress.learned
    assert [group.members for group in progress.straightened.groups] == [tuple(target.members)]
    steps = np.mean([column(chain, "n_steps").mean() for chain in chains])
    assert steps == 2.0 if target is FUNNEL else steps < 8.0
    assert not any(column(chain, "diverging").any() for chain in chains)
    assert progress.straightened.distance < 0.1 * progress.straightened.distance_before


def test_maps_are_used_and_searches_end():
    chains = drawn(FUNNEL, starts(FUNNEL), draws=50, straighten=False)
    assert not chains[0].progress.learned.straightened.map_is_used
    assert np.isinf(chains[0].progress.learned.straightened.distance_before)
    assert column(chains[0], "n_steps").mean() > 8
    # no map straightens a ring of six petals, and none is sought for ever
    begin = np.random.default_rng(1).uniform(-2, 2, (4, 8))
    chains = drawn(sa.Target(*bundled.find("flower", "flower")), begin, 1, draws=20)
    progress = chains[0].progress.learned
    assert progress.attempts <= MOST_ATTEMPTS
    assert not progress.straightened.map_is_used


@pytest.mark.thorough
@pytest.mark.parametrize("trajectory", ["fixed", "nuts"])
def test_each_kind_of_trajectory_uses_it(trajectory):
    chains = drawn(SCHOOLS, starts(SCHOOLS), draws=200, trajectory=trajectory)
    progress = chains[0].progress.learned
    assert progress.choice.two_stage == (trajectory == "fixed")
    assert progress.straightened.map_is_used


@pytest.mark.thorough
def test_the_same_bits_for_any_number_of_threads_and_any_chunk():
    found = []
    for threads, chunk in ((1, None), (2, 7), (4, 1)):
        chains = drawn(SCHOOLS, starts(SCHOOLS), threads, chunk, draws=100)
        assert chains[0].progress.learned.straightened.map_is_used
        found.append(every_draw(chains))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


class SpoilsTheFirstMap(Keeper):
    """Replaces the first map by one that the last iterations of a transient could have taught."""

    spoiled = None

    def pooled(self, chains):
        progress = chains[0].progress
        if self.spoiled is not None or progress.stage != STRAIGHTEN:
            return
        rows = progress.learned.straightened.straightening.rows.copy()
        rows[:, A] += np.linspace(-3.0, 3.0, len(rows))
        self.spoiled = progress.learned.straightened.straightening._replace(rows=rows)
        found = progress.learned.straightened._replace(straightening=self.spoiled)
        for chain in chains:
            chain.progress = progress.learning(straightened=found)
            straightening = with_memory(self.spoiled, chain.density.dim)
            chain.state = chain.state._replace(straightening=straightening)


def test_the_map_is_learned_again_from_better_draws():
    """The final map is as good on exact draws as one that is learned from exact draws."""
    keeper, chains = SpoilsTheFirstMap(), make_chains_at(SCHOOLS, starts(SCHOOLS), draws=10)
    run(chains, 2, keeper=keeper)
    (x, g), judged = of(SCHOOLS), of(SCHOOLS, seed=2)
    final = chains[0].progress.learned.straightened.straightening
    best = straighten(x, g, UNCHANGED, 0.0).straightening
    spoiled, after, least = (
        distances(each, (x, g), judged).mean() for each in (keeper.spoiled, final, best)
    )
    assert spoiled > 5.0 * least
    assert after < 2.0 * least


@pytest.mark.thorough
@pytest.mark.parametrize(("chains", "warmup"), [(1, 2000), (2, 2000), (4, 20), (4, 150), (4, 0)])
def test_few_chains_and_short_warm_ups_run(chains, warmup):
    made = drawn(SCHOOLS, starts(SCHOOLS, chains), draws=100, warmup=warmup)
    for chain in made:
        assert chain.sampling.rows == 100
        assert chain.warmup.rows <= warmup
        assert chain.progress is None or chain.progress.block == 0
        assert warmup < 2000 or chain.progress.learned.straightened.map_is_used
        assert np.isfinite(draws_of([chain])).all()


# --- what is said about it -----------------------------------------------------------------------


def of_rows(*rows):
    """A map with these coordinates and drivers: of the scale two, of the location one."""
    drivers = np.array(rows, int).reshape(-1, 4).T
    return make_map(*drivers, np.zeros((drivers.shape[1], MAP_NUMBERS)))


NAMES = ["tau", "mu", *(f"theta[{i}]" for i in range(1, 9))]


def test_maps_are_described_by_names():
    found = straighten(*of(SCHOOLS), UNCHANGED, 0.03)
    attributes = straightening(found, NAMES)
    assert attributes["distance_from_gaussian"] == found.distance_before
    assert attributes["distance_straightened"] == found.distance
    text = attributes["straightening"]
    assert text.startswith("theta[1..8] scale with tau around mu; mu depends on tau: straight")
    assert straightening(UNCHANGED, NAMES) == {}
    rows = of_rows([2, 0, -1, -1], [3, 0, -1, -1], [4, 0, 2, 1], [1, -1, -1, 0])
    assert dependencies(Straightened(rows, (), 3.0, 0.1), NAMES) == (
        "theta[1], theta[2] and mu depend on tau; theta[3] depends on tau, mu and theta[1]"
    )
    many = of_rows(*([j, 0, -1, j - 1] for j in range(2, 6)))
    assert dependencies(Straightened(many, (), 3.0, 0.1), NAMES) == ("theta[1..4] depend on others")


def test_members_that_the_draws_do_not_show_are_not_named():
    """They are elements of no vector with clear ones: the data say much more than the prior."""
    prior = Prior(0, 1, -2)
    rows = of_rows(*([j, 0, -1, 1] for j in range(2, 10)))
    some = Group(prior, tuple(range(2, 10)), (4, 5))
    found = Straightened(rows, (some,), 3.0, 0.1)
    assert dependencies(found, NAMES) == "theta[1..8] scale with tau around mu"
    assert dependencies(found, [*NAMES[:4], "a", "b", *NAMES[6:]]) == (
        "theta[1], theta[2], theta[5], theta[6], theta[7] and 1 more scale with tau around mu"
    )
    none = found._replace(groups=(Group(prior, (2, 3), (2, 3)),), straightening=of_rows())
    assert dependencies(none, NAMES) == ""


@pytest.mark.parametrize(("names", "text"), [
    (["a"], "a"),
    (["x[1]", "x[2]", "x[3]"], "x[1..3]"),
    (["x[1]", "x[3]"], "x[1] and x[3]"),
    (["m[1,1]", "m[2,1]", "m[3,1]"], "m[1,1], m[2,1] and m[3,1]"),
    ([f"v{i}" for i in range(9)], "v0, v1, v2, v3, v4 and 4 more"),
])  # fmt: skip
def test_names_are_listed_briefly(names, text):
    assert listed(names) == text
