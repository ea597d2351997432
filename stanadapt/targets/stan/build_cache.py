"""A cache of compiled files that outlives the process and never returns an incomplete build.

Each build has a folder, which is never moved, because precompiled headers record their path. A
small marker file, written last and renamed into place, records the folder and contents of the
build of a key. A killed process, a full disk or two processes that build the same key therefore
leave at worst a folder that no marker names. `kill_children_on_ctrl_c` stops compilers, and
CmdStan's chains, when Ctrl-C ends their parent.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from stanadapt.engine.compiled.cache_folder import readable_folders, writable_folder
from stanadapt.errors import StanadaptError

ROUNDS, PAUSE = 20, 0.005  # attempts to stop child processes, and seconds between them
BUILDS = "builds"
HASHED_BELOW = 50_000_000  # bytes; precompiled headers are larger, and too slow to hash
ABANDONED_AFTER, UNUSED_AFTER = 24 * 3600.0, 60 * 24 * 3600.0


class Build(NamedTuple):
    """The folder of a build, and its time in seconds: 0.0 if it was cached."""

    folder: Path
    seconds: float


def make_key(*parts: object) -> str:
    """Return 16 hexadecimal digits that identify the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def find(name: str, key: str) -> Path | None:
    """Return the folder of a build; None if it is missing or its files have changed since."""
    folders = (_find_in(root, name, key) for root in readable_folders(BUILDS))
    return next((folder for folder in folders if folder is not None), None)


def _find_in(root: Path, name: str, key: str) -> Path | None:
    marker = _marker(root, name, key)
    try:
        recorded = json.loads(marker.read_text(encoding="utf-8"))
        folder = root / recorded["folder"]
        for file, fingerprint in recorded["files"].items():
            if fingerprint != _fingerprint(folder / file):
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not folder.is_dir():
        return None
    with contextlib.suppress(OSError):  # marks the build as used; a shared cache is read-only
        os.utime(marker)
    return folder


def find_or_build(name: str, key: str, build: Callable[[Path], None]) -> Build:
    """Return a cached build, or make it by `build(folder)`; its errors pass through.

    Two processes may build the same key at once. Both use the build that is finished first.
    """
    cached, began = find(name, key), time.perf_counter()
    if cached is not None:
        return Build(cached, 0.0)
    root = writable_folder(BUILDS)
    with _readable_failures(root):
        _remove_unused(root)
        folder = Path(tempfile.mkdtemp(prefix=f"{_plain(name)}-{key}-", dir=root))
        try:
            with kill_children_on_ctrl_c():
                build(folder)
            cached = find(name, key)  # another process may have been faster
            if cached is None:
                _publish(_marker(root, name, key), folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return Build(cached or folder, time.perf_counter() - began)


def forget(name: str, key: str) -> None:
    """Remove a build that does not work from the cache."""
    for root in readable_folders(BUILDS):
        with contextlib.suppress(OSError):
            _marker(root, name, key).unlink()


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)[:40]


def _marker(root: Path, name: str, key: str) -> Path:
    return root / f"{_plain(name)}-{key}.json"


def _fingerprint(path: Path) -> list:
    size = path.stat().st_size
    if size > HASHED_BELOW:
        return [size, None]
    return [size, hashlib.sha256(path.read_bytes()).hexdigest()]


def _publish(marker: Path, folder: Path) -> None:
    files = {
        str(path.relative_to(folder)): _fingerprint(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    draft = folder / "marker"
    draft.write_text(json.dumps({"folder": folder.name, "files": files}), encoding="utf-8")
    draft.replace(marker)


@contextlib.contextmanager
def _readable_failures(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StanadaptError(
            "builds_not_writable",
            f"compiled programs are stored in {root}, which cannot be written: {error}. "
            "Free space there, or set the environment variable STANADAPT_CACHE to another folder.",
        ) from None


def _remove_unused(root: Path) -> None:
    """Remove builds that were not used for two months, and folders of killed processes."""
    now, in_use = time.time(), set()
    for marker in root.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if now - marker.stat().st_mtime > UNUSED_AFTER:
                marker.unlink()
            else:
                in_use.add(json.loads(marker.read_text(encoding="utf-8"))["folder"])
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            old = now - folder.stat().st_mtime > ABANDONED_AFTER
            if folder.is_dir() and folder.name not in in_use and old:
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def kill_children_on_ctrl_c() -> Iterator[None]:
    """Kill processes started in the body, and their children, before Ctrl-C is raised.

    `subprocess` kills the child only, not a compiler that make has started, and CmdStanPy waits
    for its chains. Processes that were started before the body continue.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _descendants()

    def end(number: int, frame: Any) -> None:
        for _ in range(ROUNDS):  # a process may have started another just before it was killed
            started = _descendants() - before
            for child in started:
                with contextlib.suppress(psutil.Error):
                    child.kill()
            if not started:
                break
            time.sleep(PAUSE)
        handler(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _descendants() -> set[psutil.Process]:
    """Return the running children of this process, and their children."""
    running = set()
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE:
                    running.add(child)
    return running
