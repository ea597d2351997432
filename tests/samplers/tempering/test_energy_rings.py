"""Swaps within energy rings: the pairs, their probabilities, exactness, warm-up and reports."""

import numpy as np
import pytest
from scipy import stats

from stanadapt.engine.compiled.jit import jit
from stanadapt.samplers.tempering import energy_rings
from stanadapt.samplers.tempering.path import REFERENCE, TARGET
from tests.helpers.chains import column, finish, make_chains
from tests.helpers.targets import Awkward
from tests.helpers.tempering import make_tempering

LEVELS = np.array([0.0, 0.02, 0.15, 0.45, 1.0])


def make_rings(boundaries, room=7):
    rings = energy_rings.no_rings(len(boundaries) + 1, room)
    rings.boundaries[:] = boundaries
    return rings


def random_states(rng, tempering):
    """Give each row its logs, and each level a row; returns l and Delta by level."""
    count = int(tempering.ladder.size[0])
    order = tempering.order[0]
    order[:count] = rng.permutation(count)
    tempering.replicas.logs[:] = 2 * rng.normal(size=tempering.replicas.logs.shape)
    logs = tempering.replicas.logs[order[:count]]
    return logs[:, TARGET], logs[:, TARGET] - logs[:, REFERENCE]


@jit
def _swapped_often(tempering, rings, order, rng, pairs):
    """Swap from the same order again and again; counts the pairs that did, of levels i < j."""
    count, rate = tempering.ladder.size[0], 0.0
    for _ in range(20_000):
        tempering.order[0] = order
        rate += energy_rings.swap(tempering, rings, rng) / 20_000
        for j in range(count):
            for i in range(j):
                pairs[i, j] += tempering.order[0, i] == order[j]
    return rate


def test_each_pair_of_a_ring_is_numbered_once_and_no_other():
    rng = np.random.default_rng(1)
    for _ in range(200):
        tempering = make_tempering(LEVELS)
        log_density, _ = random_states(rng, tempering)
        boundaries = np.sort(2 * rng.normal(size=rng.integers(0, 4)))
        rings = make_rings(boundaries)
        ring = np.searchsorted(boundaries, log_density, side="right")
        expected = [(i, j) for j in range(5) for i in range(j) if ring[i] == ring[j]]
        assert energy_rings.find_pairs(tempering, rings) == len(expected)
        found = [energy_rings.find_pair(rings.members, n) for n in range(len(expected))]
        assert found == expected


def test_pairs_swap_with_the_ratio_of_the_path():
    """As often as 1 / pairs times min(1, ratio of the joint densities), for each pair of levels."""
    rng, seen, partly = np.random.default_rng(2), 0, 0
    for seed in range(12):
        tempering = make_tempering(LEVELS)
        log_density, _ = random_states(rng, tempering)
        rings, order = make_rings([0.5]), tempering.order[0].copy()
        logs = tempering.replicas.logs[order[:5]]
        share = [(i, j) for j in range(5) for i in range(j)]
        share = [p for p in share if len(set(log_density[list(p)] >= 0.5)) == 1]
        joint = LEVELS[:, None] * logs[:, TARGET] + (1 - LEVELS[:, None]) * logs[:, REFERENCE]
        expected = np.zeros((5, 5))  # joint[b, x]: state x at level b
        for i, j in share:
            ratio = joint[i, j] + joint[j, i] - joint[i, i] - joint[j, j]
            expected[i, j] = min(1.0, np.exp(ratio)) / len(share)
        pairs = np.zeros((5, 5))
        rate = _swapped_often(tempering, rings, order, np.random.default_rng(seed), pairs)
        error = np.sqrt(expected * (1 - expected) / 20_000)
        # 240 comparisons within 4.5 standard errors: one false alarm in 600 runs
        assert np.all(np.abs(pairs / 20_000 - expected) <= 4.5 * error + 1e-12)
        assert rate == pytest.approx(expected.sum(), abs=4.5 * 0.5 / np.sqrt(20_000))
        seen += len(share)
        partly += (expected.sum() < 0.9) & (expected.sum() > 0.1)
    assert 30 < seen < 100  # of 120 pairs
    assert partly > 6


