"""Lists of the command line: whole names in a pipe, JSON, completion, and files of samplers."""

import json
import sys

import pytest
from typer.testing import CliRunner

from stanadapt.cli.commands import app
from stanadapt.samplers import registered
from tests.helpers import tiny_posteriordb
from tests.helpers.command_line import call, refused


def test_lists_as_json():
    assert set(json.loads(call("samplers", "--json"))) == set(registered())
    one = json.loads(call("samplers", "gad_mala", "--json"))["gad_mala"]
    assert one["settings"]["diagonal"] is False
    assert json.loads(call("models", "--json"))["logistic"]["data"]


def test_names_are_whole_where_there_is_no_terminal(tmp_path):
    long = "a" * 70 + "-" + "b" * 70
    database = tmp_path / "posterior_database"
    for name in ("one-one", long):
        content = {"name": name, "model_name": "m", "data_name": "d", "dimensions": {}}
        tiny_posteriordb.written(database / "posteriors" / f"{name}.json", content)
    printed = CliRunner().invoke(app, ["models", "--posteriordb", str(database)]).stdout
    assert long in printed.splitlines()[-2].split() + printed.splitlines()[-1].split()
    rows = json.loads(call("models", "--posteriordb", database, "--json"))
    assert long in [row["posterior"] for row in rows]


def test_a_shell_completes_commands_and_their_options(monkeypatch, capsys):
    def complete(words):
        monkeypatch.setenv("_STANADAPT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        monkeypatch.setattr(sys, "argv", ["stanadapt"])
        with pytest.raises(SystemExit):
            app(prog_name="stanadapt")
        return capsys.readouterr().out.split()

    assert complete("stanadapt exp") == ["expectations", "explain"]
    assert "--iter-warmup" in complete("stanadapt sample --iter")


def test_files_of_samplers_that_cannot_be_used(tmp_path):
    assert "there is no file" in call("samplers", "--sampler-file", tmp_path / "x.py", status=2)
    (tmp_path / "broken_sampler.py").write_text("1 / 0")
    printed = call("samplers", "--sampler-file", tmp_path / "broken_sampler.py", status=2)
    assert "ZeroDivisionError" in printed
    (tmp_path / "none.txt").write_text("x = 1")
    assert "end in .py" in call("samplers", "--sampler-file", tmp_path / "none.txt", status=2)
    (tmp_path / "none.py").write_text("x = 1")
    printed = call("samplers", "--sampler-file", tmp_path / "none.py", status=2)
    assert "registers no sampler" in printed


def test_benchmarks_are_listed_and_started():
    assert "against-nuts" in call("bench")
    refused("unknown_experiment", "bench", "agains-nuts", facts=["against-nuts"])
