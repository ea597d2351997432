"""Functions that compiled code calls by a pointer: compiled at the first call, kept on disk."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import TypingError, carray, types

from stanadapt.engine.compiled.compilations import HISTORY
from stanadapt.engine.compiled.jit import CFunction, jit
from stanadapt.engine.compiled.on_demand import ADDRESS, POINTERS, on_demand
from tests.helpers.other_process import printed


@on_demand(types.float64(ADDRESS, types.intp, types.float64))
def total(vector, size, factor):
    found = 0.0
    for number in carray(vector, size):
        found += factor * number
    return found


FUNCTION = POINTERS[-1]._compiled
raised_in_c = types.ExternalFunction("raise", types.intc(types.intc))


@jit
def total_if_long(vector, least):
    return total(vector, vector.shape[0], 2) if vector.shape[0] >= least else -1.0


def test_it_is_compiled_when_it_is_called_first():
    """Or loaded from the cache."""
    assert total_if_long(np.ones(2), 3) == -1.0
    assert FUNCTION._compiled is None
    assert total_if_long(np.array([1.0, 2.0, 4.0]), 3) == 14.0
    compiled = FUNCTION._compiled
    assert compiled is not None
    assert total_if_long(np.array([1.0, 2.0, 4.5]), 3) == 15.0
    assert total_if_long(np.empty(0), 0) == 0.0
    assert FUNCTION._compiled is compiled
    with pytest.raises(TypingError, match="contiguous in C"):
        jit(lambda vector: total(vector, 2, 1.0))(np.ones((2, 2))[:, 0])


@pytest.fixture
def doubled(monkeypatch):
    """A caller of a function, whose compilation begins with a function that a test chooses."""
    begin = []

    class Compiled(CFunction):
        @property
        def address(self):
            for each in begin:
                each()
            return super().address

    monkeypatch.setattr("stanadapt.engine.compiled.on_demand.CFunction", Compiled)
    monkeypatch.setattr("stanadapt.engine.compiled.on_demand.AGAIN", 0.0)

    @on_demand(types.float64(types.float64))
    def twice(x):
        return 2.0 * x

    @jit
    def call(x, number):
        if number:
            raised_in_c(number)
        return twice(x)

    call.compile((types.float64, types.int64))
    pointer = POINTERS.pop()
    yield call, begin
    del pointer  # until then, compiled code refers to it


@pytest.mark.parametrize("when", ["before", "during"])
def test_ctrl_c_while_it_is_compiled_comes_afterwards(monkeypatch, doubled, when):
    """An exception would end neither the loop nor the call, whose result would be any number.

    A signal that came while compiled code ran is raised as Python code begins.
    """
    (call, begin), resent, presses = doubled, threading.Event(), iter([True])

    def press():
        if next(presses, False):
            raise KeyboardInterrupt

    if when == "during":
        begin.append(press)
    else:
        monkeypatch.setattr("sys.unraisablehook", lambda raised: None)  # Python prints it
    with monkeypatch.context() as patch:
        patch.setattr("signal.raise_signal", lambda number: resent.set())
        assert call(4.0, signal.SIGINT.value if when == "before" else 0) == 8.0
        assert resent.wait(2.0)


def test_what_cannot_be_compiled_raises(monkeypatch, doubled):
    """Compiled code does not go on with any number; later calls try again."""
    (call, begin), printed = doubled, []
    monkeypatch.setattr("sys.unraisablehook", lambda raised: printed.append(raised.exc_type))
    begin.append(lambda: {}["no memory"])
    for count in (1, 2):
        with pytest.raises(RuntimeError, match="twice could not be compiled"):
            call(4.0, 0)
        assert printed == [KeyError] * count
    begin.clear()
    assert call(4.0, 0) == 8.0


def test_threads_that_need_it_at_once_compile_it_once(doubled):
    (call, begin), together = doubled, threading.Barrier(3)
    begin.append(together.wait)  # all three have found that there is no address
    before = len(HISTORY)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda x: call(x, 0), [1.0, 2.0, 3.0])) == [2.0, 4.0, 6.0]
    assert len(HISTORY) <= before + 1


SCRIPT = """
import time

import numpy as np
from stanadapt.engine.compiled.compilations import HISTORY
from tests.engine.compiled.test_on_demand import total_if_long
print(total_if_long(np.ones({n}), 3), len(HISTORY))
"""


def test_callers_are_kept_on_disk_without_it(tmp_path):
    """A process that needs it finds the caller, and compiles the function alone."""
    results = [printed(SCRIPT.format(n=n), STANADAPT_CACHE=tmp_path).split() for n in (2, 2, 5, 5)]
    (_, first), *others = results
    assert int(first) > 0
    assert [value for value, _ in results] == ["-1.0", "-1.0", "10.0", "10.0"]
    assert [int(count) > 0 for _, count in others] == [False, True, False]
