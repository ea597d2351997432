"""The command line, called in the process of a test."""

import pytest
from typer.testing import CliRunner

from stanadapt.cli.commands import app

PROGRAM = """
data { real m; }
parameters { real x; }
model { x ~ normal(m, 1); }
"""
TINY = [
    "--chains", "2", "--iter-warmup", "30", "--iter-sampling", "40", "--seed", "1", "--quiet",
]  # fmt: skip


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working folder with a program and its data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.stan").write_text(PROGRAM)
    (tmp_path / "my.json").write_text('{"m": 3}')
    return tmp_path


def call(*arguments, status=0):
    """Return the output on both streams, joined into one line; check the exit status."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == status, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.split())


def refused(code, *arguments, facts=()):
    """Check that a command ends in an error with this code that names these facts; return it."""
    printed = call(*arguments, status=1)
    assert f"[{code}]" in printed, printed
    for fact in facts:
        assert str(fact) in printed, f"{fact!r} is not in {printed!r}"
    return printed
