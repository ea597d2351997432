"""Arguments of wrong types and kinds: one sentence that names the argument, never a traceback."""

import itertools
import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import stanadapt as sa
from stanadapt.errors import StanadaptError, require_between
from stanadapt.runs.reference import fit_reference
from stanadapt.samplers.langevin import Minibatches
from stanadapt.samplers.nice import Network
from stanadapt.samplers.tempering import ReferenceDistribution
from stanadapt.targets.posteriordb import posteriordb
from tests.helpers import made_up_fits
from tests.helpers.short_runs import NORMAL

# none of them a name, a list of names, or anything that can be looked up or is true or false
NEITHER = {
    "an array": np.array([1, 2]),
    "an empty array": np.array([]),
    "a number as an array": np.array(3.0),
    "an array of objects": np.array([None, {}], object),
    "a table": pd.DataFrame({1: [1.0]}),
    "a nested list": [[1], [1, 2]],
    "a data set": xr.Dataset({"a": 1.0}).assign({1: 2.0}),
    "no end of numbers": itertools.count(),
}
# nor anything that can be iterated over
ALONE = NEITHER | {"a number": 1e300, "a function": len, "a type": int, "bytes": b"x"}
NEITHER_TRUE = {what: NEITHER[what] for what in ("an array", "an array of objects", "a table")}
UNREADABLE = ["a\0b", "\ud800", "x" * 5000]


def target(**options):
    return sa.Target(NORMAL, show_progress=False, **options)


@pytest.fixture(scope="module")
def known():
    return target()


@pytest.fixture(scope="module")
def fits():
    return {"one": made_up_fits.fit(1), "two": made_up_fits.fit(2)}


def refused(argument, call):
    with pytest.raises(StanadaptError, match=argument) as caught:
        call()
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("value", ALONE.values(), ids=ALONE)
class TestOfOtherKinds:
    """What is a name, or some."""

    def test_of_a_backend(self, value):
        refused("backend must be one of", lambda: target(backend=value))

    def test_of_fits(self, value, fits):
        for argument in ("baseline", "budget"):
            refused(argument, lambda name=argument: sa.compare(fits, **{name: value}))

    def test_of_an_engine(self, value, known):
        refused("auto, cmdstan, stanli", lambda: sa.stan_nuts(known, backend=value))
        refused("auto, cmdstan, stanli", lambda: sa.compare_repeats(known, "rwm", engine=value))

    def test_of_several(self, value, known, fits):
        if isinstance(value, np.ndarray) and value.size == 0:
            value = [b""]
        refused("exclude must be a name", lambda: target(exclude=value))
        refused("include.path", lambda: target(include_paths=value))
        refused("var_names must be a name", lambda: sa.compare(fits, var_names=value))
        refused("samplers must be a name|settings of a", lambda: sa.compare_repeats(known, value))
        refused("settings of rwm must be", lambda: sa.compare_repeats(known, {"rwm": value}))

    def test_of_what_is_left_out_of_a_file(self, value, fits, tmp_path):
        if isinstance(value, np.ndarray) and value.size == 0:
            value = [b""]
        refused(
            "exclude must be a name", lambda: sa.save(fits["one"], tmp_path / "a", exclude=value)
        )
        assert list(tmp_path.iterdir()) == []

    def test_of_a_run_folder(self, value, known):
        refused("not_a_path", lambda: sa.sample(known, run=value))
        refused("not_a_path", lambda: sa.resume(value))


@pytest.mark.parametrize("value", NEITHER_TRUE.values(), ids=NEITHER_TRUE)
def test_neither_true_nor_false(value, known, fits, tmp_path):
    one = fits["one"]
    for flag, call in {
        "unsafe": lambda: target(unsafe=value),
        "float32": lambda: sa.save(one, tmp_path / "a", float32=value),
        "save_warmup": lambda: sa.sample(known, save_warmup=value),
        "control_variates": lambda: Minibatches(rows(), "y", 2, control_variates=value),
    }.items():
        refused(f"{flag.strip()} must be True or False", call)


def rows():
    program = "data { vector[4] y; } parameters { real m; } model { y ~ normal(m, 1); }"
    return sa.Target(program, {"y": [1, 2, 3, 5]}, backend="stanli", show_progress=False)


@pytest.mark.parametrize("name", UNREADABLE, ids=["NUL", "no text", "long"])
def test_names_of_files_that_the_system_refuses(name, known, fits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused("files", lambda: sa.Target(name, show_progress=False))
    refused("files", lambda: sa.Target(f"{name}.stan", show_progress=False))
    for argument in ("data", "include_paths", "labels", "dims"):
        refused("files", lambda name_of=argument: target(**{name_of: name}))
    refused("initialization", lambda: sa.stan_nuts(known, backend="stanli", inits=name))
    refused("settings|files", lambda: fit_reference(known, name))
    for read in (sa.load, sa.resume, posteriordb, Network.load):
        refused("files", lambda read=read: read(name))
    for write in (sa.save, sa.report):
        given = fits["one"] if write is sa.save else fits
        refused("files", lambda write=write, given=given: write(given, name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_that_nobody_writes_into_is_not_waited_for(known, tmp_path):
    pipe = tmp_path / "pipe.stan"
    os.mkfifo(pipe)
    for call in (
        lambda: sa.Target(pipe, show_progress=False),
        lambda: target(data=pipe),
        lambda: target(labels=pipe),
        lambda: sa.stan_nuts(known, backend="stanli", inits=pipe),
        lambda: Network.load(pipe),
    ):
        refused("pipe", call)


def test_what_a_shell_puts_in_the_place_of_a_file_is_read():
    reading, writing = os.pipe()
    os.write(writing, b'{"n": 2}')
    os.close(writing)
    program = "data { int n; } parameters { vector[n] x; } model { x ~ normal(0, 1); }"
    try:
        assert sa.Target(program, f"/dev/fd/{reading}", show_progress=False).dim == 2
    finally:
        os.close(reading)


def test_numbers_beyond_the_largest(known):
    huge = 10**400
    refused("share must lie between", lambda: require_between("share", huge, 0.0, 1.0))
    for argument in ("until_ess", "max_minutes", "inits"):
        refused(argument, lambda name=argument: sa.sample(known, "rwm", **{name: huge}))
    refused("max_minutes must be a number", lambda: sa.advise(known, max_minutes=huge))
    refused("degrees must be a number", lambda: ReferenceDistribution([0.0], 1.0, degrees=huge))
    refused("inflation must lie", lambda: fit_reference(known, "pathfinder", inflation=huge))


def test_a_fit_is_no_data(fits):
    program = "data { real posterior; } parameters { real x; } model { x ~ normal(posterior, 1); }"
    refused("posterior", lambda: sa.Target(program, fits["one"], show_progress=False))
