"""Commands on saved fits, and files that are overwritten only on request."""

import contextlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from typer.testing import CliRunner

import stanadapt as sa
from stanadapt import results
from stanadapt.cli.commands import app
from stanadapt.cli.terminal import require_writable
from stanadapt.diagnostics.leave_one_out import leave_one_out
from stanadapt.errors import StanadaptError
from tests.helpers import funnel_fits, made_up_fits
from tests.helpers.codes import raises
from tests.helpers.command_line import TINY, call, refused
from tests.helpers.html_page import Page


@pytest.fixture
def saved(files):
    for seed, name in enumerate(("one", "two")):
        sa.save(made_up_fits.fit(seed), files / f"{name}.nc")
    (files / "other").mkdir()
    sa.save(made_up_fits.diverging(3), files / "other" / "one.nc")
    return files


def test_diagnose(saved):
    printed = call("diagnose", "one.nc")
    assert printed.startswith("fine")
    assert "4 x 250" in printed
    printed = call("diagnose", "other/one.nc")
    assert printed.startswith("suspect")
    assert "40 of 1000" in printed
    refused("file_missing", "diagnose", "none.nc", facts=["none.nc"])


@pytest.mark.thorough
def test_diagnose_with_its_program(files):
    sa.save(funnel_fits.fit(funnel_fits.exact()), files / "funnel.nc")
    (files / "funnel.stan").write_text(funnel_fits.program())
    options = "--model", "funnel.stan", "--backend", "stanli"
    printed = call("diagnose", "funnel.nc", *options)
    assert "x_raw ~ std_normal();" in printed
    report = json.loads(call("diagnose", "funnel.nc", "--json", *options))
    codes = [note["code"] for note in report["notes"]]
    assert codes == ["far_from_gaussian", "gaussian_block"]
    refused("options_conflict", "diagnose", "funnel.nc", "--data", "d.json", facts=["--model"])


def test_diagnose_as_json(saved):
    printed = CliRunner().invoke(app, ["diagnose", "other/one.nc", "--json"]).stdout
    report = json.loads(printed[printed.index("{") :])
    assert report["fit"] == "other/one.nc"
    assert report["verdict"] == "suspect"
    (reason,) = report["reasons"]
    assert reason["code"] == "divergences"
    assert "40 of 1000" in reason["text"]
    assert report["notes"] == []


@pytest.mark.thorough
def test_table(saved):
    printed = call(
        "table", "one.nc", "two.nc", "other/one.nc", "--budget", "gradients", "-o", "t.csv"
    )
    assert "other/one.nc" in printed
    assert "equal cost" in printed
    table = pd.read_csv("t.csv", index_col="fit")
    assert list(table.index) == ["one.nc", "two", "other/one.nc"]
    named = call("table", "one.nc", "two.nc", "--baseline", "two", "--vars", "a,c")
    assert "two" in named
    refused("unknown_variable", "table", "one.nc", "two.nc", "--vars", "q", facts=["'q'"])
    refused("file_missing", "table", "one.nc", "--vars", "a", "c", facts=["fit c", "--vars a,b"])


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Estimated shape")
def test_leave_one_out(saved):
    values = np.random.default_rng(1).normal(size=(4, 250, 9)) * np.arange(1, 10)  # the last: k > 1
    group = xr.Dataset({"log_lik": (("chain", "draw", "n"), values)})
    one, two = (sa.load(f"{name}.nc") for name in ("one", "two"))
    results.add_groups(one, {"log_likelihood": group})
    results.add_groups(two, {"predictions": group})  # of another package
    for of_data in ("new", "d"):  # what `generate` made, of other data and of those of the fit
        with raises("no_log_likelihood", "two", "log_lik[n]", "stanadapt generate"):
            leave_one_out({"one": one, "two": two})
        made = group.assign_attrs(origin=json.dumps(["p", of_data]))
        results.add_groups(two, {"predictions": made})
        two.attrs["data_hash"] = "d"
    with raises("unknown_variable", "log_lik"):
        leave_one_out({"one": one}, "")
    few = group.isel(chain=[0], draw=slice(24))
    for bad in (group.where(group > -9), few, group.isel(chain=0)):
        results.add_groups(one, {"log_likelihood": bad})
        with raises("no_log_likelihood", "one", "finite"):
            leave_one_out({"one": one})
    results.add_groups(one, {"log_likelihood": 0.0 * few.isel(chain=[0] * 2)})
    with contextlib.suppress(StanadaptError):  # of ArviZ 1.x; the older one takes it
        leave_one_out({"one": one})
    with raises("other_observations"):
        results.add_groups(one, {"log_likelihood": group.isel(n=slice(8))})
        leave_one_out({"one": one, "two": two})
    for name in ("one.nc", "two.nc"):
        sa.save(two, name)
    printed = call("loo", "two.nc", "one.nc")
    expected = results.arviz_module().loo(two, var_name="log_lik", pointwise=True)
    assert printed.startswith("two " + " ".join(str(expected).split()))
    assert printed.index("(very bad)") < printed.index("compared: rank")
    assert printed.endswith("less influential.")


@pytest.mark.thorough
def test_report(saved, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/stanadapt", "report", "one.nc", "my two.nc"])
    assert "Report: report.html" in call("report", "one.nc", "two.nc", "--baseline", "two")
    page = Page((saved / "report.html").read_text())
    assert {"one", "two"} <= {*page.words("table").split()}
    assert page.words("command") == "stanadapt report one.nc 'my two.nc'"
    refused("would_overwrite", "report", "one.nc", facts=["report.html"])


def test_a_folder_of_fits_is_not_one(saved):
    refused("folder_of_fits", "diagnose", "other", facts=["other/one.nc"])


def test_a_file_is_overwritten_only_if_asked_for(saved):
    before = (saved / "one.nc").read_bytes()
    run = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", "--out", "one.nc", *TINY]
    refused("would_overwrite", *run, facts=["one.nc", "--force"])
    assert (saved / "one.nc").read_bytes() == before
    call(*run, "--force")
    assert sa.load(saved / "one.nc").attrs["sampler"] == "rwm"


def test_other_mistakes_come_before_the_question_whether_to_overwrite(saved):
    out = ["--out", "one.nc"]
    refused("unknown_setting", "sample", "my.stan", "-s", "rwm", "--set", "a=1", *out)
    refused("unknown_method_setting", "approximate", "my.stan", "--set", "a=1", *out)
    refused("no_run", "resume", "nowhere", *out)


@pytest.mark.parametrize("answer", [True, False])
def test_in_a_terminal_it_is_asked(saved, monkeypatch, answer):
    asked = []

    def confirm(question, **options):
        asked.append(question)
        return answer

    monkeypatch.setattr("typer.confirm", confirm)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    paths = [saved / "one.nc", saved / "new.nc"]
    if answer:
        assert require_writable(paths, force=False) == paths
    else:
        with raises("would_overwrite", saved / "one.nc"):
            require_writable(paths, force=False)
    (question,) = asked
    assert str(saved / "one.nc") in question
    assert "new.nc" not in question


def test_compare_overwrites_nothing(saved):
    (saved / "r").mkdir()
    (saved / "r" / "comparison.csv").write_text("kept")
    command = ["compare", "my.stan", "-d", "my.json", "-o", "r", *TINY]
    refused("would_overwrite", *command, facts=["comparison.csv"])
    assert (saved / "r" / "comparison.csv").read_text() == "kept"