def test_rings_without_a_pair_and_states_where_the_target_fails():
    tempering, rng = make_tempering([0.0, 0.5, 1.0]), np.random.default_rng(3)
    tempering.replicas.logs[:3, TARGET] = [0.0, 1.0, -np.inf]
    rings, before = make_rings([-1.0, 0.5]), tempering.order[0].copy()
    assert energy_rings.swap(tempering, rings, rng) == 0.0
    assert rings.without_pair[0] == 1
    np.testing.assert_array_equal(tempering.order[0], before)
    assert rng.random() == np.random.default_rng(3).random()
    tempering, rings = make_tempering([0.0, 0.5, 1.0]), make_rings([])
    tempering.replicas.logs[:3] = [[-np.inf, 1.0], [0.0, 0.0], [1.0, 0.0]]
    for seed in range(50):
        assert np.isfinite(energy_rings.swap(tempering, rings, np.random.default_rng(seed)))
        assert tempering.order[0, 0] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("iter_warmup", [1, 7, 400, 5000])
def test_boundaries_are_quantiles_of_the_last_round_of_warmup(iter_warmup):
    """From all levels alike, with as many draws in each ring, and from no earlier sweep."""
    tempering, rng = make_tempering(LEVELS), np.random.default_rng(6)
    rings = energy_rings.no_rings(4, 7)
    assert np.all(rings.boundaries == np.inf)
    location = np.array([-30.0, 0.0, 1.0, 2.0, 3.0])
    for t in range(iter_warmup):
        tempering.replicas.logs[:5, TARGET] = location + rng.normal(size=5)
        if t < iter_warmup // 2:
            tempering.replicas.logs[:, TARGET] = 1e3
        elif rng.random() < 0.5:
            tempering.replicas.logs[0, TARGET] = -np.inf  # no ring is made for these
        energy_rings.keep(rings, tempering, t, iter_warmup)
    energy_rings.learn(rings)
    assert np.all(np.diff(rings.boundaries) > 0)
    if iter_warmup < 400:
        return
    weights = np.array([0.5, 1, 1, 1, 1]) / 4.5
    cdf = sum(
        w * stats.norm(m).cdf(rings.boundaries) for w, m in zip(weights, location, strict=True)
    )
    n = 4.5 * min(iter_warmup / 2, energy_rings.KEPT / 5)
    np.testing.assert_allclose(cdf, [0.25, 0.5, 0.75], atol=5 * 0.5 / np.sqrt(n))


# --- the sampler ----------------------------------------------------------------------------------


def ended(**chosen):
    case = "parallel_tempering", {"kernel": "random_walk", "levels": 5, **chosen}
    (chain,) = finish(make_chains(case, Awkward(), warmup=400))
    return chain, chain.sampler.tempering.learned(chain.state)


def test_rings_change_nothing_in_warmup_and_neighbors_nothing_after_it():
    """Neighbors swap there: the same draws, ladder and constants; then they differ."""
    (one, of_one), (other, of_other) = ended(), ended(swaps="energy_rings", rings=3)
    np.testing.assert_array_equal(one.warmup.constrained, other.warmup.constrained)
    np.testing.assert_array_equal(of_one["temperature"], of_other["temperature"])
    assert not np.array_equal(one.sampling.constrained, other.sampling.constrained)
    assert set(of_other) - set(of_one) == {"ring_boundary", "without_pair"}
    assert of_other["ring_boundary"].shape == (2,)
    assert np.all(np.diff(of_other["ring_boundary"]) > 0)
    # rejections and evidence are still those of neighbors
    np.testing.assert_allclose(of_other["rejection"], of_one["rejection"], atol=0.2)
    assert of_other["log_evidence"] != of_one["log_evidence"]
    assert of_other["log_evidence"] == pytest.approx(of_one["log_evidence"], abs=1.0)
    # one pair of a ring does, or none
    case = "parallel_tempering", {"kernel": "random_walk", "levels": 5, "swaps": "energy_rings"}
    (chain,) = make_chains(case, Awkward(), warmup=200, draws=200)
    while chain.warming_up:
        chain.advance()
    order, changed = chain.state.tempering.order[0], set()
    for _ in range(200):
        before = order.copy()
        chain.advance(1)
        changed.add(int(np.sum(chain.state.tempering.order[0] != before)))
    assert changed == {0, 2}


def test_sweeps_without_a_pair_are_counted():
    chain, found = ended(swaps="energy_rings", rings=20)
    alone = np.mean(column(chain, "swap_rate") == 0)
    assert 0.1 < found["without_pair"] < 0.9
    # a pair may have an acceptance rate of 0 as well
    assert found["without_pair"] <= alone < found["without_pair"] + 0.2
    _, found = ended(swaps="energy_rings", rings=1)
    assert found["without_pair"] == 0
    assert found["ring_boundary"].shape == (0,)
