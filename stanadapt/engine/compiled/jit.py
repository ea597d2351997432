"""The decorators for compiled functions: `jit`, `inline`, `rarely_called`, and `c_function`, for C.

Numba's disk cache checks only the file that defines a function, so a cached caller keeps
running the old machine code of a callee edited in another file. The cache therefore lives in
a folder named after a hash of all sources of compiled code: after an edit of any of them everything
is rebuilt once.

A user's sampler is compiled into our loop, and edited more often than anything else. Its functions,
and the loop around them (`jit_with`), are kept in another folder, named after its files as well,
and after those that they import: Numba compiles the values of globals as constants. Those that are
in no file are kept apart within the folder (`sources`).
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import config, types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from stanadapt.engine.compiled.cache_folder import writable_folder
from stanadapt.engine.compiled.callees import (
    Callee,
    CalleeDispatcher,
    Entry,
    EntryDispatcher,
    SeldomEntry,
)
from stanadapt.engine.compiled.compilations import HISTORY
from stanadapt.engine.compiled.machine_code import CalleeCode, MachineCode
from stanadapt.engine.compiled.sources import (
    hash_of_constants,
    is_of_package,
    remembered,
    text_of_code,
)
from stanadapt.errors import Message, warn

PACKAGE = Path(__file__).parents[2]
IMPORTED = re.compile(
    rb"^\s*(?:from|import) stanadapt\.([\w.]+)(?: import (\([^)]*\)|[^\n]*))?", re.MULTILINE
)
# forceinline is set to False explicitly: otherwise the callees of an inlined function inherit the
# flag from whichever caller is compiled first, and are optimized again at every level above
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "forceinline": False}
# of an overload, which nothing but compiled code calls
OVERLOAD_OPTIONS: Any = OPTIONS | {"pipeline_class": Callee}
USES_NUMBA = re.compile(
    rb"^\s*(?:from|import) (?:numba|stanadapt\.engine\.compiled\.jit)\b", re.MULTILINE
)
FOLDERS_KEPT, MINIMUM_AGE = 4, 24 * 3600.0


# --- the cache ------------------------------------------------------------------------------------


def source_fingerprint() -> str:
    """Return a hash of all sources of compiled code, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for _, text in sorted(compiled_sources().items()):
        digest.update(text)
    return digest.hexdigest()[:12]


def compiled_sources() -> dict[Path, bytes]:
    """Return the files that use Numba, and all that they import from the package, with text."""
    texts = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    pending = [path for path, text in texts.items() if USES_NUMBA.search(text)]
    sources: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in sources:
            continue
        sources.add(path)
        for module, names in IMPORTED.findall(texts[path]):
            pending += [other for other in _imported_files(module, names) if other in texts]
    return {path: texts[path] for path in sources}


def _imported_files(module: bytes, names: bytes) -> list[Path]:
    """Return the files that `from module import names` may read.

    If the module is a package, these are the modules among the names. A name that is not a module
    is defined, or imported, in the package's `__init__.py`.
    """
    place = PACKAGE.joinpath(*module.decode().split("."))
    if not place.is_dir():
        return [place.with_suffix(".py")]
    imported = re.findall(r"(\w+)(?:\s+as\s+\w+)?", names.decode())
    modules = [place / f"{name}.py" for name in imported]
    return [path if path.is_file() else place / "__init__.py" for path in modules]


def _cache_folder(kind: str, name: str) -> Path:
    """Return a folder for machine code, and delete old ones."""
    folder = writable_folder(kind) / name
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        os.utime(folder)
    _delete_old_folders(folder)
    return folder


def _delete_old_folders(current: Path) -> None:
    others = [p for p in current.parent.iterdir() if p != current and p.is_dir()]
    others.sort(key=_last_used, reverse=True)
    for path in others[FOLDERS_KEPT:]:
        if time.time() - _last_used(path) > MINIMUM_AGE:
            shutil.rmtree(path, ignore_errors=True)


def _last_used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another process has just deleted it
        return 0.0


if config.DISABLE_JIT:
    # Python could not run our code, which calls C functions by their addresses
    warn(
        Message(
            "jit_cannot_be_disabled",
            "NUMBA_DISABLE_JIT has no effect: stanadapt requires compilation.",
        )
    )
    config.DISABLE_JIT = 0
FINGERPRINT = source_fingerprint()
CACHE = _cache_folder("compiled", FINGERPRINT)


def _folder_for(functions: Iterable[Callable]) -> Path:
    """Return the cache folder for functions: a separate one if any source is not the package's.

    It is named after the text that the functions came from, whatever is in their files by now.
    """
    sources: set[tuple[str, str]] = set()
    pending, searched = list(functions), set()
    while pending:
        function = pending.pop()
        if is_of_package(function.__code__.co_filename):
            continue
        sources |= _sources(function)
        if id(function.__globals__) not in searched:
            searched.add(id(function.__globals__))
            pending += [callee.py_func for callee in _compiled_functions(function.__globals__)]
    if not sources:
        return CACHE
    digest = hashlib.sha256(FINGERPRINT.encode())
    for file, text in sorted(sources):
        digest.update(f"{file}\n{text}\n".encode())
    return _user_folder(digest.hexdigest()[:12])


