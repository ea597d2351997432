"""Progress on standard error, or in a notebook: a bar or lines per chain, and lines for slow steps.

`reporter` shows chains while they run. `status` and `slow_step` announce steps other than sampling,
such as compilation or Stan's own runs.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from stanadapt.engine.compiled.compilations import UNDER_WAY
from stanadapt.engine.notebook import CellBars, CellCount, cell_output

Report = Callable[[str], None]
SLOW = 1.0  # seconds; a shorter step is not announced
STANDARD_ERROR = 2  # its file descriptor
PLAIN_SECONDS = 10.0  # between lines, if standard error is not a terminal


def line_console(file: IO[str] | None = None, quiet: bool = False) -> Console:
    """Return a console for lines, by default on standard error, also in a notebook.

    Rich itself would need widgets there. Lines in a log are as long as they are.
    """
    console = Console(file=file or sys.stderr, quiet=quiet, force_jupyter=False)
    console.soft_wrap = not console.is_terminal
    return console


# --- slow steps -----------------------------------------------------------------------------------


def silent(text: str) -> None:
    """Report nothing."""


@contextlib.contextmanager
def status(show: bool) -> Iterator[Report]:
    """Yield a function that reports the current step; in a terminal, with a spinner."""
    if not show:
        yield silent
        return
    if (output := cell_output()) is not None:
        try:
            yield output.write
        finally:
            output.end()
        return
    with _standard_error() as file:
        console = line_console(file)
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


@contextlib.contextmanager
def _standard_error() -> Iterator[IO[str]]:
    """Yield standard error, as it is before native code's output to it is collected.

    Otherwise the line would be collected as well, and be lost.
    """
    try:
        is_descriptor = sys.stderr.fileno() == STANDARD_ERROR
    except (AttributeError, OSError, ValueError):  # a notebook's, or a test's
        is_descriptor = False
    if not is_descriptor:
        yield sys.stderr
        return
    sys.stderr.flush()
    encoding, errors = sys.stderr.encoding, sys.stderr.errors
    copy = os.fdopen(os.dup(STANDARD_ERROR), "w", buffering=1, encoding=encoding, errors=errors)
    with copy:
        yield copy


@contextlib.contextmanager
def slow_step(show: bool, text: str, after: float = SLOW) -> Iterator[None]:
    """Announce a step if it takes longer than `after` seconds."""
    with status(show) as report, report_if_slow(report, lambda: text, after):
        yield


@contextlib.contextmanager
def report_if_slow(report: Report, text: Callable[[], str], after: float = SLOW) -> Iterator[None]:
    """Report a text, which is made only then, if the body takes longer than `after` seconds."""

    def announce(over: threading.Event) -> None:
        if not over.wait(after):
            report(text())

    # to start a thread takes longer than most steps
    with contextlib.nullcontext() if report is silent else meanwhile(announce):
        yield


@contextlib.contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in a thread until an event reports the end of the body; then wait for its end."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def say(show: bool, text: str) -> None:
    """Print a line on standard error, if `show`; in a notebook, until the next step."""
    if show and (output := cell_output()) is not None:
        output.write(text)
        return
    line_console(quiet=not show).print(text, highlight=False, markup=False)


# --- tasks ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def task_bar(show: bool, label: str, total: int, *columns: Any) -> Iterator[Callable[..., None]]:
    """Yield a function `advance(done=1, task=None)`, which moves a bar of tasks, if `show`.

    It may name the task that follows; in a terminal, further columns of Rich follow the bar.
    """
    if show and (output := cell_output()) is not None:
        with CellCount(output, label, total) as count:
            yield count.advance
        return
    shown = (*Progress.get_default_columns(), *columns)
    with Progress(*shown, console=line_console(), disable=not show) as bar:
        number = bar.add_task(label, total=total)

        def advance(done: int = 1, task: str | None = None) -> None:
            bar.update(number, advance=done, description=task)

        yield advance


# --- chains ---------------------------------------------------------------------------------------


def _line(chain: Any, task: str = "") -> str:
    phase = "warm-up " if chain.warming_up else "sampling"
    if chain.warming_up and chain.progress is not None:
        label = "compiling (once)" if UNDER_WAY else chain.progress.label
        phase = f"{task or 'warm-up'}, {label}"
    if chain.finished:
        phase = "stopped " if chain.stopped else f"{task}, done" if task else "done    "
    text = f"{phase} {chain.n_done:>6}/{chain.n_total}"
    accepted = f"  accepted {chain.acceptance_rate:4.0%}" if chain.n_done else ""
    failed = chain.calls["failed"]
    return text + accepted + (f"  failed {failed}" if failed else "")


def _may_end_early(chain: Any) -> bool:
    """Whether a chain is in a warm-up of stages, for which its total is a limit."""
    return bool(chain.warming_up and chain.progress is not None)


class Silent:
    """Shows nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *exception: Any) -> None:
        return None

    def update(self, chains: list) -> None:
        """Do nothing."""


