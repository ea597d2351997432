"""Equi-energy: the ratio by the formula, fair files, stages of warm-up.

Its bias on twenty modes: test_published_presets.py.
"""

import numpy as np
import pytest
from scipy import integrate, stats

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import value
from stanadapt.samplers.tempering import equi_energy as engine
from stanadapt.samplers.tempering.equi_energy import (
    EXPLORING,
    FILING,
    FLOOR,
    LOG_SCALE,
    TEMPERATURE,
)
from tests.helpers.chains import make_chains
from tests.helpers.gaussian_target import Gaussian
from tests.helpers.targets import Awkward

NAME = "equi_energy"


def test_stages_begin_with_the_hottest_chain():
    """200 iterations of 1000 explore; then five stages of 160, each with 80 of burn-in."""
    (chain,) = make_chains((NAME, {}), Awkward(), warmup=1000, draws=100)
    chain.advance(199)
    assert chain.state.phase == EXPLORING
    assert np.isinf(chain.state.chains.tuning[:, FLOOR]).all()
    chain.advance(1)
    assert chain.state.phase == FILING
    for level in (4, 3, 2, 1, 0):
        assert (chain.state.moving, chain.state.filing) == (level, level + 1)
        assert not chain.state.files.offered[: max(level, 0)].any()
        chain.advance(80)
        if level > 0:
            assert (chain.state.moving, chain.state.filing) == (level, level)
        scales = chain.state.chains.tuning[:, LOG_SCALE].copy()
        chain.advance(80)
        # the coldest is tuned to the end, and no chain while it is filed
        tuned = chain.state.chains.tuning[:, LOG_SCALE] != scales
        np.testing.assert_array_equal(np.flatnonzero(tuned), [0] * (level == 0))
    assert chain.state.filing == 1
    np.testing.assert_array_equal(chain.state.files.offered, [240, 400, 560, 720])
    assert np.all(np.diff(chain.state.chains.tuning[1:, FLOOR]) > 0)


# --- the kernel -----------------------------------------------------------------------------------

TEMPERATURES, FLOORS = np.array([1.0, 3.0, 12.0]), np.array([-np.inf, 1.5, 5.0])
SD = 2.0


def make(rows=200, dim=1):
    chains = engine.make_chains(3, np.zeros(dim), 12.0, 0.5)
    chains.tuning[:, TEMPERATURE], chains.tuning[:, FLOOR] = TEMPERATURES, FLOORS
    return chains, engine.no_files(3, rows, dim)


def h(energy, level):
    return energy if level == 0 else max(energy, FLOORS[level]) / TEMPERATURES[level]


def test_ratios_and_temperatures_are_those_of_the_paper():
    chains, _ = make()
    for here, there in np.random.default_rng(1).exponential(5.0, (50, 2)):
        for i in (0, 1):
            expected = h(here, i) - h(there, i) - h(here, i + 1) + h(there, i + 1)
            found = engine.log_jump_ratio(chains.tuning, i, here, there)
            assert found == pytest.approx(expected, abs=1e-12)
    chains = engine.make_chains(5, np.zeros(2), 60.0, 0.5)
    chains.lowest[0] = 0.2
    engine.set_floors(chains)
    np.testing.assert_allclose(
        chains.tuning[:, TEMPERATURE], [1, 2.783, 7.746, 21.56, 60], rtol=1e-3
    )
    # of Kou, Zhou and Wong: 0.2, 2, 6.3, 20, 63.2
    np.testing.assert_allclose(chains.tuning[1:, FLOOR], [2.0, 7.0, 20.96, 59.8], rtol=1e-2)
    np.testing.assert_allclose(np.diff(chains.tuning[:, LOG_SCALE]), np.log(60) / 8)
    assert [engine.ring_of(chains.tuning, e) for e in (-9, 1.9, 2.1, 59, 1e9)] == [0, 0, 1, 3, 4]


def test_jumps_are_to_the_file_of_the_hotter_chain_and_keep_to_the_ring():
    """Each file holds its own level in its second coordinate, in all three rings."""
    (chains, files), rng = make(dim=2), np.random.default_rng(2)
    energies = (1.0, 3.0, 9.0)
    for level in (1, 2):
        for energy in energies:
            state = np.array([energy, level])
            engine.file_state(files, chains.tuning, level, state, energy, rng)
    density = Gaussian(np.zeros(2), np.ones(2)).density()
    for level in (0, 1):
        for energy in energies:
            for _ in range(200):
                chains.positions[:], chains.energies[:] = 0.0, energy + 0.4
                done = engine.sweep(density, chains, files, 1 - 1e-12, level, 3, rng)
                assert done.n_jumps == 2 - level
                if chains.positions[level, 1] != 0.0:
                    break
            np.testing.assert_array_equal(chains.positions[level], [energy, level + 1])
            assert chains.energies[level] == energy


