"""The folder that keeps compiled code between processes, or a temporary one in its place.

A folder that cannot be written to (a home that is missing, a read-only image) costs time, but does
not stop the run. A folder that another user could write to is not read either, since machine code
in it would run with our rights. Some libraries look for the user's home while they are imported:
`stand_in_home` provides one if it is missing.
"""

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stanadapt.engine.compiled.messages import CACHE_NOT_USED
from stanadapt.errors import Message, warn

_stand_ins: dict[Path, Path] = {}


# --- the user's home ------------------------------------------------------------------------------


def home() -> Path | None:
    """Return the user's home; None for a user without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return None


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables while the body runs."""
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
    """Provide a home for libraries that cannot be imported without one.

    It is not a folder, so that nothing can be written to it.
    """
    with environment(**({} if home() else {"HOME": os.devnull})):
        yield


# --- the cache ------------------------------------------------------------------------------------


def cache_root() -> Path:
    """Return the folder for all that is kept between runs: `STANADAPT_CACHE`, or the user's."""
    setting = os.environ.get("STANADAPT_CACHE")
    if setting:
        return Path(os.path.expanduser(setting))
    cache, user = os.environ.get("XDG_CACHE_HOME"), home()
    # without a home, nothing is kept
    return Path(cache or (user / ".cache" if user else os.devnull)) / "stanadapt"


@atexit.register
def remove_stand_ins() -> None:
    """Remove temporary folders; also called by a process that ends without atexit functions."""
    for folder in _stand_ins.values():
        shutil.rmtree(folder, ignore_errors=True)


def writable_folder(name: str) -> Path:
    """Return folder `name` of the cache, or a temporary one if the cache cannot be used.

    A temporary folder is deleted with the process; a warning gives the reason, once.
    """
    root = cache_root()
    if root not in _stand_ins:
        folder = root / name
        problem = _problem(folder)
        if problem is None:
            return folder
        _stand_ins[root] = Path(tempfile.mkdtemp(prefix="stanadapt-"))
        warn(
            Message(
                CACHE_NOT_USED,
                f"{problem}: compiled code is kept in a temporary folder, and compiled again by "
                "the next process. Set the environment variable STANADAPT_CACHE to another folder.",
            )
        )
    folder = _stand_ins[root] / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_temporary(folder: Path) -> bool:
    """Whether a folder is deleted with the process."""
    return any(folder.is_relative_to(stand_in) for stand_in in _stand_ins.values())


def readable_folders(name: str) -> list[Path]:
    """Return the folders to read: the temporary one, and the cache if no other user writes it."""
    root = cache_root()
    folders = [_stand_ins[root] / name] if root in _stand_ins else []
    return folders if others_write(root / name) else [*folders, root / name]


def others_write(folder: Path) -> bool:
    """Whether another user than root could change a folder, or the cache that it is in."""
    if not hasattr(os, "getuid"):  # Windows protects the folders of a user
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
    """Whether another user than root owns a folder or can write to it, maybe as one of a group."""
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
