"""`stanadapt compare`, with its options --report and --repeats."""

import sys
from types import SimpleNamespace

import pandas as pd
import pytest
import typer

from stanadapt.cli import compare
from tests.helpers.command_line import TINY, call, refused
from tests.helpers.html_page import Page
from tests.helpers.tiny_posteriordb import NAME, tiny

COMPARE = ["compare", "my.stan", "-d", "my.json", "-s", "rwm", "--stan-nuts", "none"]


@pytest.mark.thorough
def test_compare_writes_a_report(files, monkeypatch):
    path = files / "new folder" / "it's.html"
    words = [
        "compare", "my.stan", "--data", "my.json", "--sampler", "rwm,mala", "--stan-nuts", "stanli",
        "--report", path, *TINY,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["/somewhere/stanadapt", *map(str, words)])
    printed = call(*words)
    assert str(path) in printed
    page = Page(path.read_text())
    assert page.words("origin").count(" compare ") == 1
    command = page.words("command")
    assert command.startswith("stanadapt compare my.stan --data my.json ")
    assert """/it'"'"'s.html'""" in command
    for name in ("nuts", "rwm", "mala"):
        assert name in page.words("table")


def test_a_report_that_cannot_be_written_is_refused_before_sampling(files):
    printed = call(*COMPARE, "--report", files, *TINY, status=1)
    assert printed.startswith("error in files")
    assert files.name in printed
    assert "bulk ESS" not in printed


def test_repeats_are_summarized_written_and_continued(files):
    printed = call(*COMPARE, "--set", "initial_scale=1.5", "--repeats", 2, "--out", "r", *TINY)
    for words in ("of 2", "bulk ESS"):
        assert words in printed
    assert {path.name for path in (files / "r").iterdir()} == {
        "repeats.csv", "repeats.json", "repeats.pdf", "summary.tex",
    }  # fmt: skip
    first = pd.read_csv("r/repeats.csv")
    assert first[["chains", "draws"]].to_numpy().tolist() == [[2, 40]] * 2
    call(*COMPARE, "--set", "initial_scale=1.5", "--repeats", 3, "--out", "r", *TINY)
    more = pd.read_csv("r/repeats.csv")
    assert len(more) == 3
    pd.testing.assert_frame_equal(more[:2], first)
    printed = call(*COMPARE, "--repeats", 3, "--out", "r", *TINY, status=1)
    assert "rwm" in printed
    call(*COMPARE, "--repeats", 1, "--out", "r", "--force", *TINY)
    assert len(pd.read_csv("r/repeats.csv")) == 1


def test_the_page_of_repeats_is_updated_and_no_other_file(files):
    page = files / "r.html"
    command = [*COMPARE, "--out", "r", "--report", page, *TINY]
    call(*command, "--repeats", 1)
    first = page.read_text()
    assert "0 of 1" in first
    call(*command, "--repeats", 2)
    assert "0 of 2" in page.read_text()
    page.write_text("<p>something else</p>")
    refused("would_overwrite", *command, "--repeats", 2, facts=[page.name])
    # a page of repeats that are not in the folder
    page.write_text(first)
    elsewhere = [*COMPARE, "--out", "s", "--report", page, "--repeats", 1, *TINY]
    refused("would_overwrite", *elsewhere, facts=[page.name])


@pytest.mark.parametrize(("options", "code", "fact"), [
    (["--repeats", "0"], "out_of_range", "repeats"),
    (["--repeats", "2", "--budget", "seconds"], "options_conflict", "--budget"),
    (["--repeats", "2", "--float32"], "options_conflict", "--float32"),
    (["--budget", "draws"], "unknown_budget", "draws"),
    (["--thin", "0"], "out_of_range", "thin must"),
    (["--target", "my.stan"], "options_conflict", "--target"),
    (["--repeats", "2", "--target", "my.stan:my.json"], "duplicate_target", "my my"),
    (["--repeats", "2", "--vars", "q"], "unknown_variable", "'q'"),
    (["--vars", "q"], "unknown_variable", "'q'"),
])  # fmt: skip
def test_options_that_exclude_each_other(files, options, code, fact):
    refused(code, *COMPARE, *options, facts=[fact])
    assert not list(files.glob("r*"))


def test_an_interruption_ends_with_the_repeats_so_far(capsys):
    with pytest.raises(typer.Exit) as end:
        compare.print_repeats(SimpleNamespace(interrupted=True), None, None)
    assert end.value.exit_code == 130
    assert "interrupted" in capsys.readouterr().out


def test_repeats_of_a_posteriordb_have_errors_against_its_reference_draws(files):
    database = tiny(files)
    options = ["-s", "rwm", "--stan-nuts", "none", "--posteriordb", database, "--repeats", 1]
    printed = call("compare", NAME, *options, "--out", "r", *TINY)
    assert "mean error" in printed
    assert (pd.read_csv("r/repeats.csv")[["error_mean", "error_sd"]] > 0.0).all(axis=None)
