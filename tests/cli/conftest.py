"""Fixtures of the tests of the command line."""

import pytest

from tests.helpers.command_line import PROGRAM


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working folder with a program and its data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.stan").write_text(PROGRAM)
    (tmp_path / "my.json").write_text('{"m": 3}')
    return tmp_path
