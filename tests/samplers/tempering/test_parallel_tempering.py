"""Parallel tempering with swaps in energy rings: warm-up, reports, refusals."""

import numpy as np
import pytest

from tests.helpers.chains import column, finish, make_chains
from tests.helpers.targets import Awkward


def ended(**chosen):
    case = "parallel_tempering", {"kernel": "random_walk", "levels": 5, **chosen}
    (chain,) = finish(make_chains(case, Awkward(), warmup=400))
    return chain, chain.sampler.tempering.learned(chain.state)


def test_rings_change_nothing_in_warmup():
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


def test_sweeps_without_a_pair_are_counted():
    chain, found = ended(swaps="energy_rings", rings=20)
    alone = np.mean(column(chain, "swap_rate") == 0)
    assert 0.1 < found["without_pair"] < 0.9
    # a pair may have an acceptance rate of 0 as well
    assert found["without_pair"] <= alone < found["without_pair"] + 0.2
    _, found = ended(swaps="energy_rings", rings=1)
    assert found["without_pair"] == 0
    assert found["ring_boundary"].shape == (0,)
