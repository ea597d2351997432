"""Ranks: bands of the right coverage, small p-values where ranks are not uniform, and words."""

import numpy as np
import pytest
from scipy.stats import kstest

from stanadapt.studies.calibration.ranks import RankBands

COUNT, LARGEST = 120, 49


@pytest.fixture(scope="module")
def bands():
    return RankBands(COUNT, LARGEST)


def uniform(seed, size=COUNT):
    return np.random.default_rng(seed).integers(0, LARGEST + 1, size)


def test_p_values_of_uniform_ranks_are_uniform(bands):
    p = [bands.judge(uniform(seed)).p_value for seed in range(400)]
    assert kstest(p, "uniform").pvalue > 1e-3
    assert sum(bands.judge(uniform(seed)).shape != "" for seed in range(400)) < 20


def test_the_band_holds_the_whole_function_as_often_as_it_says(bands):
    low, high = bands.limits(0.9)
    below = np.array([bands.numbers_below(uniform(seed)) for seed in range(1000)])
    inside = np.mean(np.all((below >= low) & (below <= high), axis=1))
    # discrete: no band holds exactly nine tenths
    assert inside == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 1000) + 0.01)


def test_numbers_below_are_counted(bands):
    ranks = uniform(3)
    expected = [(ranks < k).sum() for k in range(1, LARGEST + 1)]
    np.testing.assert_array_equal(bands.numbers_below(ranks), expected)


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (lambda u: u**0.6, "posteriors lie too low"),
        (lambda u: u**1.7, "posteriors lie too high"),
        (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 0.5, "too narrow"),
        (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 3, "too wide"),
    ],
)
def test_departures_are_found_and_named(bands, power, said):
    u = power(np.random.default_rng(5).random(COUNT))
    found = bands.judge(np.minimum((u * (LARGEST + 1)).astype(int), LARGEST))
    assert found.p_value < 1e-3
    assert said in found.shape


def test_ranks_at_both_ends(bands):
    assert bands.judge(np.zeros(COUNT, int)).p_value < 1e-4
    assert bands.judge(np.full(COUNT, LARGEST)).p_value < 1e-4
