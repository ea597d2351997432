"""Numba's errors about the file of a sampler, as one message with that file and line."""

import ast
import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from numba.core.errors import NumbaError

from stanadapt.engine.compiled.jit import PACKAGE
from stanadapt.engine.messages import OUT_OF_MEMORY, SAMPLER_NOT_COMPILED
from stanadapt.engine.protocol import Sampler
from stanadapt.errors import StanadaptError

# "... at /home/me/barker.py (12)": where Numba was when it stopped, innermost first
PLACE = re.compile(r"at (\S.*?\.py) \((\d+)\)")
# the line after the innermost of these is the reason
FAILURE = re.compile(r"Failed in nopython mode pipeline.*\n\s*(?!Failed)(\S.*)")
UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@contextlib.contextmanager
def explained(sampler: Sampler) -> Iterator[None]:
    """Turn an error of compilation in an author's file into a StanadaptError, stage "sampler".

    Numba's message begins with our loop, which is right, and ends fifty lines later. If memory for
    the state of a chain cannot be allocated, the error has stage "settings".
    """
    try:
        yield
    except MemoryError as error:
        raise StanadaptError(
            OUT_OF_MEMORY,
            f"with these settings, {sampler.name} needs more memory than there is ({error}): lower "
            "the numbers of chains, levels, pseudo-samples or draws.",
        ) from None
    except NumbaError as error:
        module = sys.modules[sampler.settings.__module__]
        file = Path(getattr(module, "__file__", None) or "a notebook or prompt")
        if file.is_relative_to(PACKAGE):
            raise
        text = _summary(sampler.name, file, str(error))
        raise StanadaptError(SAMPLER_NOT_COMPILED, text) from error


def _summary(name: str, file: Path, text: str) -> str:
    """Return the place and the reason of an error, from the text of Numba's message."""
    reasons = FAILURE.findall(text)
    reason = (reasons[-1] if reasons else text.splitlines()[0]).strip()
    places = [
        (Path(path), int(line))
        for path, line in PLACE.findall(text)
        if not Path(path).is_relative_to(PACKAGE) and "site-packages" not in path
    ]
    undefined = UNDEFINED.search(reason)
    if undefined:  # Numba's message has no place then
        places = [(file, _first_use(undefined.group(1), file))]
    path, line = places[0] if places else (file, 0)
    place = f"{path}, line {line}" if line else str(path)
    return f"{name} does not compile. {place}: {reason.rstrip('.')}."


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
