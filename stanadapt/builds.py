"""Compiled things that outlive a process: found again by a key, never found half made.

A build happens in a folder of its own, which never moves: precompiled headers remember where
they are. A small marker file, written last and put in place in one step, says which folder holds
the build of a key and what is in it. So a process that is killed, a full disk or a second
process at the same work leave at worst a folder that no marker names.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stanadapt._jit import cache_root
from stanadapt.errors import StanadaptError

HASHED_BELOW = 50_000_000  # bytes; a precompiled header is larger, and too slow to read again
ABANDONED_AFTER, UNUSED_AFTER = 24 * 3600.0, 60 * 24 * 3600.0


class Build(NamedTuple):
    """A build's folder, and the seconds it took: 0.0 if it was there."""

    folder: Path
    seconds: float


def key_of(*parts: object) -> str:
    """Return 16 hexadecimal digits that stand for the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def kept(name: str, key: str) -> Path | None:
    """Return the folder of a build; None if there is none, or not as it was when it was made."""
    marker = _marker(name, key)
    try:
        said = json.loads(marker.read_text(encoding="utf-8"))
        folder = _root() / said["folder"]
        for file, as_made in said["files"].items():
            if as_made != _description(folder / file):
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not folder.is_dir():
        return None
    with contextlib.suppress(OSError):  # still of use; a cache made by others is read-only
        os.utime(marker)
    return folder


def keep(name: str, key: str, build: Callable[[Path], None]) -> Build:
    """Return a build, made by `build(folder)` if it is not there.

    Two processes may build the same at once: the first to finish is used by both.

    Raises
    ------
    StanadaptError
        Of stage "files" if the cache cannot be written; and what `build` raises.

    """
    found, began = kept(name, key), time.perf_counter()
    if found is not None:
        return Build(found, 0.0)
    with _readable_failures():
        _root().mkdir(parents=True, exist_ok=True)
        _sweep()
        folder = Path(tempfile.mkdtemp(prefix=f"{_plain(name)}-{key}-", dir=_root()))
        try:
            build(folder)
            found = kept(name, key)
            if found is None:
                _publish(name, key, folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return Build(found or folder, time.perf_counter() - began)


def forget(name: str, key: str) -> None:
    """Drop a build that turned out not to work."""
    with contextlib.suppress(OSError):
        _marker(name, key).unlink()


def _root() -> Path:
    return cache_root() / "builds"


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)[:40]


def _marker(name: str, key: str) -> Path:
    return _root() / f"{_plain(name)}-{key}.json"


def _description(path: Path) -> list:
    size = path.stat().st_size
    if size > HASHED_BELOW:
        return [size, None]
    return [size, hashlib.sha256(path.read_bytes()).hexdigest()]


def _publish(name: str, key: str, folder: Path) -> None:
    files = {
        str(path.relative_to(folder)): _description(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    draft = folder / "marker"
    draft.write_text(json.dumps({"folder": folder.name, "files": files}), encoding="utf-8")
    draft.replace(_marker(name, key))


@contextlib.contextmanager
def _readable_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StanadaptError(
            "files",
            f"compiled programs are kept in {_root()}, which cannot be written: {error}. "
            "Make room there, or set the environment variable STANADAPT_CACHE to another folder.",
        ) from None


def _sweep() -> None:
    """Remove what nobody has used for two months, and what a killed process left behind."""
    now, named = time.time(), set()
    for marker in _root().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if now - marker.stat().st_mtime > UNUSED_AFTER:
                marker.unlink()
            else:
                named.add(json.loads(marker.read_text(encoding="utf-8"))["folder"])
    for folder in _root().iterdir():
        with contextlib.suppress(OSError):
            old = now - folder.stat().st_mtime > ABANDONED_AFTER
            if folder.is_dir() and folder.name not in named and old:
                shutil.rmtree(folder, ignore_errors=True)
