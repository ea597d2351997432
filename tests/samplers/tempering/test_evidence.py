"""The group of a tempering run, errors of log evidence, and notes at their thresholds."""

import numpy as np
import pytest
import xarray as xr

from stanadapt.errors import codes_of
from stanadapt.samplers.tempering import equi_energy, tours
from stanadapt.samplers.tempering.evidence import (
    add_errors,
    describe_path,
    error_of_log_mean,
    error_of_spread,
    group,
)
from stanadapt.samplers.tempering.findings import report_jumps
from stanadapt.samplers.tempering.ladder import LOG_Z, B, first_ladder, measure, no_ladder
from stanadapt.samplers.tempering.notes import (
    DEAD_WEIGHT,
    FEWEST_TRIPS,
    LARGEST_BARRIER,
    MODE_NOTES,
    PARTICLE_NOTES,
    Tempered,
    apply,
    of_run,
)
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution
from tests.helpers.run_view import view_of
from tests.helpers.tempering import learned, ringed

# ends of three short chains in two dimensions, with the log density in the last column
ENDS = np.array([[0.5, -1.0, -3.0], [2.0, 4.0, -5.0], [0.0, 0.25, -2.0]])


def test_groups_and_errors_have_one_row_per_chain():
    assert group([ringed(0.2)], 0.0)["ring_boundary"].dims == ("chain", "boundary")
    dataset = group([learned(3), learned(5, occupancy=None)], constant=0.25)
    assert dict(dataset.sizes) == {"chain": 2, "level": 5, "gap": 4}
    np.testing.assert_array_equal(np.isnan(dataset["temperature"]).sum("level"), [2, 0])
    np.testing.assert_allclose(dataset["rejection"].sum("gap"), dataset["barrier"])
    np.testing.assert_allclose(dataset["log_evidence"], -1.75)  # with the constant that ~ drops
    np.testing.assert_allclose(dataset["log_normalizer"].max("level"), 0.0)
    # also if one of them had too few tours for an error
    own = evidence_group(
        [1.0, 1.4, 0.8, 1.2], log_evidence_error=("chain", [0.1, np.nan, 0.2, 0.1])
    )
    add_errors(own)
    np.testing.assert_array_equal(own["log_evidence_error"], [0.1, np.nan, 0.2, 0.1])


def make_path(kind, **chosen):
    reference = ReferenceDistribution([1.0, -2.0], **chosen).compiled(2)
    return TemperingPath(None, reference, kind, 0)


def make_ladder():
    ladder = no_ladder(6, 2)
    first_ladder(ladder, 3, 0.0, np.log(0.2))
    ladder.levels[:3, LOG_Z] = [0.0, -1.0, 4.5]
    measure(ladder, np.array([0.25, 0.5]))
    return ladder


def test_the_path_is_described_with_its_reference_and_copied():
    found = describe_path(make_path(DISTRIBUTION, sd=[3.0, 0.5]), make_ladder(), ENDS)
    np.testing.assert_allclose(found["temperature"], [0, 1 / 16, 1])
    np.testing.assert_allclose(found["step_size"], 0.2)
    assert found["barrier"] == pytest.approx(0.75)
    assert found["log_evidence"] == 4.5
    np.testing.assert_allclose(found["reference_mean"], [1.0, -2.0])
    np.testing.assert_allclose(found["reference_sd"], [3.0, 0.5])
    covariance = np.array([[4.0, 1.5], [1.5, 9.0]])
    found = describe_path(make_path(DISTRIBUTION, covariance=covariance), make_ladder(), ENDS)
    np.testing.assert_allclose(found["reference_sd"], [2.0, 3.0])
    power, prior = (
        describe_path(make_path(kind, sd=1.0), make_ladder(), ENDS) for kind in (POWER, PRIOR)
    )
    assert np.isnan(power["log_evidence"])
    assert prior["log_evidence"] == 4.5
    assert not {"reference_mean", "reference_sd"} & {*power, *prior}
    ladder = make_ladder()
    found = describe_path(make_path(DISTRIBUTION, sd=1.0), ladder, ENDS)
    ladder.levels[:] = -1
    assert found["log_normalizer"][2] == 4.5


