"""Errors of log evidences from several chains: their spread, or the weights of their particles."""

import numpy as np
import pytest
import xarray as xr

from stanadapt.samplers.tempering import tours
from stanadapt.samplers.tempering.evidence import add_errors, error_of_log_mean, error_of_spread

WEIGHTS = np.random.default_rng(4).standard_normal((4, 30))
WEIGHTS[3] = -np.inf


def group(evidence, **more):
    return xr.Dataset({"log_evidence": ("chain", np.array(evidence, float)), **more})


def test_the_error_of_the_evidence_takes_four_runs_or_weights():
    runs, few, unknown = group([1.0, 1.4, 0.8, 1.2]), group([1.0, 1.4, 0.8]), group([np.nan] * 4)
    weights = ("chain", "particle"), WEIGHTS
    weighted = group([1.0, 1.0, 1.0, -np.inf], log_weight=weights)
    for one in (runs, few, unknown, weighted):
        add_errors(one)
    expected = np.std([1.0, 1.4, 0.8, 1.2], ddof=1) * np.sqrt(1.5)
    np.testing.assert_allclose(runs["log_evidence_error"], expected)
    assert np.isnan(few["log_evidence_error"]).all()
    assert np.isnan(unknown["log_evidence_error"]).all()
    np.testing.assert_allclose(weighted["log_evidence_error"][:3], error_of_log_mean(WEIGHTS[:3]))
    assert np.isnan(weighted["log_evidence_error"][3])


def test_errors_that_chains_tell_themselves_are_kept():
    """Also if one of them had too few tours for an error."""
    own = group([1.0, 1.4, 0.8, 1.2], log_evidence_error=("chain", [0.1, np.nan, 0.2, 0.1]))
    add_errors(own)
    np.testing.assert_array_equal(own["log_evidence_error"], [0.1, np.nan, 0.2, 0.1])


@pytest.mark.parametrize(("count", "known"), [(tours.FEWEST_TOURS, True), (49, False)])
def test_the_error_of_a_ratio_is_that_of_independent_tours(count, known):
    cold, hot = np.random.default_rng(3).gamma(2.0, size=(2, count))
    cold += hot
    sums = [cold.sum(), hot.sum(), cold @ cold, hot @ hot, cold @ hot]
    error = tours.log_ratio_error(np.array([0.0, 0.0, 1.0, count, *sums]))
    plain = np.std(cold / cold.mean() - hot / hot.mean()) / np.sqrt(count)
    assert error == pytest.approx(plain if known else np.nan, nan_ok=True)


def standardized(errors, evidence):
    """Variance of standardized errors of sets of four runs, all of shape (set, run)."""
    return np.mean((evidence / errors) ** 2)


def test_the_error_of_a_mean_of_weights_is_that_of_repeated_ones():
    """Weights of the variance of an exponential law; 4000 sets of four runs: known to 3 %."""
    weights = np.random.default_rng(1).exponential(size=(4000, 4, 100))
    errors = np.array([[error_of_log_mean(np.log(one))] for one in weights])
    assert standardized(errors, np.log(weights.mean(axis=2))) == pytest.approx(1.0, abs=0.1)
    assert error_of_log_mean(np.full((2, 10), 3.0)) == pytest.approx(0.0, abs=1e-7)


def test_runs_that_miss_the_large_weights_are_not_surer_than_those_that_meet_them():
    """400 weights per run, sd 2 in logs: by each run's weights the variance is 2, by all 1.15."""
    logs = 2.0 * np.random.default_rng(2).standard_normal((4000, 4, 400))
    evidence = np.log(np.exp(logs).mean(axis=2)) - 2.0**2 / 2
    alone = np.array([[error_of_log_mean(run[None]) for run in one] for one in logs])
    together = np.array([[error_of_log_mean(one)] for one in logs])
    assert standardized(alone, evidence) > 1.7
    assert standardized(together, evidence) < 1.3


def test_the_error_of_a_spread_is_raised_if_runs_are_few():
    """20,000 sets of five normal evidences: the mean of squares, of a heavy tail, to a few %."""
    evidence = np.random.default_rng(3).standard_normal((20_000, 5))
    errors = np.array([[error_of_spread(one)] for one in evidence])
    assert standardized(errors, evidence) == pytest.approx(1.0, abs=0.1)
