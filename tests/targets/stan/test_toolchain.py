"""Locating CmdStan, BridgeStan and a compiler, with a fake CmdStan of four small files."""

import platform
import shutil

import pytest

from stanadapt.targets.stan import toolchain
from tests.helpers.fake_cmdstan import MACOS_BINARY, home, restrict_path, working_tree

__all__ = ["home"]  # a fixture


def test_the_environment_overrides_the_home_folder_for_cmdstan(home, tmp_path, monkeypatch):
    working_tree(home / ".cmdstan" / "cmdstan-2.9.0", "2.9.0")
    newer = working_tree(home / ".cmdstan" / "cmdstan-2.27.0")
    assert toolchain.cmdstan() == (newer, "2.27.0")
    named = working_tree(tmp_path / "elsewhere", "2.36.0")
    monkeypatch.setenv("CMDSTAN", str(named))
    assert toolchain.cmdstan() == (named, "2.36.0")
    assert toolchain.cmdstan_problem() == ""


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda tree: shutil.rmtree(tree), "folder"),
        (lambda tree: (tree / "makefile").unlink(), "makefile"),
        (lambda tree: (tree / "bin/stanc").unlink(), "bin/stanc"),
        (lambda tree: (tree / "bin/stansummary").unlink(), "bin/stansummary"),
        (lambda tree: (tree / "bin/stanc").chmod(0o644), "executable"),
        (lambda tree: (tree / "bin/stanc").write_bytes(MACOS_BINARY), "bin/stanc"),
        (lambda tree: (tree / "bin/stanc").write_text("#!/bin/sh\nexit 3\n"), "--version"),
    ],
)
def test_a_broken_cmdstan_is_ignored_and_the_reason_reported(tmp_path, monkeypatch, damage, reason):
    tree = working_tree(tmp_path / "tree")
    monkeypatch.setenv("CMDSTAN", str(tree))
    assert toolchain.cmdstan()
    damage(tree)
    assert toolchain.cmdstan() is None
    assert reason in toolchain.cmdstan_problem()
    assert str(tree) in toolchain.cmdstan_problem()


def test_as_in_cmdstanpy_a_broken_newest_version_hides_an_older_working_one(home):
    working_tree(home / ".cmdstan" / "cmdstan-2.27.0")
    (home / ".cmdstan" / "cmdstan-2.36.0").mkdir()
    assert toolchain.cmdstan() is None
    problem = toolchain.cmdstan_problem()
    assert all(fact in problem for fact in ("cmdstan-2.36.0", "makefile"))


@pytest.mark.parametrize("versions", [
    ["2.27.0"], ["2.9.0", "2.27.0", "2.10.1"], ["2.36.0-rc2", "2.36.0-rc1", "2.35.0"],
    ["2.36.0-rc2", "2.36.0"], ["git-develop"], ["git-develop", "2.20.0"], [],
])  # fmt: skip
def test_the_newest_version_is_the_one_that_cmdstanpy_uses(tmp_path, versions):
    from cmdstanpy.utils.cmdstan import get_latest_cmdstan

    names = [f"cmdstan-{version}" for version in versions]
    for name in [*names, ".stanadapt-build-1", "RTools40"]:
        (tmp_path / name).mkdir()
    newest = toolchain.newest_below(tmp_path)
    assert (newest and newest.name) == get_latest_cmdstan(str(tmp_path))


def test_the_environment_overrides_the_home_folder_for_bridgestan(home, tmp_path, monkeypatch):
    assert toolchain.bridgestan_tree() is None
    version = toolchain.versions()["bridgestan"]
    trees = [home / ".bridgestan" / f"bridgestan-{version}", tmp_path / "bridgestan"]
    for tree in trees:
        tree.mkdir(parents=True)
    assert toolchain.bridgestan_tree() is None  # folders without the sources
    (trees[0] / "Makefile").touch()
    assert toolchain.bridgestan_tree() == trees[0]
    monkeypatch.setenv("BRIDGESTAN", str(trees[1]))
    assert toolchain.bridgestan_tree() is None  # BridgeStan would not search further either
    (trees[1] / "Makefile").touch()
    assert toolchain.bridgestan_tree() == trees[1]


@pytest.mark.parametrize(("programs", "cxx", "expected"), [
    ([], None, None), (["c++", "clang++"], None, "clang++"),
    (["clang++", "g++"], "ccache g++", None), (["ccache", "g++"], "ccache g++", "ccache g++"),
    (["g++"], "icpx", None),
])  # fmt: skip
def test_the_compiler_is_the_value_of_cxx_or_the_usual_one(
    tmp_path, monkeypatch, programs, cxx, expected
):
    restrict_path(tmp_path / "path", programs, monkeypatch)
    if cxx:
        monkeypatch.setenv("CXX", cxx)
    assert toolchain.compiler() == expected
    assert toolchain.make() is None


def test_versions_list_python_and_every_package():
    import numpy as np

    assert toolchain.versions(["numpy", "no-such-package"]) == {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "no-such-package": "not installed",
    }
