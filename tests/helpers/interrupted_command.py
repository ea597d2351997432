"""The command in a process of its own, which is sent SIGINT when it says that it is ready."""

import signal
import subprocess
import sys
import time

# a background job of a shell, as a CI runner may be, passes on that SIGINT is ignored
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
MAIN = "\nfrom stanadapt.cli import main; main()\n"
READY = "ready"


def interrupt(prepare, *arguments, after=0.0, presses=1, between=0.1, environment=None):
    """Run code that prints READY at some moment, and the command; interrupt it then.

    Returns the seconds from the first signal to the end, the exit code and standard error.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", START + prepare + MAIN, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        while prepare:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            if line.strip() == READY:
                break
        time.sleep(after)
        began = time.perf_counter()
        for press in range(presses):
            if press:
                time.sleep(between)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    return time.perf_counter() - began, process.returncode, errors
