"""Equi-energy as a whole: stages of warm-up, small bias on the mixture, and notes."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import codes_of
from stanadapt.samplers import find
from stanadapt.samplers.tempering.energy_walk import FLOOR
from stanadapt.samplers.tempering.equi_energy import EXPLORING, FILING, Settings
from stanadapt.samplers.tempering.findings import report_jumps
from tests.helpers.chains import make_chains
from tests.helpers.known_moments import load, nearest
from tests.helpers.run_view import view_of
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
        chain.advance(80)
    assert chain.state.filing == 1
    np.testing.assert_array_equal(chain.state.files.offered, [240, 400, 560, 720])
    assert np.all(np.diff(chain.state.chains.tuning[1:, FLOOR]) > 0)


def test_it_is_marked_as_not_exact():
    assert not find(NAME)[0].exact


def stats_of(chains=4, **changed):
    whole = {"n_jumps": 1, "n_jumps_accepted": 1, "n_empty": 0, "ring": 0} | changed
    return {name: np.full((chains, 10), value) for name, value in whole.items()}


@pytest.mark.parametrize(("chains", "changed", "code", "fact"), [
    (4, {"n_empty": 1}, "empty_files", "50%"), (4, {"n_jumps": 4}, "rejected_jumps", "25%"),
    (3, {}, "shared_file_error", "4"), (4, {}, None, ""),
])  # fmt: skip
def test_the_notes_on_jumps(chains, changed, code, fact):
    notes = report_jumps(
        view_of(Settings(), stats_of(chains, **changed), sampler_name=NAME)
    ).messages
    assert codes_of(notes) == ([code] if code else [])
    assert all(fact in note for note in notes)


@pytest.mark.slow
def test_twenty_modes_within_the_bias():
    """Means over eight chains: standard deviations of a chain's are 0.15, by which they are held.

    The bias of files of this length is below 0.05. All modes are in every chain.
    """
    target, content = load("mixture", "twenty")
    fit = sa.sample(target, NAME, chains=8, seed=1)
    x = results.dataset(fit, "posterior")["x"].values
    assert all(set(chain) == set(range(20)) for chain in nearest(x, content))
    for power, truth in ((1, (4.478, 4.905)), (2, (25.605, 33.920))):
        means = (x**power).mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(8)
        # Student t with 7 degrees: four comparisons, each beyond 6 with probability 5e-4
        assert np.all(np.abs(means.mean(axis=0) - truth) < 6 * error)
        assert np.all(error < (0.1 if power == 1 else 1.0))
