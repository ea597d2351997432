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


class Point(NamedTuple):
    """The current point, which is not passed by reference."""

    position: np.ndarray
    log_density: float


class State(NamedTuple):
    """A state as samplers define it, with fields in any order."""

    outer: Outer
    current: Point
    times: int
    spare: np.ndarray


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
    state.current.position[:] = state.outer.inner.table[state.times % 3]
    return State(state.outer, Point(state.current.position, value), state.times + 1, state.spare)


@intrinsic
def _restored(typing, state, owned):
    kind, emit = restoring(owned, REPLACED if owned.instance_class is Swapping else ())
    return kind(state, owned), emit


@jit
def _loop(owned, n):
    state = by_reference(owned)
    for _ in range(n):
        state = _step(state)
    return _restored(state, owned)


@jit
def _loop_over_new_arrays(n):
    total = 0.0
    for _ in range(n):
        table = np.zeros((3, 4))
        outer = Outer(Inner(table, 0.5), np.zeros(3), True, np.zeros(2, np.int64))
        ended = _loop(State(outer, Point(np.zeros(4), 0.0), 0, np.zeros(1)), 4)
        total += ended.outer.inner.table[1, 2]
    return total


@jit
def _write_through(outer):
    return _write(pointer_to(outer))


def make_state():
    table = np.arange(12.0).reshape(3, 4)
    outer = Outer(Inner(table, 0.5), np.zeros(3), True, np.zeros(2, np.int64))
    return State(outer, Point(np.zeros(4), -1.0), 0, np.zeros(2))


def test_arrays_are_written_through_and_numbers_are_returned():
    state = make_state()
    ended = _loop(state, 5)
    assert (ended.times, ended.current.log_density) == (5, 7.0)
    for outer in (state.outer, ended.outer):
        assert outer.inner.table[1, 2] == 6.0 + 5 * 0.5
        assert outer.inner.table[1, 3] == 7.0 * 2**5
        np.testing.assert_array_equal(outer.vector, 7.0)
        np.testing.assert_array_equal(outer.counts, [5, 0])


def test_a_pointer_to_a_tuple_shares_its_arrays():
    outer = make_state().outer
    before = sys.getrefcount(outer.vector)
    assert _write_through(outer) == 7.0
    assert (outer.inner.table[1, 2], outer.counts[0]) == (6.5, 1)
    after = sys.getrefcount(outer.vector)
    assert after == before


def test_arrays_keep_their_addresses():
    state = make_state()
    ended = _loop(state, 3)
    np.testing.assert_array_equal(ended.current.position, state.outer.inner.table[2])
    for one, other in ((state.current.position, ended.current.position),
                       (state.outer.inner.table, ended.outer.inner.table),
                       (state.spare, ended.spare)):  # fmt: skip
        assert one.ctypes.data == other.ctypes.data


def test_the_restored_state_outlives_the_original():
    ended = _loop(make_state(), 3)
    for _ in range(100):
        np.full((3, 4), 5.0)  # would reuse the memory if it had been freed
    assert ended.outer.inner.table[0, 0] == 0.0
    assert ended.current.position[2] == 10.0


def test_strides_are_kept():
    whole = np.arange(24.0).reshape(6, 4)
    outer = make_state().outer._replace(inner=Inner(whole[::2], 1.0))
    _loop(make_state()._replace(outer=outer), 1)
    np.testing.assert_array_equal(whole[2], [8, 9, 11, 22])
    np.testing.assert_array_equal(whole[3], [12, 13, 14, 15])


def test_reference_counts_are_unchanged():
    """One too many would be a leak, one too few a crash."""
    state = make_state()
    arrays = [state.outer.inner.table, state.outer.vector, state.outer.counts, state.spare]
    _loop(state, 2)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(1000):
        _loop(state, 2)
    assert [sys.getrefcount(array) for array in arrays] == before


def test_arrays_made_in_compiled_code_are_freed_once():
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
    assert after.alloc - before.alloc == after.free - before.free == 5000


class Pair(NamedTuple):
    """Fields of one type, which Numba treats as another kind of tuple."""

    one: np.ndarray
    other: np.ndarray


class Swapping(NamedTuple):
    """A state in which two points change places, and a number in a tuple changes."""

    pair: Pair
    current: Point
    scratch: Point
    inner: Inner


REPLACED = "current", "scratch", "inner"


@intrinsic
def _by_reference(typing, state):
    passed, emit = referring(state, REPLACED)
    return passed(state), emit


@jit
def _swap(owned, n):
    state = _by_reference(owned)
    for _ in range(n):
        pair, inner = state.pair, Inner(state.inner.table, state.inner.number + 1.0)
        pair.other[0] += pair.one[0]
        scratch = Point(state.scratch.position, inner.number)
        state = Swapping(pair, scratch, state.current, inner)
    return _restored(state, owned)


def make_swapping():
    points = Point(np.zeros(3), -1.0), Point(np.ones(3), -2.0)
    return Swapping(Pair(np.full(2, 3.0), np.zeros(2)), *points, Inner(np.zeros((2, 2)), 0.0))


def test_replaced_fields_change_places_and_numbers():
    state = make_swapping()
    ended = _swap(state, 5)
    assert ended.current.position.ctypes.data == state.scratch.position.ctypes.data
    assert ended.scratch.position.ctypes.data == state.current.position.ctypes.data
    assert (ended.current.log_density, ended.inner.number) == (5.0, 5.0)
    assert ended.pair.other[0] == state.pair.other[0] == 15.0


def test_reference_counts_of_replaced_fields_are_unchanged():
    state = make_swapping()
    arrays = [*state.pair, state.current.position, state.scratch.position, state.inner.table]
    _swap(state, 3)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(20):
        _swap(state, 3)
    assert [sys.getrefcount(array) for array in arrays] == before
