"""`stanadapt compare --repeats`."""

import pandas as pd
import pytest

from stanadapt.studies.repeats import compare_repeats as module
from tests.helpers.command_line import TINY, call

COMPARE = ["compare", "my.stan", "-d", "my.json", "-s", "rwm", "--stan-nuts", "none"]


def test_repeats_are_summarized_written_and_gone_on_with(files):
    printed = call(*COMPARE, "--set", "initial_scale=1.5", "--repeats", 2, "--out", "r", *TINY)
    for words in ("of 2", "min ESS", "the smallest and the largest", "tables and picture: r"):
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
    assert "settings of rwm" in printed
    call(*COMPARE, "--repeats", 1, "--out", "r", "--force", *TINY)
    assert len(pd.read_csv("r/repeats.csv")) == 1


def test_the_page_of_repeats_is_written_anew_and_no_other_file(files):
    page = files / "r.html"
    command = [*COMPARE, "--out", "r", "--report", page, *TINY]
    call(*command, "--repeats", 1)
    first = page.read_text()
    assert "0 of 1" in first
    call(*command, "--repeats", 2)
    assert "0 of 2" in page.read_text()
    page.write_text("<p>something else</p>")
    assert "would be overwritten" in call(*command, "--repeats", 2, status=1)
    # a page of repeats that are not in the folder
    page.write_text(first)
    elsewhere = [*COMPARE, "--out", "s", "--report", page, "--repeats", 1, *TINY]
    assert "would be overwritten" in call(*elsewhere, status=1)


@pytest.mark.parametrize(("options", "said"), [
    (["--repeats", "0"], "repeats must be a whole number, at least 1, got 0"),
    (["--repeats", "2", "--budget", "seconds"], "--budget is about fits"),
    (["--target", "my.stan"], "--target is for several targets with --repeats"),
    (["--repeats", "2", "--target", "my.stan:my.json"], "there is a my my already"),
])  # fmt: skip
def test_options_that_do_not_go_together(files, options, said):
    assert said in call(*COMPARE, *options, *TINY, status=1)
    assert not list(files.glob("r*"))


def test_an_interruption_ends_with_what_is_there(files, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "sample", interrupt)
    printed = call(*COMPARE, "--repeats", 2, "--out", "r", *TINY, status=130)
    assert "2 of 2 repeats were not made" in printed
