"""Threads that make a chain's moves together with its own: `threads_per_chain`.

They serve while a chunk of iterations runs, and end with it. In between they wait without sleep,
since the next sweep is there within microseconds; where others want the processor they give way.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stanadapt._jit import jit, jit_with
from stanadapt.board import GIVE_WAY, HELPERS, KIND, OPEN, another, wait_for_work
from stanadapt.density import Density
from stanadapt.protocol import Sampler, assist, lend_state


@jit
def _serve(settings, owned, board):
    """Take slots from the board until it is closed; owned is the helper's own state."""
    state = lend_state(settings, owned)
    slot = wait_for_work(board)
    while slot >= 0:
        assist(settings, state, board[KIND], slot)
        slot = another(board, slot)
        if slot < 0:
            slot = wait_for_work(board)


class Crew:
    """The helpers of one chain; there may be none.

    Parameters
    ----------
    sampler, settings
        As compiled code has them. Only a sampler that can `hire` has use for densities.
    state
        Of the chain, whose arrays stay in their places.
    densities
        One a helper: neither counters nor, where it matters, models are shared.

    """

    def __init__(
        self, sampler: Sampler, settings: tuple, state: Any, densities: Sequence[Density]
    ) -> None:
        self._settings, self._states, self._board = settings, [], None
        if densities:
            hired = [sampler.hire(density, settings, state) for density in densities]
            self._states, self._board = [own for own, _ in hired], hired[0][1]
            self._board[HELPERS], self._board[GIVE_WAY] = len(hired), giving_way()
            self._serve = jit_with(_serve, (sampler.assist,))

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Serve while the body runs, in which a chain advances."""
        if not self._states:
            yield
            return
        self._board[OPEN] = 1
        with ThreadPoolExecutor(len(self._states)) as pool:
            serving = [
                pool.submit(self._serve, self._settings, state, self._board)
                for state in self._states
            ]
            try:
                yield
            finally:
                self._board[OPEN] = 0
        for service in serving:
            service.result()


def giving_way() -> int:
    """Return the address of the C function by which a thread lets others run."""
    if sys.platform == "win32":
        function = ctypes.windll.kernel32.SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0
