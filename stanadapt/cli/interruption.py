"""Ctrl-C on the command line: one line of text, and a second one ends the process at once.

Python raises KeyboardInterrupt in the main thread, but only between two bytecode instructions, and
LLVM may compile for seconds between them; C code and modules that are being imported may turn the
exception into another one, or swallow it. Therefore a thread also reads the signals, from a pipe to
which the interpreter writes: it ends the process at the first one as long as there is nothing to
lose, and at the second one in any case. Only the standard library is imported here.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

CODE = 130  # as shells have it: 128 + SIGINT
PATIENCE = 0.7  # seconds until a command that continues reports it

NOTHING_WRITTEN = "interrupted; nothing was written"
STOPPING = "stopping, and keeping the draws so far: press Ctrl-C again to leave at once"

written: list[Path] = []  # files that the command has written
incomplete: list[Path] = []  # names of these files until they are complete
runs: list[Path] = []  # run folders of the command
begun = threading.Event()  # the command has been imported, and there may be something to lose
reported = threading.Event()  # the message has been printed
_pressed = threading.Event()
_reporting = threading.Lock()


def describe() -> str:
    """Return the message that an interruption ends with."""
    if written:
        return f"interrupted; already written: {', '.join(map(str, written))}"
    for folder in runs:
        if (folder / "run.json").exists():
            return f"interrupted; continue with `stanadapt resume {folder}`"
    return NOTHING_WRITTEN


def listen() -> None:
    """Handle Ctrl-C from now on, unless it is ignored, as in a background job of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reading, writing = os.pipe()
    if os.name != "nt":
        os.set_blocking(writing, False)
    signal.signal(signal.SIGINT, _handle)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def run(command: Callable[[], int]) -> int:
    """Run a command that KeyboardInterrupt, or an exception that a module made of it, may end."""
    try:
        code = command()
        begun.clear()
    except BaseException:
        if not _pressed.is_set():
            raise
        code = CODE
    if _pressed.is_set() and code == CODE:
        report()
    if code == CODE or (_pressed.is_set() and code != 0):  # then the command has printed the reason
        _end()
    return code


def _handle(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt once; the thread handles everything else."""
    if begun.is_set() and not _pressed.is_set():
        _pressed.set()
        raise KeyboardInterrupt


def _watch(reading: int) -> None:
    presses = 0
    while True:
        if os.read(reading, 1)[0] != signal.SIGINT:
            continue
        presses += 1
        if presses > 1 or not begun.is_set():
            report()
            _end()
        waiting = threading.Timer(PATIENCE, _print, [STOPPING])
        waiting.daemon = True
        waiting.start()


def report(show: Callable[[str], object] | None = None) -> None:
    """Print the remains of an interrupted command, once: either thread may be first to do so."""
    with _reporting:
        if not reported.is_set():
            (show or _print)(describe())
            reported.set()


def _end() -> None:
    """End the process at once: the normal exit of the interpreter takes half a second or more."""
    if psutil := sys.modules.get("psutil"):  # the commands have imported it
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
    if caches := sys.modules.get("stanadapt.engine.compiled.cache_folder"):
        caches.remove_stand_ins()
    for path in incomplete:
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError, ValueError):  # a pipe without a reader
        sys.stdout.flush()
    os._exit(CODE)


def _print(text: str) -> None:
    # a spinner hides the cursor and occupies the line
    shown = f"\r\x1b[K\x1b[?25h{text}" if os.isatty(2) else text
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}\n".encode(errors="replace"))
