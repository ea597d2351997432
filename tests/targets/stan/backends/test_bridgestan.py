"""The BridgeStan backend with fake sources: compilations, refusals and the cache."""

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.targets.stan import backends, bundled, toolchain
from stanadapt.targets.stan.backends import bridgestan
from stanadapt.targets.stan.program import read
from tests.helpers.codes import raises
from tests.helpers.fake_cmdstan import home

__all__ = ["home"]  # a fixture, autouse

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
# copies an existing library, and records how make was called
MAKEFILE = """-include make/local
%_model.so: %.stan
\t@echo "$(STAN_THREADS) $(notdir $@) $(O)" >> "$$CALLS"
\t@{}
"""
COPY = 'cp "$$LIBRARY" $@'


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch):
    """Make sources that compile, a fake compiler, and an empty cache."""
    folder = tmp_path / "bridgestan"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE.format(COPY))
    (tmp_path / "library").write_text("no library")
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    for name, value in (
        ("BRIDGESTAN", folder), ("STANADAPT_CACHE", tmp_path / "cache"), ("CXX", tmp_path / "g++"),
        ("LIBRARY", tmp_path / "library"), ("CALLS", tmp_path / "calls"),
    ):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    return folder


def calls(tree):
    path = tree.parent / "calls"
    return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []


def failing(tree, *lines):
    echoes = "; ".join(f'echo "{line}" >&2' for line in lines)
    (tree / "Makefile").write_text(MAKEFILE.format(f"{echoes}; exit 1"))


def compiled(code=NORMAL, name="schools", lines=None):
    report = (lambda text: None) if lines is None else lines.append
    program = read(code, name=name)
    return bridgestan.compilation(program, report).library(program)


def refused(code, *facts, program=NORMAL):
    with raises(code, *facts) as caught:
        sa.Target(program, backend="bridgestan")
    return caught.value


def test_a_program_is_compiled_once_for_threads(tree):
    lines = []
    first = compiled(lines=lines)
    assert first.file.read_text() == "no library"
    assert calls(tree) == ["true program_model.so"]
    assert compiled(lines=lines) == first._replace(seconds=0.0)
    assert len(calls(tree)) == 1
    (line,) = lines
    assert "schools" in line


@pytest.mark.thorough
def test_relevant_changes_lead_to_a_new_compilation(tree, monkeypatch):
    keys = [compiled().key]
    (tree / "make").mkdir()
    (tree / "make" / "local").write_text("O = 1\n")
    keys.append(compiled().key)
    monkeypatch.setenv("CXX", str(tree.parent / "g++") + " -O0")
    keys.append(compiled().key)
    keys.append(compiled(NORMAL + "\n").key)
    assert len(set(keys)) == len(calls(tree)) == 4
    assert calls(tree)[1].endswith(" 1")


@pytest.mark.parametrize("kind", ["Syntax error", "Semantic error", "SYNTAX ERROR"])
def test_errors_of_stanc_name_the_user_s_file(tree, tmp_path, kind):
    failing(tree, f"{kind} in '$(basename $<).stan', line 2, column 5", "Expected a semicolon.")
    path = tmp_path / "radon.stan"
    path.write_text(NORMAL)
    error = refused("syntax_error", "radon", tree, program=path)
    assert error.stan == f"{kind} in '{path}', line 2, column 5\nExpected a semicolon."
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


def test_for_other_failures_the_last_lines_are_shown(tree, tmp_path):
    failing(tree, *(f"compiler line {i}." for i in range(1, 41)))
    error = refused("compilation_failed", tree, "program")
    assert "compiler line 40." in error.stan
    assert "compiler line 5." not in error.stan
    assert len(error.stan.splitlines()) <= 20
    (tree / "Makefile").write_text(MAKEFILE.format(COPY))
    assert compiled(name="program").file.is_file()


def test_a_makefile_without_the_rule_is_reported(tree):
    (tree / "Makefile").write_text("all:\n")
    assert "No rule to make target" in refused("compilation_failed", "program").stan


def test_a_library_that_does_not_load_is_recompiled_once(tree):
    refused("library_unusable", "program", "backend='stanli'")
    assert len(calls(tree)) == 2


