"""Borrowed arrays: the same memory, written through, and nobody counts."""

import sys
from typing import NamedTuple

import numpy as np
from numba.core.runtime import _nrt_python, rtsys

from stanadapt._jit import jit
from stanadapt.borrowed import borrowed


class Inner(NamedTuple):
    """Some of it."""

    table: np.ndarray
    number: float


class Outer(NamedTuple):
    """All of it."""

    inner: Inner
    vector: np.ndarray
    flag: bool
    counts: np.ndarray


@jit
def _write(things):
    things.inner.table[1, 2] += things.inner.number
    things.vector[:] = 7.0
    things.counts[0] += 1 if things.flag else 100
    return things.inner.table[0, 0] + things.vector[1]


@jit
def _lend(things):
    found = 0.0
    for _ in range(3):
        found = _write(borrowed(things))
    return found


@jit
def _lend_a_part(things, k):
    inner = borrowed(things).inner
    part = inner.table[k : k + 1]
    part[0, :] *= 2.0
    return part.shape[1] + part[0, 1]


def make():
    table = np.arange(12.0).reshape(3, 4)
    return Outer(Inner(table, 0.5), np.zeros(3), True, np.zeros(2, np.int64))


def test_what_is_written_is_seen_by_the_owner():
    things = make()
    assert _lend(things) == 7.0
    assert things.inner.table[1, 2] == 6.0 + 3 * 0.5
    np.testing.assert_array_equal(things.vector, 7.0)
    np.testing.assert_array_equal(things.counts, [3, 0])


def test_slices_of_what_is_borrowed_are_the_same_memory():
    things = make()
    assert _lend_a_part(things, 1) == 4 + 10.0
    np.testing.assert_array_equal(things.inner.table[1], [8, 10, 12, 14])
    np.testing.assert_array_equal(things.inner.table[2], [8, 9, 10, 11])


def test_strides_are_kept():
    whole = np.arange(24.0).reshape(6, 4)
    things = make()._replace(inner=Inner(whole[::2], 1.0))
    _lend_a_part(things, 1)
    np.testing.assert_array_equal(whole[2], [16, 18, 20, 22])
    np.testing.assert_array_equal(whole[3], [12, 13, 14, 15])


def test_nobody_counts():
    """Neither Python's counts nor Numba's: none too many (a leak), none too few (a crash)."""
    things = make()
    arrays = [things.inner.table, things.vector, things.counts]
    _lend(things), _lend_a_part(things, 0)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(1000):
        _lend(things), _lend_a_part(things, 0)
    assert [sys.getrefcount(array) for array in arrays] == before


@jit
def _lend_what_is_made_here(n):
    total = 0.0
    for i in range(n):
        made = Inner(np.full((2, 3), 1.0 * i), 2.0)
        inner = borrowed(made)
        total += inner.table[1, 2] * made.number
    return total


def test_arrays_made_in_compiled_code_live_and_go():
    assert _lend_what_is_made_here(10) == 90.0
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        assert _lend_what_is_made_here(1000) == 999_000.0
        after = rtsys.get_allocation_stats()
    finally:
        if not enabled:
            _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free == 1000
