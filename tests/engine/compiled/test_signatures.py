"""Signatures that are remembered: those that Numba finds, each looked for once."""

import operator

import numpy as np
import pytest
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import overload

from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.compiled.quick_compiler import RememberedFunction, with_signatures

VECTOR, MATRIX = types.float64[::1], types.float64[:, ::1]
CASES = [
    (operator.add, (types.float64, types.int64)),
    (operator.add, (types.int64, types.int64)),
    (operator.mul, (VECTOR, types.float64)),
    (operator.getitem, (VECTOR, types.intp)),
    (operator.getitem, (MATRIX, types.intp)),
    (operator.getitem, (VECTOR, types.slice2_type)),
    (bool, (types.float64,)),
    (range, (types.int64,)),
]


@pytest.fixture
def context():
    """The typing context that our compilers use."""
    cpu_target.typing_context.refresh()
    return with_signatures(cpu_target.typing_context)


@pytest.mark.parametrize(("function", "kinds"), CASES)
def test_signatures_are_those_of_numba(context, function, kinds):
    expected = cpu_target.typing_context.resolve_function_type(function, kinds, {})
    for _ in range(2):
        found = context.resolve_function_type(function, kinds, {})
        assert found.args == expected.args
        assert found.return_type == expected.return_type


def test_a_signature_is_looked_for_once(context, monkeypatch):
    looked, search = [], types.Function.get_call_type

    def counted(self, context, args, kws):
        looked.append(args)
        return search(self, context, args, kws)

    monkeypatch.setattr(types.Function, "get_call_type", counted)
    kinds = types.float32, types.int16  # of no other test
    for _ in range(3):
        context.resolve_function_type(operator.sub, kinds, {})
        context.resolve_value_type(operator.sub).get_call_type(context, kinds, {})
    assert looked == [kinds]


def test_an_implementation_added_later_is_found(context):
    def twice(x):
        raise NotImplementedError("only for compiled code")

    def of_numbers(x):
        return (lambda x: 2 * x) if isinstance(x, types.Integer) else None

    def of_arrays(x):
        return (lambda x: 2 * x[0]) if isinstance(x, types.Array) else None

    overload(twice)(of_numbers)
    context.refresh()
    assert context.resolve_function_type(twice, (types.int64,), {}).return_type == types.int64
    overload(twice)(of_arrays)
    context.refresh()
    assert context.resolve_function_type(twice, (VECTOR,), {}).return_type == types.float64
    assert context.resolve_function_type(twice, (types.int64,), {}).return_type == types.int64


def test_tuples_are_not_remembered(context):
    pair = types.UniTuple(types.int64, 2)
    function = context.resolve_value_type(operator.eq)
    assert isinstance(function, RememberedFunction)
    context.resolve_function_type(operator.eq, (pair, pair), {})
    assert not any(pair in kinds for _, kinds, _ in function.found)


@jit
def _halves(x, n, y):
    return x / 2, n / 2, n // 2, y / 2


@pytest.mark.parametrize("first", [True, False])
def test_types_of_one_function_do_not_mix(first):
    cases = [(3.0, 3, np.array([3.0])), (3, 3.0, np.array([3], np.float32))]
    for arguments in cases if first else reversed(cases):
        found, expected = _halves(*arguments), njit(_halves.py_func)(*arguments)
        assert found[:3] == expected[:3] == (1.5, 1.5, 1)
        assert [type(number) for number in found] == [type(number) for number in expected]
        assert found[3].dtype == expected[3].dtype
        assert found[3] == 1.5
