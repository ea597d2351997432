"""The command in a process of its own, which is sent SIGINT when it says that it is ready."""

import signal
import subprocess
import sys
import time

import psutil

READY, NOTICED, NORMAL_EXIT = "ready", "noticed", "the interpreter has ended as usual"
# a limit for a command that ends at once, where all else takes minutes: the machine may be busy
SOON = 30.0
# a background job of a shell, as a CI runner may be, passes on that SIGINT is ignored
START = f"""
import atexit, os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from stanadapt.cli import interruption
class Noticing:
    def __getattr__(self, name):
        return getattr(os, name)
    def read(self, *arguments):  # each signal is a byte
        found = os.read(*arguments)
        print({NOTICED!r}, flush=True)
        return found
interruption.os = Noticing()
atexit.register(print, {NORMAL_EXIT!r}, flush=True)
"""
# the main thread alone ends the command, however long it takes
PATIENT = "interruption.PATIENCE = 600.0\n"
# on a busy machine, the signal may come, or be read, when a command of half a second has ended
MAIN = """
from stanadapt.cli import main
try:
    main()
finally:
    time.sleep(60)
"""


def interrupt(prepare, *arguments, after=0.0, presses=1, environment=None):
    """Run code that prints READY at some moment, and the command; interrupt it then.

    Each further signal is sent when the one before it was noticed. Returns the seconds from the
    first signal to the end, the exit code and standard error.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", START + prepare + MAIN, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip

    def wait_until(said):
        while (line := process.stdout.readline()).strip() != said:
            assert line, process.stderr.read()

    try:
        wait_until(READY)
        time.sleep(after)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        for _ in range(presses - 1):
            wait_until(NOTICED)
            process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert NORMAL_EXIT not in printed, (process.returncode, printed, errors)
    return time.perf_counter() - began, process.returncode, errors


def runs(number):
    """Whether a process runs; one that has ended may still be listed."""
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
