"""A home, a disk or a terminal that cannot be used: one line each, and all else works."""

import errno
import os
import subprocess
import sys
import tempfile

import pytest

import stanadapt as sa
from stanadapt import cli
from stanadapt.cli import terminal, tools
from stanadapt.targets.stan import toolchain
from tests.helpers import made_up_fits
from tests.helpers.codes import raises
from tests.helpers.command_line import TINY, call, refused
from tests.helpers.full_disk import full_disk
from tests.helpers.repository import ROOT


def run(*command, **variables):
    """Run Python in another process that nobody reads; return its exit code and its messages."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "STANADAPT_CACHE", "MPLCONFIGDIR"))
    }
    with open(writing, "wb") as output:
        done = subprocess.run(
            [sys.executable, "-B", *command],
            env=environment | {"PYTHONPATH": str(ROOT)} | variables,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True, timeout=300,
        )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the home is found in another way")
def test_a_home_that_cannot_be_written_is_one_note_and_a_lost_reader_none():
    # below a file: not even root can create it
    code, messages = run("-m", "stanadapt", "compile", "rwm", HOME=f"{os.devnull}/home")
    notes = [line for line in messages.splitlines() if line.startswith("note: ")]
    assert [line.endswith("[cache_not_used]") for line in notes] == [True]
    assert "Traceback" not in messages
    assert code != 120


@pytest.mark.skipif(os.name == "nt", reason="pipes have other faults there")
def test_output_that_nobody_reads_is_written_nowhere(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)

    def app():
        print("the end of a table")
        raise SystemExit(0)

    with open(writing, "w") as lost:
        monkeypatch.setattr(sys, "stdout", lost)
        assert cli._flushed(app) == 0
        lost.flush()  # as Python does at exit: a BrokenPipeError would end it with 120


def test_a_full_disk_is_seen_before_the_program_is_read(files):
    with full_disk():
        printed = refused("not_writable", "sample", "none.stan", "--out", "fit.nc", *TINY)
    assert os.strerror(errno.EFBIG) in printed
    assert not list(files.glob("*.nc"))


@pytest.mark.parametrize("format", ["netcdf", "cmdstan", "zarr"])
def test_draws_that_cannot_be_written_are_kept_elsewhere(files, monkeypatch, format):
    kept = files / "elsewhere"
    kept.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    with raises("not_writable") as caught:
        terminal.save(made_up_fits.fit(1), files / "my.stan" / "fit", format=format)
    (file,) = kept.rglob("*.nc")
    assert str(file) in str(caught.value)
    assert sa.load(file).posterior.sizes["draw"] == 250


def test_cmdstan_is_installed_in_another_folder(monkeypatch, tmp_path):
    asked = []

    def prepare(report):
        asked.append(os.environ["CMDSTAN"])

    def install(directory):
        asked.append(directory)
        return directory / "cmdstan-2.27.0"

    monkeypatch.setenv("CMDSTAN", "")
    monkeypatch.setattr(tools, "install", install)
    monkeypatch.setattr(tools.cmdstan, "prepare", prepare)
    printed = call("install-cmdstan", "--directory", tmp_path)
    assert asked == [tmp_path, str(tmp_path / "cmdstan-2.27.0")]
    assert asked[1] in printed


def test_without_compiler_and_cmdstan_the_doctor_says_how_to_install_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("MAKE", raising=False)
    assert toolchain.compiler() is None
    printed = call("doctor")
    assert "a C++ compiler and make could not be found. To install" in printed
    assert "stanadapt install-cmdstan" in printed
    assert "backend stanli: ready" in printed
