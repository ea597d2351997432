"""CmdStanPy compiles a program in a path with spaces in another folder, if that has none."""

import tempfile
from types import SimpleNamespace

import cmdstanpy
import pytest

from stanadapt.runs.stan_nuts import cmdstan
from stanadapt.targets.stan import program, toolchain
from tests.helpers.codes import raises

NORMAL = "parameters { real x; } model { x ~ normal(0, 1); }"


@pytest.mark.parametrize(
    ("cache", "temporary", "named"),
    [("a b", "c d", True), ("a", "c d", False), ("a b", "c", False)],
)
def test_an_error_names_both_folders(tmp_path, monkeypatch, cache, temporary, named):
    def refuse(stan_file):
        raise RuntimeError("no temporary path without spaces")

    installed = SimpleNamespace(path=tmp_path, version="2.27.0")
    monkeypatch.setattr(toolchain, "require_cmdstan", lambda: installed)
    monkeypatch.setattr(cmdstanpy, "CmdStanModel", refuse)
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / cache))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / temporary))
    facts = (tmp_path / cache, tmp_path / temporary, "TMPDIR", "STANADAPT_CACHE")
    with raises("compilation_failed", *(facts if named else ())) as caught:
        cmdstan.executable(program.read(NORMAL), lambda text: None)
    assert named == ("TMPDIR" in caught.value.message)
