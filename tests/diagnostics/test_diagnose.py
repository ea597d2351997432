"""diagnose(): one line for a fit that is fine, else what is wrong and what to try."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.diagnostics.verdict import verdict
from tests.helpers import made_up_fits


def printed(capsys, fit):
    found = sa.diagnose(fit)
    return found, capsys.readouterr().out.splitlines()


def test_a_fine_fit_takes_one_line(capsys):
    found, lines = printed(capsys, made_up_fits.fit(1))
    assert found == ("fine", [])
    (line,) = lines
    assert line.startswith("fine: 4 x 250 draws; largest R-hat 1.0")
    assert "smallest bulk ESS" in line
    assert "smallest tail ESS" in line


@pytest.mark.parametrize("problem", made_up_fits.PLANTED)
def test_every_problem_is_said_with_what_to_try(capsys, problem):
    found, lines = printed(capsys, made_up_fits.PLANTED[problem](1))
    assert found.verdict != "fine"
    assert lines[0].startswith(found.verdict)
    assert lines[1:] == [f"- {sentence}" for sentence in found.sentences]
    advice = ("iter_sampling", "iter_warmup", "sampler=", "target_accept", "inits")
    assert all(any(word in sentence for word in advice) for sentence in found.sentences)


def test_the_chain_that_disagrees_is_named(capsys):
    found, _ = printed(capsys, made_up_fits.in_another_mode(1))
    (sentence,) = (s for s in found.sentences if s.startswith("R-hat of a"))
    assert "Chain 3 stands out: its mean is 8.897" in sentence


def test_its_value_at_a_prompt_does_not_say_it_again():
    found = sa.diagnose(made_up_fits.diverging(1))
    assert repr(found) == "Verdict('too short', 1 sentences)"
    assert found.sentences == verdict(made_up_fits.diverging(1)).sentences


def test_of_many_parameters_the_worst_are_shown(capsys):
    rng = np.random.default_rng(1)
    many = rng.normal(size=(4, 250, 1000))
    many[..., 700] = many[:, 0, 700][:, None] + rng.normal(size=(4, 250)).cumsum(axis=1)
    many[1, 3, 5] = np.nan
    fit = made_up_fits.fit(1, posterior={"b": many}, parameters='["b"]')
    _, lines = printed(capsys, fit)
    assert "(b[701])" in lines[0]
    assert lines[0].startswith("do not use: 4 x 250 draws; largest R-hat ")
    assert "b[6] has draws that are not finite" in lines[1]


def test_an_interruption_is_said_with_how_to_get_the_rest(capsys):
    found, lines = printed(capsys, made_up_fits.fit(1, interrupted=True))
    assert found.verdict == "fine"
    assert lines[1] == (
        "- Interrupted after 250 draws per chain: the same call with seed=1 draws these and the "
        "rest."
    )


def test_what_the_run_said_is_said_again(capsys):
    note = "7 of 99 evaluations had no finite density; Stan says: [no]"
    found, lines = printed(capsys, made_up_fits.fit(1, notes=json.dumps([note])))
    assert found == ("fine", [note])
    assert lines[1:] == [f"- {note}"]


def test_notes_of_a_run_are_recorded():
    program = "parameters { real x; } model { x ~ normal(0, 1); 1 ~ gamma(2, 1.5 - x); }"
    target = sa.Target(program, show_progress=False)
    run = {"iter_warmup": 200, "iter_sampling": 300, "chains": 2, "show_progress": False, "seed": 1}
    with pytest.warns(UserWarning, match="had no finite density"):
        fit = sa.sample(target, "rwm", **run)
    found = sa.diagnose(fit, show=False)
    assert any("nverse scale parameter" in sentence for sentence in found.sentences)


def test_one_chain_and_constant_columns(capsys):
    one = made_up_fits.fit(1, shape=(1, 400))
    found, lines = printed(capsys, one)
    assert found.verdict == "fine"
    assert "R-hat" not in lines[0]
    assert "one chain" in lines[1]
    still = made_up_fits.fit(1, posterior={"a": np.ones((4, 250))})
    found, lines = printed(capsys, still)
    assert found.verdict == "do not use"
    assert "never moved" in lines[1]


@pytest.mark.parametrize("thing", [None, 3, "fit.nc", {"x": 1}])
def test_what_is_no_fit(thing):
    with pytest.raises(sa.StanadaptError, match="the fit must be a result of sample"):
        sa.diagnose(thing)
