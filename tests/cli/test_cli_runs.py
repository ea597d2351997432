"""Commands on a run in a folder."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import stanadapt as sa
from stanadapt import results
from stanadapt.cli import draw
from stanadapt.cli.commands import app
from tests.helpers import made_up_fits
from tests.helpers.codes import raises
from tests.helpers.command_line import TINY, call


def test_a_run_in_a_folder_is_watched_and_made_longer(files):
    run = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", "--run", "run"]
    call(*run, "-o", "one.nc", *TINY)
    again = call(*run, "-o", "two.nc", *TINY, status=1)
    assert again.startswith("error in files")
    assert "resume" in again
    lines = CliRunner().invoke(app, ["watch", "run", "--once"]).stdout
    assert lines.endswith("\n")
    watched = " ".join(line for line in lines.splitlines() if ": " in line)  # in a pipe, no table
    draws = results.dataset(sa.load("one.nc"), "posterior")
    count = draws.sizes["draw"]
    assert f"{count} per chain" in watched
    # bulk and tail are told apart, in every table
    assert "bulk ESS" in watched
    assert "tail ESS" in watched
    call("resume", "run", "--iter-sampling", str(3 * count), "-o", "longer.nc", "--quiet")
    longer = results.dataset(sa.load("longer.nc"), "posterior")
    assert longer.sizes["draw"] == 3 * count
    np.testing.assert_array_equal(longer["x"][:, :count], draws["x"])


def test_folders_without_a_run(files):
    for command in (["watch", "run", "--once"], ["resume", "run", "-o", "fit.nc"]):
        assert call(*command, status=1).startswith("error in files")


def assert_equal_groups(one, other):
    for group in ("posterior", "prior"):
        np.testing.assert_array_equal(
            *(results.dataset(sa.load(name), group)["x"] for name in (one, other))
        )


@pytest.mark.usefixtures("files")
def test_a_resumed_run_gets_the_prior_of_one_that_was_never_stopped(tmp_path, monkeypatch):
    """And a run records where the data of its prior are."""
    prior = tmp_path / "prior.json"
    prior.write_text('{"m": 0}')
    sample = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", *TINY]
    call(*sample, "--prior-data", "prior.json", "-o", "whole.nc")
    call(*sample, "--run", "run", "-o", "first.nc")
    assert call("resume", "run", "--prior-data", "missing.json", "-o", "no.nc", status=1)
    call("resume", "run", "-o", "without.nc", "--quiet")
    assert "prior" not in results.group_names(sa.load("without.nc"))
    call("resume", "run", "--prior-data", "prior.json", "-o", "resumed.nc", "--quiet")
    assert_equal_groups("whole.nc", "resumed.nc")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    call("resume", "../run", "-o", "recorded.nc", "--quiet")  # by the last command, in the folder
    assert_equal_groups("../whole.nc", "recorded.nc")
    for change, fact in (
        (lambda: prior.write_text('{"m": 1}'), "other contents"),
        (lambda: prior.write_text("no JSON"), "prior.json"),
        (prior.unlink, "prior.json"),
    ):
        change()
        printed = call("resume", "../run", "-o", "changed.nc", "--quiet", "--force")
        fit = sa.load("changed.nc")
        assert "prior" not in results.group_names(fit)
        (note,) = [n for n in results.notes(fit) if n.code == "prior_file_changed"]
        assert fact in note
        assert "--prior-data" in note
        assert "prior_file_changed" in printed or "--prior-data" in printed


def test_draws_are_written_whatever_ends_the_prior_and_still_ones_watched(tmp_path):
    limits = dict.fromkeys(("max_minutes", "parallel_chains", "show_progress"))
    out = tmp_path / "fit.nc"
    with raises("not_a_target"):
        draw.finish(made_up_fits.fit(1), "no target", tmp_path, limits, out, format="netcdf")
    assert results.dataset(sa.load(out), "posterior").sizes["draw"] == 250
    groups = {"posterior": {"x": np.ones((2, 3))}, "sample_stats": {"lp": np.ones((2, 3))}}
    still = results.build(groups, {})
    values = draw._values([], still)
    (row,) = zip(*(column.cells for column in draw._row("3 of 9", values).columns), strict=True)
    assert "3 per chain" in row


@pytest.mark.usefixtures("files")
def test_an_unknown_reference_distribution():
    wrong = ["sample", "my.stan", "-d", "my.json", "-s", "smc", "--reference", "pathfindr"]
    printed = call(*wrong, *TINY, status=1)
    assert "'pathfinder'" in printed
    assert "'pathfindr'" in printed


def test_many_data_sets_are_files_and_a_table_which_a_second_call_completes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "data { real y; } parameters { real m; } model { m ~ normal(y, 1); }"
    Path("m.stan").write_text(code)
    for name, text in {"bad": "{}", "low": '{"y": -50}', "high": '{"y": 50}'}.items():
        Path(f"{name}.json").write_text(text)
    command = ["sample-many", "m.stan", "bad.json", "low.json", "high.json", "-o", "many"]
    command += ["-s", "am", *TINY]
    assert "1 failed" in call(*command, status=1)  # the first, of which the program is not
    first = pd.read_csv("many/fits.csv", index_col="fit")
    assert list(first.index) == ["bad", "low", "high"]
    Path("bad.json").write_text('{"y": 0}')
    call(*command)
    second = pd.read_csv("many/fits.csv", index_col="fit")
    assert second["failure"].isna().all()
    np.testing.assert_array_equal(second["seconds"][1:], first["seconds"][1:])  # not made again
    (kept,) = Path("many").glob("low_*.nc")
    assert "-50" in sa.load(kept).attrs["data"]
