"""Machine code on disk: one file per piece of code, named by a hash of its dependencies.

That is its function, with callees and constants; its signature, the processor, Numba, Python and
this package (`dependencies`). So a file never changes: other code needs another file. It is written
under another name first, so that processes may write the same at the same time, or be killed,
without a lock. At its beginning is a hash of its name and contents: a file that is damaged, or was
compiled for another signature, counts as missing, and is compiled and written again.

Code is looked for in the shared cache, then in the user's own, and written to the latter.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature

from stanadapt.engine.compiled.cache_folder import cache_root, writable_folder
from stanadapt.engine.compiled.dependencies import PACKAGE_KEY, hash_of_code
from stanadapt.engine.compiled.garbage import not_collected
from stanadapt.engine.compiled.shared_cache import read_trusted, shared_folder
from stanadapt.errors import Message, warn

FOLDER = "compiled"
VERSIONS = PACKAGE_KEY, numba.__version__, llvmlite.__version__, sys.implementation.cache_tag
DIGEST = hashlib.sha256().digest_size
# bytes of a cache, of which the files that were used last stay: some 30 times all samplers
LARGEST, KEPT = 1_000_000_000, 0.8
DAY = 24 * 3600.0  # seconds after which a file that is used gets a new time


class MachineCode:
    """The files of a function, in the form that Numba's dispatchers ask for.

    Parameters
    ----------
    function
        The Python function.
    options
        What its code depends on in addition to the function.
    rebuild
        (target context, payload) -> the result of a compilation, as `CompileResult._rebuild`.

    """

    not_kept = False  # whether the warning was given

    def __init__(
        self, function: Callable, options: Any, rebuild: Callable = CompileResult._rebuild
    ) -> None:
        self._function, self._options, self._rebuild = function, repr(options), rebuild

    @property
    def cache_path(self) -> str:
        """The folder, for Numba's `stats`."""
        return str(own_folder())

    def flush(self) -> None:
        """Forget nothing: other values of globals are another name."""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what an earlier process compiled; None if it has to be compiled."""
        try:
            with not_collected():  # the first refresh makes all that Numba knows of NumPy
                target_context.refresh()
                name = self._name(signature, target_context)
                content = None if name is None else _find(name)
                if content is None:
                    return None
                made = self._rebuild(target_context, *pickle.loads(content))
        except Exception:  # such as a class that has moved
            return None
        arguments, _ = normalize_signature(signature)
        return made if tuple(made.signature.args) == tuple(arguments) else None

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep compiled code; on a full disk, warn and continue with the code in memory."""
        name = self._name(signature, made.target_context)
        if name is None or made.library.has_dynamic_globals:  # addresses
            return
        try:
            _write(name, dumps(made._replace(type_annotation="")._reduce()))
        except OSError as error:
            if not MachineCode.not_kept:
                MachineCode.not_kept = True
                warn(
                    Message(
                        "code_not_kept",
                        f"Compiled code could not be written to {own_folder()} "
                        f"({error.strerror}): the next process compiles it again.",
                    )
                )

    def _name(self, signature: Any, target_context: Any) -> str | None:
        code = hash_of_code(self._function, signature)
        if code is None:
            return None
        processor = target_context.codegen().magic_tuple()
        text = repr((code, self._options, processor, VERSIONS))
        readable = self._function.__name__.strip("<>")
        return f"{PACKAGE_KEY}-{readable}-{hashlib.sha256(text.encode()).hexdigest()[:40]}"


# --- files ----------------------------------------------------------------------------------------


def own_folder() -> Path:
    """Return the folder for this user's machine code."""
    return _own_folder(cache_root())


@functools.cache
def _own_folder(root: Path) -> Path:
    return writable_folder(FOLDER)


def has_code(folder: Path) -> bool:
    """Whether a folder has code of this version of the package."""
    return next(folder.glob(f"{PACKAGE_KEY}-*"), None) is not None


def _find(name: str) -> bytes | None:
    """Return the contents of a file, from the shared cache or the user's own; None if missing."""
    shared = shared_folder(FOLDER)
    for folder, read in ((shared, read_trusted), (own_folder(), _read)):
        with contextlib.suppress(OSError):
            stored = read(folder / name) if folder else b""
            content = stored[DIGEST:]
            if stored[:DIGEST] == _digest(name, content):
                return content
    return None


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + content).digest()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        if time.time() - os.fstat(file.fileno()).st_mtime > DAY:
            with contextlib.suppress(OSError):  # a folder that can only be read
                os.utime(path)
        return file.read()


def _write(name: str, content: bytes) -> None:
    folder = own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{name}.{uuid.uuid4().hex[:16]}"
    try:
        unfinished.write_bytes(_digest(name, content) + content)
        unfinished.replace(folder / name)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    if folder not in _looked_at:  # once per process that writes
        _looked_at.add(folder)
        delete_unused(folder)


_looked_at: set[Path] = set()


def delete_unused(folder: Path, largest: int = LARGEST) -> None:
    """Delete the files of a large cache that were not used for longest."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process has just deleted it
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    size = sum(each for _, each, _ in found)
    if size <= largest:
        return
    for _, each, path in sorted(found):
        if size > KEPT * largest:
            size -= each
            with contextlib.suppress(OSError):
                path.unlink()
