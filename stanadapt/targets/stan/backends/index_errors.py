"""An index out of range, as the backends report it: its value, and its place in the program.

A file of its own, since every backend needs it.
"""

import re

import numpy as np

from stanadapt import results
from stanadapt.errors import StanadaptError
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import strip

_STANLI = re.compile(r"(?:index (-?\d+)|range \[(-?\d+), (-?\d+)\]) out of bounds for size (\d+)")
_STAN = re.compile(r"index (-?\d+) out of range; (?:expecting .* and (\d+)|but container is empty)")
_PLACE = re.compile(r"line (\d+), column")


def index_error(program: Program, data: CheckedData, text: str) -> StanadaptError | None:
    """Return the error for a message about an index out of range; None for other messages.

    Stan names the line. The embedded backend does not: a line is one that has this number as an
    index, or indices from data that contain it.
    """
    if found := _STANLI.search(text):
        one, low, high, size = found.groups()
        index, length = int(one or (low if int(low) < 1 else high)), int(size)
    elif found := _STAN.search(text):
        index, length = int(found[1]), int(found[2] or 0)
    else:
        return None
    values = {n: x for n, x in data.arrays.items() if x.dtype.kind in "iu" and (x == index).any()}
    lines = strip(program.code).split("\n")
    place = _PLACE.search(text)
    where = int(place[1]) if place else _line(lines, [str(index), *values])
    shown = program.code.split("\n")[where - 1].strip() if where else ""
    at = f", line {where}, `{shown}`" if where else ""
    used, source = [x for x in values if where and _indexed_by(lines[where - 1], x)], ""
    if used:
        element = np.argwhere(values[used[0]] == index)[0]
        source = f" {results.element(used[0], tuple(element))} is {index}."
    return StanadaptError(
        "index_out_of_range",
        f"{program.name} uses the index {index} of something that has {length} elements{at}."
        f"{source} Correct the data, the sizes, or the limits of the loop.",
        text,
    )


def _line(lines: list[str], indices: list[str]) -> int:
    """Return the number of the only line that has one of these as an index; 0 if there are more."""
    for index in indices:
        found = [i for i, line in enumerate(lines, 1) if _indexed_by(line, index)]
        if len(found) == 1:
            return found[0]
    return 0


def _indexed_by(line: str, index: str) -> bool:
    """Whether a line has brackets behind a name that contain a word: not a declared size."""
    inside = re.findall(r"\w\s*\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", re.sub(r"^\s*array\s*", "", line))
    return any(re.search(rf"\b{index}\b", part) for part in inside)
