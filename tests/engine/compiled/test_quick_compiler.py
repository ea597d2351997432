"""Parts of Numba's compiler that ours leave out: results are the same."""

import numpy as np
import pytest
from numba import literally, njit, types
from numba.core import event
from numba.core.caching import NullCache
from numba.core.typed_passes import NopythonRewrites

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.quick_compiler import QuickFlags


def test_flags_are_equal_if_numba_finds_them_equal():
    first, second = QuickFlags(), QuickFlags()
    assert first == second
    second.forceinline = first.forceinline  # set, to the default
    assert first == second
    assert hash(first) == hash(second)
    second.forceinline = True
    assert first != second
    assert first.copy() == first


def _fresh(function):
    """Return a compiled function that no cache has."""
    compiled = jit(function)
    compiled._cache = compiled.callee._cache = NullCache()
    return compiled


def _on_arrays(x, y):
    return np.exp(x * y + 1.0)


def _by_element(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


def _by_view(x, y):
    half = x[1:]
    for i in range(half.shape[0]):
        half[i] *= y[i]
    return x.sum()


@pytest.mark.parametrize(
    ("function", "rewritten"), [(_on_arrays, True), (_by_element, False), (_by_view, False)]
)
def test_only_functions_that_compute_arrays_are_rewritten(monkeypatch, function, rewritten):
    names, run_pass = [], NopythonRewrites.run_pass

    def counted(self, state):
        names.append(state.func_id.func_name)
        return run_pass(self, state)

    monkeypatch.setattr(NopythonRewrites, "run_pass", counted)
    x, y = np.array([3.0, -1.0, 0.25]), np.array([0.5, 2.0, 8.0])
    found = _fresh(function)(x.copy(), y)
    assert (function.__name__ in names) == rewritten
    assert np.array_equal(found, njit(function)(x.copy(), y))


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


def test_a_callee_may_ask_for_a_constant():
    assert _with_literal(3) == 8


@jit
def _entry(x, row, doubled):
    return 2.0 * x[row] if doubled else x[row]


@jit
def _entries(x, row):
    return _entry(x, 0, False) + _entry(x, row, True) + _entry(x, row=1, doubled=row > 0)


def test_calls_with_constants_share_one_compilation():
    before = set(_entry.callee.overloads)
    assert _fresh(_entries.py_func)(np.array([1.0, 10.0, 100.0]), 2) == 1.0 + 200.0 + 20.0
    (made,) = set(_entry.callee.overloads) - before
    assert made[1:] == (types.int64, types.boolean)


def _noise(rng, out):
    for i in range(out.shape[0]):
        out[i] = rng.standard_normal() + rng.uniform(-1.0, 2.0)


@jit
def _part(parts, k):
    return parts[k]


@jit
def _with_parts(x):
    return _part((x, 2), 0)[1] + _part((x, 2), 1)


def test_a_constant_may_decide_about_types():
    assert _with_parts(np.array([1.0, 10.0])) == 12.0


class _Methods(event.Listener):
    """The methods of a generator that were compiled."""

    def __init__(self):
        self.names = []

    def on_start(self, occurred):
        if isinstance(occurred.data["args"][0], types.NumPyRandomGeneratorType):
            self.names.append(occurred.data["dispatcher"].py_func.__qualname__)

    def on_end(self, occurred):
        """Nothing is counted at the end."""


def test_methods_are_compiled_once():
    listener, found, expected = _Methods(), np.empty(5), np.empty(5)
    with event.install_listener("numba:compile", listener):
        _fresh(_noise)(np.random.default_rng(3), found)
    names = "_noise", "standard_normal", "uniform"
    assert len(listener.names) == 3
    assert all(any(name in made for made in listener.names) for name in names)
    _noise(np.random.default_rng(3), expected)
    np.testing.assert_array_equal(found, expected)
