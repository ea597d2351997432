"""More chains than threads: they take turns, and none is ahead by more than a chunk."""

import signal
import threading

import numpy as np
import pytest

import stanadapt as sa
from stanadapt.engine.chain import Keeper, Turns, run
from stanadapt.runs.begin import begin_chains
from tests.helpers.driven_runs import setup_of

PROGRAM = "parameters { vector[2] x; } model { x ~ normal([1, 2], [1, 3]); }"


class Counted:
    """A chain that only counts, and sees how far the others are."""

    def __init__(self, chains, length=40):
        self.chains, self.length, self.n_done, self.abandoned = chains, length, 0, False
        self.waiting, self.moving, self.ahead = False, threading.Lock(), []

    @property
    def finished(self):
        return self.n_done == self.length

    def advance(self, chunk):
        assert self.moving.acquire(blocking=False), "two threads have one chain"
        self.n_done += 1
        self.ahead.append(self.n_done - min(chain.n_done for chain in self.chains))
        self.moving.release()

    def abandon(self):
        self.abandoned = True


def made(lengths):
    chains = []
    chains += [Counted(chains, length) for length in lengths]
    return chains


def test_one_thread_advances_all_and_an_error_ends_the_run():
    chains = made([40] * 5)
    assert run(chains, 1) is False
    assert all(chain.finished for chain in chains)
    assert max(ahead for chain in chains for ahead in chain.ahead) == 1
    chains = made([40] * 3)

    def failing(chunk):
        raise ValueError("no")

    chains[2].advance = failing
    with pytest.raises(ValueError, match="no"):
        run(chains, 2)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_chains_of_all_lengths_are_finished(threads):
    chains = made([1, 200, 3, 0, 50])
    assert run(chains, threads) is False
    assert [chain.n_done for chain in chains] == [1, 200, 3, 0, 50]


def test_the_chain_that_is_furthest_behind_is_next():
    chains = made([10, 10, 10])
    chains[0].n_done, chains[1].n_done = 2, 1
    turns = Turns(chains)
    assert [turns.take() for _ in range(4)] == [chains[2], chains[1], chains[0], None]
    assert turns.taken() == [chains[2], chains[1], chains[0]]
    turns.give_back(chains[0])
    chains[0].waiting = True
    assert turns.take() is None
    chains[0].waiting = False
    assert turns.take() is chains[0]


def test_only_chains_in_a_chunk_are_abandoned():
    """After Ctrl-C; a chain that waits for its turn can be continued."""
    chains, entered, leave = made([40] * 3), threading.Event(), threading.Event()

    def endless(chunk):
        entered.set()
        leave.wait()

    chains[1].advance = endless

    def stop(chains):
        if entered.is_set() and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    stopped = []
    try:
        assert run(chains, 1, stop) is True
        assert [chain.abandoned for chain in chains] == [False, True, False]
    finally:
        leave.set()


class Watching(Keeper):
    """Notes the thread of each chunk and NumPy's settings in it; Ctrl-C comes in the first."""

    def __init__(self):
        self.chunks = []

    def chunk_done(self, chain):
        if in_main_thread := threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        self.chunks.append((in_main_thread, np.geterr()["divide"]))


def test_brief_blocks_need_no_thread_and_are_not_interrupted():
    target = sa.Target(PROGRAM, backend="stanli", show_progress=False)
    _, _, chains, _ = begin_chains(setup_of(target, chains=2, seed=1, show_progress=False))
    keeper, interrupted = Watching(), 0
    with np.errstate(divide="raise"):
        while run(chains, 2, keeper=keeper):
            interrupted += 1
    assert {errors for _, errors in keeper.chunks} == {"warn"}
    # once for both chains: no chunk was stopped
    assert 0 < interrupted < sum(in_main_thread for in_main_thread, _ in keeper.chunks)
