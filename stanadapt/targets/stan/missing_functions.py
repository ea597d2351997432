"""Generated quantities without what depends on a function that a backend lacks.

A file of its own, since it edits a program, and knows no backend.
"""

import re
from collections.abc import Sequence

from stanadapt.targets.stan.control_flow import JUMPS, function_name
from stanadapt.targets.stan.declarations import parse, typed_names
from stanadapt.targets.stan.syntax import (
    NAME,
    Token,
    blanked,
    block,
    closing,
    definitions,
    spans,
    split,
    statements,
    strip,
    tokens,
)

QUANTITIES = "generated quantities"
_ELSE = re.compile(r"\s*else\b")


def without_function(code: str, function: str) -> tuple[str, list[str]] | None:
    """Return a program without the generated quantities that need a function, and their names.

    Statements that call it, themselves or by a function of the program, are replaced by blanks, and
    those that use a variable to which such a statement assigns. None if there is no such statement,
    or if whether others are executed depends on one.

    Examples
    --------
    >>> code = "generated quantities { real a = 1; real b = f_rng(a); real c = a + b; }"
    >>> without_function(code, "f_rng")
    ('generated quantities { real a = 1;                                    }', ['b', 'c'])
    """
    stripped, lost = strip(code), {function}
    places = spans(stripped)
    called = definitions(tokens(stripped, *places.get("functions", (0, 0))))
    parts = [(start, end) for start, end, _ in statements(code, QUANTITIES)]
    known = 0
    while known < len(lost):
        known = len(lost)
        lost.update(function_name(body) for body in called if lost.intersection(body))
        gone = [part for part in parts if lost.intersection(tokens(stripped, *part))]
        lost.update(*(_assigned(tokens(stripped, *part)) for part in gone))
    rest = blanked(code, gone)
    left = lost.intersection(tokens(block(rest, QUANTITIES)))
    jumps = any(JUMPS.intersection(tokens(stripped, *part)) for part in gone)
    if not gone or left or jumps or any(_ELSE.match(stripped, end) for _, end in gone):
        return None
    names = (each.name for each in parse(block(code, QUANTITIES)))
    return rest, [name for name in dict.fromkeys(names) if name in lost]


def _assigned(statement: Sequence[Token]) -> set[str]:
    """Return the names to which a statement assigns, or that it declares."""
    names = {name for name, *_ in typed_names(statement)}
    left, *right = split(statement, "=")
    if names or not right:
        return names
    outside, place = [], 0
    while place < len(left):
        last = closing(left, place)  # of a name, its own place
        outside.append(left[place : last + 1])
        place = last + 1
    targets = [part for part in outside if part[0] == "(" or NAME.fullmatch(part[0])]
    return {token for token in targets[-1] if NAME.fullmatch(token)}
