"""Compiled code that one user made for many: `STANADAPT_SHARED_CACHE`, read and never written.

An administrator, or the author of an image, fills a cache once (`stanadapt compile`). Folders
and files of it are read by the rule of `why_not_trusted`, which also holds for each folder above:
who can rename one of them can put another in its place.
"""

import functools
import os
import stat
from pathlib import Path

from stanadapt.engine.compiled.cache_folder import (
    CAN_CHECK_OWNERS,
    cache_root,
    problem_of_cache,
    why_not_trusted,
)
from stanadapt.errors import Message, warn

SETTING = "STANADAPT_SHARED_CACHE"
# a link in place of a file may point anywhere
OPENING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# caches about which the user was warned
_reported: set[Path] = set()


def shared_root() -> Path | None:
    """Return the shared cache, without links in its path, or None.

    The user's own cache does not count as a shared one: it is read and written. If it cannot be
    written, it is like one, unless another is set.
    """
    setting = os.environ.get(SETTING)
    if setting:
        return _resolved(setting, cache_root())
    return cache_root().resolve() if problem_of_cache() else None


@functools.cache
def _resolved(setting: str, own: Path) -> Path | None:
    root = Path(os.path.expanduser(setting)).resolve()
    return None if root == own.resolve() else root


def shared_folder(name: str) -> Path | None:
    """Return a folder of the shared cache, or None if it is missing or cannot be trusted."""
    root = shared_root()
    return None if root is None else _trusted_folder(root, name)


@functools.cache
def _trusted_folder(root: Path, name: str) -> Path | None:
    folder = root / name
    problem = problem_of(root) or _problem_of_folder(folder)
    if problem:
        _refuse(problem)
    return None if problem or not folder.is_dir() else folder


def problem_of(root: Path) -> str:
    """Return why a shared cache is not used; "" if it is."""
    if not CAN_CHECK_OWNERS:
        return "on this system, it cannot be checked who can write to it"
    if not root.is_dir():
        return "there is no such folder"
    problems = (_problem_of_folder(place, place != root) for place in (root, *root.parents))
    return next(filter(None, problems), "")


def _problem_of_folder(place: Path, above: bool = False) -> str:
    """Return why a folder is not trusted; "" if it is, or does not exist."""
    try:
        status = place.lstat()
    except OSError:
        return ""
    if stat.S_ISLNK(status.st_mode):
        return f"{place} is a link"
    # as in /tmp: others can add files, but replace none
    if above and status.st_mode & stat.S_ISVTX and status.st_uid == 0:
        return ""
    return why_not_trusted(place, status)


def read_trusted(path: Path) -> bytes:
    """Return the contents of a file of a shared folder.

    Raises
    ------
    OSError
        If it cannot be read, or if others could have written it, of which the user is warned once.

    """
    file = os.open(path, OPENING)
    with open(file, "rb") as opened:
        problem = why_not_trusted(path, os.fstat(file))
        if problem:
            _refuse(problem)
            raise PermissionError(problem)
        return opened.read()


def _refuse(problem: str) -> None:
    """Warn that something is not used; once, since all files may have the same problem."""
    root = shared_root()
    # of the user's own cache, another warning has given the reason
    if root is None or root in _reported or not os.environ.get(SETTING):
        return
    _reported.add(root)
    warn(
        Message(
            "shared_cache_not_used",
            f"{SETTING} is {root}, but {problem}: code is compiled into your own cache instead.",
        )
    )
