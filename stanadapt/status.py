"""One line on what takes long outside sampling: compiling, installing, Stan's own runs."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console

Tell = Callable[[str], None]


@contextlib.contextmanager
def status(show: bool) -> Iterator[Tell]:
    """Yield a function that tells what is going on; a spinner where there is a terminal."""
    console = Console(file=sys.stderr, quiet=not show)
    if not console.is_terminal:
        yield lambda text: console.print(text, highlight=False)
        return
    spinner = console.status("")

    def tell(text: str) -> None:
        spinner.update(text)
        spinner.start()  # only now: most starts find everything compiled

    try:
        yield tell
    finally:
        spinner.stop()
