"""`replace` in compiled code: the fields that are named change, and no others."""

from typing import NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.replace import replace, write_fields


class Point(NamedTuple):
    """A position and a number."""

    position: np.ndarray
    value: float


class State(NamedTuple):
    """Fields of different kinds."""

    current: Point
    scale: float
    count: int
    flag: bool


@jit
def _changed(state, position):
    state = replace(state, count=state.count + 1, scale=2.0 * state.scale)
    return replace(state, current=Point(position=position, value=3.0), flag=True)


@jit
def _many(state, repeats):
    position = np.zeros(3)
    for i in range(repeats):
        state = replace(state, current=Point(position, float(i)), count=i)
    return state


@jit
def _whole_number_for_a_scale(state):
    return replace(state, scale=1)


@jit
def _swapped(pair):
    return replace(pair, first=pair.second, second=pair.first)


@jit
def _misspelled(state):
    return replace(state, scal=1.0)


class Pair(NamedTuple):
    """Fields of one type only."""

    first: Point
    second: Point


START = State(current=Point(np.zeros(2), 1.0), scale=1.5, count=2, flag=False)


def test_only_the_named_fields_change():
    found = _changed(START, np.ones(4))
    assert (found.scale, found.count, found.flag, found.current.value) == (3.0, 3, True, 3.0)
    np.testing.assert_array_equal(found.current.position, np.ones(4))
    assert (START.scale, START.count, START.flag) == (1.5, 2, False)
    assert replace(START, scale=4.0) == START._replace(scale=4.0)
    found = _whole_number_for_a_scale(START).scale
    assert (found, type(found)) == (1.0, float)
    one, two = Point(np.zeros(2), 1.0), Point(np.ones(3), 2.0)
    found = _swapped(Pair(one, two))
    assert (found.first.value, found.second.value) == (2.0, 1.0)
    np.testing.assert_array_equal(found.first.position, np.ones(3))


def test_arrays_are_kept_alive_and_unknown_fields_named():
    found = _many(START, 100_000)
    np.testing.assert_array_equal(found.current.position, np.zeros(3))
    assert (found.count, found.current.value) == (99_999, 99_999.0)
    with pytest.raises(TypingError, match=r"State.*\bscal\b.*current, scale, count"):
        _misspelled(START)


class Numbers(NamedTuple):
    """Fields of three types."""

    share: float
    count: int
    flag: bool


@jit
def _written(numbers, table, row):
    write_fields(numbers, table, row, 2)


def test_fields_are_written_into_a_row_as_floats():
    table = np.full((3, 6), -1.0)
    _written(Numbers(0.25, 2**40, True), table, 1)
    assert list(table[1]) == [-1.0, -1.0, 0.25, 2.0**40, 1.0, -1.0]
    assert (table[[0, 2]] == -1.0).all()
    whole = np.full((6, 10), -1.0)
    _written(Numbers(0.5, -7, False), whole[::2, ::2], 2)
    assert list(whole[4, 4::2]) == [0.5, -7.0, 0.0]
    assert (np.delete(whole, 4, axis=0) == -1.0).all()
