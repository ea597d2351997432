"""The group of a tempering run, its shapes and sums; errors of log evidences of several chains.

Errors come from the spread of chains, or from the weights of their particles. Notes: test_notes.py.
"""

import numpy as np
import pytest
import xarray as xr

from stanadapt.samplers.tempering import tours
from stanadapt.samplers.tempering.evidence import (
    add_errors,
    describe_path,
    error_of_log_mean,
    error_of_spread,
    group,
)
from stanadapt.samplers.tempering.ladder import LOG_Z, B, first_ladder, measure, no_ladder
from stanadapt.samplers.tempering.notes import Tempered, of_run
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from tests.helpers.tempering import learned, ringed

# ends of three short chains in two dimensions, with the log density in the last column
ENDS = np.array([[0.5, -1.0, -3.0], [2.0, 4.0, -5.0], [0.0, 0.25, -2.0]])


def test_the_group_has_one_row_per_chain():
    assert group([ringed(0.2)], 0.0)["ring_boundary"].dims == ("chain", "boundary")
    dataset = group([learned(3), learned(5, occupancy=None)], constant=0.25)
    assert dict(dataset.sizes) == {"chain": 2, "level": 5, "gap": 4}
    np.testing.assert_array_equal(np.isnan(dataset["temperature"]).sum("level"), [2, 0])
    np.testing.assert_allclose(dataset["rejection"].sum("gap"), dataset["barrier"])
    np.testing.assert_allclose(dataset["log_evidence"], -1.75)  # with the constant that ~ drops
    np.testing.assert_allclose(dataset["log_normalizer"].max("level"), 0.0)


def make_path(kind, **chosen):
    reference = ReferenceDistribution([1.0, -2.0], **chosen).compiled(2)
    return TemperingPath(None, reference, kind, 0)


def make_ladder():
    ladder = no_ladder(6, 2)
    first_ladder(ladder, 3, 0.0, np.log(0.2))
    ladder.levels[:3, LOG_Z] = [0.0, -1.0, 4.5]
    measure(ladder, np.array([0.25, 0.5]))
    return ladder


def test_describe_path_reports_ladder_and_reference():
    found = describe_path(make_path(DISTRIBUTION, sd=[3.0, 0.5]), make_ladder(), ENDS)
    np.testing.assert_allclose(found["temperature"], [0, 1 / 16, 1])
    np.testing.assert_allclose(found["step_size"], 0.2)
    assert found["barrier"] == pytest.approx(0.75)
    assert found["log_evidence"] == 4.5
    np.testing.assert_allclose(found["reference_mean"], [1.0, -2.0])
    np.testing.assert_allclose(found["reference_sd"], [3.0, 0.5])


def test_sds_of_a_dense_reference():
    covariance = np.array([[4.0, 1.5], [1.5, 9.0]])
    found = describe_path(make_path(DISTRIBUTION, covariance=covariance), make_ladder(), ENDS)
    np.testing.assert_allclose(found["reference_sd"], [2.0, 3.0])


def test_other_references_have_no_moments_and_a_power_no_evidence():
    power, prior = (
        describe_path(make_path(kind, sd=1.0), make_ladder(), ENDS) for kind in (POWER, PRIOR)
    )
    assert np.isnan(power["log_evidence"])
    assert prior["log_evidence"] == 4.5
    assert not {"reference_mean", "reference_sd"} & {*power, *prior}


def test_a_path_that_ends_above_its_reference_has_no_evidence():
    """The last constant is then log Z(1) - log Z(b) of its hottest level."""
    ladder = make_ladder()
    ladder.levels[0, B] = 0.01
    for kind in (DISTRIBUTION, PRIOR):
        assert np.isnan(describe_path(make_path(kind, sd=1.0), ladder, ENDS)["log_evidence"])
    cut = {**learned(), "log_evidence": np.nan}
    # only powers may be improper
    stats = {"round_trips": np.full((1, 50), 2)}
    assert of_run(Tempered("pseudo_extended", group([cut], 0.0), stats)) == []


def test_the_description_is_a_copy():
    ladder = make_ladder()
    found = describe_path(make_path(DISTRIBUTION, sd=1.0), ladder, ENDS)
    ladder.levels[:] = -1
    assert found["log_normalizer"][2] == 4.5


# --- errors of log evidences ----------------------------------------------------------------------

WEIGHTS = np.random.default_rng(4).standard_normal((4, 30))
WEIGHTS[3] = -np.inf


def evidence_group(evidence, **more):
    return xr.Dataset({"log_evidence": ("chain", np.array(evidence, float)), **more})


def test_the_error_of_the_evidence_takes_four_runs_or_weights():
    runs, few, unknown = map(evidence_group, ([1.0, 1.4, 0.8, 1.2], [1.0, 1.4, 0.8], [np.nan] * 4))
    weights = ("chain", "particle"), WEIGHTS
    weighted = evidence_group([1.0, 1.0, 1.0, -np.inf], log_weight=weights)
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
    own = evidence_group(
        [1.0, 1.4, 0.8, 1.2], log_evidence_error=("chain", [0.1, np.nan, 0.2, 0.1])
    )
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
