"""The line that shows slow steps, and compilation: how many functions, and for how long."""

import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from numba import njit, types
from numba.extending import overload

from stanadapt.engine.compilation_progress import Compilation, Pace, compiling
from stanadapt.engine.compiled.callees import Entry
from stanadapt.engine.compiled.compilations import HISTORY, UNDER_WAY, reachable
from stanadapt.engine.compiled.jit import CFunction
from stanadapt.engine.console import slow_step
from stanadapt.engine.numerics import vectors


@njit
def inner(x):
    return x + 1.0


@njit
def by_module(x):
    out = np.empty(1)
    vectors.copy(np.full(1, x), out)
    return out[0]


@njit
def outer(x):
    return inner(x) + by_module(x) + sum([inner(each) for each in (x, x)])


@njit
def calls_itself(n):
    return n if n < 1 else calls_itself(n - 1) + inner(n)


def plain(x):
    return outer(x)


def fresh():
    """Return a function that is compiled when it is called, and what it calls."""

    @njit
    def called(x):
        return 2.0 * x

    @njit(pipeline_class=Entry)
    def calling(x):
        return called(x)

    return calling, called


def marked():
    """For compiled code, whose compiler asks for its types."""


def also_marked():
    """Likewise."""


SEEN = []


@overload(also_marked)
@overload(marked)
def _marked():
    SEEN.append([*UNDER_WAY])
    return lambda: 1.0


def test_what_is_compiled_at_this_moment_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))  # where no run before has left code

    @njit(pipeline_class=Entry)
    def calling():
        return marked()

    def in_c(x):
        return x + also_marked()

    SEEN.clear()
    assert calling() == 1.0
    assert SEEN[0] == [calling.py_func]
    assert CFunction(types.float64(types.float64), in_c).address
    assert SEEN[-1] == [in_c]
    assert not UNDER_WAY


def shown(capsys, body, functions=(), clock=(100.0,), **pace):
    """The line, at a time that stands still unless a test moves it."""
    pace = Pace(**{"after": 0.0, "clock": lambda: clock[0], **pace})
    with compiling(True, "whitened_hmc", functions, pace):
        body()
    return capsys.readouterr().err


@pytest.fixture
def said(monkeypatch):
    """Return a function that waits until the line has begun so, at a time that stands still."""
    lines, new = [], threading.Condition()
    text = Compilation.text

    def recorded(compilation):
        with new:
            lines.append(text(compilation))
            new.notify_all()
        return lines[-1]

    def wait(beginning, times=1):
        with new:
            found = new.wait_for(
                lambda: sum(line.startswith(beginning) for line in lines) >= times, 60.0
            )
        assert found, lines

    monkeypatch.setattr(Compilation, "text", recorded)
    return wait


def test_what_a_function_names_is_reachable():
    found = {function.__name__ for function in reachable([plain])}
    assert found == {"plain", "outer", "inner", "by_module", "copy"}
    assert {f.__name__ for f in reachable([calls_itself])} == {"calls_itself", "inner"}
    assert reachable([]) == set()


def test_compilations_are_counted_until_the_end():
    calling, called = fresh()
    compilation = Compilation("it")
    assert compilation.compiled == []
    assert calling(1.0) == 2.0
    assert compilation.compiled == [calling.py_func, called.py_func]
    compilation.end()
    assert calling(1) == 2.0  # for another type
    assert len(compilation.compiled) == 2
    assert HISTORY[-2:] == [calling.py_func, called.py_func]
    assert compilation.seconds == compilation.seconds


def test_the_line_while_functions_are_compiled(capsys, said):
    calling, _ = fresh()

    def body():
        calling(1.0)
        HISTORY.append(plain)  # of something else
        said("Compiling whitened_hmc (2 ")

    printed = shown(capsys, body, functions=[calling, outer], log=0.0)
    lines = printed.splitlines()
    # calling and `called`, outer, and three that outer names
    assert re.fullmatch(r"Compiling whitened_hmc \(2 of up to 6 functions\), 0 s, once", lines[-1])


