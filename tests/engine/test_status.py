"""Announcements of slow steps: text after a second, none before."""

import subprocess
import sys
import threading

import pytest

from stanadapt.engine.console import slow_step


def test_a_slow_step_is_announced_once(capsys):
    written = ""
    with slow_step(True, "Compiling (once)", 0.01):
        while not written:  # the announcement is awaited, however late it comes
            threading.Event().wait(0.01)
            written = capsys.readouterr().err
    assert written + capsys.readouterr().err == "Compiling (once)\n"


@pytest.mark.parametrize(("shown", "threads"), [(True, 1), (False, 0)])
def test_no_thread_waits_to_announce_a_step_if_progress_is_not_shown(capsys, shown, threads):
    before = threading.active_count()
    with slow_step(shown, "Compiling (once)", 60.0):
        assert threading.active_count() == before + threads
    assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_a_step_that_fails_is_silent_afterwards(capsys):
    before = threading.active_count()
    with pytest.raises(ValueError, match="failed"), slow_step(True, "Compiling", 60.0):
        raise ValueError("failed")
    assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_a_line_is_shown_while_native_output_is_collected():
    """Backends redirect the descriptor of standard error, and read what came there."""
    code = (
        "import os, sys, tempfile, threading\n"
        "from stanadapt.engine.console import report_if_slow, status\n"
        "reported = threading.Event()\n"
        "with status(True) as line, tempfile.TemporaryFile() as file:\n"
        "    def report(text):\n"
        "        line(text)\n"
        "        reported.set()\n"
        "    saved = os.dup(2)\n"
        "    os.dup2(file.fileno(), 2)\n"
        "    with report_if_slow(report, lambda: 'Binding', 0.01):\n"
        "        assert reported.wait(60)\n"
        "    os.dup2(saved, 2)\n"
        "    file.seek(0)\n"
        "    print(file.read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert (done.stdout, done.stderr) == ("b''\n", "Binding\n")
