"""Row assignments to integer arrays, in a form that the embedded backend reads correctly.

stanli 0.24.0 evaluates transformed data before it builds the density. If these, or a function that
they call, assign a row of a two-dimensional array of integers by one index,

    array[2, 3] int z = rep_array(0, 2, 3);
    z[2] = y;

then distributions, sums and other integers still read the values before the assignment, without an
error. `z[2, :] = y`, which means the same in Stan, is read correctly, as are arrays of other ranks
and types.
"""

import re

from stanadapt.targets.stan.program import spans, strip

_ARRAY = re.compile(r"\barray\s*\[")
_INTEGERS = re.compile(r"\s*int\b\s*")
_NAME = re.compile(r"[A-Za-z]\w*")
_OPENING = "([{"


def complete_rows(code: str) -> str:
    """Return a program in which such assignments have both indices; lines keep their numbers.

    Examples
    --------
    >>> code = "transformed data { array[2, 2] int z; z[1] = {1, 2}; }"
    >>> complete_rows(code)
    'transformed data { array[2, 2] int z; z[1, :] = {1, 2}; }'

    """
    stripped = strip(code)
    places: list[int] = []
    for name, (start, end) in spans(stripped).items():
        if name == "transformed data":
            places += _ends_of_indices(stripped, start, end)
        elif name == "functions":
            for first, last in _bodies(stripped, start, end):
                places += _ends_of_indices(stripped, first, last)
    for place in sorted(places, reverse=True):
        code = f"{code[:place]}, :{code[place:]}"
    return code


def _bodies(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of the functions, in which names may have other types, in a block."""
    found, first = [], start
    while (brace := text.find("{", first, end)) >= 0:
        last = _close(text, brace, end)
        found.append((first, last))
        first = last + 1
    return found


def _ends_of_indices(text: str, start: int, end: int) -> list[int]:
    """Return the places of the closing brackets of single indices that are assigned to."""
    names = _tables(text, start, end)
    if not names:
        return []
    places = []
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})\s*\[")
    for match in pattern.finditer(text, start, end):
        last = _close(text, match.end() - 1, end)
        index = text[match.end() : last]
        if index.strip() and _commas(index) == 0 and re.match(r"\s*=(?!=)", text[last + 1 : end]):
            places.append(last)
    return places


def _tables(text: str, start: int, end: int) -> set[str]:
    """Return the names of two-dimensional arrays of integers that are declared in a part."""
    names = set()
    for match in _ARRAY.finditer(text, start, end):
        last = _close(text, match.end() - 1, end)
        integers = _INTEGERS.match(text, last + 1, end)
        if integers is None or _commas(text[match.end() : last]) != 1:
            continue
        place = integers.end()
        if text[place : place + 1] == "<":
            place = _end_of_bounds(text, place, end)
        names |= _declared(text, place, end)
    return names


def _end_of_bounds(text: str, place: int, end: int) -> int:
    """Return the place after bounds, in which signs of comparison are in brackets."""
    while place < end and text[place] != ">":
        place = (_close(text, place, end) if text[place] in _OPENING else place) + 1
    return place + 1


def _declared(text: str, place: int, end: int) -> set[str]:
    """Return the names of a declaration, from the first name to its semicolon or parenthesis."""
    names = set()
    expected = True
    while place < end and text[place] not in ";)":
        if text[place] in _OPENING:
            place = _close(text, place, end)
        elif text[place] == ",":
            expected = True
        elif match := _NAME.match(text, place, end):
            if expected:
                names.add(match[0])
            expected = False
            place = match.end() - 1
        place += 1
    return names


def _close(text: str, place: int, end: int) -> int:
    """Return the place of the bracket that closes the one at a place, or the end."""
    depth = 0
    for position in range(place, end):
        if text[position] in _OPENING:
            depth += 1
        elif text[position] in ")]}":
            depth -= 1
            if depth == 0:
                return position
    return end


def _commas(index: str) -> int:
    """Count the commas between indices, but not those within calls and other brackets."""
    depth = count = 0
    for sign in index:
        depth += (sign in _OPENING) - (sign in ")]}")
        count += sign == "," and depth == 0
    return count
