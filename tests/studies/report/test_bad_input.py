"""Fits that lack something, or are of different targets: a clear sentence, never a traceback."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from tests.helpers import made_up_fits as made_up
from tests.helpers.html_page import Page


def words(fits, path, section="problems"):
    return Page(sa.report(fits, path / "report.html").read_text()).words(section)


def test_fits_of_different_data_are_refused(tmp_path):
    fits = {"a": made_up.fit(1), "b": made_up.fit(2, data_hash="other")}
    with pytest.raises(StanadaptError, match="one program and one data set"):
        sa.report(fits, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_fits_without_a_common_variable_are_refused(tmp_path):
    one, two = ({name: made_up.draws(1)["a"]} for name in ("x", "y"))
    fits = {
        "a": results.build({"posterior": one}, {}),
        "b": [results.build({"posterior": two}, {})],
    }
    with pytest.raises(StanadaptError, match=r"no variable in common \(a: x; b: y\)"):
        sa.report(fits, tmp_path / "report.html")


@pytest.mark.parametrize(
    ("fits", "message"),
    [
        ({}, "at least one fit"),
        ({"a": []}, "'a' is an empty list"),
        ({"a": 3}, "'a' must be a result of sample or stan_nuts, or a list of them, got int"),
        ({"a": [made_up.fit(1), "b"]}, "got str"),
        (made_up.fit(1), "takes a mapping of fits by name"),
    ],
)
def test_what_is_no_mapping_of_fits(fits, message, tmp_path):
    with pytest.raises(StanadaptError, match=message):
        sa.report(fits, tmp_path / "report.html")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(StanadaptError, match="is a folder"):
        sa.report({"a": made_up.fit(1)}, tmp_path)


def test_a_fit_with_nothing_but_a_posterior(tmp_path):
    """As other software may have written it: no statistics, seconds or counts."""
    bare = results.build({"posterior": made_up.draws(1)}, {})
    other = results.build({"posterior": made_up.draws(2)}, {})
    path = sa.report({"bare": bare, "other": other}, tmp_path / "report.html")
    page = Page(path.read_text())
    assert "It has no sample statistics: divergences" in page.words("problems")
    assert "Its seconds were not recorded" in page.words("problems")
    assert "Which is fastest cannot be said" in page.words("conclusion")
    assert "Both samplers can be trusted" in page.words("conclusion")


def test_seconds_that_were_not_recorded_do_not_win(tmp_path):
    timeless = made_up.fit(1, seconds=0.0)
    found = words({"timeless": timeless, "b": made_up.fit(2)}, tmp_path, "conclusion")
    assert "Use b" in found
    assert "timeless did not record seconds" in found


def test_one_chain_alone_is_not_trusted(tmp_path):
    one = made_up.fit(1, shape=(1, 250))
    page = Page(sa.report({"a": one}, tmp_path / "report.html").read_text())
    assert "one chain, and nothing to hold it against" in page.words("conclusion")
    assert "It has one chain, so that R-hat cannot be computed" in page.words("problems")


def test_one_chain_is_trusted_as_far_as_it_agrees_with_several(tmp_path):
    fits = {"one": made_up.fit(1, shape=(1, 1000)), "four": made_up.fit(2, shape=(4, 250))}
    assert "Both samplers can be trusted" in words(fits, tmp_path, "conclusion")
    posterior = made_up.draws(1, (1, 1000))
    posterior["a"] += 1.0  # as wide as the truth: no mode is missed
    fits["one"] = made_up.fit(1, posterior=posterior)
    page = Page(sa.report(fits, tmp_path / "report.html").read_text())
    assert "one (disagrees with four)" in page.words("conclusion")
    assert "It disagrees with four: the largest differences are " in page.words("problems")


def test_constant_and_not_finite_quantities(tmp_path):
    posterior = made_up.draws(1) | {"size": np.full(made_up.SHAPE, 7.0)}
    broken = made_up.draws(2)["a"]
    broken[1, 5:8] = np.nan
    posterior["ratio"] = broken
    known = '["a", "b", "c", "size", "ratio"]'
    broken = made_up.fit(1, posterior=posterior, parameters=known)
    found = words({"a": broken, "b": made_up.fit(2)}, tmp_path)
    assert "One quantity has one value in all draws, size for one (7)" in found
    assert "One quantity has draws that are not finite, ratio for one (3 of 1,000)" in found


def test_nothing_but_constants_and_nan(tmp_path):
    posterior = {"a": np.full((4, 100), 2.0), "b": np.full((4, 100), np.nan)}
    for parameters in ('["a"]', '["a", "b"]'):
        fit = made_up.fit(1, posterior=posterior, parameters=parameters)
        found = words({"x": fit}, tmp_path, "conclusion")
        assert "cannot be used as it is: x (do not use)" in found


@pytest.mark.parametrize("draws", [1, 3])
def test_next_to_no_draws(draws, tmp_path):
    fits = {"few": made_up.fit(1, shape=(4, draws)), "b": made_up.fit(2)}
    assert "but not few (" in words(fits, tmp_path, "conclusion")


def test_an_interrupted_fit(tmp_path):
    cut = made_up.fit(1, shape=(4, 150), interrupted=True)
    fits = {"cut": cut, "whole": made_up.fit(2)}
    assert (
        "It was interrupted: there are 150 draws per chain, of 250 that were asked for."
        in words(fits, tmp_path)
    )


def test_chains_that_share_only_some_variables(tmp_path):
    posterior = {name: x for name, x in made_up.draws(1).items() if name != "b"}
    fits = {"some": made_up.fit(1, posterior=posterior), "all": made_up.fit(2)}
    assert "Both samplers can be trusted" in words(fits, tmp_path, "conclusion")


def test_an_earlier_report_survives_a_failure(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("earlier")
    with pytest.raises(StanadaptError):
        sa.report({}, path)
    assert path.read_text() == "earlier"


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    with pytest.raises(StanadaptError, match=f"a report needs {missing}: run `pip install"):
        sa.report({"a": made_up.fit(1)}, tmp_path / "report.html")
