"""Several targets in one comparison: rows, summary, LaTeX, picture, page, continuation."""

import json
from types import SimpleNamespace

import pytest

import stanadapt as sa
from stanadapt.studies.repeats import compare_repeats as module
from stanadapt.studies.repeats.rows import SAMPLING, repeat_seed
from stanadapt.studies.report.canvas import VARIABLES
from tests.helpers import made_up_fits
from tests.helpers.codes import raises
from tests.helpers.html_page import Page

PROGRAM = "data { real m; } parameters { real x; } model { x ~ normal(m, 1); }"


@pytest.fixture(scope="module")
def targets():
    return {name: sa.Target(PROGRAM, {"m": m}) for name, m in (("near", 1.0), ("far_off", 9.0))}


@pytest.fixture
def runs(monkeypatch):
    log = SimpleNamespace(made=[], fail=lambda target, name: False)

    def sample(target, name, *, seed, iter_sampling=None, **options):
        if iter_sampling != SAMPLING:
            log.made.append((json.loads(target.data)["m"], name, seed))
            if log.fail(target, name):
                raise sa.StanadaptError("no_draws", "all chains stopped.")
        return made_up_fits.fit(seed)

    monkeypatch.setattr(module, "sample", sample)
    return log


def repeated(targets, run=None, repeats=2, samplers=("rwm", "mala")):
    return sa.compare_repeats(targets, samplers, repeats=repeats, seed=5, stan_nuts="none", run=run)


def test_every_sampler_on_every_target_with_the_same_seeds(targets, runs):
    found = repeated(targets)
    assert runs.made == [
        (m, name, repeat_seed(5, i)) for i in (1, 2) for m in (1.0, 9.0) for name in ("rwm", "mala")
    ]
    assert list(found.summary.index) == [
        ("near", "rwm"), ("near", "mala"), ("far_off", "rwm"), ("far_off", "mala"),
    ]  # fmt: skip
    assert found.rows.groupby(["target", "sampler"]).size().tolist() == [2] * 4
    assert "near: rwm" in repr(found)
    assert "target: sampler" in repr(found)


def test_one_target_is_summarized_by_sampler(targets, runs):
    assert list(repeated(targets["near"]).summary.index) == ["rwm", "mala"]
    assert list(repeated({"near": targets["near"]}).summary.index) == ["rwm", "mala"]


def test_a_folder_is_continued_by_target(targets, runs, tmp_path):
    repeated({"near": targets["near"]}, tmp_path)
    runs.made.clear()
    found = repeated(targets, tmp_path)
    assert {m for m, *_ in runs.made} == {9.0}
    assert len(found.rows) == 8
    assert (tmp_path / "repeats.pdf").read_bytes().startswith(b"%PDF")
    swapped = {"near": targets["far_off"]}
    with raises("other_study", "target.data_hash of near"):
        repeated(swapped, tmp_path)


def test_failures_and_doubts_name_the_target(targets, runs):
    runs.fail = lambda target, name: target is targets["far_off"] and name == "mala"
    found = repeated(targets)
    (failure,) = [m for m in found.messages if m.code == "failed_repeats"]
    assert failure.startswith("far_off: mala: ")
    assert "2 of 2" in failure
    assert found.summary.loc[("near", "mala"), "failed"] == 0


def test_latex_has_a_column_of_targets(targets, runs):
    lines = repeated(targets).to_latex().splitlines()
    assert any(line.startswith(r"target & sampler & fine") for line in lines)
    assert any(line.startswith(r"near & rwm &") for line in lines)
    assert any(line.startswith(r" & mala &") for line in lines)
    assert any(line.startswith(r"far\_off & rwm &") for line in lines)
    assert lines.count(r"\addlinespace") == 1
    assert sum("(program" in line for line in lines) == 2


def test_the_page_is_whole_and_needs_no_network(targets, runs, tmp_path):
    path = repeated(targets).report(tmp_path / "r.html", command="stanadapt compare <x>")
    text = path.read_text()
    page = Page(text)
    for words in ("near", "far_off", "rwm", "mala"):
        assert words in page.words("table")
        assert words in text[text.index("<svg") :]  # the picture names them too
    assert page.words("command") == "stanadapt compare <x>"
    assert "no-problems" in page.ids
    assert page.links
    assert all(link.startswith(("#", "data:,")) for link in page.links)
    assert "http" not in text.replace("http://www.w3.org", "")
    picture = text[text.index("<svg") :]
    assert "var(--fit-1)" in picture  # colors of the page, in light and dark
    assert not any(color in picture for color in VARIABLES)


def test_no_target(runs):
    with raises("nothing_to_study", "target"):
        repeated({})


def test_reference_draws_of_another_target_are_refused(targets, runs):
    wrong = made_up_fits.fit(1)  # its hashes and variables are others
    for given, fact in ((wrong, "the reference of near"), ({"nowhere": wrong}, "nowhere")):
        with raises("different_targets", fact):
            sa.compare_repeats(targets, ["rwm"], stan_nuts="none", reference=given)
