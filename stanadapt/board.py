"""A board of slots of work, from which several threads take.

The thread that runs a chain puts up `count` slots, takes from them like every helper, and waits
until all are done. Who does which slot is left to chance, so that nothing random may be drawn in
one: then the draws are the same for any number of threads. Without helpers a board costs nothing.

What a thread has written before it reports a slot as done is seen by the one that waits; what was
written before the slots were put up is seen by whoever takes one.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from stanadapt._jit import inlined, jit

# entries, in cache lines of their own where all threads write: slots that are LEFT to take, and
# how many are DONE; where few do: whether helpers are to stay (OPEN), what KIND of work there is,
# how many HELPERS, and the address of a C function that gives way to other threads
LEFT, DONE, OPEN, KIND, HELPERS, GIVE_WAY, SIZE = 16, 32, 48, 49, 50, 51, 64
# looks at an entry before a thread that waits gives way each time
LOOKS = 4000


def _entry(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def _add(context, board, index, amount):
    """Add to an entry at once; returns what was there."""

    def emit(context, builder, signature, arguments):
        board, index, amount = arguments
        entry = _entry(context, builder, signature.args[0], board, index)
        return builder.atomic_rmw("add", entry, amount, "seq_cst")

    return types.int64(board, types.int64, types.int64), emit


@intrinsic
def _look(context, board, index):
    """Return an entry that other threads write."""

    def emit(context, builder, signature, arguments):
        entry = _entry(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(entry, "seq_cst", 8)

    return types.int64(board, types.int64), emit


@intrinsic
def _write(context, board, index, value):
    """Write an entry that other threads read."""

    def emit(context, builder, signature, arguments):
        board, index, value = arguments
        entry = _entry(context, builder, signature.args[0], board, index)
        builder.store_atomic(value, entry, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(board, types.int64, types.int64), emit


@intrinsic
def _call(context, address):
    """Call int f(void)."""

    def emit(context, builder, signature, arguments):
        function = ir.FunctionType(ir.IntType(32), [])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), emit


@jit
def no_board():
    """Return a board without helpers."""
    return np.zeros(SIZE, np.int64)


@inlined
def put_up(board, kind, count):
    """Put up slots 0, ..., count - 1 of a kind of work; returns the first to do, as `another`."""
    if board[HELPERS] == 0:
        return count - 1
    board[KIND], board[DONE] = kind, 0
    _write(board, LEFT, count)
    return take(board)


@inlined
def take(board):
    """Return a slot that nobody else has, or a negative number: there is none."""
    return _add(board, LEFT, -1) - 1


@inlined
def another(board, slot):
    """Report that a slot is done, and `take`."""
    if board[HELPERS] == 0:
        return slot - 1
    _add(board, DONE, 1)
    return take(board)


@inlined
def wait(board, count):
    """Wait until all of `count` slots are done."""
    looks = 0
    while board[HELPERS] > 0 and _look(board, DONE) < count:
        looks = rest(board, looks)


@inlined
def wait_for_work(board):
    """Wait as a helper for a slot, and return it; a negative number: there will be none."""
    looks, slot = 0, -1
    while slot < 0 and _look(board, OPEN) == 1:
        # a look first: to take from an empty board would keep others from theirs
        if _look(board, LEFT) > 0:
            slot = take(board)
        else:
            looks = rest(board, looks)
    return slot


@inlined
def rest(board, looks):
    """Give way to other threads if there have been many looks; returns how many there are now."""
    if looks < LOOKS:
        return looks + 1
    _call(board[GIVE_WAY])
    return looks
