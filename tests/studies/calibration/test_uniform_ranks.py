"""Ranks: coverage of the bands, small p-values if ranks are not uniform, and their shapes."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from stanadapt.errors import codes_of
from stanadapt.studies.calibration.ranks import (
    TOO_HIGH,
    TOO_LOW,
    TOO_NARROW,
    TOO_WIDE,
    Calibration,
    RankBands,
)

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


def test_the_band_has_its_nominal_coverage_of_the_whole_function(bands):
    low, high = bands.limits(0.9)
    below = np.array([bands.numbers_below(uniform(seed)) for seed in range(1000)])
    inside = np.mean(np.all((below >= low) & (below <= high), axis=1))
    # discrete: no band contains exactly nine tenths
    assert inside == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 1000) + 0.01)


def test_numbers_below_are_counted(bands):
    ranks = uniform(3)
    expected = [(ranks < k).sum() for k in range(1, LARGEST + 1)]
    np.testing.assert_array_equal(bands.numbers_below(ranks), expected)


@pytest.mark.parametrize(("power", "shape"), [
    (lambda u: u**0.6, TOO_LOW), (lambda u: u**1.7, TOO_HIGH),
    (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 0.5, TOO_NARROW),
    (lambda u: 0.5 + 0.5 * np.sign(u - 0.5) * np.abs(2 * u - 1) ** 3, TOO_WIDE),
])  # fmt: skip
def test_departures_are_found_and_named(bands, power, shape):
    u = power(np.random.default_rng(5).random(COUNT))
    result = bands.judge(np.minimum((u * (LARGEST + 1)).astype(int), LARGEST))
    assert result.p_value < 1e-3
    assert result.shape == shape


def test_ranks_at_both_ends(bands):
    assert bands.judge(np.zeros(COUNT, int)).p_value < 1e-4
    assert bands.judge(np.full(COUNT, LARGEST)).p_value < 1e-4


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_wrong_quantity_of_a_thousand_is_found(bands, wrong):
    """Its p-value must be below 1e-5, although there are 20,000 simulations of uniform ranks."""
    ranks = pd.DataFrame(np.stack([uniform(seed) for seed in range(1000)], axis=1))
    for quantity in range(wrong):
        ranks[quantity] //= 2
    study = Calibration(ranks, bands, [], 0, 1)
    assert study.verdict == ("not calibrated" if wrong else "calibrated")


def test_the_bound_of_small_p_values_holds(bands):
    """The depths that 20,000 samples reach are no more frequent than the bound says."""
    shares = np.arange(1, 201) / len(bands._depths)
    assert np.all(shares[20:] <= 1.5 * LARGEST * bands._depths[20:200])


@pytest.mark.parametrize(("failures", "verdict"), [(1, "calibrated"), (60, "not calibrated")])
def test_failures_that_could_hide_other_ranks_are_no_pass(failures, verdict):
    """Ranks that are known are uniform. Of 260 at one end, 60 are far outside of any band."""
    ranks = pd.DataFrame({"x": np.arange(200) % 50, "y": 49 - np.arange(200) % 50})
    study = Calibration(ranks, RankBands(200, 49), ["it failed"] * failures, 0, 1)
    assert study.verdict == verdict
    assert codes_of(study.messages) == ["uniform_ranks", "failed_simulations"]
    assert ("too many" in study.messages[1]) == (verdict == "not calibrated")
