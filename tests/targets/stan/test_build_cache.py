"""The cache of compiled files: builds are found intact, or built again, by several at once too."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stanadapt.errors import StanadaptError, StanadaptWarning
from stanadapt.targets.stan import build_cache
from tests.helpers.cached_builds import CONTENT, KEY, folders, forbidden, intact, make, set_age
from tests.helpers.codes import raises

pytestmark = pytest.mark.usefixtures("root")


def marker(root):
    (path,) = root.glob("*.json")
    return path


def test_keys_identify_parts_in_every_process():
    keys = {
        build_cache.make_key(*parts)
        for parts in [("ab", "c"), ("a", "bc"), ("c", "ab"), ("abc",), ("ab", "c", ""), ()]
    }
    assert len(keys) == 6
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in keys)
    assert build_cache.make_key({"a": 1}, ["-O3"], None) == build_cache.make_key(
        {"a": 1}, ["-O3"], None
    )
    code = (
        "from stanadapt.targets.stan import build_cache;"
        "print(build_cache.make_key({'O': 3}, ['é'], None, 1.5))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert done.stdout.strip() == build_cache.make_key({"O": 3}, ["é"], None, 1.5)


def test_the_same_key_is_built_once(root):
    assert build_cache.find("schools", KEY) is None
    first = build_cache.find_or_build(
        "schools", KEY, lambda folder: (make(folder), time.sleep(0.02))
    )
    again = build_cache.find_or_build("schools", KEY, forbidden)
    assert again.folder == first.folder == build_cache.find("schools", KEY)
    assert again.seconds == 0.0
    assert 0.02 <= first.seconds < 60
    assert intact(first.folder)
    assert folders(root) == [first.folder]


@pytest.mark.parametrize("name", ["../up", "a/b", "a b", "ü", "x" * 300, "", "."])
def test_every_name_stays_inside_the_cache(root, name):
    made = build_cache.find_or_build(name, KEY, make)
    assert made.folder.parent == root
    assert build_cache.find(name, KEY) == made.folder


@pytest.mark.parametrize(
    "error", [StanadaptError("syntax_error", "no."), ValueError("x"), KeyboardInterrupt()]
)
def test_a_build_that_raises_leaves_nothing_behind(root, error):
    def fail(folder):
        make(folder)
        raise error

    with pytest.raises(type(error)) as caught:
        build_cache.find_or_build("schools", KEY, fail)
    assert caught.value is error
    assert list(root.iterdir()) == []
    assert intact(build_cache.find_or_build("schools", KEY, make).folder)


def test_forgotten_builds_and_those_of_other_names_are_built(root):
    first = build_cache.find_or_build("schools", KEY, make).folder
    build_cache.forget("schools", KEY)
    assert build_cache.find("schools", KEY) is None
    second = build_cache.find_or_build("schools", KEY, make).folder
    assert second != first  # the library in `first` may still be loaded
    assert intact(second)
    build_cache.forget("radon", KEY)  # does not exist
    made = [
        build_cache.find_or_build(*names, make).folder
        for names in [("schools", KEY), ("schools", KEY[::-1]), ("radon", KEY)]
    ]
    assert len(set(made)) == 3
    assert all(map(intact, made))


DAMAGE = {
    "truncated": lambda folder: (folder / "program.so").write_bytes(CONTENT[:-1]),
    "empty": lambda folder: (folder / "program.so").write_bytes(b""),
    "edited": lambda folder: (folder / "program.so").write_bytes(CONTENT[:-1] + b"x"),
    "file missing": lambda folder: (folder / "deeper" / "header.hpp").unlink(),
    "folder for a file": lambda folder: (
        (folder / "program.so").unlink(),
        (folder / "program.so").mkdir(),
    ),
    "all missing": lambda folder: folder.rename(folder.with_name("elsewhere")),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_build_is_built_again(how):
    first = build_cache.find_or_build("schools", KEY, make).folder
    DAMAGE[how](first)
    assert build_cache.find("schools", KEY) is None
    second = build_cache.find_or_build("schools", KEY, make).folder
    assert second != first
    assert intact(second)
    assert build_cache.find_or_build("schools", KEY, forbidden).folder == second


def test_of_large_files_only_the_size_is_compared(monkeypatch):
    monkeypatch.setattr(build_cache, "HASHED_BELOW", 50)
    first = build_cache.find_or_build("schools", KEY, make).folder
    (first / "program.so").write_bytes(CONTENT[::-1])  # hashing would take too long
    assert build_cache.find("schools", KEY) == first
    (first / "program.so").write_bytes(CONTENT[:-1])
    assert build_cache.find("schools", KEY) is None


BAD_MARKERS = {
    "empty": lambda text: "",
    "no mapping": lambda text: "[]",
    "no files": lambda text: json.dumps({"folder": json.loads(text)["folder"]}),
    "no folder": lambda text: '{"files": {}}',
    "another type": lambda text: '{"folder": 7, "files": {}}',
    "another folder": lambda text: json.dumps({"folder": "nowhere", "files": {}}),
    "half": lambda text: text[: len(text) // 2],
    "many levels": lambda text: text.replace("[", '[{"size": [').replace("]", "]}]"),
}


@pytest.mark.parametrize("how", BAD_MARKERS)
def test_an_invalid_marker_is_ignored(root, how):
    build_cache.find_or_build("schools", KEY, make)
    marker(root).write_text(BAD_MARKERS[how](marker(root).read_text()))
    assert build_cache.find("schools", KEY) is None
    made = build_cache.find_or_build("schools", KEY, make).folder
    assert intact(made)
    assert build_cache.find_or_build("schools", KEY, forbidden).folder == made


def test_a_file_where_the_cache_should_be_costs_a_build_in_each_process(tmp_path, root):
    (tmp_path / "cache").write_text("a file")
    assert build_cache.find("schools", KEY) is None
    with pytest.warns(StanadaptWarning) as caught:
        made = build_cache.find_or_build("schools", KEY, make).folder
    assert all(fact in str(caught[0].message) for fact in (str(root), "STANADAPT_CACHE"))
    assert intact(made)
    assert build_cache.find_or_build("schools", KEY, forbidden).folder == made
    build_cache.forget("schools", KEY)
    assert build_cache.find("schools", KEY) is None


def test_a_build_that_others_could_have_changed_is_not_loaded(root):
    made = build_cache.find_or_build("schools", KEY, make).folder
    root.chmod(0o777)
    assert build_cache.find("schools", KEY) is None
    with pytest.warns(StanadaptWarning) as caught:
        again = build_cache.find_or_build("schools", KEY, make).folder
    assert str(root) in str(caught[0].message)
    assert intact(again)
    assert again.parent != made.parent
    assert build_cache.find("schools", KEY) == again


def test_a_full_disk_during_a_build_is_reported(root):
    def fill(folder):
        make(folder)
        raise OSError(28, "No space left on device")

    with raises("builds_not_writable", root, "No space left on device", "STANADAPT_CACHE"):
        build_cache.find_or_build("schools", KEY, fill)
    assert list(root.iterdir()) == []


def test_a_full_disk_when_the_marker_is_written_is_reported(root, monkeypatch):
    def fill(path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(build_cache, "_fingerprint", fill)
        with raises("builds_not_writable", "No space left on device"):
            build_cache.find_or_build("schools", KEY, make)
    assert list(root.iterdir()) == []
    assert intact(build_cache.find_or_build("schools", KEY, make).folder)


def test_a_read_only_cache_can_be_used(monkeypatch):
    """As in a container image, or if it belongs to another user."""
    made = build_cache.find_or_build("schools", KEY, make).folder

    def refuse(*args, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refuse)
    assert build_cache.find_or_build("schools", KEY, forbidden).folder == made


def test_the_next_build_removes_leftovers_of_killed_processes(root):
    root.mkdir(parents=True)
    for name, days in (("old", 1.1), ("fresh", 0.9)):
        folder = root / name
        folder.mkdir()
        make(folder)
        set_age(folder, days)
    build_cache.find_or_build("schools", KEY, make)
    assert not (root / "old").exists()
    assert (root / "fresh" / "program.so").exists()


def test_builds_unused_for_two_months_are_removed(root):
    made = {
        name: build_cache.find_or_build(name, KEY, make).folder
        for name in ("unused", "used", "recent")
    }
    for name, folder in made.items():
        set_age(folder, 100)
        set_age(root / f"{name}-{KEY}.json", 59 if name == "recent" else 61)
    assert build_cache.find("used", KEY)  # finding it counts as a use
    build_cache.find_or_build("another", KEY, make)
    assert not made["unused"].exists()
    assert build_cache.find("unused", KEY) is None
    assert build_cache.find_or_build("used", KEY, forbidden).folder == made["used"]
    assert build_cache.find_or_build("recent", KEY, forbidden).folder == made["recent"]


def test_two_threads_that_finish_together_each_have_an_intact_build(root, monkeypatch):
    """Both pass the last check before either marker is written: the later marker counts."""
    both, publish = threading.Barrier(2, timeout=200), build_cache._publish
    monkeypatch.setattr(build_cache, "_publish", lambda *args: (both.wait(), publish(*args)))
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(build_cache.find_or_build, "schools", KEY, make) for _ in range(2)]
        made = [future.result(200).folder for future in made]
    assert made[0] != made[1]
    assert all(map(intact, made))
    assert build_cache.find("schools", KEY) in made
    assert len(list(root.glob("*.json"))) == 1


PROCESS = """
import pathlib, sys, time
from stanadapt.targets.stan import build_cache

