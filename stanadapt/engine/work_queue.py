"""A queue of numbered tasks (slots), shared by the threads of one chain.

The thread that runs the chain offers `count` slots, takes slots itself like every worker, and waits
until all are done. It is left to chance which thread takes which slot. No random numbers may
therefore be drawn in a task: then the draws are the same for any number of threads. Without workers
a queue costs nothing.

All that a thread wrote before it reported a slot as done is visible to the thread that waits;
all that was written before the slots were offered is visible to the thread that takes one.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from stanadapt.engine.compiled.jit import inline, jit

# entries: the number of slots LEFT to take and the number DONE, which all threads write, have a
# cache line each; the others are whether workers should stay (OPEN), the KIND of task offered, the
# number of WORKERS, and the address of a C function that yields the processor
LEFT, DONE, OPEN, KIND, WORKERS, YIELD_ADDRESS, SIZE = 16, 32, 48, 49, 50, 51, 64
# number of reads of an entry after which a waiting thread yields at each further read
SPINS = 4000


def _entry(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def _add(context, queue, index, amount):
    """Add to an entry atomically; returns its previous value."""

    def emit(context, builder, signature, arguments):
        queue, index, amount = arguments
        entry = _entry(context, builder, signature.args[0], queue, index)
        return builder.atomic_rmw("add", entry, amount, "seq_cst")

    return types.int64(queue, types.int64, types.int64), emit


@intrinsic
def _read(context, queue, index):
    """Read an entry that other threads write."""

    def emit(context, builder, signature, arguments):
        entry = _entry(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(entry, "seq_cst", 8)

    return types.int64(queue, types.int64), emit


@intrinsic
def _write(context, queue, index, value):
    """Write an entry that other threads read."""

    def emit(context, builder, signature, arguments):
        queue, index, value = arguments
        entry = _entry(context, builder, signature.args[0], queue, index)
        builder.store_atomic(value, entry, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(queue, types.int64, types.int64), emit


@intrinsic
def _call(context, address):
    """Call int f(void)."""

    def emit(context, builder, signature, arguments):
        function = ir.FunctionType(ir.IntType(32), [])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), [])
        return context.get_dummy_value()

    return types.void(types.int64), emit


@jit
def no_queue():
    """Return a queue without workers."""
    return np.zeros(SIZE, np.int64)


@inline
def put(queue, kind, count):
    """Offer slots 0, ..., count - 1 of one kind of task, and take one, as `take` does."""
    if queue[WORKERS] == 0:
        return count - 1
    queue[KIND], queue[DONE] = kind, 0
    _write(queue, LEFT, count)
    return take(queue)


@inline
def take(queue):
    """Take a slot that no other thread has; return a negative number if none is left."""
    return _add(queue, LEFT, -1) - 1


@inline
def done_and_take(queue, slot):
    """Report a slot as done, and `take` the next."""
    if queue[WORKERS] == 0:
        return slot - 1
    _add(queue, DONE, 1)
    return take(queue)


@inline
def wait_until_done(queue, count):
    spins = 0
    while queue[WORKERS] > 0 and _read(queue, DONE) < count:
        spins = spin_or_yield(queue, spins)


@inline
def wait_for_work(queue):
    """Wait as a worker for a slot and take it; return a negative number if the queue closes."""
    spins, slot = 0, -1
    while slot < 0 and _read(queue, OPEN) == 1:
        # read first: taking from an empty queue writes to the cache line that others need
        if _read(queue, LEFT) > 0:
            slot = take(queue)
        else:
            spins = spin_or_yield(queue, spins)
    return slot


@inline
def spin_or_yield(queue, spins):
    """Count a read without result, or yield the processor after many; return the new count."""
    if spins < SPINS:
        return spins + 1
    _call(queue[YIELD_ADDRESS])
    return spins
