"""Progress in a notebook: one output of a cell, rewritten in place, that ends as one line.

Only IPython itself is needed, no widgets. The output belongs to the cell: all steps of a call share
it, and a saved notebook holds the line with which they ended, or an empty output.
"""

import html
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

SECONDS = 0.25  # between two states of the output
BAR = 24  # characters


class CellOutput:
    """The output of the cell that runs, whose number `cell` returns.

    `show`, as IPython.display.display, shows a bundle and returns a handle that can replace it.
    """

    def __init__(self, show: Callable[..., Any], cell: Callable[[], int]) -> None:
        self._show, self._cell = show, cell
        self._number: int | None = None
        self._handle: Any = None
        self._last = self._text = ""  # the line to return to; what is shown
        self._changing = threading.Lock()  # a thread reports compilation

    def write(self, text: str, last: bool = False) -> None:
        """Show a text in place of the one before; `last` for a line that is to remain."""
        with self._changing:
            if (number := self._cell()) != self._number:
                self._number, self._handle, self._last, self._text = number, None, "", ""
            if last:
                self._last = text
            if text == self._text:
                return
            self._text = text
            shown = f'<pre style="margin: 0">{html.escape(text)}</pre>' if text else ""
            bundle = {"text/plain": text, "text/html": shown}
            if self._handle is None:
                self._handle = self._show(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)

    def end(self) -> None:
        """Return to the line with which an earlier step of the cell ended."""
        if self._text:
            self.write(self._last)


class CellBars:
    """Shows a bar per chain in the output of a cell, and a line at the end."""

    def __init__(
        self,
        output: CellOutput,
        line: Callable[..., str],
        task: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.output, self.line, self.task, self.clock = output, line, task, clock
        self.began, self.due, self.chains = clock(), 0.0, list[Any]()

    def __enter__(self) -> "CellBars":
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self.chains:
            return
        done = sum(chain.n_done for chain in self.chains)
        count = f"{len(self.chains)} chain{'s' if len(self.chains) > 1 else ''}"
        seconds = f"{self.clock() - self.began:.1f} s"
        task = f"{self.task}: " if self.task else ""
        self.output.write(f"{task}{count}, {done:,} iterations, {seconds}", last=True)

    def update(self, chains: list) -> None:
        """Show the chains, a few times a second."""
        self.chains, now = chains, self.clock()
        if now >= self.due:
            self.due = now + SECONDS
            self.output.write("\n".join(self._bar(i, chain) for i, chain in enumerate(chains, 1)))

    def _bar(self, number: int, chain: Any) -> str:
        full = round(BAR * chain.n_done / max(chain.n_total, 1))
        return f"chain {number} {'█' * full}{'░' * (BAR - full)} {self.line(chain, self.task)}"


class CellCount:
    """Shows a bar of the tasks that are done in the output of a cell, and a line at the end."""

    def __init__(
        self,
        output: CellOutput,
        label: str,
        total: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.output, self.label, self.total, self.clock = output, label, total, clock
        self.task, self.done, self.began = label, 0, clock()

    def __enter__(self) -> "CellCount":
        self.advance(0)
        return self

    def __exit__(self, *exception: Any) -> None:
        label = f"{self.label}: " if self.label else ""
        seconds = f"{self.clock() - self.began:.1f} s"
        self.output.write(f"{label}{self.done:,} of {self.total:,}, {seconds}", last=True)

    def advance(self, done: int = 1, task: str | None = None) -> None:
        """Count tasks that were done, and name the one that follows."""
        self.task, self.done = self.task if task is None else task, self.done + done
        full = round(BAR * self.done / max(self.total, 1))
        bar = "█" * full + "░" * (BAR - full)
        self.output.write(f"{self.task} {bar} {self.done:,} of {self.total:,}".lstrip())


_output: CellOutput | None = None


def cell_output() -> CellOutput | None:
    """Return the output of the cell that runs; None outside of notebooks."""
    global _output
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if not hasattr(shell, "kernel"):  # no shell, or one in a terminal
        return None
    if _output is None:
        from IPython.display import display

        _output = CellOutput(display, lambda: shell.execution_count)
    return _output
