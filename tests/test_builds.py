"""Compiled things that outlive a process: found again whole, or built anew."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stanadapt import builds
from stanadapt.errors import StanadaptError

DAY = 24 * 3600.0
KEY = "0123456789abcdef"
CONTENT = b"machine code" * 10


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("STANADAPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "builds"


def make(folder):
    (folder / "program.so").write_bytes(CONTENT)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "header.hpp").write_text("// C++")


def forbidden(folder):
    raise AssertionError("built again")


def whole(folder):
    header = folder / "deeper" / "header.hpp"
    return (folder / "program.so").read_bytes() == CONTENT and header.read_text() == "// C++"


def marker(root):
    (found,) = root.glob("*.json")
    return found


def folders(root):
    return [path for path in root.iterdir() if path.is_dir()]


def aged(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_stands_for_its_parts_in_their_order():
    keys = {
        builds.key_of(*parts)
        for parts in [("ab", "c"), ("a", "bc"), ("c", "ab"), ("abc",), ("ab", "c", ""), ()]
    }
    assert len(keys) == 6
    assert all(len(key) == 16 and int(key, 16) >= 0 for key in keys)
    assert builds.key_of({"a": 1}, ["-O3"], None) == builds.key_of({"a": 1}, ["-O3"], None)


def test_a_key_is_the_same_in_every_process():
    code = "from stanadapt import builds; print(builds.key_of({'O': 3}, ['é'], None, 1.5))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert done.stdout.strip() == builds.key_of({"O": 3}, ["é"], None, 1.5)


# --- one process ---------------------------------------------------------------------------------


def test_the_same_key_is_built_once(root):
    assert builds.kept("schools", KEY) is None
    first = builds.keep("schools", KEY, lambda folder: (make(folder), time.sleep(0.02)))
    again = builds.keep("schools", KEY, forbidden)
    assert again.folder == first.folder == builds.kept("schools", KEY)
    assert again.seconds == 0.0
    assert 0.02 <= first.seconds < 60
    assert whole(first.folder)
    assert folders(root) == [first.folder]


def test_another_key_or_name_is_another_build(root):
    made = [
        builds.keep(*names, make).folder
        for names in [("schools", KEY), ("schools", KEY[::-1]), ("radon", KEY)]
    ]
    assert len(set(made)) == 3
    assert all(map(whole, made))


@pytest.mark.parametrize("name", ["../up", "a/b", "a b", "ü", "x" * 300, "", "."])
def test_any_name_stays_in_the_cache(root, name):
    made = builds.keep(name, KEY, make)
    assert made.folder.parent == root
    assert builds.kept(name, KEY) == made.folder


@pytest.mark.parametrize(
    "error", [StanadaptError("syntax", "no."), ValueError("x"), KeyboardInterrupt()]
)
def test_a_build_that_raises_leaves_nothing(root, error):
    def fail(folder):
        make(folder)
        raise error

    with pytest.raises(type(error)) as caught:
        builds.keep("schools", KEY, fail)
    assert caught.value is error
    assert list(root.iterdir()) == []
    assert whole(builds.keep("schools", KEY, make).folder)


def test_a_forgotten_build_is_built_anew():
    first = builds.keep("schools", KEY, make).folder
    builds.forget("schools", KEY)
    assert builds.kept("schools", KEY) is None
    second = builds.keep("schools", KEY, make).folder
    assert second != first  # the library in `first` may still be loaded
    assert whole(second)
    builds.forget("radon", KEY)  # which is not there


SPOILT = {
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


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_build_is_built_anew(how):
    first = builds.keep("schools", KEY, make).folder
    SPOILT[how](first)
    assert builds.kept("schools", KEY) is None
    second = builds.keep("schools", KEY, make).folder
    assert second != first
    assert whole(second)
    assert builds.keep("schools", KEY, forbidden).folder == second


def test_of_a_large_file_the_size_counts(monkeypatch):
    monkeypatch.setattr(builds, "HASHED_BELOW", 50)
    first = builds.keep("schools", KEY, make).folder
    (first / "program.so").write_bytes(CONTENT[::-1])  # it would take too long to see
    assert builds.kept("schools", KEY) == first
    (first / "program.so").write_bytes(CONTENT[:-1])
    assert builds.kept("schools", KEY) is None


def half(text):
    return text[: len(text) // 2]


def without_files(text):
    return json.dumps({"folder": json.loads(text)["folder"]})


def nowhere(text):
    return json.dumps({"folder": "nowhere", "files": {}})


def many_levels(text):
    return json.dumps(json.loads(text) | {"files": {"program.so": {"size": [120]}}})


BAD_MARKERS = [
    "", "garbage", "null", "[]", "7", '"schools"', "{}", '{"folder": "x"', '{"folder": null}',
    '{"folder": null, "files": {}}', '{"folder": 7, "files": {}}', '{"folder": [], "files": {}}',
    '{"folder": "x", "files": [1]}', '{"folder": "x", "files": null}', '{"files": {}}', b"\xff\xfe",
    half, without_files, nowhere, many_levels,
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_MARKERS, ids=lambda x: getattr(x, "__name__", repr(x)))
def test_a_marker_that_says_nothing_is_no_build(root, text):
    builds.keep("schools", KEY, make)
    if callable(text):
        text = text(marker(root).read_text())
    marker(root).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert builds.kept("schools", KEY) is None
    made = builds.keep("schools", KEY, make).folder
    assert whole(made)
    assert builds.keep("schools", KEY, forbidden).folder == made


def test_bad_markers_do_not_stop_the_sweep_for_others(root):
    builds.keep("schools", KEY, make)
    for number, text in enumerate(["garbage", "[]", "null", '{"folder": []}']):
        (root / f"x{number}.json").write_text(text)
    assert whole(builds.keep("radon", KEY, make).folder)
    assert builds.kept("schools", KEY)


# --- several at once -----------------------------------------------------------------------------


def test_the_slower_of_two_threads_takes_the_build_of_the_faster(root):
    began, published = threading.Event(), threading.Event()

    def slow(folder):
        began.set()
        assert published.wait(20)
        make(folder)

    with ThreadPoolExecutor(1) as pool:
        slower = pool.submit(builds.keep, "schools", KEY, slow)
        assert began.wait(20)
        faster = builds.keep("schools", KEY, make)
        published.set()
        assert slower.result(20).folder == faster.folder
    assert whole(faster.folder)
    assert folders(root) == [faster.folder]
    assert marker(root)


def test_two_threads_that_finish_together_each_have_a_whole_build(root, monkeypatch):
    """The window between the last look and the marker: the later marker counts."""
    both, publish = threading.Barrier(2, timeout=20), builds._publish
    monkeypatch.setattr(builds, "_publish", lambda *args: (both.wait(), publish(*args)))
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(builds.keep, "schools", KEY, make) for _ in range(2)]
        made = [future.result(20).folder for future in made]
    assert made[0] != made[1]
    assert all(map(whole, made))
    assert builds.kept("schools", KEY) in made
    assert marker(root)


PROCESS = """
import pathlib, sys, time
from stanadapt import builds

