"""Ctrl-C on the command line: one sentence, within a second, whatever is being done.

Python raises KeyboardInterrupt in the main thread, but only between two of its own instructions,
and LLVM compiles for seconds between them; modules that are being imported turn the exception into
others, or swallow it. A thread therefore hears of the signal at once, through a pipe to which the
interpreter writes, and ends the process where the main thread does not. Only the standard library
is imported here.
"""

import _thread
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CODE = 130  # as shells have it: 128 + SIGINT
PATIENCE = 0.7  # seconds for the main thread to hear of Ctrl-C
PAUSE = 0.02  # seconds, for the main thread to leave a callback

written: list[Path] = []  # files that the command has written
incomplete: list[Path] = []  # what they are called until they are complete
runs: list[Path] = []  # folders of what it draws
_heard = threading.Event()  # by the main thread
_repeated = threading.Event()  # the next signal is our own
_nothing_to_lose = threading.Event()  # neither draws nor files: while modules are imported


def sentence() -> str:
    """What is said of an interruption."""
    if written:
        return f"interrupted; written before: {', '.join(map(str, written))}"
    for folder in runs:
        if (folder / "run.json").exists():
            return f"interrupted; `stanadapt resume {folder}` goes on with the run"
    return "interrupted; nothing was written"


def listen() -> None:
    """Hear of Ctrl-C from now on; not where it is ignored, as by a shell's background job."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reading, writing = os.pipe()
    if os.name != "nt":
        os.set_blocking(writing, False)
    _nothing_to_lose.set()
    signal.signal(signal.SIGINT, _hear)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.unraisablehook = _raise_again
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let the body end by KeyboardInterrupt, or by whatever that has become on its way."""
    _nothing_to_lose.clear()
    try:
        yield
    except SystemExit as end:
        if end.code == CODE or (_heard.is_set() and end.code != 0):
            _end()
        raise
    except BaseException:
        if _heard.is_set():
            _leave()
        raise
    finally:
        _nothing_to_lose.set()


def _hear(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt once; the thread does the rest."""
    if not (_nothing_to_lose.is_set() or _heard.is_set()):
        _heard.set()
        raise KeyboardInterrupt


def _raise_again(lost: Any) -> None:
    """Raise KeyboardInterrupt once more where C could not pass it on, as from callbacks of LLVM."""
    if lost.exc_type is not KeyboardInterrupt or not _heard.is_set():
        sys.__unraisablehook__(lost)
        return
    _heard.clear()
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
    """Leave if the main thread has not heard, unless it is not to be told: it has draws."""
    if _heard.is_set() or signal.getsignal(signal.SIGINT) is not _hear:
        _say("stopping, and keeping what was drawn: Ctrl-C once more leaves at once")
    else:
        _leave()


def _leave() -> None:
    _say(sentence())
    _end()


def _end() -> None:
    """End the process at once: the interpreter's own end takes half a second and more."""
    if not _nothing_to_lose.is_set():  # else nothing has been started, or all of it has ended
        _kill_children()
        sys.modules["stanadapt.engine.compiled.cache_folder"].remove_stand_ins()
        for path in incomplete:
            with contextlib.suppress(OSError):
                path.unlink()
    with contextlib.suppress(OSError, ValueError):  # a pipe that nobody reads
        sys.stdout.flush()
    os._exit(CODE)


def _kill_children() -> None:
    import psutil  # which the commands have imported

    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def _say(words: str) -> None:
    # a spinner hides the cursor, and stands on the line
    shown = f"\r\x1b[K\x1b[?25h{words}" if os.isatty(2) else words
    with contextlib.suppress(OSError):
        os.write(2, f"{shown}\n".encode(errors="replace"))
