"""The cache of compiled files, written by several threads and processes at once."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from stanadapt.targets.stan import build_cache
from tests.helpers.cached_builds import KEY, folders, intact, make, set_age

pytestmark = pytest.mark.usefixtures("root")


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
