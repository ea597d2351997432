"""Ctrl-C on the command line: one line of text within a second, at any moment.

Python raises KeyboardInterrupt in the main thread, but only between two bytecode instructions, and
LLVM may compile for seconds between them; modules that are being imported may turn the exception
into another one, or swallow it. Therefore a thread reads the signal at once, from a pipe to which
the interpreter writes, and ends the process if the main thread does not. Only the standard library
is imported here.
"""

import _thread
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

CODE = 130  # as shells have it: 128 + SIGINT
PATIENCE = 0.7  # seconds for the main thread to react to Ctrl-C
PAUSE = 0.02  # seconds, for the main thread to leave a callback

NOTHING_WRITTEN = "interrupted; nothing was written"

written: list[Path] = []  # files that the command has written
incomplete: list[Path] = []  # names of these files until they are complete
runs: list[Path] = []  # run folders of the command
reported = threading.Event()  # the message has been printed
_handled = threading.Event()  # the main thread has raised KeyboardInterrupt
_repeated = threading.Event()  # the next signal is sent by this module, not by a key
_started = threading.Event()  # there may be processes or incomplete files
_nothing_to_lose = threading.Event()  # the command has not begun, or has ended
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
    _nothing_to_lose.set()
    signal.signal(signal.SIGINT, _handle)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.unraisablehook = _raise_again
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


def run(command: Callable[[], int]) -> int:
    """Run a command that KeyboardInterrupt, or an exception that a module made of it, may end.

    No exception of a signal is raised before the first `try` or after this function has returned.
    """
    try:
        try:
            _started.set()
            _nothing_to_lose.clear()
            code = command()
            if code == CODE and _handled.is_set():
                _leave()
            if code == CODE or (_handled.is_set() and code != 0):
                _end()
            return code
        except BaseException:
            if _handled.is_set():
                _leave()
            raise
        finally:
            _nothing_to_lose.set()
    except KeyboardInterrupt:  # as the command ended
        _leave()
        raise


def _handle(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt once; the thread handles everything after that."""
    if not (_nothing_to_lose.is_set() or _handled.is_set()):
        _handled.set()
        raise KeyboardInterrupt


def _raise_again(lost: Any) -> None:
    """Raise KeyboardInterrupt once more if C code lost it, as callbacks of LLVM do."""
    if lost.exc_type is not KeyboardInterrupt or not _handled.is_set():
        sys.__unraisablehook__(lost)
        return
    _handled.clear()
    _repeated.set()
    threading.Timer(PAUSE, _thread.interrupt_main).start()  # not within this function


def _watch(reading: int) -> None:
    pressed = False
    while True:
        if os.read(reading, 1)[0] != signal.SIGINT:
            continue
        if _repeated.is_set():  # no key was pressed
            _repeated.clear()
            continue
        if pressed or _nothing_to_lose.is_set():
            _leave()
        pressed = True
        waiting = threading.Timer(PATIENCE, _press)
        waiting.daemon = True
        waiting.start()


def _press() -> None:
    """Leave if the main thread has not reacted, unless it handles signals itself to keep draws."""
    if _handled.is_set() or signal.getsignal(signal.SIGINT) is not _handle:
        _print("stopping, and keeping the draws so far: press Ctrl-C again to leave at once")
    else:
        _leave()


def report(show: Callable[[str], object] | None = None) -> None:
    """Print what the interruption leaves, once: either thread may be the first to do so."""
    with _reporting:
        if not reported.is_set():
            (show or _print)(describe())
            reported.set()


def _leave() -> None:
    report()
    _end()


def _end() -> None:
    """End the process at once: the normal exit of the interpreter takes half a second or more."""
    if _started.is_set():
        _kill_children()
        sys.modules["stanadapt.engine.compiled.cache_folder"].remove_stand_ins()
        for path in incomplete:
            with contextlib.suppress(OSError):
                path.unlink()
    with contextlib.suppress(OSError, ValueError):  # a pipe without a reader
        sys.stdout.flush()
    os._exit(CODE)


def _kill_children() -> None:
    import psutil  # already imported by the commands

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def _print(text: str) -> None:
    # a spinner hides the cursor and occupies the line
    shown = f"\r\x1b[K\x1b[?25h{text}" if os.isatty(2) else text
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}\n".encode(errors="replace"))