mine, awaited = map(pathlib.Path, sys.argv[1:])

def build(folder):
    (folder / "program.so").write_bytes(b"machine code" * 10)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "header.hpp").write_text("// C++")
    mine.touch()
    for _ in range(2000):
        if awaited.exists():
            return
        time.sleep(0.01)
    raise SystemExit("the other one did not come")

print(builds.keep("schools", "0123456789abcdef", build).folder)
"""


def process(mine, awaited):
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(mine), str(awaited)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_processes_building_at_once_end_with_one_build(tmp_path, root):
    """The second one finishes its build only when the first one's marker is there."""
    signs = [tmp_path / "first", tmp_path / "second"]
    published = root / f"schools-{KEY}.json"
    pair = [process(signs[0], signs[1]), process(signs[1], published)]
    said = [one.communicate(timeout=60) for one in pair]
    assert [one.returncode for one in pair] == [0, 0], said
    assert said[0] == said[1]
    assert said[0][1] == ""
    assert [str(folder) for folder in folders(root)] == [said[0][0].strip()]
    assert whole(builds.kept("schools", KEY))


def test_a_killed_process_leaves_no_build(tmp_path, root):
    sign = tmp_path / "began"
    killed = process(sign, tmp_path / "never")
    while not sign.exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=20)
    (left,) = folders(root)
    assert builds.kept("schools", KEY) is None
    made = builds.keep("schools", KEY, make).folder
    assert whole(made)
    aged(left, 1.1)
    builds.keep("radon", KEY, make)
    assert not left.exists()
    assert builds.kept("schools", KEY) == made


# --- a cache that cannot be written --------------------------------------------------------------


@pytest.mark.parametrize("place", ["cache", "cache/builds"])
def test_a_file_in_the_place_of_the_cache(tmp_path, root, place):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("a file")
    assert builds.kept("schools", KEY) is None
    builds.forget("schools", KEY)
    with pytest.raises(StanadaptError, match="STANADAPT_CACHE") as caught:
        builds.keep("schools", KEY, forbidden)
    assert caught.value.stage == "files"
    assert str(root) in caught.value.message
    assert "Make room there, or set" in caught.value.message
    assert path.read_text() == "a file"


def test_a_full_disk_during_a_build(root):
    def fill(folder):
        make(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(StanadaptError, match=r"No space left on device.*STANADAPT_CACHE") as caught:
        builds.keep("schools", KEY, fill)
    assert caught.value.stage == "files"
    assert list(root.iterdir()) == []


def test_a_full_disk_when_the_marker_is_written(root, monkeypatch):
    def fill(path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(builds, "_description", fill)
        with pytest.raises(StanadaptError, match="No space left"):
            builds.keep("schools", KEY, make)
    assert list(root.iterdir()) == []
    assert whole(builds.keep("schools", KEY, make).folder)


def test_a_read_only_cache_is_of_use(monkeypatch):
    """As in a container image, or made by somebody else."""
    made = builds.keep("schools", KEY, make).folder

    def refuse(*args, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refuse)
    assert builds.keep("schools", KEY, forbidden).folder == made


# --- sweeping ------------------------------------------------------------------------------------


def test_the_next_build_removes_what_a_killed_process_left(root):
    root.mkdir(parents=True)
    for name, days in (("old", 1.1), ("fresh", 0.9)):
        make_in = root / name
        make_in.mkdir()
        make(make_in)
        aged(make_in, days)
    builds.keep("schools", KEY, make)
    assert not (root / "old").exists()
    assert (root / "fresh" / "program.so").exists()


def test_builds_unused_for_two_months_go_and_used_ones_stay(root):
    made = {name: builds.keep(name, KEY, make).folder for name in ("unused", "used", "recent")}
    for name, folder in made.items():
        aged(folder, 100)
        aged(root / f"{name}-{KEY}.json", 59 if name == "recent" else 61)
    assert builds.kept("used", KEY)  # a look is a use
    builds.keep("another", KEY, make)
    assert not made["unused"].exists()
    assert builds.kept("unused", KEY) is None
    assert builds.keep("used", KEY, forbidden).folder == made["used"]
    assert builds.keep("recent", KEY, forbidden).folder == made["recent"]
