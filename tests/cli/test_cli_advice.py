"""The commands `advise` and `sbc`: output on screen, files and exit status."""

import json

import numpy as np
import pytest

from stanadapt import results
from stanadapt.errors import all_codes
from stanadapt.samplers import registered
from tests.helpers.command_line import call, refused
from tests.helpers.tiny_posteriordb import MEAN, NAME, SD, tiny

MODEL = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model { mu ~ normal(30, 10); s ~ gamma(4, 2); y ~ normal(mu, s); }
"""
GENERATOR = """
data { int N; }
generated quantities {
  real mu = normal_rng(30, 10);
  real<lower=0> s = gamma_rng(4, 2);
  vector[N] y;
  for (n in 1:N) y[n] = normal_rng(mu, s);
}
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "model.stan").write_text(MODEL)
    (tmp_path / "generator.stan").write_text(GENERATOR)
    (tmp_path / "data.json").write_text(json.dumps({"N": 3, "y": [28.0, 31.5, 33.0]}))
    (tmp_path / "sizes.json").write_text(json.dumps({"N": 3}))
    return tmp_path


@pytest.mark.slow
def test_advise(files):
    model, data, out = files / "model.stan", files / "data.json", files / "advice.json"
    printed = call(
        "advise", model, "--data", data, "--max-minutes", "0.05", "--quiet", "--backend", "stanli",
        "--out", out,
    )  # fmt: skip
    advice = json.loads(out.read_text())
    assert advice["sampler"] in registered()
    assert f"stanadapt sample {model} --data {data} --sampler {advice['sampler']}" in printed
    assert "min ESS" in printed
    assert advice["messages"][0] in printed
    assert len(advice["codes"]) == len(advice["messages"])
    assert set(advice["codes"]) <= set(all_codes())
    refused("would_overwrite", "advise", model, "--data", data, "--out", out, facts=[out.name])


@pytest.mark.slow
def test_posteriors_of_posteriordb(tmp_path):
    """`advise` and `approximate` take their names, and so does the command that is recommended."""
    database = tiny(tmp_path / "database")
    common = [NAME, "--posteriordb", database, "--quiet", "--backend", "stanli"]
    printed = call("advise", *common, "--max-minutes", "0.02")
    assert f"stanadapt sample {NAME} --posteriordb {database} --sampler" in printed
    out = tmp_path / "approximation.nc"
    call("approximate", *common, "--seed", "1", "--out", out)
    mu = results.columns(results.load(out))["mu"]
    assert abs(mu.mean() - MEAN) < 5 * SD / np.sqrt(mu.size)
    for command in ("advise", "approximate"):
        both = ["--data", "--posteriordb"]
        refused("options_conflict", command, *common, "--data", "pima", facts=both)


def test_nonsense_is_refused(files):
    model, data = files / "model.stan", files / "data.json"
    for option, value in (("max-minutes", "0"), ("until-ess", "-1")):
        chosen = [f"--{option}", value, "--quiet"]
        printed = call("advise", model, "--data", data, *chosen, status=1)
        assert printed.startswith("error in settings")
        assert option.replace("-", "_") in printed
    printed = call(
        "sbc", files / "model.stan", "--generator", files / "none.stan", "--quiet", status=1
    )
    assert "none.stan" in printed


@pytest.mark.slow
def test_sbc(files):
    common = [
        "--generator", files / "generator.stan", "--data", files / "sizes.json", "--sampler",
        "nuts", "--simulations", "40", "--iter-sampling", "300", "--backend", "stanli", "--quiet",
    ]  # fmt: skip
    picture = files / "ranks.png"
    printed = call("sbc", files / "model.stan", *common, "--out", picture)
    assert "calibrated" in printed
    assert "not calibrated" not in printed
    assert picture.stat().st_size > 10_000
    wrong = files / "wrong.stan"
    wrong.write_text(MODEL.replace("y ~ normal(mu, s)", "y ~ normal(mu + 3, s)"))
    kept = files / "kept"
    first = call("sbc", wrong, *common, "--run", kept, status=1)
    assert "not calibrated" in first
    assert "mu" in first
    # the second call reads all ranks from the folder
    assert call("sbc", wrong, *common, "--run", kept, status=1) == first


def test_sbc_checks_its_picture_before_it_reads_programs(files):
    command = ["sbc", files / "model.stan", "--generator", files / "none.stan", "--quiet"]
    (files / "ranks.png").write_text("kept")
    refused("would_overwrite", *command, "-o", files / "ranks.png", facts=["ranks.png", "--force"])
    refused("not_writable", *command, "-o", files / "model.stan" / "ranks.png", facts=["ranks.png"])
    for name in ("ranks.foo", "ranks"):
        refused("unknown_format", *command, "-o", files / name, facts=[name, ".png", ".svg"])
    picture = ["-o", files / "ranks.png", "--force"]
    assert "none.stan" in call(*command, *picture, status=1)
