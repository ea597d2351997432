"""Reports on a tempering run: warnings at their thresholds, the group, its shapes and sums."""

import numpy as np
import pytest

from stanadapt.samplers.tempering.evidence import describe_path, group
from stanadapt.samplers.tempering.ladder import LOG_Z, B, first_ladder, measure, no_ladder
from stanadapt.samplers.tempering.notes import (
    DEAD_WEIGHT,
    FEWEST_TRIPS,
    LARGEST_BARRIER,
    Tempered,
    of_run,
)
from stanadapt.samplers.tempering.path import DISTRIBUTION, POWER, PRIOR, TemperingPath
from stanadapt.samplers.tempering.reference_distribution import ReferenceDistribution

# ends of three short chains in two dimensions, with the log density in the last column
ENDS = np.array([[0.5, -1.0, -3.0], [2.0, 4.0, -5.0], [0.0, 0.25, -2.0]])


def learned(levels=4, barrier=3.0, occupancy=None, log_evidence=-2.0):
    """Results of one chain."""
    values = {
        "temperature": np.linspace(0, 1, levels),
        "log_normalizer": np.linspace(0, log_evidence, levels),
        "rejection": np.full(levels - 1, barrier / (levels - 1)),
        "barrier": barrier,
        "log_evidence": log_evidence,
    }
    return values if occupancy is None else {**values, "occupancy": np.asarray(occupancy, float)}


def notes(chains, trips=100, weight=None):
    stats = {"round_trips": np.zeros((2, 50), np.int64)}
    stats["round_trips"][0, 0] = trips
    if weight is not None:
        stats["largest_weight"] = np.full((2, 50), weight)
    return of_run(Tempered("pseudo_extended", group(chains, 0.0), stats))


def test_a_good_run_gives_no_warning():
    assert notes([learned(occupancy=[10, 9, 11, 12])], weight=0.99) == []
    assert notes([learned(barrier=LARGEST_BARRIER)], trips=FEWEST_TRIPS, weight=DEAD_WEIGHT) == []


def test_a_high_barrier_of_one_chain():
    (note,) = notes([learned(barrier=2.0), learned(barrier=15.3)])
    assert note.code == "large_barrier"
    assert "15.3" in note


@pytest.mark.parametrize("trips", [0, FEWEST_TRIPS - 1])
def test_few_round_trips_of_all_chains_together(trips):
    (note,) = notes([learned(), learned()], trips=trips)
    assert note.code == "few_round_trips"
    assert str(trips) in note


def test_dead_weights():
    (note,) = notes([learned(occupancy=[10, 11, 9, 10])], weight=0.9999)
    assert note.code == "idle_pseudo_samples"
    assert "1.000" in note
    assert notes([learned(occupancy=[10, 11, 9, 10])], weight=0.999) == []


def test_one_pseudo_sample_gives_no_warning():
    """Its weight is always 1, and no level is ever visited."""
    assert notes([learned(occupancy=None)], weight=1.0, trips=0) == []


def test_a_level_that_is_hardly_visited():
    """In one of the chains; the NaN after the last level of the shorter ladder do not count."""
    even = learned(occupancy=[10, 11, 9, 10])
    (note,) = notes([even, learned(levels=6, occupancy=[20, 20, 20, 20, 20, 0.5])])
    assert note.code == "uneven_visits"
    assert "0.03" in note
    assert notes([even, learned(levels=6, occupancy=[20, 20, 20, 20, 20, 5])]) == []


def test_the_group_has_one_row_per_chain():
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
    assert notes([cut]) == []  # only powers may be improper


def test_the_description_is_a_copy():
    ladder = make_ladder()
    found = describe_path(make_path(DISTRIBUTION, sd=1.0), ladder, ENDS)
    ladder.levels[:] = -1
    assert found["log_normalizer"][2] == 4.5


def test_rings_that_no_two_temperatures_share_are_reported():
    chains = [learned() | {"ring_boundary": np.zeros(2), "without_pair": w} for w in (0.2, 0.5)]
    assert notes(chains) == []
    assert group(chains, 0.0)["ring_boundary"].dims == ("chain", "boundary")
    chains[1]["without_pair"] = 0.61
    (note,) = notes(chains)
    assert note.code == "empty_rings"
    assert "61%" in note


def test_an_uneven_coordinate_is_reported_with_the_constant_that_would_even_it():
    one = {**learned(), "log_zeta": 3.0, "log_zeta_correction": -0.5}
    even = {**one, "coordinate_occupancy": np.full(10, 0.1)}
    uneven = {**one, "coordinate_occupancy": np.array([0.109] * 9 + [0.009])}
    assert notes([even]) == []
    (note,) = notes([even, uneven])
    assert note.code == "uneven_visits"
    assert "0.09" in note
    assert "log_zeta=2.5" in note
