"""Functions that only compiled code calls: not emitted, right from Python too, kept on disk."""

import gc
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite import ir
from numba import njit, typeof
from numba.core.caching import NullCache
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.context import NRTContext

from stanadapt.engine.compiled.callees import CalleeLibrary
from stanadapt.engine.compiled.jit import inline, jit, rarely_called
from stanadapt.engine.compiled.reference_counts import FewerReads
from tests.helpers.repository import ROOT

VECTOR = np.array([3.0, -1.0, 2.5])


@inline
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
    called = jit(norm.py_func)
    called._cache = NullCache()  # if it is loaded, its callee is not
    assert called(VECTOR) == np.sqrt(16.25)
    (callee,) = _squares.callee.overloads.values()
    assert isinstance(callee.library, CalleeLibrary)
    (entry,) = called.overloads.values()
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


def test_a_function_that_is_seldom_called_is_not_optimized_as_a_whole():
    """Its callee is still a function; optimized as a whole, it has become a part of `norm`."""
    left = []
    for decorated in (rarely_called(norm.py_func), jit(norm.py_func)):
        decorated._cache = NullCache()  # what is loaded from a cache has no functions to look at
        assert decorated(VECTOR) == np.sqrt(16.25)
        (entry,) = decorated.overloads.values()
        functions = [f.name for f in entry.library._final_module.functions if not f.is_declaration]
        left.append(any("_squares" in name for name in functions))
    assert left == [True, False]


class Points(NamedTuple):
    """Two arrays among numbers."""

    first: np.ndarray
    numbers: tuple
    second: np.ndarray


def test_references_are_counted_without_reads_of_other_parts():
    """The same counts in the same order, from fewer parts."""
    context = cpu_target.target_context
    kind = typeof(Points(np.zeros(3), (1.0, 2), np.ones(3)))
    fewer, read = _counts_of(kind, context, FewerReads(context))
    numbas, read_by_numba = _counts_of(kind, context, NRTContext(context, True))
    assert len(fewer) == 2
    assert fewer == numbas
    assert read == 2 * 2 < read_by_numba  # an array, and its count, twice


def _counts_of(kind, context, counts):
    """Types with a count, and the number of reads of parts, when Numba counts a reference."""
    module = ir.Module()
    value_type = context.get_value_type(kind)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [value_type]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    found = counts.get_meminfos(builder, kind, function.args[0])
    return [counted for counted, _ in found], len(builder.block.instructions)


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_while_functions_are_compiled(monkeypatch, enabled):
    """Then it is as it was, after an error too."""
    states = []

    def compiled(self, signature):
        states.append(gc.isenabled())
        if signature:
            norm.compile(None)  # as in another thread
            states.append(gc.isenabled())
            raise TypingError(signature)

    monkeypatch.setattr(CPUDispatcher, "compile", compiled)
    try:
        (gc.enable if enabled else gc.disable)()
        norm.compile(None)
        assert gc.isenabled() is enabled
        with pytest.raises(TypingError):
            norm.compile("no such type")
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
    assert states == [False] * 4


SCRIPT = """
import sys, numpy as np
from tests.engine.compiled import test_callees as t
function = getattr(t, sys.argv[1])
print(function(t.VECTOR), sum(function._cache_hits.values()),
      sum(t._squares.callee._cache_hits.values()))
"""


@pytest.mark.slow
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
