"""Functions that only compiled code calls: not emitted, right from Python too, kept on disk."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from stanadapt.engine.compiled.callees import CalleeLibrary
from stanadapt.engine.compiled.jit import inlined, jit
from tests.helpers.repository import ROOT

VECTOR = np.array([3.0, -1.0, 2.5])


@inlined
def _square(x):
    return x * x


@jit
def _squares(vector):
    total = 0.0
    for i in range(vector.shape[0]):
        total += _square(vector[i])
    return total


@jit
def norm(vector):
    return np.sqrt(_squares(vector))


@jit
def doubled(vector):
    made = np.zeros(vector.shape[0])
    made[:] = vector * 2.0
    return made


@jit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@jit
def needs_positive(x):
    if x < 0.0:
        raise ValueError("negative")
    return x


@jit
def checked(x):
    return needs_positive(x) + 1.0


def test_a_callee_has_no_machine_code_of_its_own():
    assert norm(VECTOR) == np.sqrt(16.25)
    (callee,) = _squares.callee.overloads.values()
    assert isinstance(callee.library, CalleeLibrary)
    (entry,) = norm.overloads.values()
    assert not isinstance(entry.library, CalleeLibrary)


def test_a_callee_can_be_called_from_python_before_and_after():
    assert _squares(VECTOR) == 16.25
    assert norm(VECTOR) ** 2 == pytest.approx(16.25, rel=4 * np.finfo(float).eps)
    assert _squares(VECTOR) == 16.25
    assert _square(2) == 4  # of another type than within _squares


def test_functions_of_other_programs_call_ours_and_numbas_own():
    """What Numba compiled for ours (np.zeros) has no machine code, and theirs still works."""
    assert list(doubled(VECTOR)) == [6.0, -2.0, 5.0]

    @njit
    def theirs(vector):
        made = np.zeros(vector.shape[0])
        made[0] = norm(vector)
        return made

    assert list(theirs(VECTOR)) == [np.sqrt(16.25), 0.0, 0.0]
    zeros = njit(lambda n: np.zeros(n))
    assert list(zeros(2)) == [0.0, 0.0]


def test_recursion():
    assert factorial(6) == 720


def test_an_error_in_a_callee_reaches_python():
    assert checked(1.0) == 2.0
    with pytest.raises(ValueError, match="negative"):
        checked(-1.0)


SCRIPT = """
import sys, numpy as np
from tests.engine.compiled import test_callees as t
function = getattr(t, sys.argv[1])
print(function(t.VECTOR), sum(function._cache_hits.values()),
      sum(t._squares.callee._cache_hits.values()))
"""


def test_callees_are_kept_for_other_processes(tmp_path):
    """The second process loads norm alone; the third, which lacks norm's code, its callee."""
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 0, 0)
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 1, 0)
    entries = [p for p in tmp_path.rglob("*.norm-*") if ".callee" not in p.name]
    assert entries
    for path in entries:
        path.unlink()
    assert _output(tmp_path, "norm") == (np.sqrt(16.25), 0, 1)


def _output(cache, name):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "STANADAPT_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    value, hits, callee_hits = done.stdout.split()
    return float(value), int(hits), int(callee_hits)
