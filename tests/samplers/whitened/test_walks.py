"""Blocks of the states of a process, in programs that declare its innovations."""

import numpy as np
import pytest

from stanadapt.engine import walk_map
from stanadapt.engine.block_map import BlockMap, pack
from stanadapt.engine.triangular_map import no_map
from stanadapt.samplers.whitened import gaussian_block, scaled_block, sparse_block
from stanadapt.samplers.whitened import stage_parts as parts
from stanadapt.samplers.whitened.block_structure import (
    GaussianBlock,
    apply_block,
    is_exact,
    times_scale,
)
from stanadapt.samplers.whitened.block_terms import hints_of
from stanadapt.samplers.whitened.straightened import Straightened
from tests.helpers.made_up_blocks import at, begun, filled

# coordinates: a mean, the logit of the coefficient, the log of the scale, and innovations
N, BOUNDS = 200, np.array([[1, 1.0, -1.0, 2.0], [2, 0.0, 0.0, 0.0]])
Y = np.random.default_rng(0).poisson(3.0, N)
T_ERRORS = np.random.default_rng(2).standard_t(4, N)
T_ERRORS[[20, 90]] = 8.0, -9.0


def counted(level):
    return Y - np.exp(level)


def with_t_errors(level):
    return 5.0 * (T_ERRORS - level) / (4.0 + (T_ERRORS - level) ** 2)


@np.errstate(all="ignore")
def gradient(row, is_stationary, power, score=counted):
    """Data that know mean + states, with a power of v as coefficient."""
    mean, v, s, x = row[0], np.tanh(row[1] / 2.0) ** power, np.exp(row[2]), row[3:]
    share = np.where(np.arange(N) > 0, 1.0, np.sqrt(1.0 - v**2) if is_stationary else 1.0)
    z, u = s * x / share, np.empty(N)
    for t in range(1, N):
        z[t] += v * z[t - 1]
    g = score(mean + z)
    after = 0.0
    for t in range(N - 1, -1, -1):
        u[t] = after = g[t] + v * after
    by_v = np.sum(u[1:] * z[:-1])
    if is_stationary:
        by_v += u[0] * z[0] * v / (1.0 - v**2)
    by_p = by_v * power * np.tanh(row[1] / 2.0) ** (power - 1) * (1.0 - np.tanh(row[1] / 2.0) ** 2)
    by_s = np.sum(u * s * x / share)
    return np.concatenate([[g.sum() - mean, by_p / 2.0, by_s - row[2]], s * u / share - x])


def computed(rows, *form):
    rows[:, 1] = [gradient(row, *form) for row in rows[:, 0]]
    return rows


def draws():
    x = 0.3 * np.random.default_rng(1).standard_normal((40, N + 3))
    x[:, 1] += 2.0
    return x


@pytest.mark.parametrize("is_stationary", [0, 1])
def test_the_precision_of_states_is_read_where_that_of_innovations_is_full(is_stationary):
    bounded = BOUNDS[:, 0].astype(int)
    far = computed(scaled_block.places_without(draws(), bounded), is_stationary, 1)
    scales = scaled_block.find_scales(far, BOUNDS)
    walk = scales.walk
    assert [part.tolist() for part in walk[1:4]] == [[N], [2], [1]]
    assert walk.is_stationary.tolist() == [is_stationary]
    assert walk.members.tolist() == list(range(3, N + 3))
    assert scales.are_factors
    assert not scales.by.any()
    assert not len(scales.others)
    rows = sparse_block.pairs_of_places(draws(), bounded, scales.by, process=True)
    positions = np.ascontiguousarray(rows[:, 0])
    walk_map.leave_rows(walk, positions)
    rows[:, 0] = positions
    rows = computed(rows, is_stationary, 1)
    gradients = np.ascontiguousarray(rows[:, 1])
    hints = hints_of(BOUNDS)
    assert sparse_block.find_nearly_block(rows, hints, scales.by, process=True) is None
    walk_map.enter_rows(walk, positions, gradients)
    rows = np.stack([positions, gradients], axis=1)
    block = sparse_block.find_nearly_block(rows, hints, scales.by, process=True)
    assert set(block.functions) == {
        (), ((2, True, -2),), ((1, False, 1), (2, True, -2)), ((1, False, 2), (2, True, -2))
    }  # fmt: skip
    assert len(block.map.block) == N + 1


