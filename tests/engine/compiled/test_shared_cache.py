"""A cache that others have filled: read, never written, and believed if only they can."""

import os
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba import njit

from stanadapt.engine.compiled import cache_folder, machine_code, shared_cache
from stanadapt.engine.compiled.machine_code import MachineCode
from stanadapt.engine.compiled.shared_cache import read_trusted, shared_folder, shared_root
from tests.helpers.codes import warns
from tests.helpers.full_disk import full_disk

NAME = "compiled/0123456789ab"


def odd(x):
    return 2 * x + 1


def other(x):
    return 3 * x


def compiled_in(cache, function=odd):
    """Return a function as a new process would have it, with its cache in a folder of `cache`."""
    compiled = njit(function)
    folder = cache / NAME
    folder.mkdir(parents=True, exist_ok=True)
    compiled._cache = MachineCode(function, folder)
    return compiled


def hits(function):
    return sum(function.stats.cache_hits.values())


def contents(root):
    """Return all that a write would change: names, times, sizes and modes."""
    found = {}
    for path in (root, *sorted(root.rglob("*"))):
        status = path.stat()
        found[path] = status.st_mtime_ns, status.st_size, status.st_mode
    return found


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """Let each test find out again what can be trusted, and be warned."""
    monkeypatch.setattr(shared_cache, "_reported", set())
    shared_cache._trusted_folder.cache_clear()
    yield
    shared_cache._trusted_folder.cache_clear()


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A shared cache with `odd` for whole numbers, in a folder of the right modes."""
    root = tmp_path / "shared"
    assert compiled_in(root)(3) == 7
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(root))
    return root


def entry(shared):
    (path,) = shared.rglob("*.nbc")
    return path


def index(shared):
    (path,) = shared.rglob("*.nbi")
    return path


def test_code_is_loaded_from_it_and_nothing_is_written(shared, tmp_path):
    before = contents(shared)
    function = compiled_in(tmp_path / "own")
    assert (function(3), hits(function)) == (7, 1)
    assert list((tmp_path / "own").rglob("*.nbc")) == []
    # of another type: compiled, and kept in the user's own cache
    assert (function(3.5), hits(function)) == (8.0, 1)
    again = compiled_in(tmp_path / "own")
    assert (again(3), again(3.5), hits(again)) == (7, 8.0, 2)
    assert len(list((tmp_path / "own").rglob("*.nbc"))) == 1
    function.recompile()
    assert contents(shared) == before


def test_a_function_that_it_lacks_is_compiled_into_the_users_own(shared, tmp_path):
    before = contents(shared)
    assert compiled_in(tmp_path / "own", other)(2) == 6
    again = compiled_in(tmp_path / "own", other)
    assert (again(2), hits(again)) == (6, 1)
    assert contents(shared) == before


@pytest.mark.parametrize("damage", ["a byte", "cut", "gone", "swapped"])
@pytest.mark.parametrize("which", [entry, index])
def test_damaged_entries_are_compiled(shared, tmp_path, damage, which):
    path = which(shared)
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        swapped = index(shared) if which is entry else entry(shared)
        changed = {"a byte": flipped, "cut": content[:-1], "swapped": swapped.read_bytes()}
        path.write_bytes(changed[damage])
    function = compiled_in(tmp_path / "own")
    assert (function(3), hits(function)) == (7, 0)


# --- who can write --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
@pytest.mark.parametrize("level", range(4))
def test_a_folder_that_others_can_write_to(shared, tmp_path, level, mode):
    """The root, or a folder between it and the files."""
    folders = [shared, shared / "compiled", shared / NAME, entry(shared).parent]
    folders[level].chmod(mode)
    function = compiled_in(tmp_path / "own")
    with warns("shared_cache_not_used", folders[level]):
        assert (function(3), hits(function)) == (7, 0)
    # the second function of the same folder does not warn again
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled_in(tmp_path / "own", other)(2) == 6
    again = compiled_in(tmp_path / "own")
    assert (again(3), hits(again)) == (7, 1)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
@pytest.mark.parametrize("which", [entry, index])
def test_a_file_that_others_can_write(shared, tmp_path, which, mode):
    which(shared).chmod(mode)
    function = compiled_in(tmp_path / "own")
    with warns("shared_cache_not_used", which(shared)):
        assert (function(3), hits(function)) == (7, 0)
    assert (tmp_path / "own").is_dir()


def test_a_folder_above_it_that_others_can_write_to(tmp_path, monkeypatch):
    """Who can rename the cache can put another in its place; not so in a folder like /tmp."""
    above = tmp_path / "above"
    root = above / "shared"
    root.mkdir(parents=True)
    root.chmod(0o755)
    for mode, trusted in ((0o755, True), (0o775, False), (0o777, False)):
        above.chmod(mode)
        assert (shared_cache.problem_of(root) == "") is trusted, oct(mode)
    above.chmod(0o1777)
    sticky = shared_cache.problem_of(root) == ""
    assert sticky is (above.stat().st_uid == 0)  # the owner of such a folder may rename all in it


def test_the_cache_of_another_user(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_cache, "trusted_owners", lambda: frozenset({os.getuid() + 1}))
    function = compiled_in(tmp_path / "own")
    with warns("shared_cache_not_used", str(os.getuid())):
        assert (function(3), hits(function)) == (7, 0)


@pytest.mark.parametrize(
    ("owner", "mode", "trusted"),
    [
        (0, 0o755, True),
        (1000, 0o755, True),  # we
        (900, 0o755, True),  # who installed the package
        (1001, 0o755, False),
        (1001, 0o700, False),
        (0, 0o775, False),
        (1000, 0o775, False),  # a list of rights shows as those of the group
        (0, 0o757, False),
        (0, 0o1777, False),
    ],
)
def test_whom_we_trust(monkeypatch, owner, mode, trusted):
    monkeypatch.setattr(shared_cache, "trusted_owners", lambda: frozenset({0, 900, 1000}))
    status = SimpleNamespace(st_uid=owner, st_mode=stat.S_IFDIR | mode)
    assert (shared_cache._problem(Path("x"), status) == "") is trusted


def test_trusted_are_root_this_user_and_the_owner_of_the_package():
    package = Path(shared_cache.__file__).stat().st_uid
    assert shared_cache.trusted_owners() == {0, os.getuid(), package}


def test_links_are_not_followed(shared, tmp_path):
    """Not below the root; a link to the cache itself is resolved."""
    real = entry(shared)
    elsewhere = tmp_path / "elsewhere.nbc"
    shutil.move(real, elsewhere)
    real.symlink_to(elsewhere)
    with pytest.raises(OSError, match=real.name):
        read_trusted(real)
    function = compiled_in(tmp_path / "own")
    assert (function(3), hits(function)) == (7, 0)


def test_a_folder_below_the_root_that_is_a_link(shared, tmp_path):
    shutil.move(shared / "compiled", tmp_path / "moved")
    (shared / "compiled").symlink_to(tmp_path / "moved")
    with warns("shared_cache_not_used", shared / "compiled"):
        assert shared_folder(NAME) is None


def test_a_link_to_the_cache_is_resolved_before_the_checks(shared, tmp_path, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(shared)
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(link))
    assert shared_root() == shared
    function = compiled_in(tmp_path / "own")
    assert (function(3), hits(function)) == (7, 1)


def test_a_cache_that_is_missing_is_named_once(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(tmp_path / "missing"))
    with warns("shared_cache_not_used", tmp_path / "missing", "no such folder"):
        assert shared_folder(NAME) is None
    assert shared_folder("compiled/other") is None  # a second warning would be an error here


def test_without_owners_nothing_is_loaded(shared, monkeypatch):
    monkeypatch.setattr(shared_cache, "CAN_CHECK_OWNERS", False)
    with warns("shared_cache_not_used"):
        assert shared_folder(NAME) is None


def test_code_of_another_version_is_not_there(shared):
    assert shared_folder("compiled/ba9876543210") is None


def test_the_users_own_cache_is_no_shared_one(shared, monkeypatch):
    """As while an image is built: it is read, and written."""
    monkeypatch.setenv("STANADAPT_CACHE", str(shared))
    assert shared_root() is None
    function = compiled_in(shared)
    assert (function(3.5), function(3), hits(function)) == (8.0, 7, 1)
    assert len(list(shared.rglob("*.nbc"))) == 2


def test_no_setting_no_shared_cache(monkeypatch):
    for value in (None, ""):
        monkeypatch.delenv("STANADAPT_SHARED_CACHE", raising=False)
        if value is not None:
            monkeypatch.setenv("STANADAPT_SHARED_CACHE", value)
        assert shared_root() is None
        assert shared_folder(NAME) is None


# --- copies of the package ------------------------------------------------------------------------


def test_copies_of_the_package_share_code_and_edited_ones_do_not(tmp_path, monkeypatch):
    """Wherever it is installed, and whenever: as each user of a cluster may have installed it."""
    found = []
    for place, rest in (("one", "y = 1"), ("two", "y = 1"), ("three", "y = 2")):
        package = tmp_path / place / "stanadapt"
        (package / "engine").mkdir(parents=True)
        file = package / "engine" / "kernels.py"
        file.write_text(f"def odd(x):\n    return 2 * x + 1\n{rest}\n")
        os.utime(file, (len(found) + 1, len(found) + 1))
        monkeypatch.setattr(machine_code, "PACKAGE", package)
        names = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        function = compiled_in(tmp_path / "cache", names["odd"])
        found.append((function(3), hits(function)))
    assert found == [(7, 0), (7, 1), (7, 0)]


SCRIPT = """
import numpy as np
from stanadapt.engine.numerics.vectors import copy
from stanadapt.engine.compiled.jit import CACHE
out = np.empty(2)
copy(np.array([1.0, 2.0]), out)
print(out[1], sum(copy.stats.cache_hits.values()), CACHE)
"""


@pytest.mark.slow
def test_another_user_with_another_copy_of_the_package(tmp_path):
    package = Path(machine_code.PACKAGE)
    shutil.copytree(package, tmp_path / "copy" / "stanadapt")
    shared, own = tmp_path / "shared", tmp_path / "own"
    first = _run(package.parent, STANADAPT_CACHE=shared)
    assert first[:2] == ["2.0", "0"]
    before = contents(shared)
    second = _run(tmp_path / "copy", STANADAPT_CACHE=own, STANADAPT_SHARED_CACHE=shared)
    assert second[:2] == ["2.0", "1"]
    assert Path(second[2]).is_relative_to(own)
    assert contents(shared) == before


def _run(place, **environment):
    named = {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, cwd="/",
        umask=0o022, env={**os.environ, "PYTHONPATH": str(place), **named},
    )  # fmt: skip
    return done.stdout.split()


def test_an_own_cache_that_cannot_be_written_is_read(tmp_path, monkeypatch):
    """As in a container with a read-only file system, and no shared cache."""
    own = tmp_path / "own"
    monkeypatch.delenv("STANADAPT_SHARED_CACHE", raising=False)
    monkeypatch.setenv("STANADAPT_CACHE", str(own))
    monkeypatch.setattr(cache_folder, "_stand_ins", {})
    monkeypatch.setattr(cache_folder.tempfile, "tempdir", str(tmp_path))
    own.mkdir(mode=0o755)
    assert compiled_in(own)(3) == 7
    assert shared_root() is None
    with full_disk(), warns("cache_not_used", own):
        stand_in = cache_folder.writable_folder("compiled").parent
    assert shared_root() == own
    new = compiled_in(stand_in)
    assert new(3) == 7
    assert hits(new) == 1
    # one that others can write to is not, and there is no second warning
    shared_cache._trusted_folder.cache_clear()
    own.chmod(0o777)
    new = compiled_in(stand_in)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new(3) == 7
    assert hits(new) == 0
