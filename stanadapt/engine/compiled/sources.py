"""The user's files that functions and classes come from, as they were when they were imported.

A file may be edited while a process runs that has imported it. This process still runs what it
imported: machine code, and runs, must be kept under the text that it came from. Under the text that
is on disk by then, every later process would load the old machine code for the new file.
"""

import ast
import contextlib
import functools
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

PACKAGE = Path(__file__).parents[2]
INSTALLED = {PACKAGE, *map(Path, map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))}


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
