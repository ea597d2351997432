"""Posteriors of a local posteriordb: found by name, compared with their reference draws."""

import json

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.targets.posteriordb import posteriordb
from tests.helpers.codes import raises, raises_in
from tests.helpers.command_line import call
from tests.helpers.tiny_posteriordb import MEAN, NAME, PROGRAM, SD, draws, packed, tiny, written


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return posteriordb(tiny(tmp_path_factory.mktemp("clone")))


def test_entries_and_names_that_are_lacking(database, tmp_path):
    assert database.names == ["bare", NAME]
    assert posteriordb(database.path).names == database.names  # the inner folder
    entry = database.posterior(NAME)
    assert (entry.program, entry.data, entry.reference) == ("tiny", "tiny_data", NAME)
    with raises("unknown_posterior", "'tiny-tiny'", NAME):
        database.target("tiny-tiny")
    with raises("no_reference_draws", "bare"):
        database.reference_draws("bare")
    with raises("not_a_posteriordb", tmp_path):
        posteriordb(tmp_path)


def test_reference_draws_have_shapes_and_belong_to_one_posterior(database):
    target = database.target(NAME)
    fit = database.reference_draws(NAME, target)
    posterior, chains = results.dataset(fit, "posterior"), draws()
    assert posterior["M"].shape == (10, 200, 2, 3)
    np.testing.assert_array_equal(posterior["M"].values[3, :, 1, 0], chains[3]["M[2,1]"])
    np.testing.assert_array_equal(posterior["w"].values[9, :, 1], chains[9]["w[2]"])
    assert posterior["mu"].shape == (10, 200)
    assert fit.attrs["program_hash"] == target.program.hash
    assert "rstan 2.19" in fit.attrs["engine"]
    target = database.target(NAME)
    other = sa.Target(PROGRAM, {"N": 1, "y": [3.0]})
    fits = {
        "here": database.reference_draws(NAME, target),
        "there": database.reference_draws(NAME, other),
    }
    with raises_in("settings", *fits):
        sa.compare(fits)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
def test_a_right_fit_agrees_and_a_wrong_one_does_not(database):
    target = database.target(NAME)
    fit = sa.sample(target, "nuts", chains=4, seed=1)
    rng = np.random.default_rng(3)
    moved = {"mu": MEAN + 0.2 + SD * rng.normal(size=(4, 1000))}
    wrong = results.build({"posterior": moved}, {})
    fits = {"ours": fit, "reference": database.reference_draws(NAME, target), "wrong": wrong}
    table = sa.compare(fits)
    assert table.attrs["baseline"] == "reference"
    assert not table.attrs["baseline_is_ours"]  # Stan's own density made them
    assert table.loc["ours", "z_mean"] < 4.5
    assert table.loc["wrong", "z_mean"] > 6.0
    assert np.isnan(table.loc["reference", "ess_per_second"])
    assert table.loc["reference", "verdict"] == "fine"


LOST = [
    ("models/stan/tiny.stan", "target"),
    ("data/data/tiny_data.json.zip", "target"),
    (f"reference_posteriors/draws/draws/{NAME}.json.zip", "reference_draws"),
]


@pytest.mark.parametrize(("file", "call"), LOST)
def test_a_clone_that_lacks_a_file(tmp_path, file, call):
    database = posteriordb(tiny(tmp_path))
    (database.path / file).unlink()
    with raises("posteriordb_file_missing", NAME, file.removesuffix(".zip")) as caught:
        getattr(database, call)(NAME)
    assert str(caught.value).count("\n") == 0


BROKEN = {
    "no archive": b"<html>", "not a list": {"mu": [1.0]},
    "unequal chains": [{"mu": [1.0, 2.0]}, {"mu": [1.0]}],
    "other variables": [{"mu": [1.0]}, {"tau": [1.0]}],
    "a component lost": [{"M[1,1]": [1.0], "M[2,2]": [1.0]}], "text": [{"mu": ["a", "b"]}],
    "another shape": [{"w[1]": [1.0, 2.0]}], "nothing in common": [{"tau": [1.0, 2.0]}],
}  # fmt: skip


@pytest.mark.parametrize("content", BROKEN.values(), ids=list(BROKEN))
def test_broken_reference_draws(tmp_path, content):
    database = posteriordb(tiny(tmp_path))
    target = database.target(NAME)
    path = database.path / "reference_posteriors" / "draws" / "draws" / f"{NAME}.json"
    if isinstance(content, bytes):
        path.with_name(f"{path.name}.zip").write_bytes(content)
    else:
        packed(path, content)
    with raises("posteriordb_file_broken", path):
        database.reference_draws(NAME, target)


def test_a_program_that_stan_no_longer_reads(tmp_path):
    old = "parameters { real mu; } model { increment_log_prob(-mu * mu); }"
    database = posteriordb(tiny(tmp_path, program=old))
    with raises("syntax_error") as caught:
        database.target("bare")
    assert "increment_log_prob" in caught.value.stan


def test_files_may_be_unpacked(tmp_path):
    database = posteriordb(tiny(tmp_path))
    file = database.path / "data" / "data" / "tiny_data.json"
    file.with_name(f"{file.name}.zip").unlink()
    written(file, {"N": 0, "y": []})
    assert json.loads(database.target(NAME).data)["N"] == 0


def test_from_the_command_line(tmp_path, database):
    path, out = database.path.parent, tmp_path / "out"
    listed = call("models", "--posteriordb", path)
    assert NAME in listed
    assert "reference draws" in listed
    shown = call(
        "compare", NAME, "--posteriordb", path, "--sampler", "nuts", "--stan-nuts", "none",
        "--backend", "stanli", "--iter-sampling", 200, "--seed", 1, "--out", out, "-q",
    )  # fmt: skip
    assert "posteriordb, rstan 2.19" in shown
    assert (out / "nuts.nc").is_file()
    refused = call("sample", NAME, "--posteriordb", path, "--data", "x.json", status=1)
    assert "--data" in refused
    assert "--posteriordb" in refused
