"""Repeats of made-up fits: continued, refused, interrupted, failed, and of several targets."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.errors import codes_of
from stanadapt.studies.repeats import compare_repeats as module
from stanadapt.studies.repeats.rows import SAMPLING, repeat_seed
from stanadapt.studies.report.canvas import VARIABLES
from tests.helpers import made_up_fits
from tests.helpers.codes import raises
from tests.helpers.html_page import Page
from tests.helpers.short_runs import NORMAL
from tests.helpers.stan_target import shared_target

PROGRAM = "data { real m; } parameters { real x; } model { x ~ normal(m, 1); }"
target = shared_target(NORMAL)


@pytest.fixture
def runs(monkeypatch):
    """A log of runs, (sampler, seed), and of their data; `act` may raise, or return another fit."""
    log = SimpleNamespace(made=[], data=[], brief=[], act=lambda target, name, seed: None)

    def sample(target, name, *, seed, iter_sampling=None, **options):
        if iter_sampling == SAMPLING:
            log.brief.append(name)
            return made_up_fits.fit(0)
        log.made.append((name, seed))
        log.data.append(json.loads(target.data))
        return log.act(target, name, seed) or made_up_fits.fit(seed)

    monkeypatch.setattr(module, "sample", sample)
    return log


def repeated(target, run=None, repeats=3, samplers=("rwm", "mala"), seed=5, **options):
    return sa.compare_repeats(
        target, samplers, repeats=repeats, seed=seed, stan_nuts="none", run=run, **options
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_missing_repeats_are_made(target, runs, tmp_path):
    first = repeated(target, tmp_path, repeats=2)
    assert runs.made == [(n, repeat_seed(5, i)) for i in (1, 2) for n in ("rwm", "mala")]
    assert runs.brief == ["rwm", "mala"]
    runs.made.clear()
    more = repeated(target, tmp_path, repeats=3)
    assert runs.made == [(n, repeat_seed(5, 3)) for n in ("rwm", "mala")]
    assert more.rows[:4].equals(first.rows)
    runs.made.clear()
    fewer = repeated(target, tmp_path, repeats=2, samplers=["mala", "rwm", "hmc"])
    assert runs.made == [("hmc", repeat_seed(5, i)) for i in (1, 2)]
    assert fewer.summary["repeats"].to_dict() == {"mala": 2, "rwm": 2, "hmc": 2}
    assert len(fewer.rows) == 8


def test_the_default_seed_is_that_of_the_folder(target, runs, tmp_path):
    first = repeated(target, tmp_path, repeats=1, seed=None)
    again = repeated(target, tmp_path, repeats=2, seed=None)
    assert first.origin["settings"]["seed"] == again.origin["settings"]["seed"]
    assert len(runs.made) == 4
    assert again.rows["seed"].nunique() == 2


OTHER = "parameters { real a; } model { a ~ normal(0, 1); }"


@pytest.mark.slow
@pytest.mark.parametrize(("change", "named"), [
    ({"seed": 6}, "settings.seed (5 there, 6 here)"),
    ({"thin": 2}, "settings.thin"),
    ({"iter_warmup": 7}, "settings.iter_warmup"),
    ({"var_names": ["a"], "target": OTHER}, "settings.variables"),
    ({"inits": {"x": np.array([0.5])}}, "settings.inits"),
    ({"samplers": {"rwm": {"initial_scale": 0.3}}}, "settings of rwm"),
    ({"target": OTHER}, "target.program_hash"),
])  # fmt: skip
def test_another_comparison_is_refused_and_left_alone(target, runs, tmp_path, change, named):
    repeated(target, tmp_path, repeats=1)
    before, options = contents(tmp_path), dict(change)
    other = sa.Target(options.pop("target")) if "target" in options else target
    runs.made.clear()
    with raises("other_study", named, "--force"):
        repeated(other, tmp_path, repeats=1, **options)
    assert contents(tmp_path) == before
    assert runs.made == []
    forced = repeated(other, tmp_path, repeats=1, overwrite=True, **options)
    assert len(forced.rows) == len(forced.summary)
    assert contents(tmp_path) != before


def test_numbers_of_numpy_continue_those_of_python_and_no_text_discards_them(
    target, runs, tmp_path
):
    lengths = {"chains": 2, "thin": 2, "iter_warmup": 70, "iter_sampling": 80}
    repeated(target, tmp_path, repeats=1, **lengths)
    before = contents(tmp_path)
    runs.made.clear()
    repeated(target, tmp_path, repeats=1, **{n: np.int64(x) for n, x in lengths.items()})
    assert runs.made == []
    with raises("not_a_flag", "overwrite", "'no'"):
        repeated(target, tmp_path, repeats=1, overwrite="no", **lengths)
    assert contents(tmp_path) == before


def test_other_data_are_refused(runs, tmp_path):
    repeated(sa.Target(PROGRAM, {"m": 1.0}), tmp_path, repeats=1)
    with raises("other_study", "data_hash"):
        repeated(sa.Target(PROGRAM, {"m": 2.0}), tmp_path, repeats=1)


@pytest.mark.parametrize("kind", [str, Path])
def test_other_starting_values_in_a_file_of_the_same_name_are_refused(target, runs, tmp_path, kind):
    file = tmp_path / "inits.json"
    file.write_text('{"x": 1}')
    repeated(target, tmp_path / "r", repeats=1, inits=kind(file))
    repeated(target, tmp_path / "r", repeats=1, inits=kind(file))
    file.write_text('{"x": 2}')
    with raises("other_study", "settings.inits"):
        repeated(target, tmp_path / "r", repeats=1, inits=kind(file))


def interrupt(target, name, seed):
    raise KeyboardInterrupt


def with_draws(target, name, seed):
    return made_up_fits.fit(seed, interrupted=True)


def without_draws(target, name, seed):
    raise sa.StanadaptError("interrupted", "Why.")


@pytest.mark.parametrize("how", [interrupt, with_draws, without_draws])
def test_an_interruption_keeps_complete_repeats(target, runs, tmp_path, how):
    runs.act = lambda *run: how(*run) if len(runs.made) == 4 else None
    cut = repeated(target, tmp_path)
    assert cut.interrupted
    assert len(cut.rows) == 3
    missing = [m for m in cut.messages if m.code == "missing_repeats"]
    assert [m for m in missing if "mala" in m and "2 of 3" in m]
    assert len(json.loads((tmp_path / "repeats.json").read_text())["rows"]) == 3
    runs.made.clear()
    whole = repeated(target, tmp_path)
    assert not whole.interrupted
    assert len(runs.made) == 3
    assert whole.summary["repeats"].tolist() == [3, 3]


def test_a_repeat_that_fails_is_a_row_with_the_reason(target, runs, tmp_path):
    def act(target, name, seed):
        if (name, seed) == ("rwm", repeat_seed(5, 2)):
            raise sa.StanadaptError("no_draws", "all chains\nstopped.", "Stan says so")

    runs.act = act
    found = repeated(target, tmp_path)
    failed = found.rows[found.rows["failure"] != ""]
    assert failed[["sampler", "repeat"]].to_numpy().tolist() == [["rwm", 2]]
    assert "all chains stopped." in failed["failure"].item()
    assert "Stan says so" in failed["failure"].item()
    assert "\n" not in failed["failure"].item()
    assert "failed_repeats" in codes_of(found.messages)
    assert found.summary["repeats"].to_dict() == {"rwm": 2, "mala": 3}
    text = (tmp_path / "repeats.json").read_text()
    assert "NaN" not in text
    runs.made.clear()
    again = repeated(target, tmp_path)
    assert runs.made == []  # the same seed would fail again
    assert again.rows.equals(found.rows)


def test_an_error_that_recurs_ends_the_comparison(target, runs):
    def act(target, name, seed):
        raise error

    error = sa.StanadaptError("out_of_range", "Why.")
    runs.act = act
    with pytest.raises(sa.StanadaptError) as caught:
        repeated(target)
    assert caught.value is error
    assert len(runs.made) == 1


def test_without_a_folder_nothing_is_written(target, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(repeated(target).rows) == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "value", "code", "facts"), [
    *[("repeats", bad, "out_of_range", ["repeats", "1"]) for bad in (0, -1, 1.5, True, "3")],
    ("samplers", [], "nothing_to_study", []), ("samplers", ["nutz"], "unknown_sampler", ["nutz"]),
    ("samplers", {"rwm": {"nothing": 1}}, "unknown_setting", ["nothing"]),
    *[("samplers", {"rwm": bad}, "settings_not_by_name", []) for bad in (3, {1: 2})],
])  # fmt: skip
def test_what_cannot_be_repeated(target, runs, name, value, code, facts):
    with raises(code, *facts):
        repeated(target, **{name: value})
    assert runs.made == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "stanadapt repeats", "schema": 3}'])
def test_a_file_that_is_something_else_is_refused_and_left_alone(target, runs, tmp_path, text):
    (tmp_path / "repeats.json").write_text(text)
    for seed in (None, 5):
        with raises("unreadable_study", "repeats.json", "--force"):
            repeated(target, tmp_path, seed=seed)
    assert (tmp_path / "repeats.json").read_text() == text
    assert len(repeated(target, tmp_path, overwrite=True).rows) == 6


@pytest.fixture(scope="module")
def targets():
    return {name: sa.Target(PROGRAM, {"m": m}) for name, m in (("near", 1.0), ("far_off", 9.0))}


def test_every_sampler_on_every_target_with_the_same_seeds(targets, runs):
    found = repeated(targets)
    assert runs.made == [
        (name, repeat_seed(5, i)) for i in (1, 2, 3) for _ in targets for name in ("rwm", "mala")
    ]
    assert [data["m"] for data in runs.data] == [1.0, 1.0, 9.0, 9.0] * 3
    assert list(found.summary.index) == [
        ("near", "rwm"), ("near", "mala"), ("far_off", "rwm"), ("far_off", "mala"),
    ]  # fmt: skip
    assert found.rows.groupby(["target", "sampler"]).size().tolist() == [3] * 4
    assert "near: rwm" in repr(found)
    assert "target: sampler" in repr(found)


def test_one_target_is_summarized_by_sampler_and_none_refused(targets, runs):
    assert list(repeated(targets["near"]).summary.index) == ["rwm", "mala"]
    assert list(repeated({"near": targets["near"]}).summary.index) == ["rwm", "mala"]
    with raises("nothing_to_study", "target"):
        repeated({})


def test_folders_are_continued_and_doubts_named_by_target(targets, runs, tmp_path):
    repeated({"near": targets["near"]}, tmp_path)
    runs.data.clear()
    found = repeated(targets, tmp_path)
    assert runs.data == [{"m": 9.0}] * 6
    assert len(found.rows) == 12
    assert (tmp_path / "repeats.pdf").read_bytes().startswith(b"%PDF")
    swapped = {"near": targets["far_off"]}
    with raises("other_study", "target.data_hash of near"):
        repeated(swapped, tmp_path)

    def act(target, name, seed):
        if target is targets["far_off"] and name == "mala":
            raise sa.StanadaptError("no_draws", "all chains stopped.")

    runs.act = act
    found = repeated(targets)
    (failure,) = [m for m in found.messages if m.code == "failed_repeats"]
    assert failure.startswith("far_off: mala: ")
    assert "3 of 3" in failure
    assert found.summary.loc[("near", "mala"), "failed"] == 0


def test_targets_have_columns_and_references_of_their_own(targets, runs):
    lines = repeated(targets).to_latex().splitlines()
    assert any(line.startswith(r"target & sampler & fine") for line in lines)
    assert any(line.startswith(r"near & rwm &") for line in lines)
    assert any(line.startswith(r" & mala &") for line in lines)
    assert any(line.startswith(r"far\_off & rwm &") for line in lines)
    assert lines.count(r"\addlinespace") == 1
    assert sum("(program" in line for line in lines) == 2
    wrong = made_up_fits.fit(1)  # its hashes and variables are others
    for given, fact in ((wrong, "the reference of near"), ({"nowhere": wrong}, "nowhere")):
        with raises("different_targets", fact):
            repeated(targets, reference=given)


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
