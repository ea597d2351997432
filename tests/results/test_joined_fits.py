"""Fits of several jobs become one: by `load`, by ArviZ and by xarray."""

import json

import numpy as np
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from stanadapt.results.arviz_object import arviz_module, is_tree
from stanadapt.results.join import join
from tests.helpers import fits_for_csv, made_up_fits
from tests.helpers.codes import raises
from tests.helpers.stan_target import shared_target

PROGRAM = """
data { real m; } parameters { real x; vector[2] y; }
model { x ~ normal(m, 1); y ~ normal(0, exp(x)); }
"""
SAMPLERS = ("auto", "nuts", "gad_mala", "parallel_tempering", "rwm")
pytestmark = pytest.mark.filterwarnings("ignore::stanadapt.errors.StanadaptWarning")
target = shared_target(PROGRAM, {"m": 1.0})


def draw(target, seed, sampler="rwm", chains=1, **options):
    length = {"iter_warmup": 100, "iter_sampling": 50}
    return sa.sample(target, sampler, seed=seed, chains=chains, **{**length, **options})


@pytest.fixture(scope="module")
def jobs(target, tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    fits = [draw(target, seed, thin=2) for seed in (1, 2, 3)]
    return fits, [sa.save(fit, folder / f"job_{i}.nc") for i, fit in enumerate(fits)]


def test_attributes_are_numbers_and_text(jobs, tmp_path):
    fits, paths = jobs
    csv = sa.save(fits[0], tmp_path / "csv", format="cmdstan")
    for fit in (fits[0], sa.load(paths[0]), sa.load(csv)):
        assert {type(value) for value in fit.attrs.values()} <= {
            str, int, float, np.int64, np.float64,
        }  # fmt: skip
        assert results.attribute(fit, "sampling_seconds").shape == (1,)
        assert json.loads(fit.attrs["chains_kept"]) == [1]


def test_files_of_several_jobs_are_one_fit(jobs):
    fits, paths = jobs
    joined = sa.load(paths)
    x = results.dataset(joined, "posterior")["x"]
    assert x.chain.values.tolist() == [0, 1, 2]
    for chain, fit in enumerate(fits):
        np.testing.assert_array_equal(x[chain], results.dataset(fit, "posterior")["x"][0])
    assert results.attribute(joined, "seeds").tolist() == [1, 2, 3]
    density = [fit.attrs["n_density"] for fit in fits]
    assert joined.attrs["n_density"] == sum(density)
    assert results.attribute(joined, "sampling_seconds").shape == (3,)
    assert len(results.from_json(joined, "every_iteration", {})["iterations"]) == 3
    # judged as a whole: R-hat of one chain is not that of three
    assert joined.attrs["verdict"] in ("too short", "suspect", "do not use", "fine")
    assert "one_chain" not in joined.attrs["verdict_codes"]
    # two jobs that found different modes are each fine, and together are not
    fits = [made_up_fits.fit(seed) for seed in (1, 2)]
    apart = made_up_fits.draws(2)
    apart["a"] = apart["a"] + 9
    assert verdict(join({"one": fits[0], "other": fits[1]})).verdict == "fine"
    other = made_up_fits.fit(2, posterior=apart)
    assert verdict(other).verdict == "fine"
    assert verdict(join({"one": fits[0], "other": other})).verdict == "do not use"


def test_a_folder_of_a_run_and_csv_files_of_jobs(jobs, target, tmp_path):
    fits, paths = jobs
    draw(target, 4, thin=2, run=tmp_path / "run")
    joined = sa.load([paths[0], tmp_path / "run"])
    assert results.dataset(joined, "posterior").sizes["chain"] == 2
    csv = [sa.save(fit, tmp_path / f"csv_{i}", format="cmdstan") for i, fit in enumerate(fits)]
    files = [path for folder in csv for path in folder.glob("*.csv")]
    joined = sa.load(files)
    x = results.dataset(joined, "posterior")["x"].values
    whole = np.concatenate([results.dataset(fit, "posterior")["x"].values for fit in fits])
    assert sorted(map(tuple, x)) == sorted(map(tuple, whole))


@pytest.mark.parametrize("form", ["netcdf", "cmdstan"])
def test_warm_ups_that_ended_at_different_times_are_left_out(tmp_path, form):
    paths = []
    for length in (20, 30):
        fit = fits_for_csv.fit(chains=1, warmup=length)
        fit.posterior["mu"][:] += length
        paths.append(sa.save(fit, tmp_path / f"{length}", format=form))
    files = [file for path in paths for file in path.glob("*.csv")] or paths
    joined = sa.load(files)
    assert results.dataset(joined, "posterior").sizes["chain"] == 2
    assert "warmup_posterior" not in results.group_names(joined)


def test_what_does_not_belong_together_is_refused(jobs, target, tmp_path):
    fits, paths = jobs
    for twice in ([paths[0], paths[0]], [paths[0], sa.save(fits[0], tmp_path / "copy.nc")]):
        with raises("same_chain_twice"):
            sa.load(twice)
    csv = sa.save(fits[0], tmp_path / "csv", format="cmdstan")
    (file,) = csv.glob("*.csv")
    with raises("same_chain_twice"):
        sa.load([file, file])
    other_data = draw(target.with_data({"m": 2.0}), 5, thin=2)
    others = {
        "data_hash": other_data,
        "thin": draw(target, 5),
        "sampler": draw(target, 5, "am", thin=2),
        "draws": draw(target, 5, thin=2, iter_sampling=60),
    }
    for what, fit in others.items():
        with raises("fits_do_not_join", what):
            sa.load([paths[0], sa.save(fit, tmp_path / f"{what}.nc")])
    for what in ("data_hash", "sampler"):
        folder = sa.save(others[what], tmp_path / f"{what}_csv", format="cmdstan")
        with raises("fits_do_not_join", what):
            sa.load([file, *folder.glob("*.csv")])


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_arviz_and_xarray_join_fits_of_samplers(target, sampler, tmp_path):
    fits = [draw(target, seed, sampler, chains=2, save_warmup=True) for seed in (1, 2)]
    for pair in (fits, [sa.load(sa.save(f, tmp_path / f"{i}.nc")) for i, f in enumerate(fits)]):
        if not is_tree():
            joined = arviz_module().concat(*pair, dim="chain")
            assert joined.posterior.sizes["chain"] == 4
        posteriors = [results.dataset(fit, "posterior") for fit in pair]
        combined = xr.concat(posteriors, "chain", combine_attrs="no_conflicts")
        assert combined.sizes["chain"] == 4


@pytest.mark.parametrize(("names", "shown"), [(("v", "v"), True), (("v", "w"), False)])
def test_a_picture_of_other_coordinates_is_left_out(names, shown):
    fits = {}
    for number, name in enumerate(names):
        pair = xr.Dataset({"driver": (("chain", "point"), np.zeros((4, 9)), {"name": name})})
        fit = made_up_fits.fit(number)
        groups = {group: results.dataset(fit, group) for group in results.group_names(fit)}
        fits[str(number)] = results.build({**groups, "straightened": pair}, fit.attrs)
    assert ("straightened" in results.group_names(join(fits))) is shown


@pytest.mark.parametrize("digest", ["642594e011459935", "0012345678901234", "1234567890123456"])
def test_hashes_that_look_like_numbers_come_back_from_files(jobs, tmp_path, digest):
    fit = jobs[0][0].copy()
    fit.attrs.update(program_hash=digest, data_hash=digest)
    for form in ("netcdf", "cmdstan", "zarr"):
        loaded = sa.load(sa.save(fit, tmp_path / f"{form}", format=form))
        assert (loaded.attrs["program_hash"], loaded.attrs["data_hash"]) == (digest, digest)