def test_paths_above_the_reference_and_few_runs_have_no_error():
    """The last constant is then log Z(1) - log Z(b) of its hottest level."""
    ladder = make_ladder()
    ladder.levels[0, B] = 0.01
    for kind in (DISTRIBUTION, PRIOR):
        assert np.isnan(describe_path(make_path(kind, sd=1.0), ladder, ENDS)["log_evidence"])
    cut = {**learned(), "log_evidence": np.nan}
    # only powers may be improper
    stats = {"round_trips": np.full((1, 50), 2)}
    assert of_run(Tempered("pseudo_extended", group([cut], 0.0), stats)) == []
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


# --- errors of log evidences ----------------------------------------------------------------------

WEIGHTS = np.random.default_rng(4).standard_normal((4, 30))
WEIGHTS[3] = -np.inf


def evidence_group(evidence, **more):
    return xr.Dataset({"log_evidence": ("chain", np.array(evidence, float)), **more})


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


def test_errors_of_weights_and_spreads_are_those_of_repeated_ones():
    """Weights of the variance of an exponential law; 4000 sets of four runs: known to 3 %."""
    weights = np.random.default_rng(1).exponential(size=(4000, 4, 100))
    errors = np.array([[error_of_log_mean(np.log(one))] for one in weights])
    assert standardized(errors, np.log(weights.mean(axis=2))) == pytest.approx(1.0, abs=0.1)
    assert error_of_log_mean(np.full((2, 10), 3.0)) == pytest.approx(0.0, abs=1e-7)
    # 400 weights per run, sd 2 in logs: by each run's weights the variance is 2, by all 1.15
    logs = 2.0 * np.random.default_rng(2).standard_normal((4000, 4, 400))
    evidence = np.log(np.exp(logs).mean(axis=2)) - 2.0**2 / 2
    alone = np.array([[error_of_log_mean(run[None]) for run in one] for one in logs])
    together = np.array([[error_of_log_mean(one)] for one in logs])
    assert standardized(alone, evidence) > 1.7
    assert standardized(together, evidence) < 1.3
    # 20,000 sets of five normal evidences: the mean of squares, of a heavy tail, to a few %
    evidence = np.random.default_rng(3).standard_normal((20_000, 5))
    errors = np.array([[error_of_spread(one)] for one in evidence])
    assert standardized(errors, evidence) == pytest.approx(1.0, abs=0.1)


def on_a_path(chains, trips=100, weight=None):
    """Return notes on chains, results of `learned`."""
    stats = {"round_trips": np.zeros((2, 50), np.int64)}
    stats["round_trips"][0, 0] = trips
    if weight is not None:
        stats["largest_weight"] = np.full((2, 50), weight)
    return of_run(Tempered("pseudo_extended", group(chains, 0.0), stats))


EVEN = learned(occupancy=[10, 11, 9, 10])


def longer(last):
    """Results of a chain with more levels, the last of which was visited so often."""
    return learned(levels=6, occupancy=[20, 20, 20, 20, 20, last])


def coordinated(*occupancy):
    constants = {"log_zeta": 3.0, "log_zeta_correction": -0.5}
    return learned() | constants | {"coordinate_occupancy": np.array(occupancy)}


