"""A trial binding in another process, if a program may take long or much memory to bind.

The embedded backend unrolls loops in native code that nothing can stop, and that takes memory
without limit. A program that may be large after unrolling is therefore bound in another process
first, which is ended at a limit of time or memory. A success is remembered in the cache. Then the
program is bound here, in a thread, so that Ctrl-C need not wait.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from stanadapt.engine.compiled.cache_folder import cache_root
from stanadapt.engine.interrupts import released, uninterrupted
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.backends.stanli_faults import refusal
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.unrolled_size import Size, unrolled_size

SECONDS_VARIABLE, GIGABYTES_VARIABLE = "STANADAPT_BIND_SECONDS", "STANADAPT_BIND_GB"
SECONDS, GIGABYTES = 60.0, 3.0
# words of an unrolled program; a smaller one takes two seconds and 0.2 GB
SMALL = 150_000
FREE_SHARE = 0.8  # of the memory that is free
PAUSE = 0.05  # seconds between looks at the process
GIGABYTE = 1e9
REFUSED = 3  # exit code of the process, if the library refuses the program
# the standard library alone, so that it starts in hundredths of a second
CHILD = f"""
import ctypes, json, os, sys
job = json.load(sys.stdin)
library, data, error = ctypes.CDLL(job["library"]), job["data"].encode(), ctypes.c_char_p()
library.bs_model_construct.restype = ctypes.c_void_p
os.environ.update(job["environment"])
address = library.bs_model_construct(data, ctypes.c_uint(0), ctypes.byref(error))
if not address:
    os._exit({REFUSED})
model = ctypes.c_void_p(address)
numbers = ctypes.c_double * library.bs_param_unc_num(model, False, False)
yes, value = ctypes.c_bool(True), ctypes.c_double()
# memory that the first evaluation takes, even if it fails
library.bs_log_density_gradient(
    model, yes, yes, numbers(), ctypes.byref(value), numbers(), ctypes.byref(error)
)
os._exit(0)
"""


class Limits(NamedTuple):
    """Most processor time in seconds, and most memory in bytes, that a binding may take."""

    seconds: float
    memory: float


def limits(available: float | None = None) -> Limits:
    """Return the limits: the user's or the default ones, and no more memory than is free."""
    free = FREE_SHARE * (available or psutil.virtual_memory().available)
    memory = GIGABYTE * _positive(GIGABYTES_VARIABLE, GIGABYTES)
    return Limits(_positive(SECONDS_VARIABLE, SECONDS), min(memory, free))


def _positive(variable: str, default: float) -> float:
    text = os.environ.get(variable) or str(default)
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise StanadaptError(
        "out_of_range",
        f"the environment variable {variable} must be a positive number, got {text!r}.",
    )


def may_be_large(program: Program, data: CheckedData) -> Size | None:
    """Return the size of a program that a trial has to precede; None if it is small."""
    size = unrolled_size(program, data)
    return size if size.words > SMALL else None


def require_bindable(
    program: Program,
    size: Size,
    library: str | Path,
    data: CheckedData,
    more: str,
    environment: Mapping[str, str],
    summary: Callable[[Iterable[str]], str],
) -> str:
    """Bind in another process, and raise "binding_limit" if that exceeds a limit.

    The library is given the data with one `more` entry, and these variables of the environment.
    `summary` is called with the lines that the library wrote to standard error, and its value is
    returned, made now or at an earlier trial; "" if the library refuses the program, which it will
    do again, or if no process can be started. A crash is an "unsupported_construct".
    """
    key = sha256(f"{library}\n".encode())
    for part in data.parts(more):
        key.update(part)
    marker = cache_root() / "backends" / f"bound-{key.hexdigest()[:24]}"
    with contextlib.suppress(OSError):
        return marker.read_text()
    allowed = limits()
    try:
        with data.argument(more) as argument:
            ended = _try(library, argument, environment, allowed)
    except OSError:
        return ""
    if ended.exceeded:
        raise _over(program, size, ended.exceeded, allowed)
    if ended.code == REFUSED:
        return ""
    if ended.code != 0:
        raise refusal("crash", program, exit_code=ended.code)
    found = summary(ended.output.splitlines())
    with contextlib.suppress(OSError):  # in a read-only cache, the next process tries again
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(found)
    return found


class _Ended(NamedTuple):
    """How a trial ended: by "time", "memory" or "", its exit code, and its output."""

    exceeded: str
    code: int
    output: str


def _try(library: str | Path, text: str, environment: Mapping[str, str], allowed: Limits) -> _Ended:
    """Run a trial up to its limits; the process ends in any case."""
    job = {"library": str(library), "data": text, "environment": dict(environment)}
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as output:
        json.dump(job, given)
        given.seek(0)
        with uninterrupted() as pressed:  # until there is a process that can be ended
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", CHILD], stdin=given, stdout=subprocess.DEVNULL,
                stderr=output,
            )  # fmt: skip
            try:
                with released():
                    exceeded = _watch(child, allowed)
            finally:
                child.kill()
                child.wait()
        if pressed:  # just as it ended
            raise KeyboardInterrupt
        output.seek(0)
        return _Ended(exceeded, child.returncode, output.read())


def _watch(child: subprocess.Popen, allowed: Limits) -> str:
    """Wait for a process; return "", or "time" or "memory" if it exceeds the limit."""
    process = psutil.Process(child.pid)
    while True:
        with contextlib.suppress(psutil.Error):
            used = process.cpu_times()
            if used.user + used.system > allowed.seconds:
                return "time"
            if process.memory_info().rss > allowed.memory:
                return "memory"
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PAUSE)
            return ""


def _over(program: Program, size: Size, by: str, allowed: Limits) -> StanadaptError:
    if by == "time":
        exceeded = f"was not bound after {allowed.seconds:.3g} s of processor time"
        allows = f"{SECONDS_VARIABLE} allows for more seconds"
    else:
        exceeded = f"would take more than {allowed.memory / GIGABYTE:.2g} GB of memory"
        allows = f"{GIGABYTES_VARIABLE} allows for more gigabytes, if they are free"
    return refusal("limit", program, exceeded=exceeded, allows=allows, iterations=size.iterations)


def in_thread(work: Callable[[], Any]) -> Any:
    """Call a function in a thread, and return its value; Ctrl-C does not wait for it.

    Native code may keep memory of its thread in the objects that it makes there: the thread lives
    as long as the result.
    """
    done, released = threading.Event(), threading.Event()
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
            released.set()
        done.set()
        released.wait()

    try:
        threading.Thread(target=run, daemon=True).start()
        while not done.wait(PAUSE):
            pass
    except BaseException:
        released.set()
        raise
    result, error = outcome.pop()
    if error is not None:
        raise error
    weakref.finalize(result, released.set)
    return result
