"""Compiled code that one user made for many: `STANADAPT_SHARED_CACHE`, read and never written.

An administrator, or the author of an image, fills a cache once (`stanadapt compile`). The machine
code in it runs with the rights of the user who loads it. Therefore a folder or file is read if only
root, this user, or the owner of the package itself can change it. The last has code running here
in any case. The same is required of each folder above, down from the root of the file system, since
a user who can rename one of them can put another in its place.
"""

import functools
import os
import stat
from pathlib import Path

from stanadapt.engine.compiled.cache_folder import cache_root, problem_of_cache
from stanadapt.errors import Message, warn

SETTING = "STANADAPT_SHARED_CACHE"
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
CAN_CHECK_OWNERS = hasattr(os, "getuid")
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
    folder = root.joinpath(*name.split("/"))
    below = [*reversed([place for place in folder.parents if root in place.parents]), folder]
    problem = problem_of(root) or next(filter(None, map(_problem_of_folder, below)), "")
    if problem:
        _refuse(problem)
    return None if problem or not folder.is_dir() else folder


def problem_of(root: Path) -> str:
    """Return why a shared cache is not used; "" if it is."""
    if not CAN_CHECK_OWNERS:
        return "on this system, it cannot be checked who can write to it"
    if not root.is_dir():
        return "there is no such folder"
    for place in (root, *root.parents):
        problem = _problem_of_folder(place, above=place != root)
        if problem:
            return problem
    return ""


def read_trusted(path: Path) -> bytes:
    """Return the contents of a file of a shared folder.

    Raises
    ------
    OSError
        If it cannot be read, or if others could have written it, of which the user is warned once.

    """
    file = os.open(path, OPENING)
    with open(file, "rb") as opened:
        problem = _problem(path, os.fstat(file))
        if problem:
            _refuse(problem)
            raise PermissionError(problem)
        return opened.read()


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
    return _problem(place, status)


def _problem(place: Path, status: os.stat_result) -> str:
    if status.st_uid not in trusted_owners():
        return f"{place} belongs to a user other than you or root (number {status.st_uid})"
    if status.st_mode & OTHERS_MAY_WRITE:
        return f"users other than its owner can write to {place}"
    return ""


@functools.cache
def trusted_owners() -> frozenset[int]:
    """Return the numbers of users who have code running here: root, we, the package's owner."""
    return frozenset({0, os.getuid(), Path(__file__).stat().st_uid})


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
