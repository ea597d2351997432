"""The folder that keeps compiled code between processes, or a temporary one in its place.

A folder that cannot be written to (a full disk, a read-only image) costs time, but does not stop
the run. A folder that another user could write to is not read either, since machine code in it
would run with our rights: `why_not_trusted` has the rule, for this cache and for shared ones.
"""

import atexit
import contextlib
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stanadapt.errors import Message, warn

PROBE = 4096  # bytes: on a full disk, an empty file can be created, and a larger one cannot
CAN_CHECK_OWNERS = hasattr(os, "getuid")
_stand_ins: dict[Path, Path] = {}
_problems: dict[Path, str] = {}  # of caches with a temporary folder in their place


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


def cache_root() -> Path:
    """Return the folder for all that is kept between runs: `STANADAPT_CACHE`, or the user's."""
    setting = os.environ.get("STANADAPT_CACHE")
    if setting:
        return Path(os.path.expanduser(setting))
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "stanadapt"


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
        if not problem:
            return folder
        _stand_ins[root] = Path(tempfile.mkdtemp(prefix="stanadapt-"))
        _problems[root] = problem
        warn(
            Message(
                "cache_not_used",
                f"{problem}: code compiled now is kept in a temporary folder, and compiled again "
                "by the next process. Set the environment variable STANADAPT_CACHE to another "
                "folder.",
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
    return folders if _others_write(root / name) else [*folders, root / name]


def problem_of_cache() -> str:
    """Return why the cache is not written to, as in the warning; "" if it is."""
    root = cache_root()
    return _problems[root] if root in _stand_ins else ""


def _problem(folder: Path) -> str:
    """Return why a folder of the cache is not written to; "" if it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(PROBE))
    except OSError as error:
        return f"Nothing can be written to {folder} ({error.strerror})"
    return f"Other users can write to {folder}" if _others_write(folder) else ""


# --- who can write --------------------------------------------------------------------------------


def why_not_trusted(place: Path, status: os.stat_result) -> str:
    """Return why machine code in a folder or file is not run; "" if it is.

    Only root, this user and the owner of the package, who have code running here in any case, may
    be able to change it; or a group of which this user is the only one, as on many systems.
    """
    if status.st_uid not in trusted_owners():
        return f"{place} belongs to a user other than you or root (number {status.st_uid})"
    own_group = status.st_uid == status.st_gid == os.getuid()
    if status.st_mode & (stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP):
        return f"users other than its owner can write to {place}"
    return ""


@functools.cache
def trusted_owners() -> frozenset[int]:
    """Return the numbers of users who have code running here."""
    return frozenset({0, os.getuid(), Path(__file__).stat().st_uid})


def _others_write(folder: Path) -> bool:
    """Whether another user could change a folder of the cache, or the cache that it is in."""
    for place in (folder, cache_root()) if CAN_CHECK_OWNERS else ():
        with contextlib.suppress(OSError):  # missing: nothing is loaded from it
            if why_not_trusted(place, place.stat()):
                return True
    return False
