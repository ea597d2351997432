"""Results as ArviZ objects: splitting columns, saving, loading, and other files."""

import copy
import datetime
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.results import files
from stanadapt.results.answers import DO_THE_SAME
from stanadapt.results.arviz_object import arviz_module, is_tree
from stanadapt.results.fit_objects import LateInferenceData
from tests.helpers.codes import raises
from tests.helpers.repository import ROOT

CODE = """
parameters { matrix[2, 3] M; real<lower=0> s; }
model { to_vector(M) ~ normal(0, 1); s ~ exponential(1); }
generated quantities { vector[2] log_lik = [s, 2 * s]'; }
"""


@pytest.fixture(scope="module")
def fit():
    return sa.sample(
        sa.Target(CODE), "gad_mala", chains=3, iter_warmup=20, iter_sampling=25, seed=2,
        save_warmup=True, save="unconstrained",
    )  # fmt: skip


def small(**attributes):
    rng = np.random.default_rng(0)
    return results.build({"posterior": {"x": rng.normal(size=(2, 30))}}, attributes)


def assert_equal(one, other):
    assert set(results.group_names(one)) == set(results.group_names(other))
    for group in results.group_names(one):
        first, second = results.dataset(one, group), results.dataset(other, group)
        assert set(first) == set(second)
        for name in first:
            assert first[name].dtype == second[name].dtype, name
            assert first[name].dims == second[name].dims
            np.testing.assert_array_equal(first[name], second[name])
    assert set(one.attrs) <= set(other.attrs)
    for name, value in one.attrs.items():
        np.testing.assert_array_equal(np.asarray(value), np.asarray(other.attrs[name]), name)


def test_variables_of_every_shape():
    names = ["a", "v.1", "v.2", "m.1.1", "m.2.1", "m.3.1", "m.1.2", "m.2.2", "m.3.2"]
    names += [f"c.{i}.{j}.{k}" for k in (1, 2) for j in (1, 2, 3) for i in (1, 2)]
    draws = np.arange(2 * 5 * len(names), dtype=float).reshape(2, 5, len(names))
    arrays = results.variables(names, draws)
    assert list(arrays) == ["a", "v", "m", "c"]
    shapes = {name: value.shape for name, value in arrays.items()}
    assert shapes == {"a": (2, 5), "v": (2, 5, 2), "m": (2, 5, 3, 2), "c": (2, 5, 2, 3, 2)}
    for column, name in enumerate(names):
        variable, *index = name.split(".")
        entry = (slice(None), slice(None), *(int(i) - 1 for i in index))
        np.testing.assert_array_equal(arrays[variable][entry], draws[..., column], err_msg=name)


def test_variables_are_views_and_parts_have_names():
    draws = np.zeros((1, 3, 4))
    arrays = results.variables(["m.1.1", "m.2.1", "m.1.2", "m.2.2"], draws)
    assert np.shares_memory(arrays["m"], draws)
    names = ["z.real", "z.imag", "t:1", "t:2", "x"]
    draws = np.arange(10, dtype=float).reshape(1, 2, 5)
    arrays = results.variables(names, draws)
    assert set(arrays) == set(names)
    np.testing.assert_array_equal(arrays["t:2"], draws[..., 3])
    names = ("z.real", "z.imag", "t:1", "a", "a.b")
    fit = results.build({"posterior": {name: np.zeros((1, 4)) for name in names}}, {})
    assert list(results.columns(fit, wanted={"z", "t"})) == ["z.real", "z.imag", "t:1"]
    assert list(results.columns(fit, wanted={"a", "t:1"})) == ["t:1", "a"]


def test_columns_and_groups(fit):
    columns = results.columns(fit)
    assert list(columns) == [f"M[{i},{j}]" for i in (1, 2) for j in (1, 2, 3)] + ["s"]
    np.testing.assert_array_equal(columns["M[2,1]"], fit["posterior"]["M"].values[:, :, 1, 0])
    assert "log_lik" not in results.dataset(fit, "warmup_posterior")
    assert results.dataset(fit, "log_likelihood")["log_lik"].shape == (3, 25, 2)
    fit = results.build({"posterior": {"x": np.zeros((1, 5))}, "sample_stats": {}}, {})
    assert results.group_names(fit) == ["posterior"]


