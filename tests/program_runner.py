"""Compares programs with stanli in a process of its own, which a wrong program may kill.

A program comes from a factory, "module:function" of this folder, that makes it from a number. It
has `code`, `data`, `positions(count)` and `value_and_gradient(position)`. `run` starts the process
and `main` is what runs in it: one line of JSON a program, so that after a crash the first program
without a line is the one that crashed.
"""

import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

POINTS = 4
TOLERANCE = 1e-9  # relative to the largest of the values, or of the gradient
CHUNK = 100  # programs to a process
PATIENCE = 180  # seconds for a chunk
GRADIENT_ONLY = "its values are right"


class Verdict(NamedTuple):
    """What became of one program: "right", "wrong", "refused" or "crashed".

    The error is the largest relative one of values and gradients; the words tell why it was
    refused, how it is wrong, or what it died of.
    """

    number: int
    outcome: str
    error: float = 0.0
    words: str = ""


def make(factory: str, number: int) -> Any:
    module, function = factory.split(":")
    return getattr(importlib.import_module(module), function)(number)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, in units of the largest expected number; NaN counts as infinite."""
    error = np.max(np.abs(found - expected)) / (1 + np.max(np.abs(expected)))
    return float(error) if np.isfinite(error) else np.inf


def compare(program: Any, model: Any, points: int = POINTS) -> tuple[float, float]:
    """The relative errors of a model's values and of its gradients.

    Values are compared as differences from the first, for constants may have been dropped.
    """
    found, expected, errors = [], [], []
    for position in program.positions(points):
        value, gradient = model.log_density_gradient(np.ascontiguousarray(position))
        right, right_gradient = program.value_and_gradient(position)
        found.append(value)
        expected.append(right)
        errors.append(relative_error(gradient, right_gradient))
    differences = (np.subtract(values, values[0]) for values in (found, expected))
    return relative_error(*differences), max(errors)


def judge(program: Any, number: int, rails: bool) -> Verdict:
    """Construct a program's model and compare it with the program's own values."""
    model, refusal = (_guarded if rails else _naive)(program)
    if model is None:
        return Verdict(number, "refused", words=refusal)
    return verdict(program, number, model)


def verdict(program: Any, number: int, model: Any) -> Verdict:
    try:
        value, gradient = compare(program, model)
    except RuntimeError as error:  # Stan's own, where the density is finite
        return Verdict(number, "wrong", np.inf, str(error))
    error = max(value, gradient)
    if error < TOLERANCE:
        return Verdict(number, "right", error)
    return Verdict(number, "wrong", error, GRADIENT_ONLY if value < TOLERANCE else "")


def _guarded(program: Any) -> tuple[Any, str]:
    import stanadapt as sa

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "stanli's optimiser")
        try:
            return sa.Target(program.code, data=program.data, backend="stanli").model, ""
        except sa.StanadaptError as error:
            if error.stage != "initialisation":  # not a rail: the program itself is at fault
                raise
            return None, error.message.splitlines()[0]


def _naive(program: Any) -> tuple[Any, str]:
    """As someone constructs it who knows of no rails."""
    import stanli

    data = {name: np.asarray(value).tolist() for name, value in program.data.items()}
    try:
        return stanli.bridgestan_model(stan_code=program.code, data=data), ""
    except RuntimeError as error:
        return None, str(error)


def run(factory: str, numbers: Iterable[int], rails: bool) -> Iterator[Verdict]:
    """Yield a verdict on each program; a crash costs one program, not those after it."""
    waiting = list(numbers)
    while waiting:
        for given in _chunk(factory, waiting[:CHUNK], rails):
            waiting.remove(given.number)
            yield given


def _chunk(factory: str, numbers: list[int], rails: bool) -> list[Verdict]:
    """The verdicts up to the first crash, and on it."""
    command = [sys.executable, __file__, factory, "on" if rails else "off", *map(str, numbers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        output, death = done.stdout, f"exit code {done.returncode}"
        if done.returncode > 0:  # no signal, so an exception of the harness itself
            raise RuntimeError(done.stderr)
    except subprocess.TimeoutExpired as error:
        output, death = (error.stdout or b"").decode(), f"still running after {PATIENCE} s"
    verdicts = [Verdict(*json.loads(line)) for line in output.splitlines()]
    if len(verdicts) < len(numbers):
        verdicts.append(Verdict(numbers[len(verdicts)], "crashed", np.inf, death))
    return verdicts


def main(factory: str, rails: str, *numbers: str) -> None:
    for number in map(int, numbers):
        print(json.dumps(judge(make(factory, number), number, rails == "on")), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
