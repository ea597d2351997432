"""One cache, many processes: no entry is lost, and no code runs under another signature."""

import ctypes
import errno
import importlib
import operator
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import types

from stanadapt.engine.compiled import machine_code
from stanadapt.engine.compiled.jit import c_function
from stanadapt.engine.compiled.machine_code import MachineCode, delete_unused
from tests.helpers.codes import warns
from tests.helpers.cold_cache import compile_at_once
from tests.helpers.fresh_code import called, fresh, odd
from tests.helpers.repository import ROOT


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache, which is empty."""
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compiled"


def test_code_is_kept_for_its_signature_and_options(cache):
    for expected in (0, 2):
        assert called(3, 3.5) == (7, 8.0, expected)
    assert len(list(cache.iterdir())) == 2
    assert called(3, flag=True) == (7, 0)


# --- many processes -------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_that_compile_at_once_lose_no_entry(tmp_path):
    """Each compiles every function for a type of its own, in step; a later one finds them all."""
    compile_at_once(tmp_path, processes=3, rounds=6)


@pytest.mark.thorough
def test_a_process_that_is_killed_while_it_writes(cache):
    code = """
import os, signal
from pathlib import Path
from tests.helpers.fresh_code import fresh
def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
Path.replace = killed
fresh()(3)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for expected in (0, 1):
        assert called(3) == (7, expected)


# --- what is on disk is not trusted ---------------------------------------------------------------


def test_a_damaged_byte_or_a_cut_file_costs_a_compilation_only(cache):
    assert fresh()(3) == 7
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    places = [*range(80), *range(80, len(whole), len(whole) // 50)]
    damaged = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in places]
    for content in (*damaged, *(whole[:length] for length in places), b""):
        path.write_bytes(content)
        assert machine_code._find(path.name) is None
    assert called(3) == (7, 0)
    assert path.read_bytes()[32:] != b""
    assert called(3) == (7, 1)


def test_code_in_the_file_of_another_signature_is_not_run(cache):
    function = fresh()
    assert (function(3), function(3.5)) == (7, 8.0)
    one, other = cache.iterdir()
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    for expected in (0, 2):
        assert called(3, 3.5) == (7, 8.0, expected)


def test_code_in_the_file_of_another_function_is_not_run(cache):
    assert fresh()(3) == 7
    (path,) = cache.iterdir()
    assert called(3, function=lambda x: x - 1) == (2, 0)
    (other,) = {*cache.iterdir()} - {path}
    shutil.copy(other, path)
    for expected in (0, 1):
        assert called(3) == (7, expected)


def test_code_with_an_address_is_not_kept(cache):
    """Later processes have other functions there, or nothing."""

    def adds(number):
        pointer = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(partial(operator.add, number))
        return called(3, function=lambda x: pointer(x))

    assert [adds(1), adds(2)] == [(4, 0), (5, 0)]
    assert not list(cache.glob("*"))


def test_a_file_that_cannot_be_read_costs_a_compilation_only(cache, monkeypatch):
    monkeypatch.setattr(MachineCode, "not_kept", True)  # the warning is tested below
    assert fresh()(3) == 7
    (path,) = cache.iterdir()
    path.unlink()
    path.mkdir()
    assert called(3) == (7, 0)


@pytest.mark.parametrize("place", range(len(machine_code.VERSIONS)))
def test_code_of_another_version_is_not_run(monkeypatch, place):
    assert fresh()(3) == 7
    others = list(machine_code.VERSIONS)
    others[place] += ".1"
    monkeypatch.setattr(machine_code, "VERSIONS", tuple(others))
    assert called(3) == (7, 0)


OWN = """
from typing import NamedTuple
class Pair(NamedTuple):
    {fields}
def first(pair):
    return pair.{field}
"""


def test_classes_are_those_of_this_process(tmp_path, monkeypatch):
    """Of one name in two modules; of an edited module; and of one that is not there any more."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(name, fields, field):
        (tmp_path / f"{name}.py").write_text(OWN.format(fields=fields, field=field))
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        return module, called(module.Pair(1.0, 2.0), function=module.first)

    fields = "one: float; other: float"
    found = [imported(name, fields, "one")[1] for name in ("ours", "theirs", "ours")]
    assert found == [(1.0, 0), (1.0, 0), (1.0, 1)]
    assert imported("ours", "other: float; one: float", "one")[1] == (2.0, 0)
    old, _ = imported("ours", fields, "one")
    new, _ = imported("ours", fields, "one")
    # `old` is in no place from which a class could be loaded
    assert called(old.Pair(1.0, 2.0), function=old.first) == (1.0, 0)
    assert new.Pair is not old.Pair


# --- the folder -----------------------------------------------------------------------------------


def test_a_full_disk_is_a_warning_and_no_more(cache, monkeypatch):
    monkeypatch.setattr(MachineCode, "not_kept", False)
    function = fresh()

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with warns("code_not_kept", cache, "No space left on device"):
        assert function(3) == 7
    assert function(3.5) == 8.0  # a second warning would be an error here
    assert list(cache.iterdir()) == []


def test_a_folder_that_is_deleted_under_a_running_process_is_created_again(cache):
    function = fresh()
    assert function(3) == 7
    shutil.rmtree(cache)
    assert function(3.5) == 8.0
    assert called(3.5) == (8.0, 1)


def test_files_that_are_used_stay_and_a_large_cache_becomes_smaller(cache):
    assert fresh()(3) == 7
    (used,) = cache.iterdir()
    others = [cache / name for name in ("older", "old", "new")]
    for age, path in enumerate((used, *others)):
        path.write_bytes(used.read_bytes())
        os.utime(path, (age, age))
    size = used.stat().st_size
    delete_unused(cache, largest=4 * size)
    assert len(list(cache.iterdir())) == 4
    assert fresh()(3) == 7  # its time is now
    delete_unused(cache, largest=3 * size)
    assert set(cache.iterdir()) == {used, cache / "new"}


def test_functions_of_c_are_kept_and_other_processors_told_apart(cache):
    for expected in (0, 1):
        double = c_function("float64(float64)")(odd)
        assert double.address
        assert double._compiled.cache_hits == expected
        assert np.isclose(double._compiled.ctypes(3.5), 8.0)
    assert len(list(cache.iterdir())) == 1

    def name(processor):
        codegen = SimpleNamespace(magic_tuple=lambda: ("x86_64", processor, ""))
        context = SimpleNamespace(codegen=lambda: codegen)
        return MachineCode(odd, ())._name((types.int64,), context)

    assert name("one") == name("one") != name("other")
