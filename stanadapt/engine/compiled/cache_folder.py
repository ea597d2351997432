"""The folder that keeps compiled code between processes, or a temporary one in its place.

A folder that cannot be written to (a home that is missing, a read-only image) costs time, but does
not stop the run. A folder that another user could write to is not read either, since machine code
in it would run with our rights. Some libraries look for the user's home while they are imported:
`stand_in_home` provides one if it is missing. Many write temporary files:
`provide_temporary_folder` finds a place for them if the usual ones are full, missing or read-only.
"""

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stanadapt.errors import Message, StanadaptError, warn

PROBE = 4096  # bytes: on a full disk, an empty file can be created, and a larger one cannot
MEMORY = Path("/dev/shm")  # on Linux
_stand_ins: dict[Path, Path] = {}
_problems: dict[Path, str] = {}  # of caches with a temporary folder in their place


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


# --- temporary files ------------------------------------------------------------------------------


def provide_temporary_folder() -> None:
    """Let this process and its children use the cache, if no usual temporary folder can be written.

    Raises
    ------
    StanadaptError
        Stage "files", if the cache cannot be written either.

    """
    try:
        tempfile.gettempdir()
    except OSError:
        own = cache_root() / "temporary"
        for folder in (MEMORY, own):
            if (folder == own or folder.is_dir()) and _not_writable(folder) is None:
                tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
                return
        raise StanadaptError(
            "no_temporary_folder",
            f"no temporary file can be written: the usual folders and {cache_root()} are full, "
            "missing or read-only. Set the environment variable TMPDIR to a folder with some space "
            "in which you can write.",
        ) from None


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


def problem_of_cache() -> str:
    """Return why the cache is not written to, as in the warning; "" if it is."""
    root = cache_root()
    return _problems[root] if root in _stand_ins else ""


def _problem(folder: Path) -> str | None:
    problem = _not_writable(folder)
    if problem is None and others_write(folder):
        return f"Other users can write to {folder}"
    return problem


def _not_writable(folder: Path) -> str | None:
    """Return why no file can be written to a folder; None if one can."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(PROBE))
    except OSError as error:
        return f"Nothing can be written to {folder} ({error.strerror})"
    return None


provide_temporary_folder()
