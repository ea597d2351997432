"""diagnose(): the verdict on one fit, its reasons and notes, and the parameters that mix worst."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.errors import Message
from tests.helpers import made_up_fits
from tests.helpers.codes import raises


def test_a_fine_fit_takes_one_line_and_a_bad_chain_is_named():
    diagnosis = sa.diagnose(made_up_fits.fit(1))
    assert (diagnosis.verdict, diagnosis.messages, diagnosis.codes) == ("fine", [], [])
    assert repr(diagnosis) == f"fine: {diagnosis.summary}"
    for fact in ("4 x 250", "R-hat 1.0", "bulk ESS", "tail ESS"):
        assert fact in diagnosis.summary
    diagnosis = sa.diagnose(made_up_fits.in_another_mode(1))
    message = diagnosis.messages[diagnosis.codes.index("high_r_hat")]
    assert "Chain 3" in message
    assert "8.897" in message  # its mean


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        ("other mode", "high_r_hat"), ("frozen", "frozen_chain"), ("large steps", "low_ess"),
        ("thinned", "low_ess"), ("divergent", "divergences"),
    ],
)  # fmt: skip
def test_every_problem_is_reported(problem, code):
    diagnosis = sa.diagnose(made_up_fits.PLANTED[problem](1))
    assert diagnosis.verdict != "fine"
    assert code in diagnosis.codes
    first, *lines = repr(diagnosis).splitlines()
    assert first.startswith(diagnosis.verdict)
    assert lines == [f"- {m} [{m.code}]" for m in diagnosis.messages]


def test_reasons_are_those_of_the_verdict_and_shown_as_text(capsys):
    fit = made_up_fits.diverging(1)
    diagnosis = sa.diagnose(fit)
    assert capsys.readouterr().out == ""
    assert (diagnosis.verdict, diagnosis.reasons) == verdict(fit)
    assert diagnosis.codes == ["divergences"]
    note = "7 of 99 evaluations had no finite density; Stan says: <b>no</b>"
    page = sa.diagnose(made_up_fits.fit(1, notes=[note]))._repr_html_()
    assert "<strong>fine</strong>" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page


def test_the_worst_of_many_parameters_are_shown():
    rng = np.random.default_rng(1)
    many = rng.normal(size=(4, 250, 1000))
    many[..., 700] = many[:, 0, 700][:, None] + rng.normal(size=(4, 250)).cumsum(axis=1)
    many[1, 3, 5] = np.nan
    fit = made_up_fits.fit(1, posterior={"b": many}, parameters='["b"]')
    diagnosis = sa.diagnose(fit)
    assert "(b[701])" in diagnosis.summary
    assert diagnosis.verdict == "do not use"
    assert "b[6]" in diagnosis.messages[diagnosis.codes.index("not_finite")]
    assert diagnosis.table.index[0] == "b[701]"
    assert len(diagnosis.table) <= 32
    assert diagnosis.table["ess_bulk"].is_monotonic_increasing


def test_interruptions_and_single_chains_are_told():
    diagnosis = sa.diagnose(made_up_fits.fit(1, interrupted=True))
    assert (diagnosis.verdict, diagnosis.codes) == ("fine", ["interrupted_fit"])
    assert "250" in diagnosis.notes[0]
    assert "seed=1" in diagnosis.notes[0]
    folder = sa.diagnose(made_up_fits.fit(1, interrupted=True, run="here"))
    assert "resume('here')" in folder.notes[0]
    one = sa.diagnose(made_up_fits.fit(1, shape=(1, 400)))
    assert (one.verdict, one.codes) == ("fine", ["one_chain"])
    assert "R-hat" not in one.summary
    constant = sa.diagnose(made_up_fits.fit(1, posterior={"a": np.ones((4, 250))}))
    assert constant.verdict == "do not use"
    assert "frozen_chain" in constant.codes
    assert constant.table.empty


def test_notes_are_repeated_kept_and_added_with_codes():
    note = Message("file_missing", "7 of 99 [no]")
    diagnosis = sa.diagnose(made_up_fits.fit(1, notes=[note, "plain"]))
    assert (diagnosis.verdict, diagnosis.notes) == ("fine", [note, "plain"])
    assert diagnosis.codes == ["file_missing", ""]
    assert diagnosis.notes[0].code == "file_missing"
    diagnosis = sa.diagnose(made_up_fits.fit(1, notes=json.dumps(["old"])))
    assert (diagnosis.notes, diagnosis.codes) == (["old"], [""])
    fit = made_up_fits.fit(1, notes=["new"])
    fit.attrs["note_codes"] = '["not_invented_yet"]'
    assert sa.diagnose(fit).codes == ["not_invented_yet"]
    fit = made_up_fits.fit(1, notes=["first"])
    results.add_notes(fit, [Message("file_missing", "second")])
    assert json.loads(fit.attrs["notes"]) == ["first", "second"]
    assert json.loads(fit.attrs["note_codes"]) == ["", "file_missing"]
    fresh = made_up_fits.fit(1)
    results.add_notes(fresh, ["only"])
    assert results.notes(fresh) == ["only"]


def test_notes_of_a_run_are_recorded():
    program = "parameters { real x; } model { x ~ normal(0, 1); 1 ~ gamma(2, 1.5 - x); }"
    target = sa.Target(program)
    run = {"iter_warmup": 200, "iter_sampling": 300, "chains": 2, "seed": 1}
    with pytest.warns(sa.errors.StanadaptWarning):
        fit = sa.sample(target, "rwm", **run)
    # words from Stan's message
    assert any("nverse scale parameter" in note for note in sa.diagnose(fit).notes)


@pytest.mark.parametrize("thing", [None, 3, "fit.nc", {"x": 1}])
def test_other_objects_are_refused(thing):
    with raises("not_a_fit", "dict" if isinstance(thing, dict) else repr(thing)):
        sa.diagnose(thing)
