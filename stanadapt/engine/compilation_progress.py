"""A line that shows compilation while it runs: what for, how many functions, for how long.

There is no such line if nothing is compiled, since all is in the cache. How many functions there
will be is not known: those that the sampler names are counted, and some of them may be in the cache
or not be needed.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from stanadapt.engine.compiled.compilations import HISTORY, reachable
from stanadapt.engine.console import PLAIN_SECONDS, SLOW, Report, line_console, meanwhile, status
from stanadapt.engine.notebook import cell_output

TICK = 0.2  # seconds


class Pace(NamedTuple):
    """Seconds before the line begins, and between two of its states; and the clock."""

    after: float = SLOW
    log: float = PLAIN_SECONDS
    clock: Callable[[], float] = time.monotonic


PACE = Pace()


class Compilation:
    """The functions that are compiled for a purpose, from now on until `end`.

    `functions` are those that Python will call.
    """

    def __init__(self, what: str, functions: Iterable[Callable] = (), pace: Pace = PACE) -> None:
        self.what, self._functions, self.pace = what, list(functions), pace
        self._first, self._began = len(HISTORY), pace.clock()
        self._last: int | None = None
        self._seconds = 0.0
        self._expected: set[Callable] = set()

    def end(self) -> None:
        """Count no more."""
        self._seconds, self._last = self.seconds, len(HISTORY)

    @property
    def compiled(self) -> list[Callable]:
        """Functions so far, Numba's own included; twice if compiled for two types."""
        return HISTORY[self._first : self._last]

    @property
    def seconds(self) -> float:
        """Seconds so far, of compilation and all else."""
        return self._seconds if self._last is not None else self.pace.clock() - self._began

    def text(self) -> str:
        """Return the line; one without numbers if nothing that was named is compiled."""
        compiled, seconds = set(self.compiled), f"{self.seconds:.0f} s"
        if compiled:
            self._expected = self._expected or reachable(self._functions)
        named = compiled & self._expected
        if not compiled or (self._expected and not named):  # a function of the user, or of Numba
            return f"Loading {self.what}, {seconds}"
        if self._expected:
            number = f"{len(named)} of up to {len(self._expected)}"
        else:
            number = str(len(compiled))
        functions = "function" if number == "1" else "functions"
        return f"Compiling {self.what} ({number} {functions}), {seconds}, once"


@contextlib.contextmanager
def compiling(
    show: bool, what: str, functions: Iterable[Callable] = (), pace: Pace = PACE
) -> Iterator[Compilation]:
    """Show the progress of compilation in the body, if it takes longer than `pace.after`."""
    compilation = Compilation(what, functions, pace)
    with meanwhile(partial(_show, compilation)) if show else contextlib.nullcontext():
        try:
            yield compilation
        finally:
            compilation.end()


def _show(compilation: Compilation, over: threading.Event) -> None:
    pace = compilation.pace
    if over.wait(pace.after):
        return
    due, compiled = 0.0, False
    with _line(pace) as (report, pause):
        while True:
            now, began = pace.clock(), bool(compilation.compiled)
            if now >= due or began != compiled:
                due, compiled = now + pause, began
                report(compilation.text())
            if over.wait(min(TICK, pause)):
                return


@contextlib.contextmanager
def _line(pace: Pace) -> Iterator[tuple[Report, float]]:
    """Yield a function that shows a text, and the seconds between two texts."""
    in_place = line_console().is_terminal or cell_output() is not None
    with status(True) as report:
        yield report, TICK if in_place else pace.log
