"""A Stan program's text: its includes resolved, its blocks found, its branches counted."""

import re
from collections.abc import Iterable
from hashlib import sha256
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

from stanadapt.errors import StanadaptError

BLOCKS = (
    "functions",
    "data",
    "transformed data",
    "parameters",
    "transformed parameters",
    "model",
    "generated quantities",
)

# What stanc's lexer takes out before the grammar sees the text, in one expression so that a quote
# inside a comment and a comment inside a string are each what they are. A "#" that starts no
# include was a comment until Stan 2.32 and is an error since. stanc needs the space after #include.
_HIDDEN = re.compile(
    r"""(?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
      | \#include\s+ (?: "(?P<quoted>[^"\n]*)" | <(?P<angled>[^>\n]*)> | (?P<bare>\S+) )
      | (?P<hash> \#[^\n]* )
      | (?P<string> "[^"\n]*"? )
    """,
    re.DOTALL | re.VERBOSE,
)
_BLOCK = re.compile(
    r"\b(functions|(?:transformed\s+)?data|(?:transformed\s+)?parameters|model"
    r"|generated\s+quantities)\s*\{"
)
_BRANCH = re.compile(r"\b(?:if|while|break|continue)\b|\?")
_NOT_NEWLINE = re.compile(r"[^\n]")


class Program(NamedTuple):
    """A Stan program as the rest of the package sees it.

    `code` has every include resolved, so it stands alone: line numbers count in it, not in the
    file. `path` is None for a program given as text. `include_paths` are the folders asked for.
    """

    name: str
    code: str
    path: Path | None
    include_paths: tuple[Path, ...]

    @property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of `code`."""
        return sha256(self.code.encode()).hexdigest()[:16]


def read(
    program: str | PathLike,
    include_paths: str | PathLike | Iterable[str | PathLike] = (),
    name: str | None = None,
) -> Program:
    """A program from a `.stan` file or from Stan code, with its includes resolved.

    Parameters
    ----------
    program
        Path of a `.stan` file, or Stan code: a `str` with a newline or a `{` is code.
    include_paths
        Folders in which `#include` looks first, in this order; then the folder of the including
        file; then the folder of the program (for code: the current directory).
    name
        What to call it; the file's stem, or "program" for code, when None.

    Raises
    ------
    StanadaptError
        Stage "files": a file or folder is missing, unreadable or not UTF-8. Stage "syntax": the
        program is empty, or its includes go in a circle.

    """
    if isinstance(include_paths, str | PathLike):
        include_paths = (include_paths,)
    folders = tuple(_folder(folder) for folder in include_paths)
    if isinstance(program, str) and ("\n" in program or "{" in program or not program.strip()):
        path, text, home = None, program, Path.cwd()
    else:
        path = _program_path(program)
        text, home = read_text(path, "Stan program"), path.parent
    chain = () if path is None else (path,)
    code = _with_includes(text, chain, (*folders, home))
    if not strip(code).strip():
        where = "The program given as text" if path is None else f"The Stan program {path}"
        raise StanadaptError("syntax", f"{where} is empty; it needs at least a model block.")
    return Program(name or (path.stem if path else "program"), code, path, folders)


def strip(code: str) -> str:
    """`code` without comments, `#` lines and the contents of strings.

    Blanks take their place and newlines stay, so every position means the same in both texts.
    """

    def blanked(match: re.Match) -> str:
        # A string's quotes stay, so that an argument still stands where one stood.
        return re.sub(r"[^\n]" if match["string"] is None else r'[^\n"]', " ", match[0])

    return _HIDDEN.sub(blanked, code)


def block(code: str, name: str) -> str:
    """The stripped body of the block called `name` (one of `BLOCKS`), "" when it is absent.

    Raises
    ------
    ValueError
        `name` is no block of the language.

    """
    if name not in BLOCKS:
        raise ValueError(f"a block is one of {', '.join(BLOCKS)}, got {name!r}")
    stripped = strip(code)
    start, end = _spans(stripped).get(name, (0, 0))
    return stripped[start:end]


def without(code: str, name: str) -> str:
    """The code with the body of one block blanked; lines stay where they are."""
    start, end = _spans(strip(code)).get(name, (0, 0))
    blank = re.sub(r"[^\n]", " ", code[start:end])
    return code[:start] + blank + code[end:]


def branches(code: str) -> list[tuple[int, str]]:
    """The lines on which control flow may depend on parameters: `(line number, line)`, from 1.

    These hold an `if`, `while`, `break`, `continue` or `? :` outside the blocks `data` and
    `transformed data`, which see no parameter. Functions count, for parameters may be passed to
    them. Each line comes once, without its indentation.
    """
    stripped = strip(code)
    for name, (start, end) in _spans(stripped).items():
        if name in ("data", "transformed data"):
            blank = _NOT_NEWLINE.sub(" ", stripped[start:end])
            stripped = stripped[:start] + blank + stripped[end:]
    numbered = zip(stripped.split("\n"), code.split("\n"), strict=True)
    return [
        (number, line.strip())
        for number, (visible, line) in enumerate(numbered, 1)
        if _BRANCH.search(visible)
    ]


def read_text(path: Path, what: str) -> str:
    """The text of a UTF-8 file, every kind of newline made one, no byte order mark.

    `what` names the file's role in the message of the error (stage "files") that is raised when
    it is missing, a folder, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = (
            f"The {what} {path} is not UTF-8: line {line} holds the byte "
            f"0x{error.object[error.start]:02x}. Save it as UTF-8 text."
        )
    except FileNotFoundError:
        message = f"There is no {what} at {_absolute(path)}. Check the path."
    except IsADirectoryError:
        message = f"A {what} was expected at {path}, which is a folder. Give the file in it."
    # ValueError: a NUL byte in the path.
    except (OSError, ValueError) as error:
        message = f"The {what} {str(path)[:200]!r} cannot be read: {error}."
    raise StanadaptError("files", message) from None


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _program_path(program: str | PathLike) -> Path:
    if not isinstance(program, str | PathLike):
        raise StanadaptError(
            "files",
            "A Stan program is the path of a .stan file or a string of Stan code, "
            f"got {type(program).__name__}.",
        )
    path = Path(fspath(program)).expanduser()
    if path.suffix != ".stan" and not path.is_dir():
        raise StanadaptError(
            "files",
            f"A Stan program's file name ends in .stan, got {str(path)[:200]!r}. "
            "A string is taken as Stan code when it holds a newline or a brace.",
        )
    try:
        return path.resolve()
    except (OSError, ValueError):  # too long, a loop of links, a NUL byte: read_text tells
        return path


