"""Ctrl-C on the command line: one line, soon, at any moment, and nothing is left behind."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

import stanadapt as sa
from stanadapt import results
from stanadapt.cli import interruption
from tests.helpers.command_line import PROGRAM, TINY
from tests.helpers.interrupted_command import PATIENT, READY, SOON, interrupt, runs
from tests.helpers.repository import PACKAGE

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


WHEN_IMPORTED = f"""
import sys
def report(event, arguments):
    if event == "import" and arguments[0] == {{module!r}}:
        print({READY!r}, flush=True)
        time.sleep({{seconds}})
sys.addaudithook(report)
"""
# typer makes an exit code of the exception, without a word
WHEN_READ = f"""
import typer.core
def read(*arguments, **keywords):
    print({READY!r}, flush=True)
    time.sleep(60)
typer.core.TyperGroup.make_context = read
"""


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["numba.core.typing", "stanadapt.cli.options"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module):
    """Python's own exception would end in a traceback, or a module would swallow it."""
    seconds, code, errors = interrupt(WHEN_IMPORTED.format(module=module, seconds=60), "samplers")
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


@pytest.mark.thorough
def test_ctrl_c_while_the_command_line_is_read_is_one_line():
    seconds, code, errors = interrupt(WHEN_READ, "samplers")
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


@pytest.mark.soak
@pytest.mark.parametrize("after", np.linspace(0.05, 0.6, 12).round(2))
def test_at_a_dozen_moments(after):
    prepare = WHEN_IMPORTED.format(module="stanadapt.cli.commands", seconds=0)
    seconds, code, errors = interrupt(prepare, "samplers", after=after)
    assert (code, errors) == (130, NOTHING)
    assert seconds < SOON


# seconds of import that the help does without, and half of those of a command
HEAVY = {"numba", "numpy", "pandas", "xarray", "rich.progress"}
LATE = {"arviz", "dask", "matplotlib", "scipy.optimize", "scipy.spatial", "scipy.stats"}


@pytest.mark.thorough
def test_commands_start_without_what_only_results_need():
    """The package alone with names in use: Ctrl-C could not be handled during imports.

    Nor is anything compiled, or imported for few uses, when all samplers are imported.
    """
    code = f"""
import sys, stanadapt.cli
found = [*{{"numba", "numpy", "typer"}} & sys.modules.keys()]
from stanadapt.cli.commands import app
for words, late in (["--help"], {HEAVY | LATE}), (["sample", "--help"], {LATE}):
    app(words, standalone_mode=False)
    found += late & sys.modules.keys()
from numba.core import event
event.register("numba:compile", recorded := event.RecordingListener())
import stanadapt.samplers, stanadapt.targets.stan.install_cmdstan
found += {{"cmdstanpy", "jax", "optax"}} & sys.modules.keys()
found += recorded.buffer
print("found", *found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "found"


def test_public_names_are_in_their_places_for_type_checkers_too():
    for name in sa.__all__:
        assert getattr(sa, name) is not None
    for name, place in sa._PLACES.items():
        if name != "check_sampler":  # of the engine, offered where all samplers are known
            assert f"{getattr(sa, name).__module__}.".startswith(f"stanadapt.{place}."), name
    with pytest.raises(AttributeError, match="'smaple'"):
        sa.smaple  # noqa: B018
    assert set(sa.__all__) <= set(dir(sa))
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.asname or alias.name: (node.module.removeprefix("stanadapt."), alias.name)
        for node in block.body
        for alias in node.names
    }
    places = {name: (place, name) for name, place in sa._PLACES.items()}
    assert names == {**places, "samplers": ("stanadapt", "samplers")}
    assert set(names) == set(sa.__all__)
