"""States as text and arrays: equal, with the same arrays twice, without running any code."""

import json
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pytest

from stanadapt.engine.block_map import BlockMap, pack
from stanadapt.engine.density import make_density
from stanadapt.engine.triangular_map import no_map
from stanadapt.engine.wrapped_density import packed as engine_packed
from stanadapt.errors import Message
from stanadapt.runs.tree import TREE, Fresh, packed, unpacked
from tests.helpers import gaussian_blocks
from tests.helpers.codes import raises


class Kind(IntEnum):
    FIRST = 1
    SECOND = 2


class Inner(NamedTuple):
    position: np.ndarray
    weight: float


class Outer(NamedTuple):
    inner: Inner
    row: np.ndarray
    matrix: np.ndarray
    kind: Kind
    count: int
    flag: bool
    nothing: np.ndarray
    many: list
    number: np.int64


@pytest.fixture
def thing():
    matrix = np.arange(12.0).reshape(3, 4)
    inner = Inner(np.array([np.nan, -0.0, np.inf]), -np.inf)
    return Outer(
        inner, np.arange(4.0), matrix, Kind.SECOND, 2**70, True, np.empty((0, 3)),
        [inner.position, "ü"], np.int64(-5),
    )  # fmt: skip


def test_objects_come_back_equal_and_equal_arrays_as_one(thing):
    again = unpacked(packed(thing))
    assert type(again) is Outer
    assert type(again.kind) is Kind
    assert type(again.number) is np.int64
    assert (again.kind, again.count, again.flag) == (Kind.SECOND, 2**70, True)
    np.testing.assert_array_equal(again.matrix, thing.matrix)
    np.testing.assert_array_equal(np.signbit(again.inner.position), [False, True, False])
    assert again.inner.weight == -np.inf
    assert again.nothing.shape == (0, 3)
    assert again.many[1] == "ü"
    arrays = packed(thing)
    again, other = unpacked(arrays), unpacked(arrays)
    again.many[0][0] = 5.0
    assert again.inner.position[0] == 5.0
    assert not np.shares_memory(again.matrix, thing.matrix)
    assert np.isnan(other.inner.position[0])
    matrix = np.arange(6.0).reshape(2, 3)
    first, second = unpacked(packed((matrix[0], matrix[1])))
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_keep_their_layout(order):
    matrix = np.asarray(np.arange(30.0).reshape(5, 6), order=order)
    (again,) = unpacked(packed((matrix,)))
    np.testing.assert_array_equal(again, matrix)
    assert (again.dtype, again.strides) == (matrix.dtype, matrix.strides)


@pytest.mark.parametrize("view", [np.s_[1], np.s_[:2], np.s_[:, 1], np.s_[::-1]])
def test_an_array_that_is_part_of_another_one_is_refused(view):
    matrix = np.arange(30.0).reshape(5, 6)
    with raises("state_not_writable", "array"):
        packed((matrix[view], matrix))


def test_densities_are_of_the_process_and_messages_keep_codes():
    old, new = make_density(11, 12, 13, 2), make_density(21, 22, 23, 2)
    arrays = packed((old, old.calls))
    assert unpacked(arrays, Fresh(new))[0] is new
    with raises("run_unreadable", "density"):
        unpacked(arrays)
    note = Message("out_of_range", "chains must be positive.")
    message, plain = unpacked(packed({"notes": [note, "plain"]}))["notes"]
    assert (type(message), message.code, message) == (Message, "out_of_range", note)
    assert (type(plain), plain) == (str, "plain")


def test_other_objects_and_versions_are_refused(thing):
    for other in (object(), np.array([object()]), lambda: 0):
        with raises("state_not_writable", type(other).__name__):
            packed((other,))
    arrays = packed(thing)
    arrays[TREE] = np.frombuffer(arrays[TREE].tobytes().replace(b'"row"', b'"column"'), np.uint8)
    with raises("run_unreadable", "Outer", "column"):
        unpacked(arrays)


def test_a_map_of_another_layout_is_refused():
    """Compiled code would read past its end, or its entries as places."""
    block = gaussian_blocks.made_up(np.random.default_rng(1))
    older = NamedTuple("Older", list(BlockMap.__annotations__.items())[:-1])
    assert unpacked(packed(no_map(pack(block)))).block.size
    for other in (engine_packed(older(*block[:-1])).view(float), np.zeros(3)):
        with raises("run_unreadable", "TriangularMap", "another layout", "stanadapt.load"):
            unpacked(packed((no_map(other),)))


@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "stanadapt:Target", "not_there:X", "builtins:list"]
)
def test_only_classes_of_states_are_looked_up(thing, name):
    arrays = packed(thing)
    text = json.loads(arrays[TREE].tobytes())
    text["class"] = name
    arrays[TREE] = np.frombuffer(json.dumps(text).encode(), np.uint8)
    with raises("run_unreadable"):
        unpacked(arrays)
