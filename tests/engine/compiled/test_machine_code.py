"""One cache, many processes: no entry is lost, and no code runs under another signature."""

import errno
import fcntl
import importlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from stanadapt.engine.compiled import jit, machine_code
from stanadapt.engine.compiled.jit import c_function, inline
from stanadapt.engine.compiled.machine_code import CheckedFiles, MachineCode, one_writer
from tests.helpers.codes import warns
from tests.helpers.cold_cache import compile_at_once
from tests.helpers.repository import ROOT


def odd(x):
    return 2 * x + 1


def compiled_in(folder):
    """Return `odd` as a new process would have it: nothing compiled, and the cache in `folder`."""
    function = njit(odd)
    function._cache = MachineCode(odd, folder)
    return function


def hits(function):
    return sum(function.stats.cache_hits.values())


def files(folder):
    return CheckedFiles(str(folder), "name-1.py311", "stamp")


def lock(folder):
    """Take the lock as another process would; BlockingIOError if it is held."""
    with (folder / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


KEYS = [("int64", "processor"), ("float64", "processor")]


# --- many processes -------------------------------------------------------------------------------


@pytest.mark.slow
def test_processes_that_compile_at_once_lose_no_entry(tmp_path):
    """Each compiles every function for a type of its own, in step; a later one finds them all."""
    compile_at_once(tmp_path, processes=3, rounds=6)


@pytest.mark.thorough
@pytest.mark.parametrize("write", [0, 1])
def test_a_process_that_is_killed_between_two_writes(tmp_path, write):
    """It leaves its lock, and a file without an entry in the index, or part of one."""
    code = f"""
import os, signal
from pathlib import Path
from numba import njit
from stanadapt.engine.compiled.machine_code import MachineCode
from tests.engine.compiled.test_machine_code import compiled_in
replace, calls = os.replace, []
def killed(*paths):
    if len(calls) == {write}:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(paths)
    replace(*paths)
os.replace = killed
compiled_in(Path({str(tmp_path)!r}))(3)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (path,) = tmp_path.rglob("lock")
    lock(path.parent)
    for found in (0, 2):
        function = compiled_in(tmp_path)
        assert (function(3), function(3.5), hits(function)) == (7, 8.0, found)


@pytest.mark.parametrize("write", [0, 1])
def test_the_order_of_the_writes_without_a_lock(tmp_path, monkeypatch, write):
    """Two processes read the index; one writes all of its entry before a write of the other."""

    def unsupported(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    first, second, opened = files(tmp_path), files(tmp_path), []
    open_for_write = first._open_for_write

    def after_the_other(path):
        if len(opened) == write:
            second.save(KEYS[1], "for float64")
        opened.append(path)
        return open_for_write(path)

    monkeypatch.setattr(first, "_open_for_write", after_the_other)
    first.save(KEYS[0], "for int64")
    assert len(opened) == 2
    assert files(tmp_path).load(KEYS[0]) == "for int64"
    # the entry of the second is lost, which costs a compilation; it is not the other one's code
    assert files(tmp_path).load(KEYS[1]) is None
    second.save(KEYS[1], "for float64")
    assert [files(tmp_path).load(key) for key in KEYS] == ["for int64", "for float64"]


def test_the_first_of_two_writers_of_one_signature_is_kept(tmp_path):
    files(tmp_path).save(KEYS[0], "first")
    files(tmp_path).save(KEYS[0], "second")
    assert files(tmp_path).load(KEYS[0]) == "first"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


def test_a_folder_has_one_writer(tmp_path):
    with one_writer(tmp_path), pytest.raises(BlockingIOError):
        lock(tmp_path)
    lock(tmp_path)


def test_a_process_forked_by_a_writer_does_not_keep_the_lock(tmp_path):
    with one_writer(tmp_path):
        # what a fork has: the same open file
        numbers = [int(number) for number in os.listdir("/dev/fd")]
        copies = [os.dup(n) for n in numbers if _is(n, tmp_path / "lock")]
    assert copies
    lock(tmp_path)
    for copy in copies:
        os.close(copy)


def _is(number, path):
    try:
        return os.path.sameopenfile(number, os.open(path, os.O_RDONLY))
    except OSError:  # the one by which the list was read
        return False


def test_a_writer_that_is_suspended_is_waited_for_once(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code._Patience, "left", 0.02)
    with one_writer(tmp_path):
        files(tmp_path).save(KEYS[0], "for int64")
        assert machine_code._Patience.left == 0
        files(tmp_path).save(KEYS[1], "for float64")
    assert [files(tmp_path).load(key) for key in KEYS] == ["for int64", "for float64"]


# --- what is on disk is not trusted ---------------------------------------------------------------


def test_code_in_the_file_of_another_signature_is_not_run(tmp_path):
    function = compiled_in(tmp_path)
    assert (function(3), function(3.5)) == (7, 8.0)
    one, other = tmp_path.rglob("*.nbc")
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    for found in (0, 2):
        function = compiled_in(tmp_path)
        assert (function(3), function(3.5), hits(function)) == (7, 8.0, found)


def test_an_index_that_names_the_code_of_another_signature_is_not_believed(tmp_path):
    function = compiled_in(tmp_path)
    assert (function(3), function(3.5)) == (7, 8.0)
    kept = function._cache._cache_file
    (label, [one]), (other_label, [other]) = kept._load_index().items()
    swapped = {label: [one._replace(name=other.name)], other_label: [other._replace(name=one.name)]}
    kept._save_index(swapped)
    for found in (0, 2):
        function = compiled_in(tmp_path)
        assert (function(3), function(3.5), hits(function)) == (7, 8.0, found)


@pytest.mark.parametrize("pattern", ["*.nbc", "*.nbi"])
def test_a_damaged_byte_anywhere_costs_a_compilation_only(tmp_path, pattern):
    files(tmp_path).save(KEYS[0], "for int64")
    (path,) = tmp_path.glob(pattern)
    whole = path.read_bytes()
    damaged = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in range(len(whole))]
    damaged += [whole[:length] for length in range(len(whole))]
    for content in damaged:
        path.write_bytes(content)
        assert files(tmp_path).load(KEYS[0]) is None
    files(tmp_path).save(KEYS[0], "again")
    assert files(tmp_path).load(KEYS[0]) == "again"
    assert pattern == "*.nbi" or not path.exists()


def test_a_file_that_is_missing_or_not_readable_costs_a_compilation_only(tmp_path):
    files(tmp_path).save(KEYS[0], "for int64")
    (path,) = tmp_path.glob("*.nbc")
    path.unlink()
    assert files(tmp_path).load(KEYS[0]) is None
    path.mkdir()
    assert files(tmp_path).load(KEYS[0]) is None
    (index,) = tmp_path.glob("*.nbi")
    index.unlink()
    index.mkdir()
    assert files(tmp_path).load(KEYS[0]) is None


def test_code_of_edited_sources_or_another_numba_is_not_run(tmp_path):
    files(tmp_path).save(KEYS[0], "for int64")
    edited, newer = CheckedFiles(str(tmp_path), "name-1.py311", "other"), files(tmp_path)
    newer._version = "1000.0"
    assert edited.load(KEYS[0]) is None
    assert newer.load(KEYS[0]) is None
    newer.save(KEYS[0], "by another Numba")
    assert (newer.load(KEYS[0]), files(tmp_path).load(KEYS[0])) == ("by another Numba", None)


# as NamedTuple types of Numba: the names of two are the same, the classes are not
OWN = """
class Type:
    def __init__(self, name):
        self.name = name
    def __repr__(self):
        return "State(float64)"
    def __eq__(self, other):
        return type(other) is type(self) and self.name == other.name
    def __hash__(self):
        return hash(self.name)
"""


def test_types_of_other_programs_are_neither_imported_nor_forgotten(tmp_path, monkeypatch):
    """A program without them would otherwise start slowly, or empty the index at each start."""
    for module in ("theirs", "ours"):
        (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    theirs, ours = (importlib.import_module(name) for name in ("theirs", "ours"))
    files(tmp_path).save(ours.Type("a"), "our a")
    files(tmp_path).save(theirs.Type("a"), "their a")
    files(tmp_path).save(theirs.Type("b"), "their b")
    files(tmp_path).save(KEYS[0], "for int64")
    assert files(tmp_path).load(theirs.Type("a")) == "their a"
    assert files(tmp_path).load(ours.Type("a")) == "our a"
    monkeypatch.delitem(sys.modules, "theirs")
    assert files(tmp_path).load(KEYS[0]) == "for int64"
    assert "theirs" not in sys.modules
    monkeypatch.setitem(sys.modules, "theirs", None)  # it cannot be imported
    assert files(tmp_path).load(ours.Type("a")) == "our a"
    assert files(tmp_path).load(ours.Type("c")) is None
    files(tmp_path).save(ours.Type("c"), "our c")
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    assert [files(tmp_path).load(theirs.Type(name)) for name in "ab"] == ["their a", "their b"]


# --- the cache of functions -----------------------------------------------------------------------


def test_a_full_disk_is_a_warning_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(MachineCode, "not_kept", False)
    function = compiled_in(tmp_path)

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(function._cache._cache_file, "_open_for_write", full)
    with warns("code_not_kept", tmp_path, "No space left on device"):
        assert function(3) == 7
    assert function(3.5) == 8.0  # a second warning would be an error here


def test_a_folder_that_is_deleted_under_a_running_process_is_created_again(tmp_path):
    function = compiled_in(tmp_path / "deleted")
    assert function(3) == 7
    shutil.rmtree(tmp_path / "deleted")
    assert function(3.5) == 8.0
    later = compiled_in(tmp_path / "deleted")
    assert (later(3.5), hits(later)) == (8.0, 1)


def test_the_decorators_keep_code_like_this(monkeypatch, tmp_path):
    for decorator in (jit.jit, inline):
        assert isinstance(decorator(odd)._cache, MachineCode)
    monkeypatch.setattr(jit, "CACHE", tmp_path)
    double = c_function("float64(float64)")(odd)
    assert double.address
    assert isinstance(double._compiled._cache, MachineCode)
    assert len(list(tmp_path.rglob("*.nbc"))) == 1
    again = c_function("float64(float64)")(odd)
    assert again.address
    assert again._compiled.cache_hits == 1
    assert np.isclose(again._compiled.ctypes(3.5), 8.0)


def test_a_folder_that_another_process_deletes_is_passed_over(tmp_path, monkeypatch):
    for name in ("now", "a", "b", "c", "d", "e"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1, 1))
    listed = [*tmp_path.iterdir(), tmp_path / "gone"]
    monkeypatch.setattr(Path, "iterdir", lambda path: listed)
    monkeypatch.setattr(Path, "is_dir", lambda path: True)
    jit._delete_old_folders(tmp_path / "now")
    assert sum(path.exists() for path in listed) == 1 + jit.FOLDERS_KEPT
