"""A separate cache for a test, and artificial builds to store in it."""

import os
import time

import pytest

DAY = 24 * 3600.0
KEY = "0123456789abcdef"
CONTENT = b"machine code" * 10


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "builds"


def make(folder):
    (folder / "program.so").write_bytes(CONTENT)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "header.hpp").write_text("// C++")


def forbidden(folder):
    raise AssertionError("a cached build was built again")


def intact(folder):
    header = folder / "deeper" / "header.hpp"
    return (folder / "program.so").read_bytes() == CONTENT and header.read_text() == "// C++"


def folders(root):
    return [path for path in root.iterdir() if path.is_dir()]


def set_age(path, days):
    modified = time.time() - days * DAY
    os.utime(path, (modified, modified))
