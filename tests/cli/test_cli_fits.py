"""Commands on saved fits: estimates, formats, and files that are overwritten only on request."""

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
from stanadapt.cli.terminal import require_writable, save
from stanadapt.diagnostics.leave_one_out import leave_one_out
from stanadapt.errors import StanadaptError
from tests.helpers import fits_for_csv, funnel_fits, made_up_fits
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
    refused("folder_of_fits", "diagnose", "other", facts=["other/one.nc"])


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
    values[:, 1::2] = values[:, ::2]  # half as many independent draws, unlike of the parameters
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
    arviz = results.arviz_module()  # the efficiency is that of weights, whatever else was stored
    reff = float(arviz.ess(np.exp(group), method="mean")["log_lik"].mean()) / 1000
    expected = arviz.loo(two, var_name="log_lik", pointwise=True, reff=reff)
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


def test_files_are_overwritten_only_if_asked_for(saved):
    out = ["--out", "one.nc"]
    refused("unknown_setting", "sample", "my.stan", "-s", "rwm", "--set", "a=1", *out)
    refused("unknown_method_setting", "approximate", "my.stan", "--set", "a=1", *out)
    refused("no_run", "resume", "nowhere", *out)
    before = (saved / "one.nc").read_bytes()
    run = ["sample", "my.stan", "-d", "my.json", "-s", "rwm", "--out", "one.nc", *TINY]
    refused("would_overwrite", *run, facts=["one.nc", "--force"])
    assert (saved / "one.nc").read_bytes() == before
    call(*run, "--force")
    assert sa.load(saved / "one.nc").attrs["sampler"] == "rwm"
    (saved / "r").mkdir()
    (saved / "r" / "comparison.csv").write_text("kept")
    command = ["compare", "my.stan", "-d", "my.json", "-o", "r", *TINY]
    refused("would_overwrite", *command, facts=["comparison.csv"])
    assert (saved / "r" / "comparison.csv").read_text() == "kept"
    # and what can be known before it is asked whether to overwrite
    refused("no_run", "resume", "one.nc", "--out", "two.nc", facts=["--warm-start"])
    refused("not_of_the_format", "sample", "my.stan", "-s", "rwm", "--out", "one.csv")


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


SAMPLE = ["sample", "my.stan", "--data", "my.json", "--sampler", "rwm", *TINY]


def test_the_same_draws_in_csv_files(files):
    assert "CSV files: csv" in call(*SAMPLE, "--out", "csv", "--format", "cmdstan", "--save-warmup")
    call(*SAMPLE, "--save-warmup", "--out", "fit.nc")
    csv, netcdf = sa.load("csv"), sa.load("fit.nc")
    for group in ("posterior", "warmup_posterior"):
        ours, theirs = (results.dataset(fit, group)["x"].values for fit in (csv, netcdf))
        assert ours.tobytes() == theirs.tobytes()
    assert csv.attrs["verdict"] == netcdf.attrs["verdict"]
    refused("would_overwrite", *SAMPLE, "--out", "csv", "--format", "cmdstan", facts=["csv"])
    call(*SAMPLE, "--out", "csv", "--format", "cmdstan", "--force", "--chains", "1")
    assert [path.name for path in (files / "csv").iterdir()] == ["my_1.csv"]
    assert "1 x 40 draws" in call("diagnose", "csv")


def test_csv_files_are_refused_before_sampling_or_replaced(files):
    (files / "csv").mkdir()
    (files / "csv" / "data.csv").write_text("a,b\n1,2\n")
    to_csv = [*SAMPLE, "--out", "csv", "--format", "cmdstan"]
    refused("other_csv_files", *to_csv, facts=["data.csv", "--force"])
    call(*to_csv, "--force", "--chains", "1")
    assert {path.name for path in (files / "csv").iterdir()} == {"data.csv", "my_1.csv"}
    assert "1 x 40 draws" in call("diagnose", "csv")
    refused("unknown_format", *SAMPLE, "--format", "csv", facts=["cmdstan"])
    refused("not_of_the_format", *SAMPLE, "--format", "cmdstan", "--float32")
    refused("not_writable", *SAMPLE, "--format", "cmdstan", "--out", "fit.csv")
    assert not list(files.glob("*.nc"))


def test_draws_that_the_format_cannot_hold_are_kept(tmp_path):
    fit = fits_for_csv.fit(stats=("lp", "weight"), sampler="sgld", exact=False)
    (tmp_path / "csv.nc").write_text("another file of the user")
    with raises("no_cmdstan_form", "csv2.nc"):
        save(fit, tmp_path / "csv", format="cmdstan")
    assert sa.load(tmp_path / "csv2.nc").attrs["sampler"] == "sgld"
    assert (tmp_path / "csv.nc").read_text() == "another file of the user"


def test_chains_that_the_user_agreed_to_remove_are_no_reason_to_refuse(tmp_path):
    for chains in (4, 2):
        save(fits_for_csv.fit(chains=chains), tmp_path, format="cmdstan")
    assert sa.load(tmp_path).posterior.sizes["chain"] == 2


PROGRAM = """
parameters { real x; vector[9] z; }
model { x ~ normal(3, 2); z ~ normal(0, 1e-4); }
generated quantities { vector[9] twice = 2 * z; }
"""


