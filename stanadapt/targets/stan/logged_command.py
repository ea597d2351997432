"""A long command, such as make, with its output in a file, which a signal ends completely.

A file of its own, because it knows nothing of CmdStan.
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from stanadapt.engine.interrupts import interruptible, uninterrupted
from stanadapt.targets.stan import toolchain

HOUR = 3600.0


def run_logged(command: list[str], folder: Path, log: Path, seconds: float) -> int:
    """Run a command, append its output to `log`, and return its exit code; 1 if time ran out."""
    # a signal waits until there is a process that can be stopped
    with log.open("ab") as sink, uninterrupted() as pressed:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=toolchain.without_outer_make(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its compilers can be stopped with it
        )
        try:
            with interruptible():  # a batch system ends a job with SIGTERM
                code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            sink.write(f"\nstopped after {seconds:.0f} s\n".encode())
            code = 1
        except BaseException:
            _stop(process)
            raise
    if pressed:  # just as the process ended
        raise KeyboardInterrupt
    return code


def _stop(process: subprocess.Popen) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def last_lines(log: Path, n: int = 15) -> str:
    """Return the last lines of a log that are not empty."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join([line for line in text.splitlines() if line.strip()][-n:])
