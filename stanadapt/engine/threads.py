"""Threads that share the moves of one chain: `threads_per_chain`.

Workers live as long as a chunk of iterations. Between sweeps they wait without sleeping, since the
next one comes within microseconds, and yield if other threads need the processor.

A file of its own, since most chains have no such threads.
"""

import contextlib
import ctypes
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stanadapt.engine import work_queue
from stanadapt.engine.compiled.jit import jit
from stanadapt.engine.density import Density
from stanadapt.engine.protocol import Sampler, run_task, state_by_reference


@jit
def _work(settings, owned, queue):
    """Run tasks from the queue until it is closed; owned is the state of the worker."""
    state = state_by_reference(settings, owned)
    slot = work_queue.wait_for_work(queue)
    while slot >= 0:
        run_task(settings, state, queue[work_queue.KIND], slot)
        slot = work_queue.done_and_take(queue, slot)
        if slot < 0:
            slot = work_queue.wait_for_work(queue)


class ThreadPool:
    """The worker threads of one chain, possibly none: one per density, if the sampler has any.

    Settings are those of compiled code; arrays of the state stay in place.
    """

    def __init__(
        self, sampler: Sampler, settings: tuple, state: Any, densities: Sequence[Density]
    ) -> None:
        self._settings, self._states, self._queue = settings, [], None
        self.processor_seconds = 0.0  # of all workers so far
        if densities and sampler.threading is not None:
            make_worker = sampler.threading.make_worker
            workers = [make_worker(density, settings, state) for density in densities]
            self._states, self._queue = [worker for worker, _ in workers], workers[0][1]
            self._queue[work_queue.WORKERS] = len(workers)
            self._queue[work_queue.YIELD_ADDRESS] = yield_address()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the workers while the body advances the chain."""
        if self._queue is None:
            yield
            return
        self._queue[work_queue.OPEN] = 1
        with ThreadPoolExecutor(len(self._states)) as pool:
            futures = [pool.submit(self._run_worker, state) for state in self._states]
            try:
                yield
            finally:
                self._queue[work_queue.OPEN] = 0
        self.processor_seconds += sum(future.result() for future in futures)

    def _run_worker(self, state: Any) -> float:
        """Run a worker until the queue is closed; return the processor seconds of its thread."""
        began = time.thread_time()
        _work(self._settings, state, self._queue)
        return time.thread_time() - began


def yield_address() -> int:
    """Return the address of the C function by which a thread lets others run."""
    if sys.platform == "win32":
        function = ctypes.windll.kernel32.SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0
