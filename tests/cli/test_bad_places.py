"""Homes, disks, terminals and caches that cannot be used: one line each, and all else works."""

import errno
import json
import os
import subprocess
import sys
import tempfile

import pytest

import stanadapt as sa
from stanadapt import cli
from stanadapt.cli import terminal, tools
from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.engine.compiled.machine_code import MachineCode
from stanadapt.samplers import registered
from stanadapt.studies import compile_ahead
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


def test_a_sampler_is_compiled_once(capsys):
    call("compile", "rwm", "--quiet")
    printed = call("compile", "rwm", "rwm")  # one that is named twice, too
    assert "rwm 0 " in printed
    assert printed.count("was in the cache") == 1
    assert str(cache_root()) in printed


def test_the_named_samplers_or_all_are_compiled():
    ran = []
    with raises("unknown_sampler", "nutz", "nuts"):
        next(compile_ahead.compile_ahead(["rwm", "nutz"], False, lambda *_: ran.append(1)))
    assert not ran
    ran = []
    compiled = compile_ahead.compile_ahead((), False, lambda _, sampler: ran.append(sampler.name))
    assert [done.sampler for done in compiled] == ran
    assert ran == list(registered())


def test_a_cache_that_cannot_be_written(monkeypatch):
    """It is refused, at once: all would be compiled in vain."""
    monkeypatch.setattr(compile_ahead, "is_temporary", lambda folder: True)
    refused("cache_not_writable", "compile", "rwm", facts=[cache_root()])


def test_a_disk_that_becomes_full(monkeypatch):
    def run(target, sampler):
        MachineCode.not_kept = True

    monkeypatch.setattr(MachineCode, "not_kept", False)
    with raises("cache_not_writable", cache_root()):
        list(compile_ahead.compile_ahead(["rwm", "am"], False, run))


RUN = """
import json, sys
import stanadapt as sa
from stanadapt.engine.compiled.compilations import HISTORY
for options in json.loads(sys.argv[1]):
    program = "data { int n; vector[n] y; } parameters { real m; vector[n] x; real<lower=0> s; }"
    program += "model { m ~ normal(0, 1); s ~ normal(0, 1); x ~ normal(m, s); y ~ normal(x, 1); }"
    target = sa.Target(program, {"n": 5, "y": [0, 1, 2, 3, -9]}, backend="stanli")
    sa.sample(target, seed=1, chains=3, iter_warmup=150, iter_sampling=30, **options)
print(len(HISTORY), sorted({f"{f.__module__}.{f.__name__}" for f in HISTORY}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("whitened_hmc", [{}, {"trajectory": "nuts"}, {"standardize": False, "thin": 2}]),
        pytest.param(
            "rwm",
            [{}, {"save": "unconstrained", "save_warmup": True}, {"tune_scale": False}],
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "kameleon",
            [{"subsample": 50}, {"kernel": "matern32", "standardize": False}],
            marks=pytest.mark.soak,
        ),
    ],
)
def test_nothing_is_compiled_afterwards(tmp_path, name, variants):
    """In a fresh process, for another program, with other settings; and no line says otherwise."""
    environment = os.environ | {"STANADAPT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "stanadapt", "compile", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert f"Compiling {name}, sampler 1 of 1 (" in done.stderr
    assert "compiled" in done.stdout

    options = json.dumps([{"sampler": name, **variant} for variant in variants])
    command = [sys.executable, "-W", "ignore", "-c", RUN, options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0 []\n"
    assert "Compiling" not in done.stderr
