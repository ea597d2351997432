"""What a user sees during slow steps: nothing, plain lines, or a spinner."""

import io
import sys
import threading

import pytest

from stanadapt.targets.stan.status import status

SPINNERS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Terminal(io.StringIO):
    """A stream that rich treats as a terminal."""

    def isatty(self):
        """As for a terminal."""
        return True


def terminal_for(monkeypatch):
    """Replace standard error by a terminal; pytest would undo this if done in a fixture."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_quiet_prints_nothing(capfd):
    with status(False) as report:
        report("Compiling schools")
    assert capfd.readouterr() == ("", "")


def test_quiet_prints_nothing_on_a_terminal(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(False) as report:
        report("Compiling schools")
    assert "Compiling" not in terminal.getvalue()
    assert not any(sign in terminal.getvalue() for sign in SPINNERS)
    assert capsys.readouterr().out == ""


def test_without_a_terminal_it_prints_plain_lines_to_standard_error(capsys):
    with status(True) as report:
        report("Preparing CmdStan 2.27.0 (once)")
        assert capsys.readouterr() == ("", "Preparing CmdStan 2.27.0 (once)\n")
        report("Compiling schools")
    assert capsys.readouterr() == ("", "Compiling schools\n")


def test_without_reports_nothing_is_printed(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(True):
        pass
    assert terminal.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_the_current_step_and_is_cleared(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(True) as report:
        report("Compiling schools")
        report("Compiling radon")
        assert HIDE in terminal.getvalue()
        assert SHOW not in terminal.getvalue()
    shown = terminal.getvalue()
    assert "Compiling radon" in shown
    assert any(sign in shown for sign in SPINNERS)
    assert shown.rfind(SHOW) > shown.rfind(HIDE)
    assert capsys.readouterr().out == ""


def fail(report):
    report("Compiling schools")
    raise ValueError("the compiler failed")


def test_after_an_error_the_terminal_is_restored(monkeypatch):
    terminal = terminal_for(monkeypatch)
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="compiler failed"), status(True) as report:
        fail(report)
    spinners = set(threading.enumerate()) - before
    for thread in spinners:  # once stopped, they end with their current frame
        thread.join(10)
    assert not any(thread.is_alive() for thread in spinners)
    assert sys.stderr is terminal
    shown = terminal.getvalue()
    assert shown.rfind(SHOW) > shown.rfind(HIDE) > -1
    print("on", file=sys.stderr)
    assert terminal.getvalue() == shown + "on\n"
    with status(True) as report:
        report("Compiling radon")
    assert "Compiling radon" in terminal.getvalue()[len(shown) :]


@pytest.mark.parametrize("show", [True, False])
def test_without_a_terminal_errors_are_passed_on(capsys, show):
    with pytest.raises(ValueError, match="compiler failed"), status(show) as report:
        fail(report)
    assert capsys.readouterr() == ("", "Compiling schools\n" if show else "")