def test_the_line_if_little_is_known(capsys, said):
    printed = shown(capsys, lambda: (HISTORY.append(outer), said("Compiling")))
    assert printed.splitlines()[-1] == "Compiling whitened_hmc (1 function), 0 s, once"
    printed = shown(capsys, lambda: said("Loading"), functions=[outer])
    assert printed == "Loading whitened_hmc, 0 s\n"


def test_what_was_not_named_does_not_count_if_all_else_is_in_the_cache():
    compilation = Compilation("it", [outer])
    HISTORY.append(plain)
    assert compilation.text() == "Loading it, 0 s"
    HISTORY.append(outer.py_func)
    assert compilation.text() == "Compiling it (1 of up to 4 functions), 0 s, once"


def test_quick_steps_and_those_without_progress_show_nothing(capsys):
    calling, _ = fresh()
    assert shown(capsys, lambda: calling(1.0), after=60.0) == ""
    calling, _ = fresh()
    with compiling(False, "it", pace=Pace(after=0.0)) as compilation:
        calling(1.0)
        threading.Event().wait(0.1)
    assert len(compilation.compiled) == 2
    assert capsys.readouterr().err == ""


def test_a_step_that_fails_is_silent_afterwards(capsys, said):
    def fail():
        said("Loading", times=3)
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        shown(capsys, fail, log=0.0)
    capsys.readouterr()
    threading.Event().wait(0.1)
    assert capsys.readouterr().err == ""


def test_in_a_log_the_line_is_repeated_seldom_but_the_beginning_of_compilation_is_shown(
    capsys, said
):
    clock = [100.0]

    def body():
        said("Loading")
        HISTORY.append(outer)
        said("Compiling")
        clock[0] += 9.0
        threading.Event().wait(0.6)  # three looks at the clock
        clock[0] += 2.0
        said("Compiling", times=2)

    printed = shown(capsys, body, clock=clock)
    assert [(line.split()[0], line.split()[-3:]) for line in printed.splitlines()] == [
        ("Loading", ["whitened_hmc,", "0", "s"]),
        ("Compiling", ["0", "s,", "once"]),
        ("Compiling", ["11", "s,", "once"]),
    ]


def test_a_terminal_has_a_spinner(monkeypatch, capsys, said):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: as if it were a terminal
    monkeypatch.setenv("TERM", "xterm")

    def body():
        HISTORY.append(outer)
        said("Compiling")

    printed = shown(capsys, body)
    assert "Compiling whitened_hmc (1 function), 0 s, once" in printed
    assert "\x1b[?25h" in printed  # the cursor is shown again at the end


def test_functions_of_c_count_and_those_of_other_packages_do_not(monkeypatch, tmp_path):
    @njit
    def theirs(x):
        return x - 1.0

    before = len(HISTORY)
    assert theirs(1.0) == 0.0
    assert len(HISTORY) == before
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    before = len(HISTORY)
    function = CFunction("float64(float64)", lambda x: 3.0 * x)
    assert function.address
    assert [f.__name__ for f in HISTORY[before:]] == ["<lambda>"]


def test_slow_steps_are_announced_once_and_silent_after_a_failure(capsys):
    written = ""
    with slow_step(True, "Compiling (once)", 0.01):
        while not written:  # the announcement is awaited, however late it comes
            threading.Event().wait(0.01)
            written = capsys.readouterr().err
    assert written + capsys.readouterr().err == "Compiling (once)\n"
    before = threading.active_count()
    with pytest.raises(ValueError, match="failed"), slow_step(True, "Compiling", 60.0):
        raise ValueError("failed")
    assert threading.active_count() == before
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("shown", "threads"), [(True, 1), (False, 0)])
def test_no_thread_waits_to_announce_a_step_if_progress_is_not_shown(capsys, shown, threads):
    before = threading.active_count()
    with slow_step(shown, "Compiling (once)", 60.0):
        assert threading.active_count() == before + threads
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
