"""The folder of the cache: a temporary one if others can write to it, or we cannot."""

import os
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stanadapt.engine.compiled import cache_folder
from tests.helpers.codes import raises, warns
from tests.helpers.full_disk import full_disk

USER, OTHER = 1000, 1001


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_folder, "_stand_ins", {})
    return tmp_path / "cache"


def test_the_cache_is_created_and_used(root):
    assert cache_folder.writable_folder("builds") == root / "builds"
    assert cache_folder.readable_folders("builds") == [root / "builds"]


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


def test_the_cache_has_temporary_files_if_no_usual_folder_can(root, monkeypatch):
    def nowhere():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(cache_folder.tempfile, "tempdir", None)
    monkeypatch.setattr(cache_folder, "MEMORY", root / "missing")
    monkeypatch.setenv("TMPDIR", "/missing")
    with full_disk(), raises("no_temporary_folder", root):
        cache_folder.provide_temporary_folder()
    assert os.environ["TMPDIR"] == "/missing"
    cache_folder.provide_temporary_folder()
    assert cache_folder.tempfile.tempdir == os.environ["TMPDIR"] == str(root / "temporary")
    assert (root / "temporary").is_dir()
    assert not (root / "missing").exists()


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


@pytest.mark.parametrize(
    ("owner", "group", "mode", "changed_by_others"),
    [
        (USER, USER, 0o755, False),
        (USER, USER, 0o775, False),  # the group of this user alone, as on many systems
        (USER, 50, 0o775, True),
        (USER, 50, 0o755, False),
        (USER, USER, 0o757, True),
        (0, 0, 0o755, False),  # owned by an administrator, readable by all
        (OTHER, OTHER, 0o755, True),
    ],
)
def test_who_can_change_a_folder(owner, group, mode, changed_by_others):
    status = SimpleNamespace(st_uid=owner, st_gid=group, st_mode=stat.S_IFDIR | mode)
    assert cache_folder.can_be_changed_by_others(status, USER) is changed_by_others


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("STANADAPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache_folder.Path, "home", homeless)
    with warns("cache_not_used"):
        assert cache_folder.writable_folder("builds").is_dir()


def test_the_stand_in_is_deleted_with_the_process(root):
    root.write_text("")
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from stanadapt.engine.compiled.cache_folder import writable_folder\n"
        "print(writable_folder('builds'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not os.path.exists(done.stdout.strip())
    assert os.path.basename(os.path.dirname(done.stdout.strip())).startswith("stanadapt-")
