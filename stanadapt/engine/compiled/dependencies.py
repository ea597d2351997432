"""What compiled code depends on, as a text that is the same in all processes.

The machine code of a function contains its callees, and values of globals as constants. Their
bytecode and values name a piece of code on disk (`machine_code`), and by them `resume` recognizes
the sampler of a run. Comments and docstrings are not in it. Functions count as they are in memory:
their files may have been edited since they were imported.

Functions of this package are only named: `PACKAGE_KEY` is a hash of the files they can be in, in a
release as in a clone, since two builds may have the same version.
"""

import contextlib
import dis
import functools
import inspect
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, EnumType
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.sigutils import normalize_signature

PACKAGE = Path(__file__).parents[2]
INSTALLED = tuple(map(Path, map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))))
# what compiled code runs for a class in its signature: `protocol` adds the functions of samplers
CHOSEN_BY_CLASS: list[Callable[[type], tuple]] = []
COUNTS = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
KIND_OF_FUNCTION = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR
LITERAL = (bool, int, float, complex, str, bytes, type(None), Enum, np.dtype)
# of each function of a user: its text when it was compiled first, with the constants of that time
_FIRST: WeakKeyDictionary[Callable, str] = WeakKeyDictionary()


def _hash_of_package() -> str:
    digest = sha256()
    for room in ("engine", "samplers"):
        files = [(at, name) for at, _, names in os.walk(PACKAGE / room) for name in names]
        for at, name in sorted(each for each in files if each[1].endswith(".py")):
            with open(os.path.join(at, name), "rb") as file:
                digest.update(os.path.relpath(at, PACKAGE).encode() + name.encode() + file.read())
    return digest.hexdigest()[:12]


PACKAGE_KEY = _hash_of_package()


def hash_of_code(function: Callable, signature: Any) -> str | None:
    """Return a hash of all on which the machine code of a function for a signature depends.

    None if later processes would not recognize it: a class of a script is another one in each, and
    Numba keeps the constants with which it compiled a function first, if these have changed since.
    """
    arguments, result = normalize_signature(signature)
    description = _Description(for_disk=True)
    description.note(function, compiled=True)
    place = f"{function.__module__}.{function.__qualname__}"
    text = description.complete([place, function, *arguments, result])
    for each, own in description.functions.items():
        if _FIRST.setdefault(each, own) != own:
            return None
    if description.lost or " at 0x" in text:  # an address
        return None
    return sha256(text.encode()).hexdigest()


def hash_of_sampler(step: Callable, parts: Iterable[Any]) -> str:
    """Return a hash of the parts of a sampler, and of all that they name in the file of `step`."""
    file = inspect.unwrap(step).__code__.co_filename
    return sha256(_Description(file).complete([step, *parts]).encode()).hexdigest()


# --- texts ----------------------------------------------------------------------------------------