def _folder(folder: str | PathLike) -> Path:
    path = Path(fspath(folder)).expanduser().resolve()
    if not path.is_dir():
        raise StanadaptError("files", f"The include path {path} is not a folder. Check the path.")
    return path


def _with_includes(code: str, chain: tuple[Path, ...], folders: tuple[Path, ...]) -> str:
    """`code` with its includes replaced by their text; `chain` holds the files being read."""
    pieces, end = [], 0
    for match in _HIDDEN.finditer(code):
        names = [match[form] for form in ("quoted", "angled", "bare") if match[form] is not None]
        if not names:
            continue
        found = _included(names[0], chain, folders)
        text = _with_includes(read_text(found, "included file"), (*chain, found), folders)
        # A comment on the included file's last line must not swallow what follows the include.
        pieces += [code[end : match.start()], text, "" if text.endswith("\n") else "\n"]
        end = match.end()
    return "".join([*pieces, code[end:]])


def _included(wanted: str, chain: tuple[Path, ...], folders: tuple[Path, ...]) -> Path:
    """The file that `#include wanted` in the last file of `chain` means."""
    *include_paths, home = folders
    own = [chain[-1].parent] if chain else []
    searched = list(dict.fromkeys([*include_paths, *own, home]))
    asking = str(chain[-1]) if chain else "the program given as text"
    found = next((folder / wanted for folder in searched if (folder / wanted).is_file()), None)
    if found is None:
        raise StanadaptError(
            "files",
            f"{asking} includes {wanted!r}, which is in none of the folders searched: "
            f"{', '.join(map(str, searched))}. Give its folder in include_paths.",
        )
    found = found.resolve()
    if found in chain:
        circle = " -> ".join(file.name for file in (*chain[chain.index(found) :], found))
        raise StanadaptError(
            "syntax", f"The includes go in a circle: {circle}. Take one of them out."
        )
    return found


def _spans(stripped: str) -> dict[str, tuple[int, int]]:
    """Where the body of each top-level block starts and ends."""
    spans, position = {}, 0
    while match := _BLOCK.search(stripped, position):
        depth, position = 1, len(stripped)
        for brace in re.finditer(r"[{}]", stripped[match.end() :]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                position = match.end() + brace.start()
                break
        spans[" ".join(match[1].split())] = (match.end(), position)
    return spans
