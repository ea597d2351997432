"""Comparison of programs with stanli in a separate process, which a wrong program may kill.

A factory, "module:function", makes a program from a number. A program has `code`, `data`,
`positions(count)` and `value_and_gradient(position)`. `run` starts the process and `main` runs in
it: it prints one line of JSON per program, so that after a crash the first program without a line
is the one that crashed.
"""

import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.helpers.repository import ROOT

POINTS = 4
TOLERANCE = 1e-9  # relative to the largest value, or to the largest entry of the gradient
CHUNK = 100  # programs per process
TIMEOUT = 900  # seconds per chunk
GRADIENT_ONLY = "its values are right"


class Verdict(NamedTuple):
    """The outcome of one program: "right", "wrong", "refused" or "crashed".

    `error` is the largest relative error of values and gradients; `reason` explains a refusal, a
    fault, or the end of the process.
    """

    number: int
    outcome: str
    error: float = 0.0
    reason: str = ""


def make(factory: str, number: int) -> Any:
    module, function = factory.split(":")
    return getattr(importlib.import_module(module), function)(number)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest expected number; NaN is infinite."""
    error = np.max(np.abs(actual - expected)) / (1 + np.max(np.abs(expected)))
    return float(error) if np.isfinite(error) else np.inf


def compare(program: Any, model: Any, points: int = POINTS) -> tuple[float, float]:
    """Return the relative errors of a model's values and of its gradients.

    Values are compared as differences from the first one, because constants may be dropped.
    """
    values, expected, errors = [], [], []
    for position in program.positions(points):
        value, gradient = model.log_density_gradient(np.ascontiguousarray(position))
        right, right_gradient = program.value_and_gradient(position)
        values.append(value)
        expected.append(right)
        errors.append(relative_error(gradient, right_gradient))
    differences = (np.subtract(each, each[0]) for each in (values, expected))
    return relative_error(*differences), max(errors)


def judge(program: Any, number: int, guards: bool) -> Verdict:
    """Construct a program's model and compare it with the exact values."""
    model, refusal = (_guarded if guards else _naive)(program)
    if model is None:
        return Verdict(number, "refused", reason=refusal)
    return verdict(program, number, model)


def verdict(program: Any, number: int, model: Any) -> Verdict:
    try:
        value, gradient = compare(program, model)
    except RuntimeError as error:  # an exception of Stan although the density is finite
        return Verdict(number, "wrong", np.inf, str(error))
    error = max(value, gradient)
    if error < TOLERANCE:
        return Verdict(number, "right", error)
    return Verdict(number, "wrong", error, GRADIENT_ONLY if value < TOLERANCE else "")


def _guarded(program: Any) -> tuple[Any, str]:
    import stanadapt as sa
    from stanadapt.errors import StanadaptWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StanadaptWarning)
        try:
            return sa.Target(program.code, data=program.data, backend="stanli").model, ""
        except sa.StanadaptError as error:
            if error.stage != "initialization":  # not a guard, so the program is at fault
                raise
            return None, error.message.splitlines()[0]


def _naive(program: Any) -> tuple[Any, str]:
    """Construct the model with stanli directly."""
    import stanli

    data = {name: np.asarray(value).tolist() for name, value in program.data.items()}
    try:
        return stanli.bridgestan_model(stan_code=program.code, data=data), ""
    except RuntimeError as error:
        return None, str(error)


def run(factory: str, numbers: Iterable[int], guards: bool) -> Iterator[Verdict]:
    """Yield a verdict on each program; a crash does not affect later programs."""
    waiting = list(numbers)
    while waiting:
        for verdict in _chunk(factory, waiting[:CHUNK], guards):
            waiting.remove(verdict.number)
            yield verdict


def _chunk(factory: str, numbers: list[int], guards: bool) -> list[Verdict]:
    """Return the verdicts up to and including the first crash."""
    arguments = [factory, "on" if guards else "off", *map(str, numbers)]
    command = [sys.executable, "-m", "tests.fuzz.program_runner", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
        output, reason = done.stdout, f"exit code {done.returncode}"
        if done.returncode > 0:  # not a signal, so an exception of this module
            raise RuntimeError(done.stderr)
    except subprocess.TimeoutExpired as error:
        output, reason = (error.stdout or b"").decode(), f"still running after {TIMEOUT} s"
    verdicts = [Verdict(*json.loads(line)) for line in output.splitlines()]
    if len(verdicts) < len(numbers):
        verdicts.append(Verdict(numbers[len(verdicts)], "crashed", np.inf, reason))
    return verdicts


def main(factory: str, guards: str, *numbers: str) -> None:
    for number in map(int, numbers):
        print(json.dumps(judge(make(factory, number), number, guards == "on")), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
