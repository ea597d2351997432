"""Sources of the user's functions and classes, as they were when these were imported.

A file may be edited while a process runs that has imported it. This process still runs what it
imported: machine code, and runs, must be kept under the text that it came from. Under the text that
is on disk by then, every later process would load the old machine code for the new file.

Values of globals are constants of machine code. They need not be in any file: one may come from an
environment variable, or be set before the run.
"""

import ast
import contextlib
import functools
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from stanadapt.engine.compiled.compilations import named_by, names_in

PACKAGE = Path(__file__).parents[2]
INSTALLED = {PACKAGE, *map(Path, map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))}


# --- files ----------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A file when it was imported: hash of its text, and names that it may import modules by."""

    hash: str
    imports: tuple[str, ...]


# by function or class: its file, then those that it imports
_REMEMBERED: WeakKeyDictionary[Any, dict[str, Source]] = WeakKeyDictionary()


@functools.lru_cache(maxsize=4096)
def is_of_package(file: str) -> bool:
    """Whether a file belongs to this package."""
    return Path(file).is_relative_to(PACKAGE)


@functools.lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    return any(Path(file).is_relative_to(place) for place in INSTALLED)


def remembered(owner: Any, file: str, package: str) -> dict[str, Source]:
    """Return the file of a function or class, and the user's files that it imports.

    Each as it was when it was first asked for: for compiled functions by their decorator. A file
    that was imported since, such as below the function, is added.

    Raises
    ------
    OSError
        If the file cannot be read.

    """
    sources = _REMEMBERED.get(owner)
    if sources is None:
        sources = {file: _parsed(Path(file).read_bytes(), package)}
        _REMEMBERED[owner] = sources
    _add_imports(sources, file)
    return sources


def remember_class(made: type) -> None:
    """Remember the file of a user's class, and those that it imports; nothing at a prompt."""
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    if file is not None and not is_of_package(file):
        with contextlib.suppress(OSError):
            remembered(made, file, module.__package__ or "")  # type: ignore[union-attr]


def hashes_of_class(made: type) -> tuple[str, str] | None:
    """Return hashes of the file of a class, and of the files that it imports ("" if none).

    None if the class was not remembered. Where the files are does not matter: a worker has them in
    another place.
    """
    sources = _REMEMBERED.get(made)
    if sources is None:
        return None
    own, *others = sources.items()
    if not others:
        return own[1].hash, ""
    named = sorted((Path(file).name, source.hash) for file, source in others)
    return own[1].hash, sha256(repr(named).encode()).hexdigest()


def _add_imports(sources: dict[str, Source], file: str) -> None:
    """Add the files of the user's modules that a source imports, and that those import."""
    for module in (sys.modules[name] for name in sources[file].imports if name in sys.modules):
        other = getattr(module, "__file__", None)
        if other is None or other in sources or not other.endswith(".py"):
            continue
        # packages that are installed are not edited; looking at all would take long
        if _is_installed(other):
            continue
        with contextlib.suppress(OSError):  # of a module within an archive
            sources[other] = _parsed(Path(other).read_bytes(), module.__package__ or "")
            _add_imports(sources, other)


@functools.lru_cache(maxsize=256)
def _parsed(text: bytes, package: str) -> Source:
    try:
        lines = importlib.util.decode_source(text)
        tree = ast.parse(lines)
    except (SyntaxError, ValueError):  # no Python any more: edited since it was imported
        return Source(sha256(text).hexdigest(), ())
    # the last line as `inspect.getsource` returns it, with which run folders have been written
    lines += "" if lines.endswith("\n") else "\n"
    names = dict.fromkeys(name for node in _executed(tree) for name in _names(node, package))
    return Source(sha256(lines.encode()).hexdigest(), tuple(names))


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that are executed at import.

    What else may be imported differs between processes that run the same code.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _executed(node)


def _names(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    name = "." * node.level + (node.module or "")
    name = importlib.util.resolve_name(name, package) if node.level else name
    return [name, *(f"{name}.{alias.name}" for alias in node.names)]


# --- values of globals ----------------------------------------------------------------------------


class _Constants(NamedTuple):
    """Hash of a function's code with the values that it names, and the compiled ones it names."""

    hash: str
    callees: tuple[Callable, ...]


_CONSTANTS: WeakKeyDictionary[Callable, _Constants] = WeakKeyDictionary()


def hash_of_constants(functions: Iterable[Callable]) -> str:
    """Return a hash of the code of users' functions and those that they call, with constants.

    As Numba does, a function keeps the values with which it was compiled first: those at the first
    call for it. Under later ones, the same machine code would be kept once more.
    """
    pending, found = list(functions), {}
    while pending:
        function = pending.pop()
        if function in found or is_of_package(function.__code__.co_filename):
            continue
        if function not in _CONSTANTS:
            values = sorted(_named_values(function))
            text = repr((text_of_code(function.__code__), values))
            around = (value.py_func for _, value in _closure(function) if hasattr(value, "py_func"))
            callees = (*(callee.py_func for callee in named_by(function)), *around)
            _CONSTANTS[function] = _Constants(sha256(text.encode()).hexdigest(), callees)
        found[function], callees = _CONSTANTS[function]
        pending += callees
    return sha256("".join(sorted(found.values())).encode()).hexdigest()


def text_of_code(code: CodeType) -> str:
    """Return a text that is the same for the same code in all processes."""
    constants = [_text(constant) for constant in code.co_consts]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, constants))


def _named_values(function: Callable) -> Iterator[tuple[str, str]]:
    """Yield globals, and variables around it, that a function names, each with a text."""
    names = names_in(function.__code__)
    for name, value in _closure(function):
        yield f"closure {name}", _text(value)
    pending, searched = [("", function.__globals__)], set()
    while pending:
        place, values = pending.pop()
        for name in names & values.keys():
            value = values[name]
            if not isinstance(value, ModuleType):
                yield f"{place}{name}", _text(value)
            elif value not in searched:
                searched.add(value)
                pending.append((f"{place}{name}.", vars(value)))


def _closure(function: Callable) -> Iterator[tuple[str, Any]]:
    """Yield variables of the functions around it that a function names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield name, cell.cell_contents


def _text(value: Any) -> str:
    """Return a text of a value that machine code may contain; "" of one that it does not."""
    if isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        content = sha256(np.asarray(value).tobytes()).hexdigest()
        return f"{value.dtype.descr} {value.shape} {content}"
    if isinstance(value, tuple):
        return f"{type(value).__name__} ({', '.join(map(_text, value))})"
    if isinstance(value, frozenset):  # in the order of hashes, which differ between processes
        return f"set ({', '.join(sorted(map(_text, value)))})"
    return text_of_code(value) if isinstance(value, CodeType) else ""
