"""Files are written as a whole: after a failure, an older file is as it was."""

import contextlib
import errno
import os
from pathlib import Path

import pytest

import stanadapt as sa
from stanadapt.errors import StanadaptError
from stanadapt.results import replace_file, write_text
from stanadapt.studies.repeats.result import RepeatedComparison
from tests.helpers import made_up_fits, made_up_repeats
from tests.helpers.codes import raises
from tests.helpers.full_disk import full_disk


def report(path):
    return sa.report({"rwm": made_up_fits.fit(1)}, path)


def report_of_repeats(path):
    rows = made_up_repeats.table(*(made_up_repeats.row("rwm", k, target="t") for k in (1, 2)))
    target = {"model": "m", "program_hash": "p", "data_hash": "d"}
    versions, settings = {"stanadapt": "0"}, {"seed": 1}
    origin = {
        "targets": {"t": target}, "versions": versions, "settings": settings, "samplers": {},
    }  # fmt: skip
    return RepeatedComparison(rows, origin, ["rwm"], 2, False).report(path)


def text(path):
    return write_text(path, "text\n")


@pytest.fixture(params=[text, report, report_of_repeats])
def write(request):
    return request.param


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [OSError("no space left"), KeyboardInterrupt()])
def test_an_older_file_is_left_as_it_was(write, tmp_path, monkeypatch, ending):
    whole = Path.write_bytes

    def half(path, content):
        whole(path, content[: len(content) // 2])
        raise ending

    path = tmp_path / "file.html"
    path.write_text("older")
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises((StanadaptError, KeyboardInterrupt)) as raised:
        write(path)
    if isinstance(ending, OSError):
        assert raised.value.code == "not_writable"
        assert "file.html" in raised.value.message
        assert "no space left" in raised.value.message
    assert path.read_text() == "older"
    assert os.listdir(tmp_path) == ["file.html"]


def test_other_writers_can_replace_a_file(tmp_path):
    path = tmp_path / "file.bin"
    path.write_text("older")
    with contextlib.suppress(ZeroDivisionError), replace_file(path) as partial:
        partial.write_text("ha")
        assert path.read_text() == "older"
        raise ZeroDivisionError
    assert path.read_text() == "older"
    with replace_file(path) as partial:
        partial.write_text("newer")
    assert path.read_text() == "newer"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_it_is_complete_and_alone(write, tmp_path):
    path = tmp_path / "folder" / "file.html"
    assert write(path) == path
    assert path.read_text().endswith("\n") or path.read_text().rstrip().endswith("</html>")
    assert os.listdir(path.parent) == ["file.html"]


def test_characters_and_other_files(tmp_path):
    assert write_text(tmp_path / "a", "x\udc80").read_text() == "x?"
    path, empty = tmp_path / "model.stan", tmp_path / "empty.nc"
    path.write_text("parameters { real x; }")
    empty.touch()
    with raises("would_overwrite", path, "overwrite=True"):
        sa.save(made_up_fits.fit(1), path)
    assert path.read_text() == "parameters { real x; }"
    sa.save(made_up_fits.fit(1), path, overwrite=True)
    for seed in (1, 2):  # an earlier fit, and a file without content, as ArviZ does
        for earlier in (path, empty):
            assert sa.load(sa.save(made_up_fits.fit(seed), earlier)).posterior.sizes["draw"] == 250


@pytest.mark.parametrize("float32", [False, True])
def test_a_netcdf_file_is_not_begun_without_space_for_it(tmp_path, float32):
    """HDF5 would end the process with a segmentation fault."""
    fit = made_up_fits.fit(1)
    with full_disk(100_000), raises("not_writable", tmp_path, os.strerror(errno.EFBIG)):
        sa.save(fit, tmp_path / "fit.nc", float32=float32)
    assert not list(tmp_path.iterdir())
    assert sa.save(fit, tmp_path / "fit.nc").is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    """An administrator could otherwise replace /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with raises("not_writable", pipe, "device"):
        text(pipe)
    with raises("not_writable", pipe, "device"):
        sa.save(made_up_fits.fit(1), pipe, overwrite=True)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["fit.csv", "fit.pkl", "fit.JSON", "fit.zarr"])
def test_a_netcdf_file_is_not_written_under_the_name_of_another_format(tmp_path, name):
    with raises("not_of_the_format", name, "format"):
        sa.save(made_up_fits.fit(1), tmp_path / name)
    assert not (tmp_path / name).exists()