@pytest.mark.parametrize("apart", [1, 2])
@pytest.mark.parametrize("hubs", [[1, 2], [3, 2], [1, 4], [3, 4]])
def test_several_processes_may_share_hubs(apart, hubs):
    """They follow one another, or their innovations of the same time do."""
    order = np.arange(2 * N).reshape(2, N) if apart == 1 else np.arange(2 * N).reshape(N, 2).T
    coordinates = [[0, 1, 2, *order[0] + 5], [0, *hubs, *order[1] + 5]]

    def of_both(row):
        out = np.zeros(len(row))
        for k, own in enumerate(coordinates):  # one is stationary
            out[own] += gradient(row[own], k, 1)
        return out if np.isfinite(out).all() else np.full(len(row), np.nan)

    x = 0.3 * np.random.default_rng(4).standard_normal((44, 2 * N + 5))
    x[:, 1:5] += 3.0, -3.0, 3.0, -3.0  # scales of exp(3) would be too large for counts
    bounds = np.array([[k, *BOUNDS[(k + 1) % 2, 1:]] for k in range(1, 5)])
    far = scaled_block.places_without(x, bounds[:, 0].astype(int))
    far[:, 1] = [of_both(row) for row in far[:, 0]]
    walk = scaled_block.find_walk(far, bounds)
    found = [own.tolist() for own in np.split(walk.members, walk.ends[:-1])]
    assert sorted(found) == sorted((order + 5).tolist())
    first = found.index(coordinates[0][3:])
    both = zip(walk.coefficient, walk.scale, walk.is_stationary, strict=True)
    assert list(both)[:: 1 - 2 * first] == [(1, 2, 0), (*hubs, 1)]
    if hubs == [3, 4]:
        no = np.zeros((4, 2 * N + 5), bool)
        rows = sparse_block.pairs_of_places(x, bounds[:, 0].astype(int), no, process=True)
        positions = np.ascontiguousarray(rows[:, 0])
        walk_map.leave_rows(walk, positions)
        gradients = np.array([of_both(row) for row in positions])
        walk_map.enter_rows(walk, positions, gradients)
        rows = np.stack([positions, gradients], axis=1)
        block = sparse_block.find_nearly_block(rows, hints_of(bounds), process=True)
        powers = [[], [(1, False, 1)], [(1, False, 2)], [(3, False, 1)], [(3, False, 2)]]
        scales = [(2, True, -2), (2, True, -2), (2, True, -2), (4, True, -2), (4, True, -2)]
        products = {tuple(sorted([*f, s])) for f, s in zip(powers, scales, strict=True)}
        assert set(block.functions) == {(), ((4, True, -2),), *products}


@pytest.mark.parametrize(("root_at", "power", "there"), [(0, 0, 1), (3, 0, 0), (0, 1, 0)])
def test_only_the_first_state_is_stationary_and_none_follows_the_last(root_at, power, there):
    v = np.linspace(0.1, 0.8, scaled_block.KNOTS)
    data, slopes, after = np.arange(1.0, 7.0), np.empty((len(v), 6)), 0.0
    for t in range(5, -1, -1):
        root = np.sqrt(1.0 - v**2) if t == root_at else 1.0
        slopes[:, t] = after = (data[t] + v * after) / root
    slopes[:, 5] *= (1.0 + v) ** power
    found = scaled_block._processes(slopes, v[:, None])
    assert [(own.tolist(), kind) for own, kind in found] == [(list(range(6)), 1)] * there


def test_a_parameter_that_multiplies_the_whole_likelihood_does_not_hide_a_process():
    """As the shape of negative binomial counts does, where it is nearly zero."""

    def with_shape(row):
        share = 1.0 / (1.0 + np.exp(-row[-1]))
        own = gradient(row[:-1], 1, 1, lambda level: share * counted(level))
        return np.append(own, 0.3)

    x = np.column_stack([draws(), np.zeros(40)])
    bounds = np.vstack([BOUNDS, [N + 3, 0.0, 0.0, 0.0]])
    far = scaled_block.places_without(x, bounds[:, 0].astype(int))
    far[:, 1] = [with_shape(row) for row in far[:, 0]]
    scales = scaled_block.find_scales(far, bounds)
    assert len(scales.walk.members) == N
    assert scales.others.tolist() == [N + 3]