LIMITS = {"trips": FEWEST_TRIPS, "weight": DEAD_WEIGHT}
# results of chains, statistics, code, facts
ON_A_PATH = [
    ([EVEN], {"weight": 0.99}, "", ()), ([learned(barrier=LARGEST_BARRIER)], LIMITS, "", ()),
    ([learned(barrier=2.0), learned(barrier=15.3)], {}, "large_barrier", ("15.3",)),
    # of all chains together
    ([learned(), learned()], {"trips": 0}, "few_round_trips", ("0",)),
    ([learned()], {"trips": FEWEST_TRIPS - 1}, "few_round_trips", (str(FEWEST_TRIPS - 1),)),
    ([EVEN], {"weight": 0.999}, "", ()),
    ([EVEN], {"weight": 0.9999}, "idle_pseudo_samples", ("1.000",)),
    # of one pseudo-sample the weight is always 1, and no level is ever visited
    ([learned(occupancy=None)], {"weight": 1.0, "trips": 0}, "", ()),
    # in one of the chains; the NaN after the last level of the shorter ladder do not count
    ([EVEN, longer(0.5)], {}, "uneven_visits", ("0.03",)), ([EVEN, longer(5)], {}, "", ()),
    ([ringed(0.2), ringed(0.5)], {}, "", ()),
    ([ringed(0.2), ringed(0.61)], {}, "empty_rings", ("61%",)),
    ([coordinated(*[0.1] * 10)], {}, "", ()),
    # with the constant that would even it
    ([coordinated(*[0.1] * 10), coordinated(*[0.109] * 9, 0.009)], {}, "uneven_visits",
     ("0.09", "log_zeta=2.5")),
]  # fmt: skip


def particles(evidence, ancestors=100.0, levels=9):
    """Return notes on runs of smc with these log evidences."""
    chains = len(evidence)
    tempering = xr.Dataset({
        "log_evidence": ("chain", np.array(evidence, float)),
        "effective_ancestors": ("chain", np.full(chains, ancestors)),
        "temperature": (("chain", "level"), np.zeros((chains, levels))),
    })  # fmt: skip
    stats = {"particle": np.tile(np.arange(50.0), (chains, 1))}
    return apply(PARTICLE_NOTES, Tempered("smc", tempering, stats))


def jumps(chains=4, **changed):
    """Return notes on a run of the equi-energy sampler."""
    whole = {"n_jumps": 1, "n_jumps_accepted": 1, "n_empty": 0, "ring": 0} | changed
    stats = {name: np.full((chains, 10), value) for name, value in whole.items()}
    return report_jumps(view_of(equi_energy.Settings(), stats, sampler_name="equi_energy")).messages


def modes(volumes=(), **found):
    """Return notes on modes of these log volumes."""
    return apply(MODE_NOTES, Tempered("a_name", None, {}, log_volumes=np.array(volumes), **found))


OF_OTHERS = [
    (particles([1.0, 1.1, 0.9, 1.0]), "", ()),
    (particles([1.0, 1.1, 0.9, 1.0], 7.0), "few_ancestors", ("7",)),
    (particles([1.0, 4.1, 0.9, 1.0]), "evidence_spread", ("3.2",)),
    (particles([1.0, -np.inf, 0.9, 1.0]), "evidence_unknown", ("1 of 4",)),
    (particles([1.0, 1.1], levels=201), "too_many_stages", ("200",)),
    (jumps(), "", ()), (jumps(n_empty=1), "empty_files", ("50%",)),
    (jumps(n_jumps=4), "rejected_jumps", ("25%",)), (jumps(3), "shared_file_error", ("4",)),
    (modes(), "", ()), (modes([1.0, 5.5]), "", ()),
    (modes([1.0, 3.0, 5.7]), "unequal_mode_volumes", ("a_name", "2.0")),
    (modes(short_chains=40), "", ()),
    (modes(short_chains=40, unvisited=3), "unvisited_regions", ("a_name", "3", "40")),
]  # fmt: skip


@pytest.mark.parametrize(("found", "code", "facts"), [
    *[(on_a_path(chains, **stats), code, facts) for chains, stats, code, facts in ON_A_PATH],
    *OF_OTHERS,
])  # fmt: skip
def test_notes_have_their_thresholds(found, code, facts):
    assert codes_of(found) == ([code] if code else [])
    assert all(fact in note for note in found for fact in facts)
