"""Tuples by reference share memory, are written through and restored, and count nothing."""

import sys
from typing import NamedTuple

import numpy as np
from numba.core.runtime import _nrt_python, rtsys
from numba.extending import intrinsic

from stanadapt.engine.compiled.by_reference import (
    by_reference,
    pointer_to,
    referring,
    restoring,
)
from stanadapt.engine.compiled.jit import jit


class Inner(NamedTuple):
    """A tuple in a tuple."""

    table: np.ndarray
    number: float


class Outer(NamedTuple):
    """A field that is passed by reference."""

    inner: Inner
    vector: np.ndarray
    flag: bool
    counts: np.ndarray


class Pair(NamedTuple):
    """Fields of one type, which Numba treats as another kind of tuple."""

    one: np.ndarray
    other: np.ndarray


class Point(NamedTuple):
    """A point, which changes place with another one."""

    position: np.ndarray
    log_density: float


class State(NamedTuple):
    """A state as samplers define it, with fields in any order."""

    outer: Outer
    current: Point
    times: int
    pair: Pair
    scratch: Point
    changed: Inner  # a tuple with a number that changes
    spare: np.ndarray


REPLACED = "current", "scratch", "changed"


@intrinsic
def _referring(typing, state):
    passed, emit = referring(state, REPLACED)
    return passed(state), emit


@intrinsic
def _restored(typing, state, owned):
    kind, emit = restoring(owned, REPLACED)
    return kind(state, owned), emit


@jit
def _write(outer):
    inner = outer.inner
    inner.table[1, 2] += inner.number
    outer.vector[:] = 7.0
    outer.counts[0] += 1 if outer.flag else 100
    part = inner.table[1:2]
    part[0, 3] *= 2.0
    return inner.table[0, 0] + outer.vector[1]


@jit
def _step(state):
    value = _write(state.outer)
    state.scratch.position[:] = state.outer.inner.table[state.times % 3]
    state.pair.other[0] += state.pair.one[0]
    changed = Inner(state.changed.table, state.changed.number + 1.0)
    moved = Point(state.scratch.position, value)
    return State(
        state.outer, moved, state.times + 1, state.pair, state.current, changed, state.spare
    )


@jit
def _loop(owned, n):
    state = _referring(owned)
    for _ in range(n):
        state = _step(state)
    return _restored(state, owned)


@jit
def _loop_over_new_arrays(n):
    total = 0.0
    for _ in range(n):
        outer = Outer(Inner(np.zeros((3, 4)), 0.5), np.zeros(3), True, np.zeros(2, np.int64))
        pair, changed = Pair(np.zeros(2), np.zeros(2)), Inner(np.zeros((2, 2)), 0.0)
        points = Point(np.zeros(4), 0.0), Point(np.zeros(4), 0.0)
        ended = _loop(State(outer, points[0], 0, pair, points[1], changed, np.zeros(1)), 4)
        total += ended.outer.inner.table[1, 2]
    return total


@jit
def _write_through(outer):
    return _write(pointer_to(outer))


@jit
def _without_replacement(state):
    return _write(by_reference(state).outer)


def make_state():
    table = np.arange(12.0).reshape(3, 4)
    outer = Outer(Inner(table, 0.5), np.zeros(3), True, np.zeros(2, np.int64))
    points = Point(np.zeros(4), -1.0), Point(np.ones(4), -2.0)
    pair, changed = Pair(np.full(2, 3.0), np.zeros(2)), Inner(np.zeros((2, 2)), 0.0)
    return State(outer, points[0], 0, pair, points[1], changed, np.zeros(2))


def test_arrays_are_written_through_and_numbers_are_returned():
    state = make_state()
    ended = _loop(state, 5)
    assert (ended.times, ended.current.log_density, ended.changed.number) == (5, 7.0, 5.0)
    for outer in (state.outer, ended.outer):
        assert outer.inner.table[1, 2] == 6.0 + 5 * 0.5
        assert outer.inner.table[1, 3] == 7.0 * 2**5
        np.testing.assert_array_equal(outer.vector, 7.0)
        np.testing.assert_array_equal(outer.counts, [5, 0])
    assert ended.pair.other[0] == state.pair.other[0] == 15.0


def test_pointers_share_arrays_and_keep_strides():
    state = make_state()
    before = sys.getrefcount(state.outer.vector)
    for called, given in ((_write_through, state.outer), (_without_replacement, state)):
        assert called(given) == 7.0
    assert (state.outer.inner.table[1, 2], state.outer.counts[0]) == (7.0, 2)
    after = sys.getrefcount(state.outer.vector)
    assert after == before
    whole = np.arange(24.0).reshape(6, 4)
    outer = make_state().outer._replace(inner=Inner(whole[::2], 1.0))
    _loop(make_state()._replace(outer=outer), 1)
    np.testing.assert_array_equal(whole[2], [8, 9, 11, 22])
    np.testing.assert_array_equal(whole[3], [12, 13, 14, 15])


def test_restored_arrays_keep_addresses_and_outlive_the_original():
    state = make_state()
    ended = _loop(state, 3)
    np.testing.assert_array_equal(ended.current.position, state.outer.inner.table[2])
    for one, other in ((state.current.position, ended.scratch.position),
                       (state.scratch.position, ended.current.position),
                       (state.outer.inner.table, ended.outer.inner.table),
                       (state.spare, ended.spare)):  # fmt: skip
        assert one.ctypes.data == other.ctypes.data
    ended = _loop(make_state(), 3)
    for _ in range(100):
        np.full((3, 4), 5.0)  # would reuse the memory if it had been freed
    assert ended.outer.inner.table[0, 0] == 0.0
    assert ended.current.position[2] == 10.0


def test_arrays_are_counted_and_freed_once():
    """One too many would be a leak, one too few a crash."""
    state = make_state()
    arrays = [state.outer.inner.table, state.outer.vector, state.outer.counts, state.spare]
    arrays += [*state.pair, state.current.position, state.scratch.position, state.changed.table]
    _loop(state, 3)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(1000):
        _loop(state, 3)
    assert [sys.getrefcount(array) for array in arrays] == before
    assert _loop_over_new_arrays(10) == 20.0
    enabled = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        assert _loop_over_new_arrays(1000) == 2000.0
        after = rtsys.get_allocation_stats()
    finally:
        if not enabled:
            _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free == 9000
