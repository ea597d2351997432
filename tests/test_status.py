"""What a user sees while something takes long: nothing, plain lines, or a spinner."""

import io
import sys
import threading

import pytest

from stanadapt.status import status

SPINNERS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Terminal(io.StringIO):
    """What rich takes for a terminal."""

    def isatty(self):
        """It is one."""
        return True


def terminal_for(monkeypatch):
    """Put a terminal in the place of standard error; pytest takes back what a fixture puts."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_quiet_prints_nothing(capfd):
    with status(False) as tell:
        tell("Compiling schools")
    assert capfd.readouterr() == ("", "")


def test_quiet_prints_nothing_on_a_terminal(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(False) as tell:
        tell("Compiling schools")
    assert "Compiling" not in terminal.getvalue()
    assert not any(sign in terminal.getvalue() for sign in SPINNERS)
    assert capsys.readouterr().out == ""


def test_without_a_terminal_it_prints_plain_lines_to_standard_error(capsys):
    with status(True) as tell:
        tell("Preparing CmdStan 2.27.0: about a minute, once")
        assert capsys.readouterr() == ("", "Preparing CmdStan 2.27.0: about a minute, once\n")
        tell("Compiling schools")
    assert capsys.readouterr() == ("", "Compiling schools\n")


def test_where_nothing_is_told_nothing_is_printed(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(True):
        pass
    assert terminal.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_terminal_shows_what_is_going_on_and_is_cleared(monkeypatch, capsys):
    terminal = terminal_for(monkeypatch)
    with status(True) as tell:
        tell("Compiling schools")
        tell("Compiling radon")
        assert HIDE in terminal.getvalue()
        assert SHOW not in terminal.getvalue()
    shown = terminal.getvalue()
    assert "Compiling radon" in shown
    assert any(sign in shown for sign in SPINNERS)
    assert shown.rfind(SHOW) > shown.rfind(HIDE)
    assert capsys.readouterr().out == ""


def fail(tell):
    tell("Compiling schools")
    raise ValueError("the compiler failed")


def test_after_an_error_the_terminal_is_as_it_was(monkeypatch):
    terminal = terminal_for(monkeypatch)
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="compiler failed"), status(True) as tell:
        fail(tell)
    spinners = set(threading.enumerate()) - before
    for thread in spinners:  # told to stop, they end with their present picture
        thread.join(10)
    assert not any(thread.is_alive() for thread in spinners)
    assert sys.stderr is terminal
    shown = terminal.getvalue()
    assert shown.rfind(SHOW) > shown.rfind(HIDE) > -1
    print("on", file=sys.stderr)
    assert terminal.getvalue() == shown + "on\n"
    with status(True) as tell:
        tell("Compiling radon")
    assert "Compiling radon" in terminal.getvalue()[len(shown) :]


@pytest.mark.parametrize("show", [True, False])
def test_an_error_comes_through_without_a_terminal(capsys, show):
    with pytest.raises(ValueError, match="compiler failed"), status(show) as tell:
        fail(tell)
    assert capsys.readouterr() == ("", "Compiling schools\n" if show else "")
