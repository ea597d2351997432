"""A Stan program: its text, with all includes resolved."""

import os
from collections.abc import Iterable
from hashlib import sha256
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path
from typing import NamedTuple

from stanadapt.errors import StanadaptError
from stanadapt.results.files import read_text
from stanadapt.targets.stan.declarations import Declaration, parse
from stanadapt.targets.stan.syntax import HIDDEN, block, strip


class Program(NamedTuple):
    """A Stan program as the rest of the package uses it."""

    name: str  # name of the program
    # Self-contained code with all includes resolved. Line numbers refer to it, not to the file.
    code: str
    path: Path | None  # path of the file; None for a program given as text
    include_paths: tuple[Path, ...]  # the user's folders

    @property
    def hash(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 hash of `code`."""
        return sha256(self.code.encode()).hexdigest()[:16]

    @property
    def integers(self) -> tuple[str, ...]:
        """Names of the generated quantities that are integers."""
        return tuple(d.name for d in self.declared("generated quantities") if d.is_int)

    @property
    def data_names(self) -> list[str]:
        """Names of the variables that the program reads."""
        return [declaration.name for declaration in self.declared("data")]

    def declared(self, name: str) -> list[Declaration]:
        """Return the declarations of the block `name`, in order."""
        return parse(block(self.code, name))


def read(
    program: str | PathLike,
    include_paths: str | PathLike | Iterable[str | PathLike] = (),
    name: str | None = None,
) -> Program:
    """Read a program from a `.stan` file or from Stan code, and resolve its includes.

    A `str` with a newline or a `{` is code. Folders in `include_paths` are searched for `#include`,
    in this order, before the folder of the including file and that of the program (for code, the
    current directory). The name is by default the file's stem, or "program" for code.
    """
    if isinstance(include_paths, str | PathLike):
        include_paths = (include_paths,)
    try:
        folders = tuple(map(_folder, include_paths))
    except TypeError:
        raise StanadaptError(
            "invalid_include_path",
            f"include_paths must be a folder or a list of folders, got {include_paths!r}.",
        ) from None
    if isinstance(program, str) and ("\n" in program or "{" in program or not program.strip()):
        path, text, home = None, program, Path.cwd()
    else:
        path = _program_path(program)
        text, home = read_text(path, "Stan program"), path.parent
    open_files = () if path is None else (path,)
    code = _with_includes(text, open_files, (*folders, home))
    if not strip(code).strip():
        source = "The program given as text" if path is None else f"The Stan program {path}"
        raise StanadaptError(
            "empty_program", f"{source} is empty; it needs at least a model block."
        )
    name = name or (path.stem if path else "program")
    return Program(name, code, path, folders)


def user_path(name: str | PathLike) -> Path:
    """Expand ~ in a path. A user without a home keeps the ~, so the path will not be found."""
    return Path(expanduser(fspath(name)))


def _program_path(program: str | PathLike) -> Path:
    if not isinstance(program, str | PathLike):
        raise StanadaptError(
            "not_a_stan_file",
            "A Stan program must be the path of a .stan file or a string of Stan code, "
            f"got {type(program).__name__}."
            + " A log density in Python is a Density(function, dim)."
            * callable(program),
        )
    path = user_path(program)
    if path.suffix != ".stan" and not os.path.isdir(path):  # also False for names that are too long
        raise StanadaptError(
            "not_a_stan_file",
            f"The name of a Stan program's file must end in .stan, got {str(path)[:200]!r}. "
            "A string is read as Stan code if it contains a newline or a brace.",
        )
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path  # too long, circular links, a NUL byte: read_text reports it


def _folder(folder: str | PathLike) -> Path:
    try:
        path = user_path(folder).resolve()
    except (TypeError, ValueError, RuntimeError, OSError) as error:  # such as a loop of links
        raise StanadaptError(
            "invalid_include_path", f"include_paths: {folder!r} is not a folder: {error}."
        ) from None
    if not os.path.isdir(path):
        raise StanadaptError(
            "invalid_include_path", f"include_paths: {path} is not a folder. Check the path."
        )
    return path


def _with_includes(code: str, open_files: tuple[Path, ...], folders: tuple[Path, ...]) -> str:
    """Replace the includes of `code` by their text; `open_files` are the files being read."""
    pieces, end = [], 0
    for match in HIDDEN.finditer(code):
        names = [match[form] for form in ("quoted", "angled", "bare") if match[form] is not None]
        if not names:
            continue
        file = _find_include(names[0], open_files, folders)
        text = _with_includes(read_text(file, "included file"), (*open_files, file), folders)
        # A comment on the included file's last line must not extend beyond the include.
        pieces += [code[end : match.start()], text, "" if text.endswith("\n") else "\n"]
        end = match.end()
    return "".join([*pieces, code[end:]])


def _find_include(name: str, open_files: tuple[Path, ...], folders: tuple[Path, ...]) -> Path:
    """Return the file to which `#include name` in the last of `open_files` refers."""
    *include_paths, home = folders
    current = [open_files[-1].parent] if open_files else []
    searched = list(dict.fromkeys([*include_paths, *current, home]))
    including = str(open_files[-1]) if open_files else "the program given as text"
    file = next((folder / name for folder in searched if (folder / name).is_file()), None)
    if file is None:
        raise StanadaptError(
            "include_missing",
            f"{including} includes {name!r}, which is in none of the folders searched: "
            f"{', '.join(map(str, searched))}. Give its folder in include_paths.",
        )
    file = file.resolve()
    if file in open_files:
        cycle = (*open_files[open_files.index(file) :], file)
        raise StanadaptError(
            "circular_includes",
            f"The includes are circular: {' -> '.join(f.name for f in cycle)}. Remove one of them.",
        )
    return file
