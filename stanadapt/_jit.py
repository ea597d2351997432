"""The one decorator for compiled functions.

Numba's disk cache looks only at the file that defines a function, so a cached caller keeps
running the old machine code of a callee edited in another file. The cache therefore lives in
a folder named after a hash of all our sources: edit any file and everything is rebuilt once.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from numba import config, njit

PACKAGE = Path(__file__).parent
FOLDERS_KEPT, MINIMUM_AGE = 4, 24 * 3600.0


def cache_root() -> Path:
    """Folder for all that is kept between runs: `STANADAPT_CACHE`, else the user's cache."""
    chosen = os.environ.get("STANADAPT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stanadapt"


def source_fingerprint() -> str:
    """Hash of every source file of the package, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _compiled_folder() -> Path:
    """Folder of this version's machine code; a temporary one where the cache is read-only."""
    folder = cache_root() / "compiled" / source_fingerprint()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="stanadapt-"))
    _forget_old_folders(folder)
    return folder


def _forget_old_folders(current: Path) -> None:
    others = [p for p in current.parent.iterdir() if p != current and p.is_dir()]
    others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for path in others[FOLDERS_KEPT:]:
        if time.time() - path.stat().st_mtime > MINIMUM_AGE:
            shutil.rmtree(path, ignore_errors=True)


CACHE = _compiled_folder()


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk under the current sources."""
    # set and restored around the decoration, so that other packages' caches stay where they are
    saved, config.CACHE_DIR = config.CACHE_DIR, str(CACHE)
    try:
        return njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = saved
