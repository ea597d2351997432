"""Small files and zarr stores: nothing is lost but what was asked for, and a store is whole."""

import os
import sys
import warnings

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.diagnostics.verdict import verdict
from tests.helpers import fits_for_csv
from tests.helpers.codes import raises

RNG = np.random.default_rng(5)
SHAPE = (4, 500)
# so far from zero that four bytes would leave only a few different values
FAR = 1e6 + RNG.normal(size=SHAPE)
HUGE = 1e300 * RNG.normal(size=SHAPE)


@pytest.fixture(scope="module")
def fit():
    posterior = {
        "x": RNG.normal(size=(*SHAPE, 20)), "far": FAR, "huge": HUGE,
        "count": RNG.poisson(1e5, SHAPE).astype(float),
        "mixed": np.stack([FAR, FAR - 1e6], axis=-1),
        "hole": np.where(RNG.random(SHAPE) < 0.1, np.nan, RNG.normal(size=SHAPE)),
    }  # fmt: skip
    groups = {
        "posterior": posterior,
        "log_likelihood": {"y": RNG.normal(size=(*SHAPE, 20))},
        "sample_stats": {"lp": -1e8 + RNG.normal(size=SHAPE), "diverging": RNG.random(SHAPE) < 0.1},
    }
    return results.build(groups, {"thin": 2, "verdict": "fine"})


def stored(fit, tmp_path, **options):
    path = sa.save(fit, tmp_path / "fit.nc", **options)
    return sa.load(path), path.stat().st_size


def test_compression_loses_nothing(fit, tmp_path):
    plain, large = stored(fit, tmp_path, compression=0)
    packed, small = stored(fit, tmp_path)
    assert small < 0.95 * large
    for other in (plain, packed):
        for group in results.group_names(fit):
            for name, values in results.dataset(fit, group).data_vars.items():
                np.testing.assert_array_equal(values, results.dataset(other, group)[name])


def test_four_bytes_only_if_rounding_is_negligible(fit, tmp_path):
    loaded, small = stored(fit, tmp_path, float32=True)
    assert small < 0.65 * stored(fit, tmp_path)[1]
    kinds = {n: v.dtype.name for n, v in results.dataset(loaded, "posterior").data_vars.items()}
    wide = {"far", "huge", "mixed"}
    assert kinds == {n: "float64" if n in wide else "float32" for n in kinds}
    saved, drawn = (results.dataset(f, "posterior") for f in (loaded, fit))
    for name in wide | {"count"}:
        np.testing.assert_array_equal(saved[name], drawn[name])
    assert float(np.abs(saved["x"] - drawn["x"]).max()) < 1e-4
    np.testing.assert_array_equal(np.isnan(saved["hole"]), np.isnan(drawn["hole"]))
    stats = results.dataset(loaded, "sample_stats")
    np.testing.assert_array_equal(stats["lp"], results.dataset(fit, "sample_stats")["lp"])
    assert results.columns(loaded)["x[1]"].dtype == np.float64