@pytest.fixture
def program(files):
    (files / "normal.stan").write_text(PROGRAM)
    return "normal.stan", "--backend", "stanli", "--quiet"


def test_summary(files):
    fit = made_up_fits.fit(1)
    sa.save(fit, files / "fit.nc")
    expected = sa.summary(fit)
    assert call("summary", "fit.nc").split() == repr(expected).split()
    name = expected.index[0]
    found = json.loads(call("summary", "fit.nc", "--vars", name, "--json"))
    assert found[name]["mean"] == pytest.approx(expected.loc[name, "mean"], rel=1e-9)
    call("summary", "fit.nc", "--out", "table.csv")
    table = pd.read_csv(files / "table.csv", index_col="element")
    assert table.loc[name, "q95"] == pytest.approx(expected.loc[name, "q95"])
    assert call("summary", "fit.nc", "--csv").split() == (files / "table.csv").read_text().split()
    asked = ["summary", "fit.nc", "--vars", name, "--json", "--out", "table.json"]
    printed = CliRunner().invoke(app, asked).stdout  # for programs: without the name of the file
    assert json.loads(printed) == json.loads((files / "table.json").read_text()) == found
    refused("options_conflict", "summary", "fit.nc", "--json", "--csv")
    levels = "--probabilities", "0.025, 0.975"
    assert call("summary", "fit.nc", *levels).split()[2:4] == ["2.5%", "97.5%"]
    refused("out_of_range", "summary", "fit.nc", "--probabilities", "0.025,b", facts=["'b'"])
    sa.save(made_up_fits.fit(2), files / "other.nc")
    both = json.loads(call("summary", "fit.nc", "other.nc", "--json"))
    assert both[name]["fit"] == found[name]
    assert call("summary", "fit.nc", "other.nc", "--csv").startswith("element,fit,mean,")
    refused("unknown_variable", "summary", "fit.nc", "--vars", "none", facts=["none"])
    refused("file_missing", "summary", "none.nc", facts=["none.nc"])


@pytest.mark.thorough
def test_sample_ends_with_estimates_and_expectations_are_more_precise(files, program):
    printed = call("sample", *program, "--seed", "1", "--out", "fit.nc")
    assert (
        printed.index("x") < printed.index("z[1]") < printed.index("z[9]") < printed.index("fine")
    )
    assert "9 more quantities: stanadapt summary fit.nc" in printed
    model, *options = program
    arguments = "fit.nc", "--model", model, *options, "--vars", "x,twice", "--out", "e.csv"
    printed = call("expectations", *arguments)
    assert "4,000 gradients" in printed
    table = pd.read_csv(files / "e.csv", index_col="element")
    assert len(table) == 10
    assert table.loc["x", "mean"] == pytest.approx(3.0, abs=1e-5)
    (files / "other.stan").write_text(PROGRAM.replace("3, 2", "3, 1"))
    refused(
        "fit_of_another_target", "expectations", "fit.nc", "--model", "other.stan", *options,
        facts=["program_hash"],
    )  # fmt: skip


REGRESSION = """
data { int N; vector[N] x; }
parameters { real b; }
model { b ~ normal(0, 5); }
generated quantities { array[N] int mu; for (n in 1:N) mu[n] = poisson_rng(x[n]); }
"""


def test_generate(files):
    options = "--backend", "stanli", "--quiet"
    (files / "m.stan").write_text(REGRESSION)
    (files / "old.json").write_text('{"N": 1, "x": [1]}')
    (files / "new.json").write_text('{"N": 2, "x": [10, 20]}')
    run = "-s", "rwm", "--iter-warmup", "60", "--iter-sampling", "40", "--seed", "1"
    call("sample", "m.stan", "-d", "old.json", *run, *options)
    printed = call("generate", "fit.nc", "--data", "new.json", *options)
    assert "mu: 4 x 40 x 2" in printed
    assert sa.load("predictions.nc")["predictions"]["mu"].mean() > 12
    (files / "other.stan").write_text(REGRESSION.replace("x[n]", "100"))
    call("generate", "fit.nc", "--model", "other.stan", "--out", "fit.nc", *options)
    assert sa.load("fit.nc")["predictions"]["mu"].min() > 40
    (files / "wrong.stan").write_text(REGRESSION.replace("0, 5", "0, 6"))
    refused(
        "fit_of_another_target", "generate", "fit.nc", "--model", "wrong.stan", "--out", "x.nc",
        *options, facts=["block model"],
    )  # fmt: skip


def test_a_program_without_parameters_and_one_with_a_mode(files):
    code = "generated quantities { real z = normal_rng(0, 1); }"
    (files / "prior.stan").write_text(code)
    printed = call("sample", "prior.stan", "--backend", "stanli", "--seed", "1", "--quiet")
    assert "z" in printed
    assert "independent" in printed
    (files / "m.stan").write_text("parameters { real<lower=0> s; } model { s ~ gamma(3, 1); }")
    options = "--backend", "stanli", "--quiet", "--seed", "1"
    assert "s" in call("optimize", "m.stan", *options, "--out", "mode.csv")
    assert pd.read_csv("mode.csv", index_col=0).loc["s", "mode"] == pytest.approx(2.0, abs=1e-5)
    found = json.loads(call("optimize", "m.stan", "--jacobian", "--json", *options))
    assert found["s"]["mode"] == pytest.approx(3.0, abs=1e-5)