class _Description:
    """Texts of values, of the users' functions among them, and of all that these name.

    Parameters
    ----------
    file
        A file whose functions count, although they may be of the package.
    for_disk
        Whether the modules of classes count, which a script has under another name in a worker, and
        lines at which functions begin: two of the package may have one name.

    """

    def __init__(self, file: str = "", for_disk: bool = False) -> None:
        self.file, self.for_disk = file, for_disk
        self.functions: dict[Callable, str] = {}  # with their texts
        self.lost = False  # whether there is a value that another process would not recognize
        self._pending: list[Callable] = []

    def note(self, function: Callable, compiled: bool) -> bool:
        """Return whether more than the name of a function counts; then its text is added.

        Installed functions are used as they are, unless Numba compiles them.
        """
        file = function.__code__.co_filename
        counts = not is_below(file, (PACKAGE,)) and (compiled or not is_below(file, INSTALLED))
        if counts or file == self.file:
            self._pending.append(function)
            return True
        return False

    def complete(self, values: Iterable[Any]) -> str:
        """Return the text of values, and of all functions to which they lead."""
        lines = [self._text(value) for value in values]
        while self._pending:
            function = self._pending.pop()
            if function not in self.functions:
                self.functions[function] = ""
                self.functions[function] = self._text_of_function(function)
        return "\n".join([*lines, *sorted(self.functions.values())])

    def _text_of_function(self, function: Callable) -> str:
        named = [(place, self._text(value)) for place, value in named_values(function)]
        return repr((_name(function), named))

    def _text(self, value: Any) -> str:
        """Return the text of a value; "" if machine code cannot contain it."""
        if isinstance(value, LITERAL):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            content = sha256(np.asarray(value).tobytes()).hexdigest()
            return f"{value.dtype.descr} {value.shape} {content}"
        if isinstance(value, tuple):
            return f"{type(value).__name__} ({', '.join(map(self._text, value))})"
        if isinstance(value, frozenset):  # in the order of hashes, which differ between processes
            return f"set ({', '.join(sorted(map(self._text, value)))})"
        if isinstance(value, types.Type):
            return self._text_of_type(value)
        if isinstance(value, type):
            return self._text_of_class(value)
        return self._text_of_callable(value) if callable(value) else ""

    def _text_of_type(self, kind: types.Type) -> str:
        """Return the text of a type: Numba takes types for one another whose keys are equal."""
        key = kind.key
        parts = key if isinstance(key, tuple) else (key,)
        texts = [self._text(part) for part in parts]
        self.lost |= "" in texts
        return f"{type(kind).__name__} ({', '.join(texts)})"

    def _text_of_class(self, kind: type) -> str:
        """Return the name of a class, what compiled code can read of it, and is chosen by it."""
        self.lost |= kind.__module__ == "__main__" or "<locals>" in kind.__qualname__
        members: Any = ()
        if isinstance(kind, EnumType):
            members = tuple((member.name, member.value) for member in kind)
        elif hasattr(kind, "_fields"):
            members = (kind._fields, tuple(getattr(kind, "_field_defaults", {}).items()))
        chosen = tuple(choose(kind) for choose in CHOSEN_BY_CLASS)
        module = kind.__module__ if self.for_disk else ""
        return f"{module}.{kind.__qualname__} {self._text((members, chosen))}"

    def _text_of_callable(self, value: Any) -> str:
        """Return the name of a function, and note its own names, if a user wrote it."""
        function = inspect.unwrap(value)  # that of a compiled one, or of an intrinsic
        if not isinstance(function, FunctionType):  # of C
            return getattr(value, "__qualname__", getattr(value, "__name__", ""))
        if function is value:
            for chooser in _overloads(function):
                self.note(chooser, compiled=True)
        intrinsic = type(value).__module__.startswith("numba.")
        if self.note(function, compiled=intrinsic or isinstance(value, Dispatcher)):
            return _name(function)
        around = [self._text(content) for _, content in _closure(function)]
        line = function.__code__.co_firstlineno if self.for_disk else 0
        return repr((function.__module__, function.__qualname__, line, around))


@functools.lru_cache(maxsize=4096)
def is_below(file: str, places: tuple[Path, ...]) -> bool:
    return any(Path(file).is_relative_to(place) for place in places)


def _name(function: Callable) -> str:
    """Return what identifies a function, but for the values of globals."""
    around = [repr(content) for _, content in _closure(function) if isinstance(content, LITERAL)]
    defaults = function.__defaults__, function.__kwdefaults__
    text = repr((text_of_code(function.__code__), defaults, around))
    return f"{function.__qualname__} {sha256(text.encode()).hexdigest()}"


@functools.lru_cache(maxsize=4096)
def text_of_code(code: CodeType) -> str:
    """Return a text of bytecode, with the constants that it reads: a docstring is not one."""
    steps = [
        (step.opcode, _text_of_constant(step.argval) if step.opcode in dis.hasconst else step.arg)
        for step in dis.get_instructions(code)
    ]
    counts = [getattr(code, name) for name in COUNTS], code.co_flags & KIND_OF_FUNCTION
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return repr((steps, counts, names, code.co_exceptiontable))


def _text_of_constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return text_of_code(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_text_of_constant, value))})"
    if isinstance(value, frozenset):
        return f"set ({', '.join(sorted(map(_text_of_constant, value)))})"
    return f"{type(value).__name__} {value!r}"


# --- names in a function --------------------------------------------------------------------------


def named_values(function: Callable) -> Iterator[tuple[str, Any]]:
    """Yield the names of a function, by place: globals, members of modules, variables around."""
    yield from _closure(function)
    names = sorted(_names_in(function.__code__))
    places: list[tuple[str, dict[str, Any]]] = [("", function.__globals__)]
    searched: set[str] = set()
    for place, values in places:  # which grow
        for name in names:
            value = values.get(name, ...)
            if isinstance(value, ModuleType):
                if value.__name__ not in searched:
                    searched.add(value.__name__)
                    places.append((f"{place}{name}.", vars(value)))
            elif value is not ...:
                yield f"{place}{name}", value


def _names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in a code object and those within it."""
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _closure(function: Callable) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield f"closure {name}", cell.cell_contents


def _overloads(function: Callable) -> Iterator[Callable]:
    """Yield the functions that declare, by `overload`, replacements in compiled code."""
    with contextlib.suppress(Exception):  # none, or Numba keeps them in another place
        cpu_target.typing_context.refresh()
        for template in cpu_target.typing_context.resolve_value_type(function).templates:
            if hasattr(template, "_overload_func"):
                yield template._overload_func
