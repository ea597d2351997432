"""Numba's errors about the file of somebody's sampler, as one sentence with that file and line."""

import ast
import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from numba.core.errors import NumbaError

from stanadapt.engine.compiled.jit import PACKAGE
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError

# "... at /home/me/barker.py (12)": where Numba was when it gave up, innermost first
PLACE = re.compile(r"at (\S.*?\.py) \((\d+)\)")
# the line after the innermost of these is the reason
FAILURE = re.compile(r"Failed in nopython mode pipeline.*\n\s*(?!Failed)(\S.*)")
UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@contextlib.contextmanager
def explained(sampler: Sampler) -> Iterator[None]:
    """Turn an error of compilation in an author's file into a StanadaptError, stage "sampler".

    One of memory that settings ask for becomes one of stage "settings".

    Without this, Numba's message begins with our loop, which is right, and ends fifty lines later.
    """
    try:
        yield
    except MemoryError as error:
        raise StanadaptError(
            "settings",
            f"{sampler.name} cannot have the memory that these settings ask for ({error}): lower "
            "numbers of chains, levels, pseudo-samples or draws.",
        ) from None
    except NumbaError as error:
        module = sys.modules[sampler.settings.__module__]
        file = Path(getattr(module, "__file__", None) or "a notebook or prompt")
        if file.is_relative_to(PACKAGE):
            raise
        raise StanadaptError("sampler", _sentence(sampler.name, file, str(error))) from error


def _sentence(name: str, file: Path, text: str) -> str:
    reasons = FAILURE.findall(text)
    reason = (reasons[-1] if reasons else text.splitlines()[0]).strip()
    places = [
        (Path(path), int(line))
        for path, line in PLACE.findall(text)
        if not Path(path).is_relative_to(PACKAGE) and "site-packages" not in path
    ]
    undefined = UNDEFINED.search(reason)
    if undefined:  # Numba does not say where
        places = [(file, _line_of(undefined.group(1), file))]
    path, line = places[0] if places else (file, 0)
    where = f"{path}, line {line}" if line else str(path)
    return f"{name} does not compile. {where}: {reason.rstrip('.')}."


def _line_of(name: str, file: Path) -> int:
    """First line of a file that uses a name; 0 where none does, or there is no file."""
    if not file.is_file():
        return 0
    used = (
        node.lineno
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == name
    )
    return min(used, default=0)
