"""Announcements of slow steps: text after a second, none before."""

import subprocess
import sys
import threading

import pytest

from stanadapt.engine.console import Plain, reporter, slow_step


def announced(capsys, show=True, seconds=0.0, after=0.01):
    with slow_step(show, "Compiling (once)", after):
        threading.Event().wait(seconds)
    threading.Event().wait(0.05)
    return capsys.readouterr().err


def test_a_slow_step_is_announced(capsys):
    assert announced(capsys, seconds=0.5) == "Compiling (once)\n"


def test_a_quick_step_is_never_announced(capsys):
    assert announced(capsys, after=0.02) == ""


def test_nothing_is_announced_unless_progress_is_shown(capsys):
    assert announced(capsys, show=False, seconds=0.3) == ""


def test_a_step_that_fails_is_silent_afterwards(capsys):
    with pytest.raises(ValueError, match="failed"), slow_step(True, "Compiling", 0.05):
        raise ValueError("failed")
    threading.Event().wait(0.1)
    assert capsys.readouterr().err == ""


def test_a_notebook_without_widgets_shows_lines(capsys, monkeypatch):
    """Rich shows nothing there, and warns that ipywidgets are missing, which would fail here."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert announced(capsys, seconds=0.3) == "Compiling (once)\n"
    assert isinstance(reporter(True), Plain)


def test_a_line_is_shown_while_native_output_is_collected():
    """Backends redirect the descriptor of standard error, and read what came there."""
    code = (
        "import os, sys, tempfile, threading\n"
        "from stanadapt.engine.console import report_if_slow, status\n"
        "with status(True) as report, tempfile.TemporaryFile() as file:\n"
        "    saved = os.dup(2)\n"
        "    os.dup2(file.fileno(), 2)\n"
        "    with report_if_slow(report, lambda: 'Binding', 0.01):\n"
        "        threading.Event().wait(0.3)\n"
        "    os.dup2(saved, 2)\n"
        "    file.seek(0)\n"
        "    print(file.read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("b''\n", "Binding\n")
