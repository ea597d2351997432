"""Every slot is done exactly once, by the thread that takes it, before the wait ends."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stanadapt.engine import work_queue
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.threads import yield_address

ROUNDS, SLOTS = 20_000, 5
NOT_DONE, DONE_TWICE = 0, 1


@jit
def _do(done, work, slot, kind):
    """Write into a slot; work[0] counts the slots that this thread has done."""
    for i in range(20):
        done[slot, i] += kind
    work[0] += 1


@jit
def _lead(queue, done, work, wrong, rounds):
    for r in range(rounds):
        kind, count = r % 3 + 1, r % SLOTS + 1
        done[:] = 0
        slot = work_queue.put(queue, kind, count)
        while slot >= 0:
            _do(done, work, slot, kind)
            slot = work_queue.done_and_take(queue, slot)
        work_queue.wait_until_done(queue, count)
        for slot in range(SLOTS):
            for i in range(20):
                expected = kind if slot < count else 0
                wrong[NOT_DONE] += done[slot, i] < expected
                wrong[DONE_TWICE] += done[slot, i] > expected


@jit
def _work(queue, done, work):
    slot = work_queue.wait_for_work(queue)
    while slot >= 0:
        _do(done, work, slot, queue[work_queue.KIND])
        slot = work_queue.done_and_take(queue, slot)
        if slot < 0:
            slot = work_queue.wait_for_work(queue)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_slot_is_done_once(workers):
    queue, done = work_queue.no_queue(), np.zeros((SLOTS, 20), np.int64)
    wrong, work = np.zeros(2, np.int64), np.zeros((4, 16), np.int64)
    queue[work_queue.WORKERS], queue[work_queue.YIELD_ADDRESS], queue[work_queue.OPEN] = (
        workers,
        yield_address(),
        1,
    )
    rounds = 0
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(_work, queue, done, work[1 + i]) for i in range(workers)]
        try:
            # until every worker has done some, which may take a while on a busy machine
            while rounds < 1 or (rounds < 1000 and not work[: workers + 1, 0].all()):
                _lead(queue, done, work[0], wrong, ROUNDS)
                rounds += 1
        finally:
            queue[work_queue.OPEN] = 0
        for future in futures:
            future.result(timeout=600)
    assert not wrong.any()
    assert work[: workers + 1, 0].all()
    assert work[:, 0].sum() == rounds * sum(r % SLOTS + 1 for r in range(ROUNDS))


def test_queues_without_workers_and_closed_ones():
    queue = work_queue.no_queue()
    _lead(queue, np.zeros((SLOTS, 20), np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64), 10)
    assert not queue.any()
    queue = work_queue.no_queue()
    queue[work_queue.WORKERS] = 1
    assert work_queue.wait_for_work(queue) < 0
    queue[work_queue.LEFT] = 3
    assert work_queue.wait_for_work(queue) < 0
    queue[work_queue.OPEN] = 1
    assert [work_queue.wait_for_work(queue) for _ in range(3)] == [2, 1, 0]
