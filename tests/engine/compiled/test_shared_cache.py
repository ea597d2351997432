"""A cache that others have filled: read, never written, and believed if only they can."""

import os
import shutil
import subprocess
import sys

import pytest

from stanadapt.engine.compiled import cache_folder, machine_code, shared_cache
from stanadapt.engine.compiled.dependencies import PACKAGE
from stanadapt.engine.compiled.shared_cache import read_trusted, shared_folder, shared_root
from tests.helpers.codes import warns
from tests.helpers.fresh_code import called, fresh, hits
from tests.helpers.full_disk import full_disk

NAME = machine_code.FOLDER


def other(x):
    return 3 * x


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
    shared_cache._trusted_folder.cache_clear()
    yield
    shared_cache._trusted_folder.cache_clear()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder for the code of this user."""
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "own"))
    return tmp_path / "own" / NAME


@pytest.fixture
def shared(tmp_path, own, monkeypatch):
    """A shared cache with `odd` for whole numbers, in a folder of the right modes."""
    root = tmp_path / "shared"
    with monkeypatch.context() as before:
        before.setenv("STANADAPT_CACHE", str(root))
        assert fresh()(3) == 7
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(root))
    return root


def entry(shared):
    (path,) = (shared / NAME).iterdir()
    return path


def test_code_is_loaded_from_it_and_nothing_is_written(shared, own):
    before = contents(shared)
    function = fresh()
    assert (function(3), hits(function)) == (7, 1)
    assert list(own.iterdir()) == []
    # of another type, or function: compiled, and kept in the user's own cache
    assert (function(3.5), hits(function)) == (8.0, 1)
    assert called(3, 3.5) == (7, 8.0, 2)
    assert called(2, function=other) == (6, 0)
    assert called(2, function=other) == (6, 1)
    assert len(list(own.iterdir())) == 2
    function.recompile()
    assert contents(shared) == before


def linked(path, elsewhere):
    """Put a link in the place of a file or folder."""
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("spoil", [
    lambda path, elsewhere: path.write_bytes(path.read_bytes()[:-1]), linked,
])  # fmt: skip
def test_a_damaged_entry_is_compiled_and_a_link_not_followed(shared, tmp_path, spoil):
    path = entry(shared)
    spoil(path, tmp_path / "elsewhere")
    assert called(3) == (7, 0)
    if path.is_symlink():
        with pytest.raises(OSError, match=path.name):
            read_trusted(path)


# --- who can write --------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "mode"), [
    (lambda shared: shared, 0o757), (lambda shared: shared, 0o1777),
    (lambda shared: shared / NAME, 0o757), (lambda shared: shared / NAME, 0o1777), (entry, 0o646),
])  # fmt: skip
def test_what_others_can_write_is_not_loaded(shared, place, mode):
    place(shared).chmod(mode)
    with warns("shared_cache_not_used", place(shared)):
        assert called(3) == (7, 0)
    assert called(2, function=other) == (6, 0)  # a second warning would be an error here
    assert called(3) == (7, 1)


def test_a_folder_above_it_that_others_can_write_to(tmp_path, monkeypatch):
    """Who can rename the cache can put another in its place; not so in a folder like /tmp."""
    above = tmp_path / "above"
    root = above / "shared"
    root.mkdir(parents=True)
    root.chmod(0o755)
    for mode, trusted in ((0o755, True), (0o777, False)):
        above.chmod(mode)
        assert (shared_cache.problem_of(root) == "") is trusted, oct(mode)
    above.chmod(0o1777)
    sticky = shared_cache.problem_of(root) == ""
    assert sticky is (above.stat().st_uid == 0)  # the owner of such a folder may rename all in it


def test_the_cache_of_another_user(shared, monkeypatch):
    monkeypatch.setattr(shared_cache, "why_not_trusted", lambda place, status: "it is of 1001")
    with warns("shared_cache_not_used", "it is of 1001"):
        assert called(3) == (7, 0)


def test_links_below_the_root_are_not_followed_and_the_root_may_be_one(
    shared, tmp_path, monkeypatch
):
    link = tmp_path / "link"
    link.symlink_to(shared)
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(link))
    assert shared_root() == shared
    assert called(3) == (7, 1)
    shared_cache._trusted_folder.cache_clear()
    linked(shared / NAME, tmp_path / "moved")
    with warns("shared_cache_not_used", shared / NAME, "a link"):
        assert shared_folder(NAME) is None


def test_a_cache_that_is_missing_is_named_once(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_SHARED_CACHE", str(tmp_path / "missing"))
    with warns("shared_cache_not_used", tmp_path / "missing", "no such folder"):
        assert shared_folder(NAME) is None
    assert shared_folder("other") is None  # a second warning would be an error here


def test_without_owners_nothing_is_loaded(shared, monkeypatch):
    monkeypatch.setattr(shared_cache, "CAN_CHECK_OWNERS", False)
    with warns("shared_cache_not_used"):
        assert shared_folder(NAME) is None


def test_the_users_own_cache_is_no_shared_one(shared, monkeypatch):
    """As while an image is built: it is read, and written."""
    monkeypatch.setenv("STANADAPT_CACHE", str(shared))
    assert shared_root() is None
    assert called(3.5, 3) == (8.0, 7, 1)
    assert len(list((shared / NAME).iterdir())) == 2


def test_no_setting_no_shared_cache(monkeypatch):
    for value in (None, ""):
        monkeypatch.delenv("STANADAPT_SHARED_CACHE", raising=False)
        if value is not None:
            monkeypatch.setenv("STANADAPT_SHARED_CACHE", value)
        assert shared_root() is None
        assert shared_folder(NAME) is None


# --- copies of the package ------------------------------------------------------------------------


SCRIPT = """
import numpy as np
from stanadapt.engine.numerics.vectors import copy
out = np.empty(2)
copy(np.array([1.0, 2.0]), out)
print(out[1], sum(copy.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_copies_of_the_package_share_code_and_edited_ones_do_not(tmp_path):
    """Wherever it is installed, and whenever: as each user of a cluster may have installed it."""
    for name in ("copy", "edited"):
        shutil.copytree(PACKAGE, tmp_path / name / "stanadapt")
    edited = tmp_path / "edited" / "stanadapt" / "engine" / "numerics" / "vectors.py"
    edited.write_text(edited.read_text() + "\nPART = 1\n")
    shared, own = tmp_path / "shared", tmp_path / "own"
    assert _run(PACKAGE.parent, STANADAPT_CACHE=shared) == ["2.0", "0"]
    before = contents(shared)
    for name, expected in (("copy", "1"), ("edited", "0")):
        found = _run(tmp_path / name, STANADAPT_CACHE=own, STANADAPT_SHARED_CACHE=shared)
        assert found == ["2.0", expected]
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
    monkeypatch.setattr(cache_folder.tempfile, "tempdir", str(tmp_path))
    own.mkdir(mode=0o755)
    assert fresh()(3) == 7
    assert shared_root() is None
    machine_code._own_folder.cache_clear()  # as in a new process
    with full_disk(), warns("cache_not_used", own):
        assert cache_folder.is_temporary(machine_code.own_folder())
    assert shared_root() == own
    assert called(3) == (7, 1)
    # one that others can write to is not, and there is no second warning
    shared_cache._trusted_folder.cache_clear()
    own.chmod(0o777)
    assert called(3) == (7, 0)
