"""The faster of compiled code and the embedded backend, for programs on which both agree.

The embedded backend's gradient often takes half of the time of compiled code, and sometimes more
time. A clock has to decide, and would decide otherwise on another day, so each compiled program is
timed once: the answer is a file in the folder of its build, and holds for all data and runs. Then a
seed gives the same draws again. If the file cannot be kept, compiled code is used.
"""

import contextlib
import ctypes
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stanadapt.engine.compiled.cache_folder import is_temporary

REASON = "its gradient takes"  # begins the reason for the choice of the embedded backend
# largest ratios of times at which the embedded backend is taken: of the gradient, and of the value
# alone, which samplers without gradients evaluate
LARGEST = {"gradient": 0.7, "value": 1.2}
# each backend is timed in turn, so that a disturbance seldom affects one alone; the smallest time
# of each counts, since disturbances only add to it
ROUNDS, SECONDS = 7, 5e-4
MOST_SECONDS = 1.0  # after which no other round begins: a gradient may take as long
# int f(model, propto, jacobian, position, value, gradient, message): without the value's gradient
_FLAGS, _POINTERS = [ctypes.c_int] * 2, [ctypes.c_void_p] * 4
GRADIENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *_FLAGS, *_POINTERS)
VALUE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *_FLAGS, *_POINTERS[1:])


def file_of(library: str, version: str) -> Path:
    """Return the file of a library's ratios; another version of stanli is measured again."""
    return Path(library).with_name(f"gradient_times-{version}.json")


def kept(library: str, version: str) -> dict[str, float] | None:
    """Return the ratios of times that were measured for a library; None if there are none.

    `version` is that of the embedded backend.
    """
    try:
        found = json.loads(file_of(library, version).read_text(encoding="utf-8"))
        return {name: float(found[name]) for name in LARGEST}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(library: str, version: str, ratios: dict[str, float]) -> None:
    """Write the ratios of a library, unless another process was faster: the first one decides.

    A library in a temporary folder is compiled again by the next process, whose clock may differ.
    """
    file = file_of(library, version)
    if is_temporary(file.parent):
        return
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile("w", dir=file.parent) as draft:
        json.dump(ratios, draft)
        draft.flush()
        os.link(draft.name, file)  # an error if the file exists


def is_faster(ratios: dict[str, float] | None) -> bool:
    """Whether the embedded backend is to be used."""
    return ratios is not None and all(ratios[name] < most for name, most in LARGEST.items())


def why_not(ratios: dict[str, float]) -> str:
    """Return a clause that says why compiled code is kept."""
    if np.isinf(ratios["gradient"]):
        return "stanli's transformed parameters differ"
    times = (f"{ratios[n]:.2f} of its time for a {n} (limit {LARGEST[n]})" for n in LARGEST)
    return f"stanli takes {' and '.join(times)}"


def clock_of(model: Any, name: str, propto: int, rows: np.ndarray) -> Callable[[], float]:
    """Return a function that measures the seconds of one evaluation at each of the rows."""
    value, gradient = np.empty(1), np.empty(rows.shape[1])
    places = [rows.ctypes.data + i * rows.strides[0] for i in range(len(rows))]
    if name == "gradient":
        call = ctypes.cast(model.stanlib.bs_log_density_gradient, GRADIENT)
        flags, results = [1, 1], [value.ctypes.data, gradient.ctypes.data, None]
    else:
        call = ctypes.cast(model.stanlib.bs_log_density, VALUE)
        flags, results = [propto, 1], [value.ctypes.data, None]

    def seconds(repeats: int, buffers: tuple = (rows, value, gradient)) -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            for place in places:
                call(model.model, *flags, place, *results)
        return (time.perf_counter() - began) / repeats

    seconds(1)  # the first evaluation allocates
    return partial(seconds, int(np.clip(SECONDS / seconds(1), 1, 1000)))


def measure(
    native: Any,
    embedded: Any,
    points: list[np.ndarray],
    clock: Callable = clock_of,
    most_seconds: float = MOST_SECONDS,
) -> dict[str, float]:
    """Return times of the embedded backend over those of compiled code.

    Both are bridgestan.StanModels of one program and its data; `points` are positions with a finite
    log density and gradient. The ratios are infinite if transformed parameters differ there, which
    the comparison of densities need not have seen.
    """
    rows, ratios = np.array(points), dict.fromkeys(LARGEST, np.inf)
    for point in points:
        one, other = (model.param_constrain(point, include_tp=True) for model in (native, embedded))
        if not np.allclose(one, other, rtol=1e-8, atol=1e-8, equal_nan=True):
            return ratios
    for name in LARGEST:
        # as samplers call them: values of compiled code are cheaper with their constants
        ours, others = clock(embedded, name, 1, rows), clock(native, name, 0, rows)
        times, began = [(ours(), others())], time.perf_counter()
        while len(times) < ROUNDS and time.perf_counter() - began < most_seconds:
            times.append((ours(), others()))
        one, other = np.min(times, axis=0)
        ratios[name] = float(one / other)
    return ratios
