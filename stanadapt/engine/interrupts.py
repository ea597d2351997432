"""Ctrl-C and SIGTERM while chains run: no finished draw is lost to either of them.

From the first iteration to the judged result, signals wait (`uninterrupted`), except for parts that
can be ended at any point: chains, which keep their draws (`released`), and parts that the
result can do without (`interruptible`). A signal that waited ends the next such part as it begins.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

PAUSE = 0.1  # seconds between two looks at threads


class _Held(NamedTuple):
    """Signals that wait for a body, and the handler of Ctrl-C before it."""

    pressed: list[int]
    before: Any


_held: list[_Held] = []  # of the main thread, outermost first


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM wait until the body is done; the list is empty unless one came."""
    pressed: list[int] = []
    if not _in_main_thread():
        yield pressed
        return
    _held.append(_Held(pressed, signal.getsignal(signal.SIGINT)))
    try:
        with _handling(lambda number, frame: pressed.append(number)):
            yield pressed
    finally:
        _held.pop()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM raise KeyboardInterrupt, also within `uninterrupted`."""
    _raise_what_waited()
    with _handling(signal.default_int_handler):
        yield


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Let Ctrl-C do what it did before `uninterrupted`, and SIGTERM raise KeyboardInterrupt.

    Batch systems end a job with SIGTERM.
    """
    _raise_what_waited()
    before = _held[0].before if _held else signal.getsignal(signal.SIGINT)
    with _handling(signal.default_int_handler, before):
        yield


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _raise_what_waited() -> None:
    if _in_main_thread() and any(held.pressed for held in _held):
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handling(handler: Any, of_ctrl_c: Any = None) -> Iterator[None]:
    """Handle SIGTERM and Ctrl-C while the body runs, the latter by another handler if given.

    A handler that was not installed from Python, as where R runs Python, could not be put back: its
    signal is left alone.
    """
    if not _in_main_thread():
        yield
        return
    wanted = {signal.SIGTERM: handler, signal.SIGINT: handler if of_ctrl_c is None else of_ctrl_c}
    saved = {
        number: signal.signal(number, own)
        for number, own in wanted.items()
        if signal.getsignal(number) is not None
    }
    try:
        yield
    finally:
        for number, own in saved.items():
            signal.signal(number, own)


def wait_for(running: set[Future], on_wait: Callable[[], Any]) -> None:
    """Return when all are done; raise the exception of the first that fails, or of `on_wait`."""
    waiting = set(running)
    while waiting:
        done, waiting = wait(waiting, timeout=PAUSE, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        on_wait()


def in_threads(
    work: Callable[[int], Any],
    count: int,
    on_wait: Callable[[], Any] = lambda: None,
    threads: int | None = None,
) -> list:
    """Return work(0), ..., work(count - 1), each in one of some threads.

    Ctrl-C, or an exception of `on_wait`, which is called ten times a second, leaves compiled code
    running, which ends by itself, without being waited for.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(work, i) for i in range(count)]
        wait_for(set(futures), on_wait)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
