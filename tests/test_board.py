"""Slots are done once each, by whoever comes first, and all before the wait is over."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stanadapt._jit import jit
from stanadapt.board import (
    GIVE_WAY,
    HELPERS,
    KIND,
    LEFT,
    OPEN,
    another,
    no_board,
    put_up,
    wait,
    wait_for_work,
)
from stanadapt.crew import giving_way

ROUNDS, SLOTS = 20_000, 5
NOT_DONE, DONE_TWICE = 0, 1


@jit
def _do(done, work, slot, kind):
    """Write into a slot; work[0] counts the slots that a thread has done."""
    for i in range(20):
        done[slot, i] += kind
    work[0] += 1


@jit
def _lead(board, done, work, wrong, rounds):
    for r in range(rounds):
        kind, count = r % 3 + 1, r % SLOTS + 1
        done[:] = 0
        slot = put_up(board, kind, count)
        while slot >= 0:
            _do(done, work, slot, kind)
            slot = another(board, slot)
        wait(board, count)
        for slot in range(SLOTS):
            for i in range(20):
                wanted = kind if slot < count else 0
                wrong[NOT_DONE] += done[slot, i] < wanted
                wrong[DONE_TWICE] += done[slot, i] > wanted


@jit
def _help(board, done, work):
    slot = wait_for_work(board)
    while slot >= 0:
        _do(done, work, slot, board[KIND])
        slot = another(board, slot)
        if slot < 0:
            slot = wait_for_work(board)


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_every_slot_is_done_once(helpers):
    board, done = no_board(), np.zeros((SLOTS, 20), np.int64)
    wrong, work = np.zeros(2, np.int64), np.zeros((4, 16), np.int64)
    board[HELPERS], board[GIVE_WAY], board[OPEN] = helpers, giving_way(), 1
    rounds = 0
    with ThreadPoolExecutor(3) as pool:
        serving = [pool.submit(_help, board, done, work[1 + i]) for i in range(helpers)]
        try:
            # until every helper has done some: on a busy machine that may take its time
            while rounds < 1 or (rounds < 1000 and not work[: helpers + 1, 0].all()):
                _lead(board, done, work[0], wrong, ROUNDS)
                rounds += 1
        finally:
            board[OPEN] = 0
        for service in serving:
            service.result(timeout=60)
    assert not wrong.any()
    assert work[: helpers + 1, 0].all()
    assert work[:, 0].sum() == rounds * sum(r % SLOTS + 1 for r in range(ROUNDS))


def test_without_helpers_nothing_is_put_up():
    board = no_board()
    _lead(board, np.zeros((SLOTS, 20), np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64), 10)
    assert not board.any()


def test_a_closed_board_lets_helpers_go():
    board = no_board()
    board[HELPERS] = 1
    assert wait_for_work(board) < 0
    board[LEFT] = 3
    assert wait_for_work(board) < 0
    board[OPEN] = 1
    assert [wait_for_work(board) for _ in range(3)] == [2, 1, 0]
