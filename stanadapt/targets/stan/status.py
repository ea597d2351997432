"""A status line for slow steps other than sampling: compiling, installing, Stan's own runs."""

import contextlib
import sys
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
