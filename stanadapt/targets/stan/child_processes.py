"""Compilers and CmdStan's chains, which must not outlive the Ctrl-C that ends their parent."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil

ROUNDS, PAUSE = 20, 0.005


@contextlib.contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Kill what the body has started, and what that has, before Ctrl-C is raised.

    `subprocess` kills its own child only, not a compiler that make has started; CmdStanPy waits
    for its chains. What ran before the body goes on.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _descendants()

    def end(number: int, frame: Any) -> None:
        for _ in range(ROUNDS):  # one that is killed may just have started another
            started = _descendants() - before
            for child in started:
                with contextlib.suppress(psutil.Error):
                    child.kill()
            if not started:
                break
            time.sleep(PAUSE)
        handler(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _descendants() -> set[psutil.Process]:
    """Children of this process and theirs, but for those that have ended."""
    try:
        found = psutil.Process().children(recursive=True)
    except psutil.Error:
        return set()
    return {child for child in found if _runs(child)}


def _runs(child: psutil.Process) -> bool:
    try:
        return child.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
