"""What trials are taken to say: the ranking, the length, the sentences."""

import json

import numpy as np
import pytest

from stanadapt.diagnostics.verdict import DO_NOT_USE, FINE, Verdict
from stanadapt.studies.advise.advice import Advice
from stanadapt.studies.advise.trials import Candidate, Trial, smallest_ess
from tests.helpers import made_up_fits


def trial(sampler, ess, warmup=1.0, sampling=1.0, verdict=FINE, why="", settings=None, **changes):
    fit = made_up_fits.fit(1, **changes)
    said = Verdict(verdict, [why] if why else [])
    return Trial(Candidate(sampler, settings or {}), fit, said, ess, warmup, sampling, 1.0)


def advice(*trials, excluded=None, ess=1000.0):
    return Advice(list(trials), excluded or {}, ess, {"parameters": 3}, [])


def test_warmup_counts():
    # 1000 draws: 1 + 4 seconds against 10 + 0.1
    found = advice(trial("nuts", 250.0), trial("gad_hmc", 10_000.0, warmup=10.0))
    assert found.sampler == "nuts"
    np.testing.assert_allclose(found.table.loc["nuts", "seconds_needed"], 5.0)
    np.testing.assert_allclose(found.table.loc["gad_hmc", "seconds_needed"], 10.1)
    # and for many draws it does not
    found = advice(trial("nuts", 250.0), trial("gad_hmc", 10_000.0, warmup=10.0), ess=100_000.0)
    assert found.sampler == "gad_hmc"


@pytest.mark.parametrize(("seconds", "chosen"), [(1.2, "whitened_hmc"), (1.4, "hmc")])
def test_the_default_is_kept_where_little_is_gained(seconds, chosen):
    default = trial("whitened_hmc", 1000.0, warmup=0.0, sampling=seconds)
    assert advice(default, trial("hmc", 1000.0, warmup=0.0)).sampler == chosen


def test_a_fit_that_cannot_be_used_is_not_recommended():
    bad = trial("hmc", 1e6, verdict=DO_NOT_USE, why="Chain 2 never moved.")
    found = advice(trial("nuts", 100.0), bad)
    assert found.sampler == "nuts"
    assert np.isnan(found.table.loc["hmc", "seconds_needed"])
    assert "hmc: Chain 2 never moved." in repr(found)
    assert "No other trial could be used" in found.sentences[0]


def with_divergences(number):
    stats = made_up_fits.statistics()
    stats["diverging"].flat[:number] = True
    return {"stats": stats}


def test_trajectories_that_diverged_are_passed_over():
    diverged = trial("whitened_hmc", 1e5, **with_divergences(3))
    careful = trial("nuts", 500.0, settings={"target_accept": 0.95})
    lucky = trial("gad_hmc", 1e4)
    blind = trial("gad_mala", 400.0, stats={"acceptance_rate": np.full(made_up_fits.SHAPE, 0.6)})
    found = advice(diverged, lucky, careful, blind)
    assert found.arguments["target_accept"] == 0.95
    assert "gad_mala would take" in found.sentences[0]
    assert found.sentences[1].endswith(" diverged: whitened_hmc, gad_hmc.")
    # where shorter steps diverged too, or those of the best did not, all are weighed
    worse = trial("nuts", 500.0, settings={"target_accept": 0.95}, **with_divergences(1))
    poor = trial("nuts", 100.0, **with_divergences(9))
    best = trial("whitened_hmc", 1e5)
    for trials in ([diverged, lucky, blind, worse], [best, poor, careful, blind]):
        assert advice(*trials).sampler == "whitened_hmc"
        assert len(advice(*trials).sentences) == 1


def test_a_fit_that_missed_a_mode_is_not_recommended():
    missing = {"nuts": "it missed where hmc found much of its draws."}
    found = advice(trial("nuts", 1e5), trial("hmc", 400.0), excluded=missing)
    assert found.sampler == "hmc"
    assert "it missed where hmc" in repr(found)


def test_without_a_usable_trial_the_last_resort_is_named():
    found = advice(
        trial("whitened_hmc", 5.0, verdict=DO_NOT_USE, why="R-hat is 2."),
        Trial(Candidate("parallel_tempering", {}), None, Verdict("failed", ["no draws"]),
              np.nan, np.nan, np.nan, 1.0),
    )  # fmt: skip
    assert found.sampler == "parallel_tempering"
    assert "No trial could be used" in found.sentences[0]
    assert list(found.fits) == ["whitened_hmc"]


@pytest.mark.parametrize(
    ("ess", "length"),
    # the trial drew 250 per chain, as many as were asked for
    [(300.0, 840), (26.0, 9700), (1000.0, 500), (2.4, 110_000)],
)
def test_the_length_that_is_recommended(ess, length):
    found = advice(trial("nuts", ess))
    assert found.iter_sampling == length
    assert length / 1.2 < max(250 * 1000 / ess, 500) <= length


def test_the_default_length_where_it_is_about_right():
    found = advice(trial("nuts", 300.0, iter_sampling=1000))
    assert found.iter_sampling is None
    assert found.arguments == {"sampler": "nuts"}


def test_the_command():
    chosen = trial("nuts", 100.0, settings={"target_accept": 0.95})
    found = advice(chosen)
    assert found.command("my model.stan", "data.json") == (
        "stanadapt sample 'my model.stan' --data data.json --sampler nuts --iter-sampling 2500 "
        "--set target_accept=0.95"
    )
    assert found.arguments == {"sampler": "nuts", "iter_sampling": 2500, "target_accept": 0.95}


def test_as_json():
    found = json.loads(advice(trial("nuts", 100.0), trial("hmc", np.nan)).to_json())
    assert found["sampler"] == "nuts"
    assert found["trials"]["hmc"]["seconds_needed"] is None


def test_the_smallest_effective_sample_size():
    rng = np.random.default_rng(5)
    n = 4000
    steps = rng.normal(size=n)
    slow = np.empty(n)
    slow[0] = 0.0
    for i in range(1, n):  # its squares mix slowly, the draws themselves are uncorrelated
        slow[i] = 0.99 * slow[i - 1] + steps[i]
    signs = rng.choice([-1.0, 1.0], size=n)
    posterior = {"a": rng.normal(size=(1, n)), "b": (signs * np.exp(0.2 * slow))[None]}
    fit = made_up_fits.fit(1, posterior=posterior, parameters='["a", "b"]')
    assert smallest_ess(fit) < 200
    without = made_up_fits.fit(1, posterior=posterior, parameters='["a"]')
    assert smallest_ess(without) > 2500


def test_a_trial_that_is_not_finite_has_no_effective_draws():
    posterior = {"a": np.full((4, 100), np.nan)}
    posterior["a"][0, 0] = 1.0
    assert smallest_ess(made_up_fits.fit(1, posterior=posterior, parameters='["a"]')) == 0.0
