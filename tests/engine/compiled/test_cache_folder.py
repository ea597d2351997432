"""The folder of the cache: a temporary one if others can write to it, or we cannot."""

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from stanadapt.engine.compiled import cache_folder
from tests.helpers.codes import warns
from tests.helpers.full_disk import full_disk
from tests.helpers.other_process import printed


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_created_and_its_owners_trusted(root):
    assert cache_folder.writable_folder("builds") == root / "builds"
    assert cache_folder.readable_folders("builds") == [root / "builds"]
    package = os.stat(cache_folder.__file__).st_uid
    assert cache_folder.trusted_owners() == {0, os.getuid(), package}


def test_a_file_in_its_place_is_a_warning_only(root):
    root.write_text("")
    with warns("cache_not_used", root / "builds"):
        stand_in = cache_folder.writable_folder("builds")
    (stand_in / "program.so").write_bytes(b"machine code")
    assert stand_in in cache_folder.readable_folders("builds")
    # one warning: another kind of compiled code is kept in the same folder
    assert cache_folder.writable_folder("compiled").parent == stand_in.parent


def test_a_full_disk_is_a_warning_only(root, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder.tempfile, "tempdir", str(tmp_path))  # as if it had space
    with full_disk(), warns("cache_not_used", root / "builds"):
        stand_in = cache_folder.writable_folder("builds")
    assert cache_folder.is_temporary(stand_in)
    assert str(root / "builds") in cache_folder.problem_of_cache()
    assert cache_folder.readable_folders("builds") == [stand_in, root / "builds"]


def test_code_that_others_could_have_written_is_not_loaded(root):
    (root / "builds").mkdir(parents=True)
    (root / "builds").chmod(0o777)
    assert cache_folder.readable_folders("builds") == []
    with warns("cache_not_used", root / "builds"):
        stand_in = cache_folder.writable_folder("builds")
    assert cache_folder.readable_folders("builds") == [stand_in]


def test_code_in_a_cache_with_folders_that_others_could_replace_is_not_loaded(root):
    (root / "builds").mkdir(parents=True)
    root.chmod(0o777)
    assert cache_folder.readable_folders("builds") == []


USER, PACKAGES, OTHER = 1000, 900, 1001


@pytest.mark.parametrize(
    ("owner", "group", "mode", "trusted"),
    [
        (USER, USER, 0o755, True),
        (USER, USER, 0o775, True),  # the group of this user alone, as on many systems
        (USER, 50, 0o755, True),
        (USER, 50, 0o775, False),
        (USER, USER, 0o757, False),
        (USER, USER, 0o1777, False),
        (0, 0, 0o755, True),  # owned by an administrator, readable by all
        (0, 0, 0o775, False),  # a list of rights shows as those of the group
        (PACKAGES, PACKAGES, 0o755, True),  # who installed the package has code running here
        (PACKAGES, PACKAGES, 0o775, False),
        (OTHER, OTHER, 0o755, False),
        (OTHER, OTHER, 0o700, False),
    ],
)
def test_whom_we_trust(monkeypatch, owner, group, mode, trusted):
    monkeypatch.setattr(cache_folder, "trusted_owners", lambda: {0, USER, PACKAGES})
    monkeypatch.setattr(os, "getuid", lambda: USER)
    status = SimpleNamespace(st_uid=owner, st_gid=group, st_mode=stat.S_IFDIR | mode)
    assert (cache_folder.why_not_trusted("x", status) == "") is trusted


def test_the_stand_in_is_deleted_with_the_process(root):
    root.write_text("")
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from stanadapt.engine.compiled.cache_folder import writable_folder\n"
        "print(writable_folder('builds'))"
    )
    stand_in = Path(printed(code).strip())
    assert not stand_in.exists()
    assert stand_in.parent.name.startswith("stanadapt-")
