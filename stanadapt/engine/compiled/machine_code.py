"""Machine code on disk, shared by processes that compile at the same time.

Numba keeps one index per function, from signatures to numbered files. Its `save` reads the index,
chooses the next number, writes the index, then the file. Two processes that do so at once choose
the same number for two signatures: one entry is lost, or the index names the code of the other
signature, which every later process then runs, with wrong numbers or a crash.

Here, a file is named after its contents and written before the index names it, and one process
at a time changes an index. What is loaded has to have the hash in its name, and to be what was
compiled for the signature; anything else counts as missing, and is compiled and written again. The
lock keeps entries from being lost; the names and the check keep wrong code from being run, also
on a network drive without locks, or if a process is killed between two writes.

Where the package is installed does not matter, so that copies of it can share a cache; nor do times
of files. Code is looked for in the shared cache, then in the user's own, and written to the latter.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    IPythonCacheLocator,
    UserProvidedCacheLocator,
)

from stanadapt.engine.compiled.callees import CalleeCacheImpl
from stanadapt.engine.compiled.shared_cache import read_trusted, shared_folder
from stanadapt.errors import Message, warn

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(__file__).parents[2]
PATIENCE, PAUSE = 5.0, 0.005  # seconds that a writer waits for others in all, and between attempts
CLASS_IS_MISSING = (ImportError, AttributeError)


# --- one writer at a time -------------------------------------------------------------------------


class _Patience:
    """The seconds for which this process waits for other writers: none after one that hangs."""

    left = PATIENCE


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder while the body runs.

    The system unlocks the folder if the process ends, however it ends. On a file system without
    locks, or if another process is suspended while it writes, the body runs without one.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context((folder / "lock").open("ab"))
            if _locked(file.fileno()):
                # closing is not enough: a process forked in the meantime has the file open too
                stack.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


def _locked(file: int) -> bool:
    if fcntl is None:
        return False
    start = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() - start > _Patience.left:
                _Patience.left = 0.0
                return False
            time.sleep(PAUSE)


# --- index and files ------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A key, pickled, and the name of its file.

    Keys are pickled one by one, and those of other signatures are not read: they may name classes
    of another program, which cannot be imported here, or should not be.
    """

    key: bytes
    name: str

    def is_for(self, key: Any) -> bool:
        """Whether it is the entry of a key."""
        try:
            return bool(pickle.loads(self.key) == key)
        except CLASS_IS_MISSING:
            return False


class CheckedFiles(IndexDataCacheFile):
    """The index and the files of one function.

    The index has entries by labels of keys, then its hash; a file has the data, then the key.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep `data` for `key`, unless another process has done so in the meantime."""
        pickled, label = self._dump(key), _label(key)
        content = self._dump(data) + pickled
        new = Entry(pickled, self._data_name(content))
        with one_writer(Path(self._cache_path)):
            index = self._load_index()
            if self._find(index, key) is not None:
                return
            with self._open_for_write(self._data_path(new.name)) as file:
                file.write(content)
            entries = index.get(label, [])
            damaged = [entry for entry in entries if entry.is_for(key)]
            kept = [entry for entry in entries if entry not in damaged]
            self._save_index(index | {label: [*kept, new]})
            for entry in damaged:
                if entry.name != new.name:
                    Path(self._data_path(entry.name)).unlink(missing_ok=True)

    def load(self, key: Any) -> Any:
        """Return the data of `key`; None if they are missing, damaged, or those of another key."""
        return self._find(self._load_index(), key)

    def flush(self) -> None:
        """Forget all entries."""
        with one_writer(Path(self._cache_path)):
            self._save_index({})

    def _find(self, index: dict[str, list[Entry]], key: Any) -> Any:
        for entry in index.get(_label(key), []):
            if not entry.is_for(key):
                continue
            try:
                content = self._read(self._data_path(entry.name))
                if self._data_name(content) == entry.name and content.endswith(entry.key):
                    return pickle.loads(content)
            except (OSError, *CLASS_IS_MISSING):
                return None
        return None

    def _load_index(self) -> dict[str, list[Entry]]:
        try:
            stored = self._read(self._index_path)
        except OSError:
            return {}
        size = hashlib.sha256().digest_size
        content, digest = stored[:-size], stored[-size:]
        if hashlib.sha256(content).digest() != digest:
            return {}
        version, stamp, index = pickle.loads(content)
        if (version, stamp) != (self._version, self._source_stamp):
            return {}
        return {label: [Entry(*entry) for entry in entries] for label, entries in index.items()}

    def _save_index(self, index: dict[str, list[Entry]]) -> None:
        plain = {label: [tuple(entry) for entry in entries] for label, entries in index.items()}
        content = pickle.dumps((self._version, self._source_stamp, plain))
        with self._open_for_write(self._index_path) as file:
            file.write(content + hashlib.sha256(content).digest())

    def _read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def _data_name(self, content: bytes) -> str:
        base = self._index_name.removesuffix(".nbi")
        return f"{base}.{hashlib.sha256(content).hexdigest()[:32]}.nbc"


