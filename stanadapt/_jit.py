"""The two decorators for compiled functions: `jit`, and `c_function` for those called from C.

Numba's disk cache looks only at the file that defines a function, so a cached caller keeps
running the old machine code of a callee edited in another file. The cache therefore lives in
a folder named after a hash of all our sources: edit any file and everything is rebuilt once.

A sampler of a user's own is compiled into our loop, and edited more often than anything. Its
functions, and the loop around them (`jit_with`), are kept in a folder named after its files too.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import cfunc, config, njit, types
from numba.core.dispatcher import Dispatcher
from numba.extending import intrinsic

PACKAGE = Path(__file__).parent
# not to be inlined is said too: else what an inlined function calls would inherit it from whoever
# happens to be compiled first, and all of it be optimised anew at every level above
OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": False}
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


def _kept_folder(kind: str, name: str) -> Path:
    """Folder for machine code; a temporary one where the cache is read-only."""
    folder = cache_root() / kind / name
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


FINGERPRINT = source_fingerprint()
CACHE = _kept_folder("compiled", FINGERPRINT)


def _folder_for(functions: Iterable[Callable]) -> Path:
    """Where functions are kept that call each other: elsewhere, if some are not the package's."""
    sources = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        file = function.__code__.co_filename
        if file in sources or Path(file).is_relative_to(PACKAGE):
            continue
        sources[file] = _content(function)
        waiting += [called.py_func for called in _called_from(function.__globals__)]
    if not sources:
        return CACHE
    digest = hashlib.sha256(FINGERPRINT.encode())
    for file in sorted(sources):
        digest.update(file.encode() + sources[file])
    return _own_folder(digest.hexdigest()[:12])


_own_folder = functools.cache(functools.partial(_kept_folder, "own"))


def _content(function: Callable) -> bytes:
    """Return the source that a function is from: of a line typed in, its code."""
    try:
        return Path(function.__code__.co_filename).read_bytes()
    except OSError:
        return repr((function.__code__.co_code, function.__code__.co_consts)).encode()


def _called_from(names: dict[str, Any]) -> Iterator[Dispatcher]:
    """Compiled functions that code with these names can call, by itself or as module.name."""
    for value in list(names.values()):
        inside = list(vars(value).values()) if isinstance(value, ModuleType) else [value]
        yield from (found for found in inside if isinstance(found, Dispatcher))


@contextlib.contextmanager
def _caching_in(folder: Path) -> Iterator[None]:
    """Set and restored around a decoration, so that other packages' caches stay where they are."""
    saved, config.CACHE_DIR = config.CACHE_DIR, str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = saved


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk under the current sources."""
    return _cached(function, _folder_for([function]), **OPTIONS)


def inlined(function: Callable) -> Callable:
    """`jit` for what is called in a hot loop: the machine code goes into the caller's."""
    return _cached(function, _folder_for([function]), **(OPTIONS | {"forceinline": True}))


@intrinsic
def stay_apart(context: Any) -> Any:
    """Keep the function that calls this out of those that call it, however few they are.

    For large ones that are called from far above: their code would be optimised anew, as part of
    its callers, at every level of the way, which takes most of a minute.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), emit


def jit_with(compiled: Callable, others: Iterable[Callable]) -> Callable:
    """Return what `jit` has made, or one like it, kept under the sources of others it will call."""
    folder = _folder_for(getattr(other, "py_func", other) for other in others)
    return compiled if folder == CACHE else _again(compiled, folder)


@functools.cache
def _again(compiled: Callable, folder: Path) -> Callable:
    return _cached(compiled.py_func, folder, **OPTIONS)


def _cached(function: Callable, folder: Path, **options: Any) -> Callable:
    compiled = njit(**options)(function)
    with _caching_in(folder), contextlib.suppress(RuntimeError):  # what is typed in has no file
        compiled.enable_caching()
        _load_what_can_be(compiled._cache._cache_file)
    return compiled


def _load_what_can_be(file: Any) -> None:
    """Pass over an index with classes of a sampler that cannot be imported.

    A user's own leaves them in the cache; without this no other program could sample any more.
    """
    load = file._load_index

    def tolerant() -> dict:
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    file._load_index = tolerant


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
                with _caching_in(CACHE):
                    self._compiled = cfunc(self._signature, cache=True)(self._function)
            return self._compiled.address


def c_function(signature: Any) -> Callable[[Callable], CFunction]:
    """Make a function of a Numba signature callable from C: at its first use, not at import."""
    return lambda function: CFunction(signature, function)
