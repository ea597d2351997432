"""Ctrl-C and SIGTERM while chains run: no finished draw is lost to either of them."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def uninterrupted() -> Iterator[list[int]]:
    """Let Ctrl-C wait until the body is done; the list is empty unless it was pressed."""
    pressed: list[int] = []
    with _handling(signal.SIGINT, lambda number, frame: pressed.append(number)):
        yield pressed


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, also within `uninterrupted`."""
    with _handling(signal.SIGINT, signal.default_int_handler):
        yield


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, with which batch systems end a job, do what Ctrl-C does."""
    with _handling(signal.SIGTERM, signal.default_int_handler):
        yield


@contextlib.contextmanager
def _handling(number: int, handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL if saved is None else saved)