class Plain(Silent):
    """Prints one line per chain every ten seconds and at the end: for logs and pipes."""

    def __init__(self, console: Console, task: str = "") -> None:
        self.console, self.ended, self.start = console, False, time.monotonic()
        self.task = task
        self.last = self.start
        self.began: dict[int, float] = {}  # when each chain was last seen idle

    def update(self, chains: list) -> None:
        """Print if it is time to."""
        now, finished = time.monotonic(), all(chain.finished for chain in chains)
        self.began |= {number: now for number, chain in enumerate(chains, 1) if not chain.n_done}
        if self.ended or (not finished and now - self.last < PLAIN_SECONDS):
            return
        self.last, self.ended = now, finished
        for number, chain in enumerate(chains, 1):
            line = f"chain {number}  {_line(chain, self.task)}{self._time_left(now, number, chain)}"
            self.console.print(line, highlight=False)

    def _time_left(self, now: float, number: int, chain: Any) -> str:
        """Estimate the time left; a chain that still waits for a core has no speed yet."""
        if chain.finished or not chain.n_done:
            return ""
        took = now - self.began.get(number, self.start)
        word = "at most" if _may_end_early(chain) else "about"
        return f"  {word} {took * (chain.n_total / chain.n_done - 1):.0f} s left"


class TimeLeft(TimeRemainingColumn):
    """The time left, or "<" and a limit of it in a warm-up that may end early."""

    def render(self, task: Task) -> Text:
        """Return the text of one bar."""
        left = super().render(task)
        return Text("<", left.style) + left if task.fields.get("limit") else left


class Line(ProgressColumn):
    """The line of a chain, as it is when it is drawn: that may be while the caller compiles."""

    def render(self, task: Task) -> Text:
        """Return the line."""
        return Text(_line(task.fields["chain"], task.description))


class Bars(Silent):
    """Draws one bar per chain in a terminal."""

    def __init__(self, console: Console, task: str = "") -> None:
        self.task = task
        self.progress = Progress(
            TextColumn("chain {task.fields[number]}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            Line(),
            TimeLeft(),
            console=console,
        )
        self.tasks: list = []

    def __enter__(self) -> "Bars":
        self.progress.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.progress.stop()

    def update(self, chains: list) -> None:
        """Move every bar to its chain's iteration."""
        if not self.tasks:
            self.tasks = [
                self.progress.add_task(self.task, total=chain.n_total, number=number, chain=chain)
                for number, chain in enumerate(chains, 1)
            ]
        for task, chain in zip(self.tasks, chains, strict=True):
            self.progress.update(
                task, completed=chain.n_done, total=chain.n_total, chain=chain,
                limit=_may_end_early(chain),
            )  # fmt: skip


def reporter(show: bool, task: str = "") -> Silent | CellBars:
    """Return the reporter that suits standard error; a silent one unless `show`.

    task names the work of the chains if that is neither warm-up nor sampling.
    """
    if not show:
        return Silent()
    if (output := cell_output()) is not None:
        return CellBars(output, _line, task)
    console = line_console()
    return Bars(console, task) if console.is_terminal else Plain(console, task)
