"""Functions that compiled code calls by a pointer: compiled at the first call, kept on disk."""

import time

import numpy as np
import pytest
from numba import TypingError, carray, types

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


def test_arrays_with_gaps_are_refused():
    with pytest.raises(TypingError, match="contiguous in C"):
        jit(lambda vector: total(vector, 2, 1.0))(np.ones((2, 2))[:, 0])


def test_ctrl_c_while_it_is_compiled_comes_afterwards(monkeypatch):
    """An exception would end neither the loop nor the call, whose result would be any number."""
    pressed, resent = [], []

    class Interrupted(CFunction):
        @property
        def address(self):
            if not pressed:
                pressed.append(True)
                raise KeyboardInterrupt
            return super().address

    monkeypatch.setattr("stanadapt.engine.compiled.on_demand.CFunction", Interrupted)
    monkeypatch.setattr("stanadapt.engine.compiled.on_demand.AGAIN", 0.0)
    monkeypatch.setattr("signal.raise_signal", resent.append)

    @on_demand(types.float64(types.float64))
    def doubled(x):
        return 2.0 * x

    assert jit(lambda x: doubled(x))(4.0) == 8.0
    POINTERS.pop()
    for _ in range(100):
        if resent:
            break
        time.sleep(0.02)
    assert (pressed, len(resent)) == ([True], 1)


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
