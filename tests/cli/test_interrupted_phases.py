"""Ctrl-C while the command compiles or ends: one line, soon, and nothing is left behind."""

import os

import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.cli import interruption
from tests.helpers.command_line import PROGRAM, TINY
from tests.helpers.interrupted_command import PATIENT, READY, SOON, interrupt, runs

SHORT = ["--sampler", "rwm", "--no-standardize", *TINY]
NOTHING = f"{interruption.NOTHING_WRITTEN}\n"
# make starts a shell, which starts a slow program, as g++ starts cc1plus
MAKEFILE = """%_model.so: %.stan
\t@sleep 1000 & echo $$! > draft; mv draft "$$STARTED"; wait
"""
WHEN_STARTED = f"""
import os, threading, time
def wait():
    while not os.path.exists(os.environ["STARTED"]):
        time.sleep(0.01)
    print({READY!r}, flush=True)
threading.Thread(target=wait, daemon=True).start()
"""
# in the main thread, as each function begins to be compiled
WHEN_COMPILING = f"""
import ctypes, hashlib, time
from numba.core import event
class Listener(event.Listener):
    def on_start(self, event):
        print({READY!r}, flush=True)
        %s
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
"""
# no signal ends this, as with LLVM
DEAF = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"
# seconds in which no signal is handled
DEAF_FOR_SECONDS = "hashlib.pbkdf2_hmac('sha256', b'', b'', 4 * 10**6)"
SWALLOWED = """
        while True:
            try:
                time.sleep(100)
            except KeyboardInterrupt:
                pass
"""
# the first exception is lost in a callback, which prints a traceback
LOST = """
        def call(address):
            if not lost:
                lost.append(1)
                time.sleep(100)
        lost = []
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(call)
        callback(None)
        time.sleep(100)
"""


@pytest.fixture
def files(tmp_path):
    """A program, sources of BridgeStan that compile for ever, and an empty cache."""
    (tmp_path / "program.stan").write_text(PROGRAM)
    (tmp_path / "data.json").write_text('{"m": 0.5}')
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    return tmp_path


def interrupted(files, prepare, backend, short=False, more=(), **keywords):
    """Run the command and interrupt it; a short run uses code from the cache."""
    variables = {} if short else {
        "STANADAPT_CACHE": files / "cache", "BRIDGESTAN": files, "CXX": files / "g++",
        "STARTED": files / "started",
    }  # fmt: skip
    return interrupt(
        prepare, "sample", files / "program.stan", "--data", files / "data.json", "--backend",
        backend, "--out", files / "fit.nc", *(SHORT if short else ["--quiet"]), *more, **keywords,
        environment=os.environ | {name: str(value) for name, value in variables.items()},
    )  # fmt: skip


@pytest.mark.slow
def test_while_a_program_is_compiled_no_compiler_is_left(files):
    seconds, code, errors = interrupted(files, PATIENT + WHEN_STARTED, "bridgestan")
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON
    assert not runs(int((files / "started").read_text()))
    assert list((files / "cache" / "builds").iterdir()) == []
    assert not (files / "fit.nc").exists()


@pytest.mark.slow
@pytest.mark.parametrize("compiling", [DEAF, SWALLOWED, LOST])
def test_a_second_one_leaves_at_once_whatever_became_of_the_first(files, compiling):
    """LLVM does not return, or code swallows the exception, or a callback of C loses it."""
    seconds, code, errors = interrupted(
        files, PATIENT + WHEN_COMPILING % compiling, "stanli", after=0.3, presses=2
    )
    assert code == 130
    # once, but not at the end: another thread may still print the traceback of the callback
    assert errors.count(NOTHING) == 1
    assert seconds < SOON


# sampling has ended, and a later step is slow; a sampler that compiles fast
DRAWN = f"""
import hashlib, time
from stanadapt import results
from stanadapt.diagnostics import compare, verdict
from stanadapt.results import files
def slow(*arguments, **keywords):
    %s
    print({READY!r}, flush=True)
    %s
    return function(*arguments, **keywords)
function = %s
%s = slow
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "slowly"), [
    ("results.build", "time.sleep(1.0)"),
    pytest.param("verdict.verdict", "time.sleep(100)", marks=pytest.mark.soak),
    ("verdict.verdict", DEAF_FOR_SECONDS),
    pytest.param("files._write", "time.sleep(1.0)", marks=pytest.mark.soak),
    pytest.param("compare._add_missed", "time.sleep(100)", marks=pytest.mark.soak),
])  # fmt: skip
def test_no_draw_is_lost_while_a_result_is_built_judged_or_written(files, name, slowly):
    """Building and writing continue; the verdict and the table are left out."""
    drawn = DRAWN % ("pass", slowly, name, name)
    seconds, code, errors = interrupted(files, drawn, "stanli", short=True)
    assert code == 130
    assert f"{files / 'fit.nc'}\n" in errors
    assert NOTHING not in errors
    assert "Traceback" not in errors
    assert seconds < SOON
    fit = sa.load(files / "fit.nc")
    assert fit.attrs["interrupted"] == 0
    assert results.dataset(fit, "posterior").sizes == {"chain": 2, "draw": 40}
    assert (fit.attrs["verdict"] == "not judged") is (name in ("results.build", "verdict.verdict"))
    assert [path.name for path in files.glob(".*")] == []


def half_written(files, name):
    """Return code that begins a file under another name, after which a step is slow."""
    begin = f"open({str(files / '.half')!r}, 'w').close()"
    named = (
        "from stanadapt import results\nresults.partial_path = lambda path: path.with_name('.half')"
    )
    return f"{named}\n{DRAWN % (begin, 'time.sleep(100)', name, name)}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verdict.verdict", "files._write"])
def test_it_ends_at_once_if_a_run_folder_has_the_draws(files, name):
    run = files / "run"
    seconds, code, errors = interrupted(
        files, half_written(files, name), "stanli", short=True, more=["--run", run]
    )
    assert code == 130
    assert f"stanadapt resume {run}" in errors.splitlines()[-1]
    assert seconds < SOON
    assert not (files / "fit.nc").exists()
    # a file that is incomplete is removed
    assert (files / ".half").exists() is (name == "verdict.verdict")
    posterior = results.dataset(sa.load(run), "posterior")
    assert posterior.sizes == {"chain": 2, "draw": 40}


@pytest.mark.slow
def test_a_second_one_while_a_file_is_written_leaves_nothing_half_written(files):
    prepared = half_written(files, "files._write")
    seconds, code, errors = interrupted(files, prepared, "stanli", short=True, presses=2)
    assert (code, seconds < SOON) == (130, True)
    assert errors.endswith(NOTHING)
    assert not (files / ".half").exists()
