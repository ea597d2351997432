"""Ctrl-C while the command compiles: one sentence, soon, no child left, nothing half-written."""

import os

import psutil
import pytest

from tests.helpers.command_line import PROGRAM
from tests.helpers.interrupted_command import READY, interrupt

NOTHING = "interrupted; nothing was written\n"
# make starts a shell, which starts what takes long, as g++ starts cc1plus
MAKEFILE = """%_model.so: %.stan
\t@sleep 100 & echo $$! > "$$STARTED"; wait
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
import hashlib, time
from numba.core import event
class Listener(event.Listener):
    def on_start(self, event):
        print({READY!r}, flush=True)
        %s
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
"""
# LLVM: what it does, no signal ends
DEAF = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"
SWALLOWED = """
        while True:
            try:
                time.sleep(10)
            except KeyboardInterrupt:
                pass
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


def interrupted(files, prepare, backend, **keywords):
    variables = {
        "STANADAPT_CACHE": files / "cache", "BRIDGESTAN": files, "CXX": files / "g++",
        "STARTED": files / "started",
    }  # fmt: skip
    return interrupt(
        prepare, "sample", files / "program.stan", "--data", files / "data.json", "--backend",
        backend, "--out", files / "fit.nc", "--quiet", **keywords,
        environment=os.environ | {name: str(value) for name, value in variables.items()},
    )  # fmt: skip


def runs(number):
    """Whether a process runs; one that has ended may still be listed."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_while_a_program_is_compiled_no_compiler_is_left(files):
    seconds, code, errors = interrupted(files, WHEN_STARTED, "bridgestan")
    assert (code, errors) == (130, NOTHING)
    assert seconds < 1.0
    assert not runs(int((files / "started").read_text()))
    assert list((files / "cache" / "builds").iterdir()) == []
    assert not (files / "fit.nc").exists()


def test_while_llvm_does_not_return(files):
    seconds, code, errors = interrupted(files, WHEN_COMPILING % DEAF, "stanli", after=0.3)
    assert (code, errors) == (130, NOTHING)
    assert seconds < 1.0


def test_a_second_one_leaves_at_once_where_the_first_was_swallowed(files):
    seconds, code, errors = interrupted(
        files, WHEN_COMPILING % SWALLOWED, "stanli", after=0.3, presses=2
    )
    assert (code, errors) == (130, NOTHING)
    assert seconds < 0.5