_user_folder = functools.cache(functools.partial(_cache_folder, "own"))


def _sources(function: Callable) -> set[tuple[str, str]]:
    """Return the files that a function depends on, with hashes; its bytecode if it has no file."""
    file = function.__code__.co_filename
    try:
        package = function.__globals__.get("__package__") or ""
        found = remembered(function, file, package)
    except OSError:
        return {(file, text_of_code(function.__code__))}
    return {(path, source.hash) for path, source in found.items()}


def _compiled_functions(names: dict[str, Any]) -> Iterator[Dispatcher]:
    """Yield compiled functions among global names, directly or as module.name."""
    for value in list(names.values()):
        members = list(vars(value).values()) if isinstance(value, ModuleType) else [value]
        yield from (member for member in members if isinstance(member, Dispatcher))


# --- decorators -----------------------------------------------------------------------------------


def jit(function: Callable) -> Callable:
    """Compile without the GIL, cached on disk under the current sources."""
    return _cached(function, _folder_for([function]), **OPTIONS)


def rarely_called(function: Callable) -> Callable:
    """`jit` for a function that is called a few times in a run, such as `init` of a sampler.

    As a whole it is not optimized, and takes a few times longer. Results are the same.
    """
    return _cached(function, _folder_for([function]), SeldomEntry, **OPTIONS)


def inline(function: Callable) -> Callable:
    """`jit` for a function called in a hot loop: its machine code is inlined into the caller's."""
    return _cached(function, _folder_for([function]), **(OPTIONS | {"forceinline": True}))


def as_python(compiled: Any) -> Callable:
    """Return the Python function behind one of `jit`, for calls that are not worth compiling.

    Only for those that do what they do in Python: they divide by no zero and call no intrinsic.
    """
    function: Callable = compiled.py_func
    return function


@intrinsic
def never_inline(context: Any) -> Any:
    """Keep the function that calls this from being inlined into its callers.

    For large functions at the bottom of a deep call chain. Their code would be optimized again, as
    part of each caller, at every level of the chain, which takes most of a minute.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), emit


def remember_sources(functions: Iterable[Callable]) -> None:
    """Remember the files of functions that Numba's own decorators compile, or that Python runs."""
    _folder_for(getattr(function, "py_func", function) for function in functions)


def jit_with(compiled: Callable, others: Iterable[Callable]) -> Callable:
    """Return a `jit` function, or a copy cached under the sources of other functions it calls."""
    functions = tuple(getattr(other, "py_func", other) for other in others)
    folder = _folder_for(functions)
    if folder == CACHE:
        return compiled
    return _recompiled(compiled, folder, hash_of_constants(functions))


@functools.cache
def _recompiled(compiled: Callable, folder: Path, constants: str) -> Callable:
    return _cached(compiled.py_func, folder, constants=lambda: constants, **OPTIONS)


def _cached(
    function: Callable,
    folder: Path,
    entry: type[Entry] = Entry,
    constants: Callable[[], str] | None = None,
    **options: Any,
) -> Callable:
    options = {**options, "nopython": True}
    compiled = EntryDispatcher(function, {}, options, entry)
    compiled.callee = CalleeDispatcher(function, {}, options, Callee)
    if constants is None and folder != CACHE:
        # of the user: globals may be defined further down in the file, or set before the run
        constants = functools.partial(hash_of_constants, (function,))
    with contextlib.suppress(RuntimeError):  # typed at a prompt: no file
        compiled._cache = MachineCode(function, folder, constants)
        compiled.callee._cache = CalleeCode(function, folder, constants)
    return compiled


class CFunction:
    """A function that C code can call, made by `c_function`."""

    def __init__(self, signature: Any, function: Callable) -> None:
        self.__doc__, self._signature, self._function = function.__doc__, signature, function
        self._lock, self._compiled = threading.Lock(), None

    @property
    def address(self) -> int:
        """The address; the first access compiles the function, or loads it from the cache."""
        with self._lock:
            if self._compiled is None:
                compiled = CFunc(
                    self._function, normalize_signature(self._signature), locals={}, options={}
                )
                compiled._cache = MachineCode(self._function, CACHE)
                compiled.compile()
                if not compiled.cache_hits:  # Numba reports no event
                    HISTORY.append(self._function)
                self._compiled = compiled
            return self._compiled.address


def c_function(signature: Any) -> Callable[[Callable], CFunction]:
    """Make a function with a Numba signature callable from C, compiled at first use, not import."""
    return lambda function: CFunction(signature, function)