ONE = np.array([1])
WALK = walk_map.Walk(np.arange(3, N + 3), N * ONE, 2 * ONE, ONE, BOUNDS[:1, 1:], ONE)


def pairs_of_states(x, score):
    """Pairs of places that show the block of a stationary process, by its states."""
    no = np.zeros((2, N + 3), bool)
    rows = sparse_block.pairs_of_places(x, np.array([1, 2]), no, process=True)
    positions = np.ascontiguousarray(rows[:, 0])
    walk_map.leave_rows(WALK, positions)
    rows[:, 0] = positions
    rows = computed(rows, 1, 1, score)
    gradients = np.ascontiguousarray(rows[:, 1])
    walk_map.enter_rows(WALK, positions, gradients)
    return np.stack([positions, gradients], axis=1)


def test_a_state_with_an_outlier_is_known_by_its_neighbors_alone():
    still = 0.1 * draws()
    still[:, 1:3] = draws()[:, 1:3]
    rows = pairs_of_states(still, with_t_errors)
    found = sparse_block.find_nearly_block(rows, hints_of(BOUNDS), process=True)
    block, constant = found.map, found.functions.index(())
    ends = block.start + np.arange(len(block.block)) - block.first
    precision = dict(zip(block.block, block.precisions[constant][ends], strict=True))
    np.testing.assert_allclose([precision[3 + 20], precision[3 + 90]], 0.0, atol=1e-12)
    clear = np.abs(T_ERRORS) < 1.0
    assert min(precision[3 + i] for i in np.flatnonzero(clear)) > 0.5
    # in the middle of y, which is the mean of the map, forces are those of the density
    y, slopes, _ = apply_block(block, rows[:1, 0], rows[:1, 1])
    assert np.abs(y + slopes)[0, block.block].max() < 1e-4


@pytest.mark.parametrize(("few_fit", "most"), [(False, 1.0), (True, 1.0), (True, 0.0)])
def test_a_block_of_a_process_is_judged_against_scales(few_fit, most):
    """A metric with correlations of innovations fits few draws, whatever the posterior is."""
    rows = pairs_of_states(draws(), counted)
    found = sparse_block.find_nearly_block(rows, hints_of(BOUNDS), process=True)
    block = gaussian_block._with_walk(found, WALK).map
    _, progress, states = begun(np.zeros((2, N + 3)))
    x = 0.3 * draws()
    x[:, 1:3] = draws()[:, 1:3]
    slopes = computed(np.stack([x, x], axis=1), 1, 1)[:, 1]
    if not few_fit:  # normal innovations: scales are as good
        slopes[:, 3:] = -x[:, 3:]
    states = [filled(s, 20, 0.0, x[k::2], slopes[k::2]) for k, s in enumerate(states)]
    taken = Straightened(no_map(pack(block)), (), 1e-3, np.inf)
    found = progress.learning(straightened=taken)
    assert gaussian_block.is_closer(progress, found, states, most) == (few_fit and most > 0.0)


@pytest.mark.parametrize("count", [0, 10, 30])
def test_a_precision_that_falls_with_a_scale_is_exact_if_this_is_the_variance(count):
    """It is taken where draws show this, for the members with such errors, and else not."""
    rng, n = np.random.default_rng(3), 30
    errors, falls = rng.standard_normal(n), np.arange(n) < count

    def of(x):
        q, p, z = x[0], x[1] * falls, x[2:]
        residual = errors - z
        by_z = residual * np.exp(-p) - z * np.exp(-2.0 * q)
        by_q = z @ z * np.exp(-2.0 * q) - n
        by_p = np.sum((residual**2 * np.exp(-p) - 1.0)[falls]) / 2.0
        return np.concatenate([[by_q, by_p], by_z])

    x = 0.3 * rng.standard_normal((40, n + 2))
    bounds = np.array([[0, 0.0, 0.0, 0.0], [1, 0.0, 0.0, 0.0]])
    by = np.zeros((2, n + 2), bool)
    rows = sparse_block.pairs_of_places(x, np.array([0, 1]), by, still=np.array([1]))
    rows[:, 1] = [of(each) for each in rows[:, 0]]
    block = sparse_block.find_nearly_block(rows, hints_of(bounds)).map
    slopes = np.array([of(each) for each in x])
    assert is_exact(block, x, slopes) == (count == 0)
    with_scale = times_scale(block, 1, rows[0, 0, 1], np.append([False, True], falls))
    assert with_scale is None if count == 0 else is_exact(with_scale, x, slopes)
    all_fall = times_scale(block, 1, rows[0, 0, 1], np.ones(n + 2, bool))
    assert is_exact(all_fall, x, slopes) == (count == n)
    last = scaled_block.places_without(x, np.array([0, 1]))
    last[:, 1] = [of(each) for each in last[:, 0]]
    _, progress, states = begun(np.zeros((2, n + 2)))
    states = [filled(s, 20, 0.0, x[k::2], slopes[k::2]) for k, s in enumerate(states)]
    found = Straightened(no_map(pack(block)), (), 1.0, np.inf)
    found = progress._replace(bounds=bounds).learning(straightened=found)
    kept = gaussian_block._with_scale_if_closer(found, rows, last, states)
    assert is_exact(gaussian_block._block_of(kept), x, slopes)


