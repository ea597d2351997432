"""What is told of a tempering: sentences at their thresholds, the group, its shapes and sums."""

import numpy as np
import pytest

from stanadapt.ladder import LOG_Z, first_ladder, measure, no_ladder
from stanadapt.reference_law import ReferenceLaw
from stanadapt.tempered_path import LAW, POWER, PRIOR, Path
from stanadapt.tempering_report import (
    DEAD,
    FEWEST_TRIPS,
    LARGEST_BARRIER,
    group,
    of_path,
    sentences,
)

# where three short chains ended, in two dimensions, and the log density there
ENDED = np.array([[0.5, -1.0, -3.0], [2.0, 4.0, -5.0], [0.0, 0.25, -2.0]])


def learned(levels=4, barrier=3.0, occupancy=None, log_evidence=-2.0):
    """What a chain reports."""
    found = {
        "temperature": np.linspace(0, 1, levels),
        "log_normalizer": np.linspace(0, log_evidence, levels),
        "rejection": np.full(levels - 1, barrier / (levels - 1)),
        "barrier": barrier,
        "log_evidence": log_evidence,
    }
    return found if occupancy is None else {**found, "occupancy": np.asarray(occupancy, float)}


def told(chains, trips=100, weight=None):
    stats = {"round_trips": np.zeros((2, 50), np.int64)}
    stats["round_trips"][0, 0] = trips
    if weight is not None:
        stats["largest_weight"] = np.full((2, 50), weight)
    return sentences("pseudo_extended", group(chains, 0.0), stats)


def test_a_run_that_is_well_is_not_talked_about():
    assert told([learned(occupancy=[10, 9, 11, 12])], weight=0.99) == []
    assert told([learned(barrier=LARGEST_BARRIER)], trips=FEWEST_TRIPS, weight=DEAD) == []


def test_a_high_barrier_of_one_chain():
    (said,) = told([learned(barrier=2.0), learned(barrier=15.3)])
    assert said.startswith("pseudo_extended: the barrier between reference and target is 15.3")
    assert "above 15" in said
    assert "prior_data" in said


@pytest.mark.parametrize("trips", [0, FEWEST_TRIPS - 1])
def test_few_round_trips_of_all_chains_together(trips):
    (said,) = told([learned(), learned()], trips=trips)
    assert f": {trips} round trips between reference and target in all chains together" in said
    assert "inflation" in said


def test_dead_weights():
    (said,) = told([learned(occupancy=[10, 11, 9, 10])], weight=0.9999)
    assert "the largest weight is 1.000 on average" in said
    assert told([learned(occupancy=[10, 11, 9, 10])], weight=0.999) == []


def test_nothing_is_told_of_one_pseudo_sample():
    """Its weight is always 1, and no level is ever visited."""
    assert told([learned(occupancy=None)], weight=1.0, trips=0) == []


def test_a_level_that_is_hardly_visited():
    """In one of the chains; NaN behind the last level of the shorter ladder is no level."""
    even = learned(occupancy=[10, 11, 9, 10])
    (said,) = told([even, learned(levels=6, occupancy=[20, 20, 20, 20, 20, 0.5])])
    assert "a temperature was visited 0.03 times as often as it should be" in said
    assert told([even, learned(levels=6, occupancy=[20, 20, 20, 20, 20, 5])]) == []


def test_the_group_has_a_row_a_chain():
    found = group([learned(3), learned(5, occupancy=None)], constant=0.25)
    assert dict(found.sizes) == {"chain": 2, "level": 5, "gap": 4}
    np.testing.assert_array_equal(np.isnan(found["temperature"]).sum("level"), [2, 0])
    np.testing.assert_allclose(found["rejection"].sum("gap"), found["barrier"])
    np.testing.assert_allclose(found["log_evidence"], -1.75)  # with the constant that ~ drops
    np.testing.assert_allclose(found["log_normalizer"].max("level"), 0.0)


def some_path(kind, **chosen):
    law = ReferenceLaw([1.0, -2.0], **chosen).law(2)
    return Path(None, law, kind, 0)


def some_ladder():
    ladder = no_ladder(6, 2)
    first_ladder(ladder, 3, 0.0, np.log(0.2))
    ladder.levels[:3, LOG_Z] = [0.0, -1.0, 4.5]
    measure(ladder, np.array([0.25, 0.5]))
    return ladder


def test_of_path_tells_what_the_ladder_holds():
    found = of_path(some_path(LAW, sd=[3.0, 0.5]), some_ladder(), ENDED)
    np.testing.assert_allclose(found["temperature"], [0, 1 / 16, 1])
    np.testing.assert_allclose(found["step_size"], 0.2)
    assert found["barrier"] == pytest.approx(0.75)
    assert found["log_evidence"] == 4.5
    np.testing.assert_allclose(found["reference_mean"], [1.0, -2.0])
    np.testing.assert_allclose(found["reference_sd"], [3.0, 0.5])


def test_scales_of_a_dense_law():
    covariance = np.array([[4.0, 1.5], [1.5, 9.0]])
    found = of_path(some_path(LAW, covariance=covariance), some_ladder(), ENDED)
    np.testing.assert_allclose(found["reference_sd"], [2.0, 3.0])


def test_what_there_is_not():
    power, prior = (
        of_path(some_path(kind, sd=1.0), some_ladder(), ENDED) for kind in (POWER, PRIOR)
    )
    assert np.isnan(power["log_evidence"])
    assert prior["log_evidence"] == 4.5
    assert not {"reference_mean", "reference_sd"} & {*power, *prior}


def test_what_is_told_does_not_change_with_the_chain():
    ladder = some_ladder()
    found = of_path(some_path(LAW, sd=1.0), ladder, ENDED)
    ladder.levels[:] = -1
    assert found["log_normalizer"][2] == 4.5
