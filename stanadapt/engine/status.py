"""A status line for slow steps other than sampling: compiling, installing, Stan's own runs."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

from rich.console import Console

Report = Callable[[str], None]


@contextlib.contextmanager
def status(show: bool) -> Iterator[Report]:
    """Yield a function that reports the current step; in a terminal, beside a spinner."""
    console = Console(file=sys.stderr, quiet=not show)
    if not console.is_terminal:
        yield lambda text: console.print(text, highlight=False)
        return
    spinner = console.status("")

    def report(text: str) -> None:
        spinner.update(text)
        spinner.start()  # not before: usually everything is compiled already

    try:
        yield report
    finally:
        spinner.stop()


# a step that is shorter needs no words
SLOW = 1.0


@contextlib.contextmanager
def slow_step(show: bool, text: str, after: float = SLOW) -> Iterator[None]:
    """Say what a step is doing, if it takes longer than so many seconds."""
    with status(show) as report:
        over, lock = False, threading.Lock()

        def say() -> None:
            with lock:  # else a spinner might start after the step has ended
                if not over:
                    report(text)

        timer = threading.Timer(after, say)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with lock:
                over = True
