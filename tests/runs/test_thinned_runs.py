"""What happens between kept draws counts: the verdict is that on all iterations."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.verdict import verdict
from stanadapt.engine.every_iteration import add, described, no_iterations
from stanadapt.results import statistics
from tests.helpers import made_up_fits
from tests.helpers.stan_target import shared_target

FUNNEL = (
    "parameters { real v; vector[9] x; } model { v ~ normal(0, 3); x ~ normal(0, exp(v / 2)); }"
)
STATISTICS = {"divergences", "low_bfmi", "max_treedepth", "rejected_trajectories"}
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
target = shared_target(FUNNEL)


def draw(target, **options):
    return sa.sample(
        target, "nuts", seed=1, iter_warmup=200, iter_sampling=300, chains=2, max_treedepth=4,
        **options,
    )  # fmt: skip


def judged(fit):
    """Return the texts of the reasons that depend on statistics, in the same words for all."""
    return {
        message.code: message.replace("iterations (", "draws (")
        for message in verdict(fit).reasons
        if message.code in STATISTICS
    }


@pytest.fixture(scope="module")
def whole(target):
    fit = draw(target)
    assert set(judged(fit)) == {"divergences", "low_bfmi", "max_treedepth"}
    return fit


@pytest.mark.parametrize("thin", [4, 50])
def test_a_thinned_run_says_as_much_as_the_whole(target, whole, thin):
    assert judged(draw(target, thin=thin)) == judged(whole)


def test_the_same_counts_on_workers_and_from_a_folder(target, whole, tmp_path):
    with ThreadPoolExecutor(1) as executor:
        there = draw(target, thin=50, executor=executor)
    assert judged(there) == judged(whole)
    here = draw(target, thin=50, run=tmp_path / "run")
    loaded = sa.load(tmp_path / "run")
    assert loaded.attrs["every_iteration"] == here.attrs["every_iteration"]
    assert judged(loaded) == judged(whole)


@pytest.mark.parametrize("form", ["netcdf", "cmdstan"])
def test_a_fit_that_is_thinned_when_it_is_saved(whole, tmp_path, form):
    saved = sa.load(sa.save(whole, tmp_path / "fit", format=form, thin=50))
    assert judged(saved) == judged(whole)
    assert statistics(saved)["diverging"].shape == (2, 6)


def test_a_thinned_fit_of_others_says_what_is_unknown():
    rng = np.random.default_rng(0)
    stats = made_up_fits.statistics((4, 250)) | {"energy": rng.normal(size=(4, 250)).cumsum(axis=1)}
    thinned, whole = (
        made_up_fits.fit(1, stats=stats, thin=thin, sampler="nuts") for thin in (5, 1)
    )
    (reason,) = [m for m in verdict(thinned).reasons if m.code == "thinned_statistics"]
    assert "one of 5 iterations" in reason
    codes = {message.code for message in verdict(whole).reasons}
    assert "low_bfmi" in codes
    assert "thinned_statistics" not in codes
    # E-BFMI of energies far apart says nothing
    assert "low_bfmi" not in {message.code for message in verdict(thinned).reasons}


def test_totals_do_not_depend_on_how_iterations_come():
    rng = np.random.default_rng(0)
    names = ["lp", "acceptance_rate", "energy", "diverging", "tree_depth"]
    stats = rng.uniform(size=(500, 5)) + np.array([0, 0, 1e6, 0, 0])
    stats[:, 3], stats[:, 4] = stats[:, 3] < 0.1, np.floor(11 * stats[:, 4])

    class Settings:
        max_treedepth = 10

    at_once, in_parts = no_iterations(), no_iterations()
    add(at_once, stats, names, Settings)
    for part in np.split(stats, [1, 7, 7, 300]):
        add(in_parts, part, names, Settings)
    assert described([in_parts]) == described([at_once])
    energy = stats[:, 2]
    found = described([at_once])
    assert found["bfmi"][0] == pytest.approx(
        np.mean(np.diff(energy) ** 2) / np.var(energy), rel=1e-12
    )
    assert found["diverging"] == [stats[:, 3].sum()]
    assert found["cut_trees"] == [(stats[:, 4] >= 10).sum()]
    assert json.loads(json.dumps(found)) == found
