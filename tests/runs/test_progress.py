"""Plain progress lines: the time left, and the chains for which it is known."""

import io
from types import SimpleNamespace

import pytest
from numba import types
from numba.extending import overload
from rich.console import Console

from stanadapt.engine import console
from stanadapt.engine.compiled.jit import CFunction


def chain(done, total=1000, finished=False, stages=None):
    return SimpleNamespace(
        n_done=done, n_total=total, finished=finished, stopped=False, warming_up=done < 500,
        acceptance_rate=0.25, calls={"failed": 0}, progress=stages,
    )  # fmt: skip


@pytest.fixture
def lines(monkeypatch):
    """A function that updates with chains at a time in seconds and returns the new lines."""
    clock, file = [0.0], io.StringIO()
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    plain = console.Plain(console.line_console(file))

    def at(seconds, *chains):
        clock[0] = seconds
        file.truncate(file.seek(0))
        plain.update(list(chains))
        return file.getvalue().splitlines()

    return at


def test_time_left_counts_from_when_a_chain_began(lines):
    """Chain 2 waited 100 seconds for a core; a waiting chain has no speed yet."""
    assert lines(5.0, chain(200), chain(0)) == []
    one, two = lines(10.0, chain(250), chain(0))
    assert one.endswith("about 30 s left")
    assert two == "chain 2  warm-up       0/1000"
    lines(100.0, chain(1000, finished=True), chain(0))
    one, two = lines(120.0, chain(1000, finished=True), chain(200))
    assert one.startswith("chain 1  done       1000/1000")
    assert "left" not in one
    assert two.endswith("about 80 s left")


def test_the_time_left_in_a_warm_up_of_stages_is_a_limit(lines):
    """Also where a line is longer than Rich supposes that a log is wide."""
    stages = SimpleNamespace(label="learning the metric for NUTS")
    (line,) = lines(10.0, chain(250, stages=stages))
    assert line.endswith("at most 30 s left")
    (line,) = lines(30.0, chain(750, stages=stages))
    assert line.endswith("about 10 s left")


@pytest.mark.parametrize("stages", [None, SimpleNamespace(label="learning the metric")])
def test_a_bar_marks_the_time_left_as_a_limit(stages):
    file = io.StringIO()
    bars = console.Bars(Console(file=file, width=150, force_terminal=True))
    with bars:
        for done in (1, 10, 20):
            bars.update([chain(done, stages=stages)])
    assert ("<" in file.getvalue()) is (stages is not None)


def refreshed():
    """For compiled code, whose compiler asks for its types."""


def test_a_bar_says_that_functions_are_compiled_while_the_chains_wait(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path))  # where no run before has left code
    file, stages = io.StringIO(), SimpleNamespace(label="learning the metric")
    bars = console.Bars(Console(file=file, width=150, force_terminal=True))
    with bars:
        bars.update([chain(1, stages=stages)])
        bars.progress.refresh()
        assert "compiling" not in file.getvalue()

        @overload(refreshed)
        def _refreshed():
            bars.progress.refresh()  # as Rich does, ten times a second
            return lambda: 1.0

        assert CFunction(types.float64(types.float64), lambda x: x + refreshed()).address
        assert "warm-up, compiling (once)" in file.getvalue()


def test_finished_chains_are_reported_once(lines):
    assert len(lines(1.0, chain(1000, finished=True))) == 1
    assert lines(50.0, chain(1000, finished=True)) == []
