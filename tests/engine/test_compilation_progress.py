"""The line that shows compilation: how many functions, of how many, for how long; or no line."""

import re
import threading

import numpy as np
import pytest
from numba import njit

from stanadapt.engine.compilation_progress import Compilation, Pace, compiling
from stanadapt.engine.compiled.callees import Entry
from stanadapt.engine.compiled.compilations import HISTORY, reachable
from stanadapt.engine.compiled.jit import CFunction
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


def test_the_line_if_it_is_not_known_how_many_there_will_be(capsys, said):
    printed = shown(capsys, lambda: (HISTORY.append(outer), said("Compiling")))
    assert printed.splitlines()[-1] == "Compiling whitened_hmc (1 function), 0 s, once"


def test_nothing_is_said_of_compilation_if_nothing_is_compiled(capsys, said):
    printed = shown(capsys, lambda: said("Loading"), functions=[outer])
    assert printed == "Loading whitened_hmc, 0 s\n"


def test_what_was_not_named_does_not_count_if_all_else_is_in_the_cache():
    compilation = Compilation("it", [outer])
    HISTORY.append(plain)
    assert compilation.text() == "Loading it, 0 s"
    HISTORY.append(outer.py_func)
    assert compilation.text() == "Compiling it (1 of up to 4 functions), 0 s, once"


def test_a_quick_step_shows_nothing(capsys):
    calling, _ = fresh()
    assert shown(capsys, lambda: calling(1.0), after=60.0) == ""


def test_nothing_is_shown_without_progress(capsys):
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


def test_functions_of_other_packages_do_not_count():
    @njit
    def theirs(x):
        return x - 1.0

    before = len(HISTORY)
    assert theirs(1.0) == 0.0
    assert len(HISTORY) == before


def test_functions_for_c_count(monkeypatch, tmp_path):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))
    before = len(HISTORY)
    function = CFunction("float64(float64)", lambda x: 3.0 * x)
    assert function.address
    assert [f.__name__ for f in HISTORY[before:]] == ["<lambda>"]
