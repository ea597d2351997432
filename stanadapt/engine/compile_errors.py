"""Errors about the file of a sampler, of Numba's or its own, as one message with file and line."""

import ast
import contextlib
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.errors import NumbaError

from stanadapt.engine.compiled.dependencies import INSTALLED, PACKAGE, is_below
from stanadapt.errors import StanadaptError

# "... at /home/me/barker.py (12)": where Numba was when it stopped, innermost first
PLACE = re.compile(r"at (\S.*?\.py) \((\d+)\)")
# the line after the innermost of these is the reason
FAILURE = re.compile(r"Failed in nopython mode pipeline.*\n\s*(?!Failed)(\S.*)")
# the same, raised by the package as it is compiled with the file, with the remedy
OWN_REASON = re.compile(
    rf"^\s*\w*Error: (\S.*)\n\s*raised from {re.escape(str(PACKAGE))}", re.MULTILINE
)
# the state of the loop has two types: that of `init`, and another one
DIFFERENT = re.compile(r"Cannot unify (.*) and (.*) for 'state\b")
PART = re.compile(r"`(init|step|adapt)` must return")
UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@contextlib.contextmanager
def explained(sampler: Any) -> Iterator[None]:
    """Turn an error of compilation in an author's file into a StanadaptError, stage "sampler".

    Numba's message begins with our loop, which is right, and ends fifty lines later. If memory for
    the state of a chain cannot be allocated, the error has stage "settings".
    """
    try:
        yield
    except MemoryError as error:
        raise StanadaptError(
            "out_of_memory",
            f"with these settings, {sampler.name} needs more memory than there is ({error}): lower "
            "the numbers of chains, levels, pseudo-samples or draws.",
        ) from None
    except NumbaError as error:
        file = _file(sampler)
        if file.is_relative_to(PACKAGE):
            raise
        text = _summary(sampler, file, str(error))
        raise StanadaptError("sampler_not_compiled", text) from error


@contextlib.contextmanager
def running(sampler: Any, stage: str | None = None) -> Iterator[None]:
    """Turn an error that an author's function raises as it runs into a StanadaptError.

    `stage` is that of a warm-up. Numba, too, may end with an error that is none of its own, often
    without a text.
    """
    try:
        yield
    except (NumbaError, MemoryError, StanadaptError):
        raise
    except Exception as error:
        file = _file(sampler)
        if file.is_relative_to(PACKAGE):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _is_of_author(frame.filename)]
        kind = f"{type(error).__name__}: {error}".rstrip(": .")
        if own:
            remedy = (
                "`step` and `adapt` must not raise: give -inf as log density for a rejection."
                if stage is None
                else f"This was at stage {stage!r} of warm-up."
            )
            path, line, name = own[-1].filename, own[-1].lineno, own[-1].name
            text = f"{sampler.name}: {path}, line {line}, in {name}: {kind}. {remedy}"
            raise StanadaptError("sampler_raised", text) from error
        if "numba" not in Path(frames[-1].filename).parts:
            raise
        raise StanadaptError(
            "sampler_not_compiled",
            f"{sampler.name} does not compile. {file}: Numba stopped with {kind}. Compare the "
            "types of State with what `init`, `step` and `adapt` return.",
        ) from error


def _file(sampler: Any) -> Path:
    module = sys.modules[sampler.settings.__module__]
    return Path(getattr(module, "__file__", None) or "a notebook or prompt")


def _is_of_author(path: str) -> bool:
    return not is_below(path, (PACKAGE, *INSTALLED)) and "site-packages" not in path


def _summary(sampler: Any, file: Path, text: str) -> str:
    """Return the place and the reason of an error, from the text of Numba's message."""
    reasons = OWN_REASON.findall(text)[:1] or FAILURE.findall(text)
    reason = (reasons[-1] if reasons else text.splitlines()[0]).strip()
    different = DIFFERENT.match(reason)
    if different:
        one, other = different.groups()
        reason = (
            f"`step` must return a state as `init` does, and so must `adapt`: {one} is not {other}"
        )
    if "unify return type" in reason and f"Tuple({sampler.state.__name__}" in reason:
        reason = "`step` must return (state, info) in every case"
    places = [(Path(path), int(line)) for path, line in PLACE.findall(text) if _is_of_author(path)]
    undefined = UNDEFINED.search(reason)
    if undefined:  # Numba's message has no place then
        places = [(file, _first_use(undefined.group(1), file))]
    part = PART.match(reason)
    if part:  # the place is in our loop then
        code = getattr(getattr(sampler, part.group(1)), "py_func", _summary).__code__
        places = [(Path(code.co_filename), code.co_firstlineno)]
    path, line = places[0] if places else (file, 0)
    place = f"{path}, line {line}" if line else str(path)
    return f"{sampler.name} does not compile. {place}: {reason.rstrip('.')}."


def _first_use(name: str, file: Path) -> int:
    """Return the first line of a file that uses a name; 0 if there is no such line or file."""
    if not file.is_file():
        return 0
    lines = (
        node.lineno
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == name
    )
    return min(lines, default=0)
