"""`stanadapt compare --report`."""

import sys

import pytest

from tests.helpers.command_line import PROGRAM, TINY, call
from tests.helpers.html_page import Page


@pytest.fixture
def files(tmp_path):
    program, data = tmp_path / "normal.stan", tmp_path / "data.json"
    program.write_text(PROGRAM)
    data.write_text('{"m": 3}')
    return program, data


@pytest.mark.thorough
def test_compare_writes_a_report(files, tmp_path, monkeypatch):
    program, data = files
    path = tmp_path / "new folder" / "it's.html"
    words = [
        "compare", program, "--data", data, "--sampler", "rwm,mala", "--stan-nuts", "stanli",
        "--report", path, *TINY,
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["/somewhere/stanadapt", *map(str, words)])
    printed = call(*words)
    assert str(path) in printed
    page = Page(path.read_text())
    assert page.words("origin").count(" compare ") == 1
    command = page.words("command")
    assert command.startswith(f"stanadapt compare {program} --data ")
    assert """/it'"'"'s.html'""" in command
    for name in ("nuts", "rwm", "mala"):
        assert name in page.words("table")


def test_a_report_that_cannot_be_written_is_refused_before_sampling(files, tmp_path):
    program, data = files
    printed = call("compare", program, "--data", data, "--report", tmp_path, *TINY, status=1)
    assert printed.startswith("error in files")
    assert tmp_path.name in printed
    assert "bulk ESS" not in printed
