"""The two decorators for compiled functions: `jit`, and `c_function` for those called from C.

Numba's disk cache looks only at the file that defines a function, so a cached caller keeps
running the old machine code of a callee edited in another file. The cache therefore lives in
a folder named after a hash of all our sources: edit any file and everything is rebuilt once.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import cfunc, config, njit

PACKAGE = Path(__file__).parent
OPTIONS = {"nogil": True, "error_model": "numpy"}
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


@contextlib.contextmanager
def _in_our_cache() -> Iterator[None]:
    """Set and restored around a decoration, so that other packages' caches stay where they are."""
    saved, config.CACHE_DIR = config.CACHE_DIR, str(CACHE)
    try:
        yield
    finally:
        config.CACHE_DIR = saved


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk under the current sources."""
    return _cached(function, **OPTIONS)


def inlined(function: Callable) -> Callable:
    """`jit` for what is called in a hot loop: the machine code goes into the caller's."""
    return _cached(function, forceinline=True, **OPTIONS)


def _cached(function: Callable, **options: Any) -> Callable:
    with _in_our_cache():
        compiled = njit(cache=True, **options)(function)
    file = compiled._cache._cache_file
    load = file._load_index

    def load_what_can_be() -> dict:
        # a sampler of a user's own leaves its classes here, and other programs cannot import them:
        # without this none of them could sample any more
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    file._load_index = load_what_can_be
    return compiled


class CFunction:
    """A function that C code can call, made by `c_function`."""

    def __init__(self, signature: Any, function: Callable) -> None:
        self.__doc__, self._signature, self._function = function.__doc__, signature, function
        self._lock, self._compiled = threading.Lock(), None

    @property
    def address(self) -> int:
        """Where it is; the first call compiles it, or loads it from the cache."""
        with self._lock:
            if self._compiled is None:
                with _in_our_cache():
                    self._compiled = cfunc(self._signature, cache=True)(self._function)
            return self._compiled.address


def c_function(signature: Any) -> Callable[[Callable], CFunction]:
    """Make a function of a Numba signature callable from C: at its first use, not at import."""
    return lambda function: CFunction(signature, function)
