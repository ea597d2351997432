"""Fits that lack something, or have different targets: messages instead of tracebacks."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from tests.helpers import made_up_fits as made_up
from tests.helpers.codes import raises, raises_in
from tests.helpers.html_page import Page


def page_of(fits, path):
    return Page(sa.report(fits, path / "report.html").read_text())


def test_fits_that_cannot_be_compared_leave_an_earlier_report(tmp_path):
    fits = {"a": made_up.fit(1), "b": made_up.fit(2, data_hash="other")}
    with raises_in("settings", "in their data"):
        sa.report(fits, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
    one, two = ({name: made_up.draws(1)["a"]} for name in ("x", "y"))
    fits = {
        "a": results.build({"posterior": one}, {}),
        "b": [results.build({"posterior": two}, {})],
    }
    with raises("different_targets", "a (x)", "b (y)"):
        sa.report(fits, tmp_path / "report.html")
    with raises_in("files", tmp_path):
        sa.report({"a": made_up.fit(1)}, tmp_path)
    path = tmp_path / "report.html"
    path.write_text("earlier")
    with pytest.raises(StanadaptError):
        sa.report({}, path)
    assert path.read_text() == "earlier"


@pytest.mark.parametrize(("fits", "code", "facts"), [
    ({}, "nothing_to_study", []), ({"a": []}, "nothing_to_study", ["'a'"]),
    ({"a": 3}, "not_a_fit", ["'a'", "got 3"]),
    ({"a": [made_up.fit(1), "b"]}, "not_a_fit", ["'a'", "got 'b'"]),
    (made_up.fit(1), "not_fits_by_name", [type(made_up.fit(1)).__name__]),
])  # fmt: skip
def test_values_that_are_no_fits_by_name(fits, code, facts, tmp_path):
    with raises(code, *facts):
        sa.report(fits, tmp_path / "report.html")


def test_names_may_be_numbers(tmp_path):
    """An index of numbers turns 1 into 1.0, which reads differently."""
    fits = {1: made_up.fit(1), 2.5: made_up.fit(2)}
    path = sa.report(fits, tmp_path / "report.html", table=sa.compare(fits, 1))
    conclusion = dict(Page(path.read_text()).messages("conclusion"))
    assert "agree with 1, which shares their density, within" in conclusion["all_fits_usable"]


def test_a_fit_with_nothing_but_a_posterior(tmp_path):
    """Other software may write no statistics, seconds or counts."""
    bare = results.build({"posterior": made_up.draws(1)}, {})
    other = results.build({"posterior": made_up.draws(2)}, {})
    page = page_of({"bare": bare, "other": other}, tmp_path)
    assert page.codes("problems", "bare") == ["no_statistics", "no_seconds"]
    assert page.codes("conclusion") == ["all_fits_usable", "unknown_speed"]


@pytest.mark.thorough
def test_chains_that_lack_seconds_or_variables(tmp_path):
    timeless, cut = made_up.fit(1, seconds=0.0), made_up.fit(3, shape=(4, 150), interrupted=True)
    page = page_of({"timeless": timeless, "b": made_up.fit(2), "cut": cut}, tmp_path)
    assert "150 of 250" in dict(page.messages("problems", "cut"))["interrupted_fit"]
    _, (code, text) = page.messages("conclusion")
    assert code == "fastest_sampler"
    assert "Use b" in text
    assert "timeless" in text
    posterior = {name: x for name, x in made_up.draws(1).items() if name != "b"}
    fits = {"some": made_up.fit(1, posterior=posterior), "all": made_up.fit(2)}
    assert page_of(fits, tmp_path).codes("conclusion")[0] == "all_fits_usable"


@pytest.mark.slow
def test_chains_that_are_alone_are_trusted_as_far_as_they_agree(tmp_path):
    one = made_up.fit(1, shape=(1, 250))
    page = page_of({"a": one}, tmp_path)
    assert page.codes("conclusion") == ["no_fit_usable", "no_recommendation"]
    assert "one_chain" in page.codes("problems", "a")
    fits = {"one": made_up.fit(1, shape=(1, 1000)), "four": made_up.fit(2, shape=(4, 250))}
    assert page_of(fits, tmp_path).codes("conclusion")[0] == "all_fits_usable"
    posterior = made_up.draws(1, (1, 1000))
    posterior["a"] += 1.0  # as wide as the truth: no mode is missed
    fits["one"] = made_up.fit(1, posterior=posterior)
    page = page_of(fits, tmp_path)
    (code, text), _ = page.messages("conclusion")
    assert code == "some_fits_usable"
    assert "one (" in text
    (problem,) = [t for c, t in page.messages("problems", "one") if c == "disagreement"]
    assert "four" in problem


@pytest.mark.slow
def test_constant_and_not_finite_quantities(tmp_path):
    posterior = made_up.draws(1) | {"size": np.full(made_up.SHAPE, 7.0)}
    broken = made_up.draws(2)["a"]
    broken[1, 5:8] = np.nan
    posterior["ratio"] = broken
    names = '["a", "b", "c", "size", "ratio"]'
    broken = made_up.fit(1, posterior=posterior, parameters=names)
    problems = dict(page_of({"a": broken, "b": made_up.fit(2)}, tmp_path).messages("problems", "a"))
    assert "size (7)" in problems["constant_quantity"]
    assert "ratio (3 of 1,000)" in problems["nonfinite_quantity"]


def test_nothing_but_constants_and_nan(tmp_path):
    posterior = {"a": np.full((4, 100), 2.0), "b": np.full((4, 100), np.nan)}
    for parameters in ('["a"]', '["a", "b"]'):
        fit = made_up.fit(1, posterior=posterior, parameters=parameters)
        (code, text), _ = page_of({"x": fit}, tmp_path).messages("conclusion")
        assert code == "no_fit_usable"
        assert "x (do not use)" in text


@pytest.mark.slow
@pytest.mark.parametrize("draws", [1, 3])
def test_very_few_draws(draws, tmp_path):
    fits = {"few": made_up.fit(1, shape=(4, draws)), "b": made_up.fit(2)}
    (code, text), _ = page_of(fits, tmp_path).messages("conclusion")
    assert code == "some_fits_usable"
    assert "few (" in text


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with raises("report_library_missing", missing):
        sa.report({"a": made_up.fit(1)}, tmp_path / "report.html")
