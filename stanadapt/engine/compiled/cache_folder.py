"""The folder that compiled code is kept in between processes, or a temporary one in its place.

A folder that cannot be written to (a home that is missing, a read-only image) costs time, not the
run. One that another user could write to is not read either: whoever changes machine code there
runs what they like in our name.

The user's home, if there is one, and what stands in for it while a library is imported.
"""

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stanadapt.errors import warn


def home() -> Path | None:
    """Return the user's home; None for a user without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return None


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Give environment variables other values for a while."""
    saved = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def stand_in_home() -> Iterator[None]:
    """Let libraries be imported that look for a home, and raise where there is none.

    The stand-in is no folder, so that nothing can be written to it.
    """
    with environment(**({} if home() else {"HOME": os.devnull})):
        yield


_stand_ins: dict[Path, Path] = {}


def cache_root() -> Path:
    """Folder for everything kept between runs: `STANADAPT_CACHE`, else the user's cache."""
    chosen = os.environ.get("STANADAPT_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))
    users = os.environ.get("XDG_CACHE_HOME")
    own = home()
    # without a home, nothing is kept
    return Path(users or (own / ".cache" if own else os.devnull)) / "stanadapt"


@atexit.register
def remove_stand_ins() -> None:
    """Remove temporary folders; for a process that ends without its atexit functions."""
    for folder in _stand_ins.values():
        shutil.rmtree(folder, ignore_errors=True)


def writable_folder(name: str) -> Path:
    """Folder `name` of the cache, made if missing; else one that is deleted with the process.

    The latter is announced once, with the reason.
    """
    root = cache_root()
    if root not in _stand_ins:
        folder = root / name
        problem = _problem(folder)
        if problem is None:
            return folder
        _stand_ins[root] = Path(tempfile.mkdtemp(prefix="stanadapt-"))
        warn(
            f"{problem}: compiled code is kept in a temporary folder, and compiled again by the "
            "next process. Set the environment variable STANADAPT_CACHE to another folder."
        )
    folder = _stand_ins[root] / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def readable_folders(name: str) -> list[Path]:
    """Where builds of this process may be found: its stand-in, and a cache nobody else writes."""
    root = cache_root()
    folders = [_stand_ins[root] / name] if root in _stand_ins else []
    return folders if others_write(root / name) else [*folders, root / name]


def others_write(folder: Path) -> bool:
    """Whether another user than root could change a folder, or the cache that it is in."""
    if not hasattr(os, "getuid"):  # Windows keeps a user's folders to the user
        return False
    for place in (folder, cache_root()):
        try:
            status = place.stat()
        except OSError:  # missing: nothing is loaded from it
            continue
        if can_be_changed_by_others(status, os.getuid()):
            return True
    return False


def can_be_changed_by_others(status: os.stat_result, user: int) -> bool:
    """Owned by another user than root, or writable by all, or by a group that has other members."""
    shared_group = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, status.st_uid)
    writable = status.st_mode & stat.S_IWOTH or shared_group
    return bool(status.st_uid not in (0, user) or writable)


def _problem(folder: Path) -> str | None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return f"Nothing can be written to {folder} ({error.strerror})"
    if others_write(folder):
        return f"Other users can write to {folder}"
    return None
