"""Functions that only compiled code calls: not emitted, right from Python too, kept on disk."""

import gc

import numpy as np
import pytest
from numba import literally, njit, types
from numba.core.caching import NullCache
from numba.core.compiler import Compiler
from numba.core.errors import TypingError

from stanadapt.engine.compiled.callees import CalleeLibrary
from stanadapt.engine.compiled.jit import inline, jit, rarely_called
from tests.helpers.other_process import printed

VECTOR = np.array([3.0, -1.0, 2.5])


@inline
def _square(x):
    return x * x


@jit
def _squares(vector):
    total = 0.0
    for i in range(vector.shape[0]):
        total += _square(vector[i])
    return total


@jit
def norm(vector):
    return np.sqrt(_squares(vector))


@jit
def doubled(vector):
    made = np.zeros(vector.shape[0])
    made[:] = vector * 2.0
    return made


@jit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@jit
def needs_positive(x):
    if x < 0.0:
        raise ValueError("negative")
    return x


@jit
def checked(x):
    return needs_positive(x) + 1.0


def test_a_callee_has_no_machine_code_of_its_own():
    called = jit(norm.py_func)
    called._cache = NullCache()  # if it is loaded, its callee is not
    assert called(VECTOR) == np.sqrt(16.25)
    (callee,) = _squares.callee.overloads.values()
    assert isinstance(callee.library, CalleeLibrary)
    (entry,) = called.overloads.values()
    assert not isinstance(entry.library, CalleeLibrary)
    # its callee is still a function; optimized as a whole, it has become a part of `norm`
    left = []
    for decorated in (rarely_called(norm.py_func), jit(norm.py_func)):
        decorated._cache = NullCache()  # what is loaded from a cache has no functions to look at
        assert decorated(VECTOR) == np.sqrt(16.25)
        (entry,) = decorated.overloads.values()
        functions = [f.name for f in entry.library._final_module.functions if not f.is_declaration]
        left.append(any("_squares" in name for name in functions))
    assert left == [True, False]


def test_a_callee_is_right_from_python_too():
    assert _squares(VECTOR) == 16.25
    assert norm(VECTOR) ** 2 == pytest.approx(16.25, rel=4 * np.finfo(float).eps)
    assert _squares(VECTOR) == 16.25
    assert _square(2) == 4  # of another type than within _squares
    assert factorial(6) == 720
    assert checked(1.0) == 2.0
    with pytest.raises(ValueError, match="negative"):
        checked(-1.0)


def test_functions_of_other_programs_call_ours_and_numbas_own():
    """What Numba compiled for ours (np.zeros) has no machine code, and theirs still works."""
    assert list(doubled(VECTOR)) == [6.0, -2.0, 5.0]

    @njit
    def theirs(vector):
        made = np.zeros(vector.shape[0])
        made[0] = norm(vector)
        return made

    assert list(theirs(VECTOR)) == [np.sqrt(16.25), 0.0, 0.0]
    zeros = njit(lambda n: np.zeros(n))
    assert list(zeros(2)) == [0.0, 0.0]


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_while_functions_are_compiled(monkeypatch, enabled):
    """Then it is as it was, after an error too."""
    states, compile_extra = [], Compiler.compile_extra

    def observed(self, function):
        states.append(gc.isenabled())
        return compile_extra(self, function)

    monkeypatch.setattr(Compiler, "compile_extra", observed)
    try:
        (gc.enable if enabled else gc.disable)()
        assert _fresh(lambda x: norm(x) + 1.0)(VECTOR[:1]) == 4.0
        assert gc.isenabled() is enabled
        with pytest.raises(TypingError):
            _fresh(lambda x: x.no_such_part)(1.0)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert states
    assert not any(states)


SCRIPT = """
import sys, numpy as np
from tests.engine.compiled import test_callees as t
function = getattr(t, sys.argv[1])
print(function(t.VECTOR), sum(function._cache_hits.values()),
      sum(t._squares.callee._cache_hits.values()))
"""


@pytest.mark.slow
def test_callees_are_kept_for_other_processes(tmp_path):
    """The second process loads norm alone; the third, which lacks norm's code, its callee."""
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 0, 0)
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 1, 0)
    (path,) = tmp_path.rglob("*-norm-*")
    path.unlink()
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 0, 1)


def _output(cache, name):
    value, hits, callee_hits = printed(SCRIPT, name, STANADAPT_CACHE=cache).split()
    return float(value), int(hits), int(callee_hits)


# --- loops and constants --------------------------------------------------------------------------


def _fresh(function):
    """Return a compiled function that no cache has."""
    compiled = jit(function)
    compiled._cache = compiled.callee._cache = NullCache()
    return compiled


def _add_multiple(x, factor, y):
    for i in range(x.shape[0]):
        y[i] += factor * x[i]


def test_loops_are_vectorized_but_not_unrolled():
    compiled, by_numba = _fresh(_add_multiple), njit(_add_multiple)
    x, y = np.arange(37.0), np.full(37, 0.1)
    both = y.copy(), y.copy()
    compiled(x, 0.3, both[0])
    by_numba(x, 0.3, both[1])
    assert np.array_equal(*both)
    ours, theirs = (f.inspect_llvm(f.signatures[0]).splitlines() for f in (compiled, by_numba))
    assert any("fmul <" in line for line in ours)
    # Numba: at least two vectors at a time; ours: one, and the numbers that remain
    sums = [sum("fadd" in line for line in lines) for lines in (ours, theirs)]
    assert sums[0] < sums[1]


@jit
def _literal(n):
    return literally(n) + 1


@jit
def _with_literal(n):
    return 2 * _literal(n)


def test_constants_are_passed_and_share_one_compilation():
    assert _with_literal(3) == 8
    before = set(_entry.callee.overloads)
    assert _fresh(_entries.py_func)(np.array([1.0, 10.0, 100.0]), 2) == 1.0 + 200.0 + 20.0
    (made,) = set(_entry.callee.overloads) - before
    assert made[1:] == (types.int64, types.boolean)
    assert _with_parts(np.array([1.0, 10.0])) == 12.0


@jit
def _entry(x, row, doubled):
    return 2.0 * x[row] if doubled else x[row]


@jit
def _entries(x, row):
    return _entry(x, 0, False) + _entry(x, row, True) + _entry(x, row=1, doubled=row > 0)


@jit
def _part(parts, k):
    return parts[k]


@jit
def _with_parts(x):
    return _part((x, 2), 0)[1] + _part((x, 2), 1)