@pytest.mark.slow
def test_a_home_that_is_a_file_does_not_prevent_a_result(tmp_path):
    """ArviZ 0.23 makes a folder in the user's cache when it is imported."""
    (tmp_path / "home").write_text("")
    code = "from stanadapt.results import arviz_module; arviz_module().ess"
    home = {"HOME": str(tmp_path / "home"), "MPLCONFIGDIR": str(tmp_path)}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=False, env={**environment, **home},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_attributes_are_text_and_numbers_that_files_hold(fit, tmp_path):
    """Both lines of ArviZ write the same file only if neither has to convert anything."""
    for name, value in fit.attrs.items():
        storable = isinstance(value, str | int | float | np.number) and not isinstance(value, bool)
        storable |= isinstance(value, np.ndarray) and value.dtype.kind in "if"
        assert storable, f"{name}: {value!r}"
    # python reads the bytes of an accent as surrogates, which UTF-8 cannot encode
    fit = copy.deepcopy(fit)
    fit.attrs["program"] = "modèle.stan".encode().decode("ascii", "surrogateescape")
    fit.attrs["other"] = "half of a pair: \ud800"
    loaded = results.load(sa.save(fit, tmp_path / "fit.nc"))
    assert loaded.attrs["program"] == "modèle.stan"
    assert loaded.attrs["other"] == "half of a pair: ?"