def test_another_function_of_the_coefficient_is_no_process():
    far = computed(scaled_block.places_without(draws(), np.array([1, 2])), 1, 3)
    scales = scaled_block.find_scales(far, BOUNDS)
    assert not len(scales.walk.members)
    assert scales.by[1].sum() == N


@pytest.mark.parametrize("first", [3, 4])
def test_a_block_that_lacks_a_state_of_the_process_is_none(first):
    """Its map would enter innovations that it does not straighten."""
    empty = BlockMap(*[np.empty(0)] * len(BlockMap._fields))
    found = GaussianBlock(empty._replace(block=np.arange(first, 8)), [])
    walk = walk_map.NO_WALK._replace(members=np.arange(3, 8))
    kept = gaussian_block._with_walk(found, walk)
    assert kept.map.walk is walk if first == 3 else kept is None


def with_states(length=20, **learned):
    """Settings, progress and states after a window of two chains, with two bounded coordinates."""
    settings, progress, states = begun(np.zeros((2, N + 3)))
    x = draws()
    rows = (x[k : 2 * length : 2] for k in range(2))
    states = [filled(s, length, 0.0, own, -own) for s, own in zip(states, rows, strict=True)]
    progress = at(progress, parts.FIND_STEP, length, block_sought=True, **learned)
    return settings, progress._replace(then=parts.METRIC, bounds=BOUNDS), states


def far_places():
    return computed(scaled_block.places_without(draws(), np.array([1, 2])), 1, 1)


@pytest.mark.parametrize(
    ("settled", "length", "kept"), [(False, 20, True), (True, 20, False), (True, 8, True)]
)
def test_a_process_is_kept_if_no_block_is_taken_while_chains_travel(settled, length, kept):
    """Or if a few draws cannot judge it."""
    measured = Straightened(no_map(), (), 2.0, 2.0, part=9.0)
    begin = with_states(length, settled=settled, straightened=measured)
    no = np.zeros((2, N + 3), bool)
    pairs = sparse_block.pairs_of_places(draws(), np.array([1, 2]), no, process=True)
    pairs[:, 1] = 0.0  # they show nothing
    probes = [np.concatenate([pairs[::2], far_places()]), pairs[1::2]]
    progress, _ = gaussian_block._judge(*begin, probes)
    assert not progress.learned.straightened.block_is_used
    assert (len(progress.learned.process) > 0) == kept


@pytest.mark.parametrize(
    ("settled", "then", "wanted"),
    [
        (True, parts.METRIC, True),
        (True, parts.NUTS_METRIC, True),
        (True, parts.FIND_STEP, False),  # too short to judge it
        (False, parts.SURVEY, True),
        (False, parts.TRAVEL, False),
    ],
)
def test_the_block_of_a_process_is_looked_for_again(settled, then, wanted):
    settings, progress, states = with_states(settled=settled, process=far_places())
    progress, states = gaussian_block.ask_if_wanted(settings, progress._replace(then=then), states)
    assert progress.learned.probes_seek_block == wanted
    assert (len(progress.learned.process) == 0) == wanted
    due = sum(np.isnan(state.probes.rows[:, 1]).any(axis=1).sum() for state in states)
    assert (due > 700) == wanted  # those of pairs; the others are known
