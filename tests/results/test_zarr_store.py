"""Fits in zarr stores: every group comes back, and a store is replaced as a whole."""

import os
import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from tests.helpers import fits_for_csv
from tests.helpers.codes import raises

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


def test_a_store_that_lost_a_chunk_is_refused(tmp_path):
    """Else zarr reads fill values: also where every value is one, in a statistic of zeros."""
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