class SharedFiles(CheckedFiles):
    """Files of a shared cache: read, if no other user can have changed them."""

    def save(self, key: Any, data: Any) -> None:
        """Refuse to write."""
        raise PermissionError("a shared cache is never written")

    def flush(self) -> None:
        """Forget nothing."""

    def _read(self, path: str) -> bytes:
        return read_trusted(Path(path))


def _label(key: Any) -> str:
    """Return the same text for equal keys; others may share it, as types of one name do."""
    return hashlib.sha256(str(key).encode()).hexdigest()[:32]


# --- the cache of a function ----------------------------------------------------------------------


class MachineCode(FunctionCache):
    """The cache of a function in a folder, in place of Numba's; RuntimeError if it has no file."""

    kind: type[CompileResultCacheImpl] = CompileResultCacheImpl
    suffix = ""  # of the names of its files
    not_kept = False  # whether the warning was given

    def __init__(
        self, function: Callable, folder: Path, constants: Callable[[], str] | None = None
    ) -> None:
        self._constants = constants  # hash of those that the folder is not named after
        self._impl_class = _kept_in(folder, self.kind)
        super().__init__(function)
        self._stamp = self._cache_file._source_stamp
        self._name_base = self._impl.filename_base + self.suffix
        self._cache_file = CheckedFiles(self._cache_path, self._name_base, self._stamp)
        self._own_folder = folder

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load from the shared cache, or from the user's own."""
        if not self._enabled:
            return None
        key = self._index_key(sig, target_context.codegen())
        shared = self._shared_files()
        data = None if shared is None else shared.load(key)
        if data is None:
            data = self._cache_file.load(key)
        return None if data is None else self._impl.rebuild(target_context, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        key = super()._index_key(sig, codegen)
        return key if self._constants is None else (*key, self._constants())

    def _shared_files(self) -> SharedFiles | None:
        """Return the files of the function in the shared cache, in a folder of the same name."""
        own = self._own_folder
        if not Path(self._cache_path).is_relative_to(own):  # IPython's
            return None
        below = Path(self._cache_path).relative_to(own)
        folder = shared_folder((Path(own.parent.name) / own.name / below).as_posix())
        return None if folder is None else SharedFiles(str(folder), self._name_base, self._stamp)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code; on a full disk, warn and continue with the code in memory."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            if not MachineCode.not_kept:
                MachineCode.not_kept = True
                warn(
                    Message(
                        "code_not_kept",
                        f"Compiled code could not be written to {self._cache_path} "
                        f"({error.strerror}): the next process compiles it again.",
                    )
                )


class CalleeCode(MachineCode):
    """The cache of a function as compiled code calls it."""

    kind, suffix = CalleeCacheImpl, ".callee"


class _FolderLocator(UserProvidedCacheLocator):
    """Numba's place for the code of a function, in a given folder, not `NUMBA_CACHE_DIR`.

    That of a file of the package depends on its place in it alone.
    """

    folder: Path

    def __init__(self, function: Callable, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._in_package = Path(file).is_relative_to(PACKAGE)
        if self._in_package:
            subpath = ".".join(Path(file).relative_to(PACKAGE.parent).parent.parts)
        else:
            subpath = self.get_suitable_cache_subpath(file)
        self._cache_path = str(self.folder / subpath)

    def get_source_stamp(self) -> Any:
        """Return a hash of a file of the package, which has other times in each copy of it."""
        if not self._in_package:
            return super().get_source_stamp()
        status = os.stat(self._py_file)  # of a module that may be edited, and loaded again
        return _hash_of(self._py_file, status.st_mtime_ns, status.st_size)

    @classmethod
    def from_function(cls, function: Callable, file: str) -> Any:
        return super(UserProvidedCacheLocator, cls).from_function(function, file)

    def ensure_cache_path(self) -> None:
        """Create the folder; that it can be written to is known, and not tried per function."""
        os.makedirs(self._cache_path, exist_ok=True)


@functools.cache
def _hash_of(file: str, changed: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


@functools.cache
def _kept_in(folder: Path, kind: type[CompileResultCacheImpl]) -> type:
    """Return the class by which Numba keeps code in a folder, and in no other if that fails."""
    locator = type("Locator", (_FolderLocator,), {"folder": folder})
    places = {"_locator_classes": [locator, IPythonCacheLocator]}
    return type("Implementation", (kind,), places)
