"""The option --format: what is written, what is refused before sampling, and what is kept."""

import stanadapt as sa
from stanadapt import results
from stanadapt.cli.terminal import save
from tests.helpers import fits_for_csv
from tests.helpers.codes import raises
from tests.helpers.command_line import TINY, call, refused

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


def test_a_csv_file_of_something_else_is_named_before_draws_and_stays(files):
    (files / "csv").mkdir()
    (files / "csv" / "data.csv").write_text("a,b\n1,2\n")
    to_csv = [*SAMPLE, "--out", "csv", "--format", "cmdstan"]
    refused("other_csv_files", *to_csv, facts=["data.csv", "--force"])
    call(*to_csv, "--force", "--chains", "1")
    assert {path.name for path in (files / "csv").iterdir()} == {"data.csv", "my_1.csv"}
    assert "1 x 40 draws" in call("diagnose", "csv")


def test_refused_before_sampling(files):
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