def test_thinned_files_and_those_without_variables(fit, tmp_path):
    loaded, _ = stored(fit, tmp_path, thin=5)
    for group, name in (("posterior", "x"), ("sample_stats", "lp"), ("log_likelihood", "y")):
        expected = results.dataset(fit, group)[name][:, ::5]
        np.testing.assert_array_equal(results.dataset(loaded, group)[name], expected)
    assert loaded.attrs["thin"] == 10
    assert fit.attrs["thin"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert verdict(loaded).verdict in ("fine", "too short", "do not use")
    loaded, _ = stored(fit, tmp_path, exclude=["x", "log_likelihood"])
    assert "x" not in results.dataset(loaded, "posterior")
    assert "log_likelihood" not in results.group_names(loaded)
    assert "x" in results.dataset(fit, "posterior")


@pytest.mark.parametrize(("options", "code", "facts"), [
    ({"exclude": "z"}, "unknown_variable", ["'z'", "count, diverging"]),
    ({"exclude": ["x", "far", "huge", "count", "mixed", "hole"]}, "empty_posterior", []),
    ({"exclude": "posterior"}, "empty_posterior", []), ({"thin": 0}, "out_of_range", ["thin", "0"]),
    ({"compression": 10}, "out_of_range", ["compression", "10"]),
])  # fmt: skip
def test_bad_options_write_nothing(fit, tmp_path, options, code, facts):
    with raises(code, *facts):
        sa.save(fit, tmp_path / "fit.nc", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_small_file_can_be_made_of_a_file(fit, tmp_path):
    """The chunk sizes that a file records do not apply to fewer draws."""
    loaded, _ = stored(fit, tmp_path, float32=True)
    again, _ = stored(loaded, tmp_path, thin=250)
    assert results.dataset(again, "posterior").sizes["draw"] == 2
    packed, small = stored(fit, tmp_path)
    _, large = stored(packed, tmp_path, compression=0)
    assert large > 1.05 * small


LABELS = {"dims": {"theta": ["school"]}, "coords": {"school": ["a", "b", "ç"]}}


def test_every_group_comes_back(tmp_path):
    fit = fits_for_csv.fit(warmup=20, labels=LABELS, verdict="fine")
    path = sa.save(fit, tmp_path / "fit.zarr", format="zarr")
    other = sa.load(path)
    assert set(results.group_names(other)) == set(results.group_names(fit))
    for group in results.group_names(fit):
        for name, values in results.dataset(fit, group).variables.items():
            read = results.dataset(other, group).variables[name]
            np.testing.assert_array_equal(read.values, values.values)
            assert read.dtype.kind in (values.dtype.kind, "T", "O")
    assert {k: str(v) for k, v in other.attrs.items()} == {k: str(v) for k, v in fit.attrs.items()}
    assert os.listdir(tmp_path) == ["fit.zarr"]
    sa.save(other, tmp_path / "again.nc")  # what was read can be saved in another format


def test_four_bytes_and_thinned(tmp_path):
    fit = fits_for_csv.fit()
    path = sa.save(fit, tmp_path / "s", format="zarr", float32=True, thin=2, exclude="L")
    other = results.dataset(sa.load(path), "posterior")
    assert "L" not in other
    assert other["k"].dtype == np.float32
    assert results.dataset(sa.load(path), "sample_stats")["lp"].dtype == np.float64
    np.testing.assert_array_equal(other["k"], results.dataset(fit, "posterior")["k"][:, ::2])


def test_an_older_store_is_replaced_and_another_folder_is_not(tmp_path):
    for seed in (1, 2):
        fit = fits_for_csv.fit(seed=seed)
        path = sa.save(fit, tmp_path / "s", format="zarr", compression=0)
        assert sa.load(path).attrs["seed"] == seed
    assert os.listdir(tmp_path) == ["s"]
    (tmp_path / "mine").mkdir()
    with raises("not_writable", "mine"):
        sa.save(fit, tmp_path / "mine", format="zarr")


@pytest.mark.parametrize("ending", [OSError("no space left"), KeyboardInterrupt()])
def test_an_older_store_survives_a_failure(tmp_path, monkeypatch, ending):
    path = sa.save(fits_for_csv.fit(seed=1), tmp_path / "s", format="zarr")

    def fail(*arguments):
        raise ending

    monkeypatch.setattr("zarr.consolidate_metadata", fail)  # what is called last
    with pytest.raises((sa.StanadaptError, KeyboardInterrupt)):
        sa.save(fits_for_csv.fit(seed=2), path, format="zarr")
    assert os.listdir(tmp_path) == ["s"]
    assert sa.load(path).attrs["seed"] == 1


def test_damaged_stores_are_refused(tmp_path):
    (tmp_path / ".zgroup").write_text("{}")
    with raises("not_a_result"):
        sa.load(tmp_path)
    # else zarr reads fill values: also where every value is one, in a statistic of zeros
    fit = fits_for_csv.fit(stats=("lp", "diverging"))
    fit.sample_stats["diverging"][:] = False
    for lost in ("posterior/mu", "sample_stats/diverging"):
        path = sa.save(fit, tmp_path / "s", format="zarr")
        assert "every_chunk" not in sa.load(path).attrs
        (path / lost / "0.0").unlink()
        with raises("not_a_result", lost):
            sa.load(path)


def test_without_zarr(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)  # importing it fails
    with raises("zarr_missing", "pip install zarr"):
        sa.save(fits_for_csv.fit(), tmp_path / "s", format="zarr")
    (tmp_path / ".zgroup").write_text("{}")
    with raises("zarr_missing"):
        sa.load(tmp_path)