@pytest.mark.slow
def test_the_first_r_hat_of_a_process_compiles_nothing():
    code = """
import numba.core.event as event
compiled = []
class Listener(event.Listener):
    def on_start(self, occurred):
        compiled.append(occurred.data["dispatcher"].py_func.__module__)
    def on_end(self, occurred):
        pass
event.register("numba:compile", Listener())
import numpy as np
from stanadapt.diagnostics.mixing import mixing
print(mixing(np.random.default_rng(1).normal(size=(4, 100))))
assert not compiled, compiled
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout


def test_round_trip(fit, tmp_path):
    """Into folders that are created, under a name without a suffix."""
    path = sa.save(fit, tmp_path / "a" / "b" / "fit")
    loaded = sa.load(path)
    groups = {"posterior", "sample_stats", "log_likelihood", "unconstrained_posterior"}
    assert set(results.group_names(loaded)) == groups | {"warmup_posterior", "warmup_sample_stats"}
    assert type(loaded) is type(fit)
    assert results.dataset(loaded, "sample_stats")["accepted"].dtype == bool
    with h5py.File(path) as file:  # other software can read it
        assert file["posterior/M"].shape == (3, 25, 2, 3)
        assert file.attrs["sampler"] in ("gad_mala", b"gad_mala")
    path.unlink()  # what was loaded is in memory
    assert_equal(fit, loaded)


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
def test_a_variable_with_the_name_of_its_group_is_in_memory_too(tmp_path, form):
    program = """
    parameters { vector[2] posterior; real sample_stats; }
    model { posterior ~ normal(0, 1); sample_stats ~ normal(5, 1); }
    """
    target = sa.Target(program)
    drawn = sa.sample(target, "rwm", seed=1, chains=2, iter_warmup=50, iter_sampling=20)
    path = Path(sa.save(drawn, tmp_path / "fit", format=form))
    again = sa.load(path)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in ("posterior", "sample_stats"):
        ours, theirs = (results.dataset(fit, "posterior")[name].values for fit in (drawn, again))
        np.testing.assert_array_equal(theirs, ours)


@pytest.mark.thorough
def test_a_loaded_result_can_replace_its_own_file(fit, tmp_path):
    path = sa.save(fit, str(tmp_path / "fit.nc"))
    for _ in range(2):
        sa.save(sa.load(path), path)
    assert_equal(fit, sa.load(str(path)))
    assert os.listdir(tmp_path) == ["fit.nc"]


def test_pareto_k_is_that_of_the_large_weights():
    """Weights u^-k have a tail of shape k; the small ones have none."""
    u = (np.arange(20_000) + 0.5) / 20_000
    for k in (0.3, 0.9):
        smoothed, estimate = results.pareto_smoothed(-k * np.log(u))
        assert estimate == pytest.approx(k, abs=0.05)
        assert np.exp(smoothed).sum() == pytest.approx(1.0)
        assert smoothed[0] == smoothed.max()
        assert results.pareto_smoothed(k * np.log(u))[1] < 0.0
    weights = np.append(np.random.default_rng(1).normal(size=500), -np.inf)
    smoothed, k = results.pareto_smoothed(weights)
    assert smoothed[-1] == -np.inf
    assert np.exp(smoothed).sum() == pytest.approx(1.0)
    assert k < 0.7
    assert results.pareto_smoothed(np.array([0.0, -np.inf]))[1] == np.inf
    assert results.pareto_smoothed(np.zeros(100))[1] == -np.inf


@pytest.mark.parametrize(
    ("failure", "code", "fact"),
    [
        (KeyboardInterrupt(), "", ""),
        (OSError(28, "No space left on device"), "not_writable", "No space left"),
        # what xarray refuses is no fault of the disk
        (
            NotImplementedError("variable 'x' cannot be serialized"),
            "result_refused",
            "variable 'x'",
        ),
    ],
)
def test_a_save_that_fails_keeps_the_old_file(tmp_path, monkeypatch, failure, code, fact):
    path = results.save(small(which=1), tmp_path / "fit.nc")

    def half(self, partial, *arguments, **keywords):
        with open(partial, "wb") as file:
            file.write(b"half a file")
        raise failure

    monkeypatch.setattr(xr.Dataset, "to_netcdf", half)
    with raises(code, path, fact) if code else pytest.raises(KeyboardInterrupt):
        results.save(small(which=2), path)
    assert results.load(path).attrs["which"] == 1
    assert os.listdir(tmp_path) == ["fit.nc"]


@pytest.mark.parametrize("save", [sa.save, lambda fit, path: results.check_writable(path)])
def test_saving_to_a_folder_or_below_a_file_is_an_error(fit, tmp_path, save):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "fit.nc", tmp_path / "file" / "deep" / "fit.nc"):
        with raises("not_writable", tmp_path):
            save(fit, path)


def test_an_unwritable_folder_is_reported(fit, tmp_path, monkeypatch):
    """Root can write to every folder, so tempfile simulates the refusal."""

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    with raises("not_writable", "Permission denied"):
        sa.save(fit, tmp_path / "fit.nc")


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
@pytest.mark.parametrize(
    ("dims", "name"), [("d", "site/beta"), ("d/e", "beta"), ("d", "."), ("d", ""), ("d", 3)]
)
def test_names_that_no_file_holds_are_refused(tmp_path, form, dims, name):
    """Both formats take "/" for a folder; the scopes of other libraries contain it."""
    draws = xr.Dataset({name: (("chain", "draw", dims), np.zeros((2, 4, 1)))})
    groups = {"posterior": draws.assign(x=draws[name] + 1.0)}
    if is_tree() and "/" in str(name):  # nor does a DataTree hold such a variable
        with pytest.raises(ValueError, match="site/beta"):
            results.build(groups, {})
        return
    fit = results.build(groups, {})
    with raises("result_refused", repr(dims if "/" in dims else name), "posterior"):
        sa.save(fit, tmp_path / "folder" / "fit", format=form)
    assert not os.listdir(tmp_path)


def objects(*values):
    made = np.empty(len(values), object)
    made[:] = values
    return made


LEVELS = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", "q"])
LABELS = {
    "categories": (pd.CategoricalIndex(["u", "v"]), ["u", "v"]),
    "a time zone": (
        pd.DatetimeIndex(["2020-01-01", "2020-07-01"], tz="Europe/Berlin"),
        ["2020-01-01 00:00:00+01:00", "2020-07-01 00:00:00+02:00"],
    ),
    "several levels": (xr.Coordinates.from_pandas_multiindex(LEVELS, "d"), ["(a, 1)", "(b, 2)"]),
}


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
@pytest.mark.parametrize(("labels", "read"), LABELS.values(), ids=list(LABELS))
def test_labels_that_no_file_holds_are_saved_as_text(tmp_path, form, labels, read):
    draws = xr.Dataset({"x": (("chain", "draw", "d"), np.zeros((2, 4, 2)))})
    draws = draws.assign_coords(labels if isinstance(labels, xr.Coordinates) else {"d": labels})
    before = draws.copy()
    again = sa.load(sa.save(results.build({"posterior": draws}, {}), tmp_path / "fit", format=form))
    posterior = results.dataset(again, "posterior")
    if draws["d"].dtype == object and isinstance(labels, pd.DatetimeIndex):
        read = draws["d"].values.tolist()  # the oldest xarray has such times as nanoseconds
    assert posterior["d"].values.tolist() == read
    if isinstance(labels, xr.Coordinates):
        assert posterior["p"].values.tolist() == ["a", "b"]
        assert posterior["q"].values.tolist() == [1, 2]
    xr.testing.assert_identical(draws, before)  # saving changes nothing


@pytest.mark.parametrize("form", ["netcdf", "zarr"])
def test_values_that_no_file_holds_are_refused(tmp_path, form):
    x = xr.Dataset({"x": (("chain", "draw"), np.zeros((1, 2)))})
    mixed = objects("a", 1)
    for groups, left_out in [
        ({"posterior": x.assign(o=(("chain", "draw"), mixed[None]))}, "o"),
        ({"posterior": x, "constant_data": xr.Dataset({"o": ("d", mixed)})}, "constant_data"),
    ]:
        fit = results.build(groups, {})
        with raises("result_refused", f"exclude='{left_out}'"):
            sa.save(fit, tmp_path / "folder" / "fit", format=form)
        assert not os.listdir(tmp_path)
    path = sa.save(fit, tmp_path / "fit", format=form, exclude=left_out)
    assert "x" in results.dataset(sa.load(path), "posterior")


def test_nothing_but_fits_is_saved_and_loaded(tmp_path):
    assert results.check_writable(str(tmp_path / "fit.nc")) == tmp_path / "fit.nc"
    assert os.listdir(tmp_path) == []
    with raises("not_a_fit", "dict"):
        sa.save({"x": 1}, tmp_path / "fit.nc")
    for load, path in ((sa.load, tmp_path / "none.nc"), (results.load, tmp_path)):
        with raises("file_missing", path):
            load(path)


@pytest.mark.filterwarnings("ignore:The 'phony_dims' kwarg")
@pytest.mark.parametrize(
    "content", [b"", b"junk", b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "cut", "hdf5"]
)
def test_loading_junk_is_an_error(tmp_path, content):
    path = tmp_path / "fit.nc"
    if content == "hdf5":
        with h5py.File(path, "w") as file:
            file["a"] = np.arange(3)
    else:
        whole = content if content != "cut" else results.save(small(), path).read_bytes()[:5000]
        path.write_bytes(whole)
    with raises("not_a_result", path):
        sa.load(path)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"a": 1}, '{"a": 1}'), (None, "null"), (True, 1), ([True, False], "[true, false]"),
        (["a", 1], '["a", 1]'), (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (np.array(["a", "b"]), '["a", "b"]'), ({3}, '"{3}"'), (2 + 1j, '"(2+1j)"'),
    ],
)  # fmt: skip
def test_attributes_that_a_user_added_are_saved(tmp_path, value, read):
    made = small()
    owners = [made, results.dataset(made, "posterior"), made["posterior"]["x"]]
    for owner in owners:
        owner.attrs["mine"] = value
    again = sa.load(sa.save(made, tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.attrs["mine"], read)
    np.testing.assert_array_equal(again["posterior"]["x"].attrs["mine"], read)
    assert made.attrs["mine"] is value  # saving changes nothing


@pytest.mark.parametrize("length", [200, 255])
def test_a_name_may_be_as_long_as_the_system_allows(fit, tmp_path, length):
    path = tmp_path / ("a" * (length - 3) + ".nc")
    assert sa.load(sa.save(fit, path)).attrs["sampler"] == "gad_mala"
    with raises("not_writable"):
        sa.save(fit, tmp_path / ("a" * 300))
    with raises("file_missing"):
        sa.load(tmp_path / ("a" * 300))


@pytest.mark.parametrize("path", [None, b"fit.nc", 5])
def test_other_objects_are_not_paths(fit, path):
    for do in (lambda: sa.save(fit, path), lambda: sa.load(path)):
        with raises("not_a_path", repr(path)):
            do()


# xarray's file object, which could not be opened, warns when it is deleted
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_flipped_bit_is_an_error_or_nothing(fit, tmp_path):
    raw, path = sa.save(small(), tmp_path / "fit.nc").read_bytes(), tmp_path / "flipped.nc"
    rng, refused = np.random.default_rng(4), 0
    for _ in range(60):
        damaged = bytearray(raw)
        damaged[rng.integers(len(raw))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            sa.load(path)
        except StanadaptError:
            refused += 1
    assert refused


def test_methods_of_other_packages_are_answered(tmp_path):
    fit = results.build({"posterior": {"x": np.zeros((2, 5))}}, {})
    sa.save(fit, tmp_path / "fit.nc")
    for one in (fit, pickle.loads(pickle.dumps(fit)), sa.load(tmp_path / "fit.nc")):
        with pytest.raises(AttributeError, match=r"Use stanadapt\.summary\(fit\)"):
            one.summary()
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            one.nonsense  # noqa: B018
        assert one.posterior["x"].shape == (2, 5)
    packages = {"stanadapt": sa, "arviz": arviz_module()}
    for package, function in re.findall(r"(stanadapt|arviz)\.(\w+)", str(DO_THE_SAME)):
        assert hasattr(packages[package], function)
    assert isinstance(fit, arviz_module().InferenceData if not is_tree() else xr.DataTree)


@pytest.mark.skipif(is_tree(), reason="ArviZ 1.x does not need it")
def test_a_fit_that_arviz_has_not_seen_changes_as_inference_data_does():
    group = xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))})
    late = LateInferenceData({"verdict": "fine"}, {"posterior": group, "other": group})
    del late.other
    late.extra = group
    assert late.groups() == ["posterior"]
    assert late.extra is group
    assert "posterior" in dir(LateInferenceData({}, {"posterior": group}))
    assert type(late) is not LateInferenceData