def test_a_library_that_lacks_functions_is_recompiled_once(tree, monkeypatch):
    """An older tree compiled it, and its version could not be read."""
    monkeypatch.setenv("LIBRARY", np.random._pcg64.__file__)
    refused("library_unusable", "undefined symbol", "BridgeStan 2.9")
    assert len(calls(tree)) == 2


def test_a_warning_of_bridgestan_that_names_no_cure_is_not_passed_on(monkeypatch):
    monkeypatch.setattr("bridgestan.model.__version_info__", (2, 9, 99))
    sa.Target(NORMAL, backend="stanli")  # warnings are errors here


VERSION = "#define BRIDGESTAN_MAJOR {}\n#define BRIDGESTAN_MINOR {}\n#define BRIDGESTAN_PATCH 0\n"


@pytest.mark.parametrize(
    ("majors", "minors", "used"), [(0, -2, False), (-1, 90, False), (0, 0, True), (1, -9, True)]
)
def test_sources_older_than_the_python_package_are_not_used(
    tree, monkeypatch, majors, minors, used
):
    """Their libraries lack functions that the package looks up."""
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)
    package = toolchain.versions()["bridgestan"].split(".")[:2]
    major, minor = int(package[0]) + majors, int(package[1]) + minors
    (tree / "src").mkdir()
    (tree / "src" / "version.hpp").write_text(VERSION.format(major, minor))
    names = [backend.name for backend, _ in backends.choose("auto")]
    assert ("bridgestan" in names) is used
    if not used:
        refused("backend_unavailable", f" {major}.{minor}", f" {'.'.join(package)}")


def test_missing_sources_are_reported(tree, monkeypatch):
    monkeypatch.setenv("BRIDGESTAN", str(tree / "nowhere"))
    refused("backend_unavailable", "'bridgestan'", "BRIDGESTAN")


@pytest.fixture(scope="module")
def real():
    """Make a target of the CmdStan backend, which this scope compiles in the user's cache."""
    return sa.Target(*bundled.find("eight_schools_noncentered"), backend="cmdstan")


@pytest.fixture
def borrowed(real, monkeypatch):
    """Return the same target; the makefile copies its library."""
    monkeypatch.setenv("LIBRARY", real.model.lib_path)
    return real


@pytest.mark.cmdstan
@pytest.mark.parametrize("name", ["bridgestan", "auto"])
def test_a_library_is_loaded_and_evaluates(tree, borrowed, monkeypatch, name):
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)
    program = bundled.find("eight_schools_noncentered")
    target = sa.Target(*program, backend=name)
    assert target.backend == "bridgestan"
    assert target.backend_version == f"BridgeStan 2.9.0, Stan {borrowed_stan(borrowed)}"
    assert target.compile_seconds > 0
    assert target.model.lib_path != borrowed.model.lib_path
    position = np.linspace(-1, 1, target.dim)
    assert target.evaluate(position)[0] == borrowed.evaluate(position)[0]
    np.testing.assert_array_equal(target.evaluate(position)[1], borrowed.evaluate(position)[1])
    assert sa.Target(*program, backend=name).compile_seconds == 0
    assert len(calls(tree)) == 1


def borrowed_stan(target):
    return target.model.model_info().split("\nStan version: ")[1].split()[0]


@pytest.mark.cmdstan
def test_nan_in_the_data_is_accepted(borrowed):
    path, data = bundled.find("eight_schools_noncentered")
    text = data.read_text().replace("28", "NaN", 1)
    assert "NaN" in sa.Target(path, text, backend="bridgestan").data


@pytest.mark.cmdstan
def test_a_library_without_threads_is_refused(borrowed, monkeypatch):
    info = borrowed.model.model_info()
    assert "STAN_THREADS=true" in info
    without = info.replace("THREADS=true", "THREADS=false")
    monkeypatch.setattr(type(borrowed.model), "model_info", lambda self: without)
    program = bundled.find("eight_schools_noncentered")
    with raises("library_unusable", "STAN_THREADS", "make/local"):
        sa.Target(*program, backend="bridgestan")