own, awaited = map(pathlib.Path, sys.argv[1:])

def build(folder):
    (folder / "program.so").write_bytes(b"machine code" * 10)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "header.hpp").write_text("// C++")
    own.touch()
    for _ in range(20_000):
        if awaited.exists():
            return
        time.sleep(0.01)
    raise SystemExit("the other process did not start")

print(build_cache.find_or_build("schools", "0123456789abcdef", build).folder)
"""


def process(own, awaited):
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(own), str(awaited)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_simultaneous_processes_leave_one_build(tmp_path, root):
    """The second process finishes its build only after the first has written the marker."""
    signals = [tmp_path / "first", tmp_path / "second"]
    published = root / f"schools-{KEY}.json"
    pair = [process(signals[0], signals[1]), process(signals[1], published)]
    outputs = [one.communicate(timeout=300) for one in pair]
    assert [one.returncode for one in pair] == [0, 0], outputs
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == ""
    assert [str(folder) for folder in folders(root)] == [outputs[0][0].strip()]
    assert intact(build_cache.find("schools", KEY))


def test_a_killed_process_leaves_no_build(tmp_path, root):
    began = tmp_path / "began"
    killed = process(began, tmp_path / "never")
    while not began.exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=300)
    (leftover,) = folders(root)
    assert build_cache.find("schools", KEY) is None
    made = build_cache.find_or_build("schools", KEY, make).folder
    assert intact(made)
    set_age(leftover, 1.1)
    build_cache.find_or_build("radon", KEY, make)
    assert not leftover.exists()
    assert build_cache.find("schools", KEY) == made
