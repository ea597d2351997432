"""The BridgeStan backend over sources that are a makefile: what it compiles, refuses and reuses."""

import numpy as np
import pytest
from fake_cmdstan import home

import stanadapt as sa
from stanadapt import models
from stanadapt.backends import bridgestan
from stanadapt.errors import StanadaptError
from stanadapt.program import read

__all__ = ["home"]  # a fixture, autouse

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"
# the library is copied from elsewhere; what make was told is written down
MAKEFILE = """-include make/local
%_model.so: %.stan
\t@echo "$(STAN_THREADS) $(notdir $@) $(O)" >> "$$CALLS"
\t@{}
"""
COPY = 'cp "$$LIBRARY" $@'


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch):
    """Sources that compile, an empty cache; the computer's own compiler is not asked for."""
    found = tmp_path / "bridgestan"
    found.mkdir()
    (found / "Makefile").write_text(MAKEFILE.format(COPY))
    (tmp_path / "library").write_text("no library")
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    for name, value in (
        ("BRIDGESTAN", found), ("STANADAPT_CACHE", tmp_path / "cache"), ("CXX", tmp_path / "g++"),
        ("LIBRARY", tmp_path / "library"), ("CALLS", tmp_path / "calls"),
    ):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    return found


def calls(tree):
    path = tree.parent / "calls"
    return [line.strip() for line in path.read_text().splitlines()] if path.exists() else []


def failing(tree, *lines):
    echoes = "; ".join(f'echo "{line}" >&2' for line in lines)
    (tree / "Makefile").write_text(MAKEFILE.format(f"{echoes}; exit 1"))


def compiled(code=NORMAL, name="schools", told=None):
    tell = (lambda text: None) if told is None else told.append
    return bridgestan.library(read(code, name=name), tell)


def refused(stage, words, program=NORMAL):
    with pytest.raises(StanadaptError) as caught:
        sa.Target(program, backend="bridgestan", show_progress=False)
    assert caught.value.stage == stage
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return caught.value


# --- without a real library ----------------------------------------------------------------------


def test_a_program_is_compiled_once_for_threads(tree):
    told = []
    first = compiled(told=told)
    assert first.file.read_text() == "no library"
    assert calls(tree) == ["true program_model.so"]
    assert compiled(told=told) == first._replace(seconds=0.0)
    assert len(calls(tree)) == 1
    assert told == ["Compiling schools with BridgeStan: about a minute, once"]


def test_a_change_of_what_decides_compiles_anew(tree, monkeypatch):
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
def test_a_program_that_stanc_refuses_is_told_by_its_own_name(tree, tmp_path, kind):
    failing(tree, f"{kind} in '$(basename $<).stan', line 2, column 5", "Expected a semicolon.")
    path = tmp_path / "radon.stan"
    path.write_text(NORMAL)
    error = refused("syntax", ["cannot compile radon", str(tree), "Expected a semicolon."], path)
    assert error.stan == f"{kind} in '{path}', line 2, column 5\nExpected a semicolon."
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


def test_another_failure_shows_the_last_lines(tree, tmp_path):
    failing(tree, *(f"compiler line {i}." for i in range(1, 41)))
    error = refused("installation", [f"BridgeStan in {tree} cannot compile program"])
    assert "compiler line 40." in error.stan
    assert "compiler line 5." not in error.stan
    assert len(error.stan.splitlines()) <= 20
    (tree / "Makefile").write_text(MAKEFILE.format(COPY))
    assert compiled(name="program").file.is_file()


def test_a_makefile_without_the_rule(tree):
    (tree / "Makefile").write_text("all:\n")
    refused("installation", ["cannot compile program", "No rule to make target"])


def test_a_library_that_never_loads_is_compiled_once_more(tree):
    refused("installation", ["the compiled program cannot be loaded", "backend='stanli'"])
    assert len(calls(tree)) == 2


def test_sources_that_are_not_there(tree, monkeypatch):
    monkeypatch.setenv("BRIDGESTAN", str(tree / "nowhere"))
    refused("installation", ["backend 'bridgestan' cannot be used here", "BRIDGESTAN"])


# --- with a library that CmdStan's backend compiled ----------------------------------------------


@pytest.fixture(scope="module")
def real():
    """A target of the CmdStan backend; being of the module, it is made in the user's own cache."""
    return sa.Target(*models.find("eight_schools_noncentered"), backend="cmdstan")


@pytest.fixture
def borrowed(real, monkeypatch):
    """Let the makefile copy that library."""
    monkeypatch.setenv("LIBRARY", real.model.lib_path)
    return real


@pytest.mark.cmdstan
@pytest.mark.parametrize("name", ["bridgestan", "auto"])
def test_a_library_is_loaded_and_evaluates(tree, borrowed, monkeypatch, name):
    monkeypatch.delenv("STANADAPT_BACKEND", raising=False)
    found = models.find("eight_schools_noncentered")
    target = sa.Target(*found, backend=name, show_progress=False)
    assert target.backend == "bridgestan"
    assert target.backend_version == f"BridgeStan 2.9.0, Stan {borrowed_stan(borrowed)}"
    assert target.compile_seconds > 0
    assert target.model.lib_path != borrowed.model.lib_path
    position = np.linspace(-1, 1, target.dim)
    assert target.evaluate(position)[0] == borrowed.evaluate(position)[0]
    np.testing.assert_array_equal(target.evaluate(position)[1], borrowed.evaluate(position)[1])
    assert sa.Target(*found, backend=name).compile_seconds == 0
    assert len(calls(tree)) == 1


def borrowed_stan(target):
    return target.model.model_info().split("\nStan version: ")[1].split()[0]


@pytest.mark.cmdstan
def test_nan_in_the_data_is_taken(borrowed):
    path, data = models.find("eight_schools_noncentered")
    text = data.read_text().replace("28", "NaN", 1)
    assert "NaN" in sa.Target(path, text, backend="bridgestan").data


@pytest.mark.cmdstan
def test_a_library_without_threads_is_refused(borrowed, monkeypatch):
    told = borrowed.model.model_info()
    assert "STAN_THREADS=true" in told
    without = told.replace("THREADS=true", "THREADS=false")
    monkeypatch.setattr(type(borrowed.model), "model_info", lambda self: without)
    found = models.find("eight_schools_noncentered")
    with pytest.raises(StanadaptError, match="compiled without STAN_THREADS") as caught:
        sa.Target(*found, backend="bridgestan", show_progress=False)
    assert caught.value.stage == "installation"
    assert "make/local" in caught.value.message