def test_without_jumps_the_chains_are_random_walks():
    """Draw for draw those of exp(-h_i), with the numbers that each takes from the generator."""
    (chains, files), rng, same = make(dim=2), np.random.default_rng(5), np.random.default_rng(5)
    mean, sd = np.array([1.0, -3.0]), np.array([0.7, 4.0])
    density, x, taken = Gaussian(mean, sd).density(), np.zeros((3, 2)), np.zeros(3)
    energies = np.full(3, 0.5 * np.square(mean / sd).sum())
    chains.energies[:], lowest = energies, np.inf
    for _ in range(300):
        engine.sweep(density, chains, files, 0.0, 0, 3, rng)
        for i in (2, 1, 0):
            if i < 2:
                same.random()  # to jump, or not
            y = x[i] + np.exp(chains.tuning[i, LOG_SCALE]) * same.standard_normal(2)
            energy = 0.5 * np.square((y - mean) / sd).sum()
            if same.random() < np.exp(h(energies[i], i) - h(energy, i)):
                x[i], energies[i], taken[i] = y, energy, taken[i] + 1
                lowest = min(lowest, energy)
        np.testing.assert_allclose(chains.positions, x, rtol=1e-10)
    assert np.all((taken > 50) & (taken < 300))
    assert chains.lowest[0] == pytest.approx(lowest, rel=1e-12)


def test_chains_begin_apart_and_walk_if_no_state_is_in_the_ring():
    start, density = np.array([0.8, 0.5, -1.0]), Awkward(0.9).density()
    chains = engine.make_chains(8, start, 50.0, 1.0)
    engine.scatter(density, chains, np.random.default_rng(6))
    np.testing.assert_allclose(chains.energies, [-value(density, x) for x in chains.positions])
    assert np.isfinite(chains.energies).all()
    assert chains.lowest[0] == chains.energies.min()
    assert 1 < np.sum(chains.positions[:, 0] == 0.8) < 8
    (chains, files), rng = make(), np.random.default_rng(3)
    chains.energies[:] = 0.0
    density = Gaussian(np.zeros(1), np.ones(1)).density()
    done = engine.sweep(density, chains, files, 1 - 1e-12, 0, 3, rng)
    assert (done.n_jumps, done.n_empty, done.n_steps) == (0, 2, 3)
    assert (chains.rates >= 0).all()


def test_scales_are_tuned_by_walks_with_a_gain_that_falls():
    (chains, _), expected, tuned = make(), np.log(0.5 * np.sqrt([1.0, 12**0.5, 12.0])), 0
    np.testing.assert_allclose(chains.tuning[:, LOG_SCALE], expected)
    for rate in (0.9, -1.0, 0.1, 0.5):  # -1: there was a jump instead
        chains.rates[1] = rate
        engine.tune(chains, 1, 0.3)
        if rate >= 0.0:
            expected[1] += (tuned + engine.GAIN_OFFSET) ** -engine.GAIN_POWER * (rate - 0.3)
            tuned += 1
    np.testing.assert_allclose(chains.tuning[:, LOG_SCALE], expected, rtol=1e-12)


@pytest.mark.thorough
def test_full_files_hold_a_fair_sample_and_their_lists_agree():
    (chains, files), rng = make(rows=40), np.random.default_rng(4)
    counts, times = np.zeros(400), 300
    for _ in range(times):
        files.counts[:], files.offered[:] = 0, 0
        for n, energy in enumerate(rng.exponential(4.0, 400)):
            engine.file_state(files, chains.tuning, 1, np.array([float(n)]), energy, rng)
        counts[files.positions[0, :, 0].astype(int)] += 1
    # each is kept with probability 0.1, 30 times, within 5.2
    assert np.abs(counts - 30).max() < 5 * 5.2
    assert abs(counts[:200].sum() - 6000) < 5 * 55
    assert files.counts[0].sum() == 40
    for ring in range(3):
        rows = files.members[0, ring, : files.counts[0, ring]]
        np.testing.assert_array_equal(files.slots[0, rows], np.arange(len(rows)))
        for row in rows:
            assert engine.ring_of(chains.tuning, files.energies[0, row]) == ring


@jit
def _jumps(density, chains, files, x, energies, rng):
    for r in range(x.shape[0]):
        chains.positions[0, 0], chains.energies[0] = x[r], energies[r]
        engine.sweep(density, chains, files, 0.999, 0, 3, rng)
        x[r] = chains.positions[0, 0]


def test_with_an_exact_file_a_jump_leaves_the_target_invariant():
    """N(0, 2^2): KS over the draws; the file is a grid of quantiles of the law of its chain.

    With each jump accepted they would have that law within each ring.
    """
    rows, count, rng = 20_000, 20_000, np.random.default_rng(5)
    chains, files = make(rows=rows)
    grid = np.linspace(-60, 60, 400_001)
    energy = 0.5 * (grid / SD) ** 2
    cdf = integrate.cumulative_simpson(
        np.exp(-np.maximum(energy, FLOORS[1]) / TEMPERATURES[1]), x=grid, initial=0.0
    )
    states = np.interp((np.arange(rows) + 0.5) / rows, cdf / cdf[-1], grid)
    for x in states:
        energy_of_x = 0.5 * (x / SD) ** 2
        engine.file_state(files, chains.tuning, 1, np.array([x]), energy_of_x, rng)
    x = SD * rng.standard_normal(count)
    before = x.copy()
    density = Gaussian(np.zeros(1), np.full(1, SD)).density()
    _jumps(density, chains, files, x, 0.5 * (x / SD) ** 2, rng)
    assert np.mean(x != before) > 0.5
    assert stats.kstest(x / SD, "norm").pvalue > 1e-4
    np.testing.assert_array_less(np.abs(np.mean(x**2) / SD**2 - 1), 5 * np.sqrt(2 / count))
