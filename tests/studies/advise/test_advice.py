"""The advice that follows from trials: the ranking, the length, the messages."""

import json

import numpy as np
import pytest

from stanadapt.diagnostics.reasons import DO_NOT_USE, FINE
from stanadapt.diagnostics.verdict import Verdict
from stanadapt.errors import Message, codes_of
from stanadapt.studies.advise.advice import Advice
from stanadapt.studies.advise.trials import Candidate, Trial, smallest_ess
from tests.helpers import made_up_fits


def trial(sampler, ess, warmup=1.0, sampling=1.0, verdict=FINE, why="", settings=None, **changes):
    fit = made_up_fits.fit(1, **changes)
    judgment = Verdict(verdict, [why] if why else [])
    return Trial(Candidate(sampler, settings or {}), fit, judgment, ess, warmup, sampling, 1.0)


def advice(*trials, excluded=None, until_ess=1000.0):
    return Advice(list(trials), excluded or {}, until_ess, {"parameters": 3}, [], 7)


def test_warm_up_counts_and_trials_without_use_are_named():
    # 1000 draws: 1 + 4 seconds against 10 + 0.1
    trials = trial("nuts", 250.0), trial("gad_hmc", 10_000.0, warmup=10.0)
    result = advice(*trials)
    assert result.sampler == "nuts"
    np.testing.assert_allclose(result.table.loc["nuts", "seconds_needed"], 5.0)
    np.testing.assert_allclose(result.table.loc["gad_hmc", "seconds_needed"], 10.1)
    # with many draws warm-up is negligible
    assert advice(*trials, until_ess=100_000.0).sampler == "gad_hmc"
    result = advice(
        trial("whitened_hmc", 5.0, verdict=DO_NOT_USE, why="R-hat is 2."),
        Trial(Candidate("parallel_tempering", {}), None, Verdict("failed", ["no draws"]),
              np.nan, np.nan, np.nan, 1.0),
    )  # fmt: skip
    assert result.sampler == "parallel_tempering"
    assert codes_of(result.messages) == ["no_usable_trial"]
    assert "parallel_tempering" in result.messages[0]
    assert list(result.fits) == ["whitened_hmc"]


@pytest.mark.parametrize(("seconds", "sampler"), [(1.2, "whitened_hmc"), (1.4, "hmc")])
def test_the_default_is_kept_if_the_gain_is_small(seconds, sampler):
    default = trial("whitened_hmc", 1000.0, warmup=0.0, sampling=seconds)
    assert advice(default, trial("hmc", 1000.0, warmup=0.0)).sampler == sampler


def test_fits_that_failed_or_missed_a_mode_are_not_recommended():
    bad = trial("hmc", 1e6, verdict=DO_NOT_USE, why="Chain 2 froze.")
    result = advice(trial("nuts", 100.0), bad)
    assert result.sampler == "nuts"
    assert np.isnan(result.table.loc["hmc", "seconds_needed"])
    assert "hmc: Chain 2 froze." in repr(result)
    assert "hmc: Chain 2 froze." in result._repr_html_()
    assert codes_of(result.messages) == ["recommended"]
    missing = {"nuts": Message("missed_in_trial", "It missed half of hmc.")}
    result = advice(trial("nuts", 1e5), trial("hmc", 400.0), excluded=missing)
    assert result.sampler == "hmc"
    assert "nuts: It missed half of hmc." in repr(result)


def with_divergences(number):
    stats = made_up_fits.statistics()
    stats["diverging"].flat[:number] = True
    return {"stats": stats}


def test_trajectories_that_diverged_are_passed_over():
    diverged = trial("whitened_hmc", 1e5, **with_divergences(3))
    careful = trial("nuts", 500.0, settings={"target_accept": 0.95})
    lucky = trial("gad_hmc", 1e4)
    blind = trial("gad_mala", 400.0, stats={"acceptance_rate": np.full(made_up_fits.SHAPE, 0.6)})
    result = advice(diverged, lucky, careful, blind)
    assert result.arguments["target_accept"] == 0.95
    assert codes_of(result.messages) == ["recommended", "passed_over"]
    recommended, passed_over = result.messages
    assert "gad_mala" in recommended
    assert "whitened_hmc, gad_hmc" in passed_over
    # if shorter steps diverged too, or those of the best did not, all trials are compared
    worse = trial("nuts", 500.0, settings={"target_accept": 0.95}, **with_divergences(4))
    poor = trial("nuts", 100.0, **with_divergences(9))
    best = trial("whitened_hmc", 1e5)
    for trials in ([diverged, lucky, blind, worse], [best, poor, careful, blind]):
        assert advice(*trials).sampler == "whitened_hmc"
        assert codes_of(advice(*trials).messages) == ["recommended"]


@pytest.mark.parametrize(
    ("ess", "length"),
    # the trial drew 250 per chain, as many as requested
    [(300.0, 840), (26.0, 9700), (1000.0, 500), (2.4, 110_000)],
)
def test_the_length_that_is_recommended(ess, length):
    result = advice(trial("nuts", ess))
    assert result.iter_sampling == length
    assert length / 1.2 < max(250 * 1000 / ess, 500) <= length
    assert f"iter_sampling={length}" in result.messages[0]


def test_advice_as_command_json_and_html():
    result = advice(trial("nuts", 100.0, settings={"target_accept": 0.95}))
    assert result.command("my model.stan", "data.json") == (
        "stanadapt sample 'my model.stan' --data data.json --sampler nuts --iter-sampling 2500 "
        "--set target_accept=0.95"
    )
    assert result.arguments == {"sampler": "nuts", "iter_sampling": 2500, "target_accept": 0.95}
    content = json.loads(advice(trial("nuts", 100.0), trial("hmc", np.nan)).to_json())
    assert (content["sampler"], content["seed"]) == ("nuts", 7)
    assert content["trials"]["hmc"]["seconds_needed"] is None
    html = advice(trial("<b>", 100.0))._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    result = advice(trial("nuts", 300.0, iter_sampling=1000))
    assert result.iter_sampling is None
    assert result.arguments == {"sampler": "nuts"}


def test_effective_sample_sizes_of_trials():
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
    posterior = {"a": np.full((4, 100), np.nan)}
    posterior["a"][0, 0] = 1.0
    assert smallest_ess(made_up_fits.fit(1, posterior=posterior, parameters='["a"]')) == 0.0
