"""Commands that print estimates of a fit, and the estimates at the end of `sample`."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

import stanadapt as sa
from stanadapt.cli.commands import app
from tests.helpers import made_up_fits
from tests.helpers.command_line import call, refused

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


def test_a_program_without_parameters(files):
    code = "generated quantities { real z = normal_rng(0, 1); }"
    (files / "prior.stan").write_text(code)
    printed = call("sample", "prior.stan", "--backend", "stanli", "--seed", "1", "--quiet")
    assert "z" in printed
    assert "independent" in printed


def test_optimize(files):
    (files / "m.stan").write_text("parameters { real<lower=0> s; } model { s ~ gamma(3, 1); }")
    options = "--backend", "stanli", "--quiet", "--seed", "1"
    assert "s" in call("optimize", "m.stan", *options, "--out", "mode.csv")
    assert pd.read_csv("mode.csv", index_col=0).loc["s", "mode"] == pytest.approx(2.0, abs=1e-5)
    found = json.loads(call("optimize", "m.stan", "--jacobian", "--json", *options))
    assert found["s"]["mode"] == pytest.approx(3.0, abs=1e-5)
