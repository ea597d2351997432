"""Which statement of a program makes its density zero, or its gradient infinite, at a position.

Stan says only that the log density is -inf. Programs that end after one of the statements of the
model block are bound by the embedded backend, in milliseconds, whatever backend the target has. The
first of them that fails is found by bisection: what has failed stays so.
A file of its own, since initial values know nothing of the language.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stanadapt.errors import StanadaptError
from stanadapt.targets.bound_program import SHARED_ABOVE, BoundProgram
from stanadapt.targets.stan.syntax import spans, statements, strip, without_blocks

LONGEST = 80  # characters of a statement that are shown


def failing_statement(bound: BoundProgram, position: np.ndarray, gradient: bool) -> str:
    """Return the first statement after which the log density, or its gradient, is not finite.

    With its line; "" if it cannot be found.
    """
    program, values = bound.program, bound.constrain(position)
    found = statements(program.code, "model")
    large = bound.checked.size > SHARED_ABOVE  # the program is bound log2(statements) times
    if large or not found or _fails(bound, -1, values, gradient):
        return ""
    low, high = -1, len(found) - 1
    if not _fails(bound, high, values, gradient):
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        failed = _fails(bound, middle, values, gradient)
        low, high = (low, middle) if failed else (middle, high)
    start, end, _ = found[high]
    text = " ".join(program.code[start:end].split())
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    return f"`{text}` (line {program.code.count(chr(10), 0, start) + 1})"


def _fails(bound: BoundProgram, last: int, values: Mapping[str, Any], gradient: bool) -> bool:
    """Whether the program fails that ends after a statement; without any, for -1."""
    code = without_blocks(bound.program.code, ["generated quantities"])
    start, end = spans(strip(code))["model"]
    kept = ""
    if last >= 0:
        statement = statements(code, "model")[last]
        kept = code[start : statement.end] + "}" * statement.depth
    cut = bound.program._replace(code=code[:start] + kept + code[end:])
    try:
        ends = BoundProgram(cut, bound.checked, "stanli", True, False)
        value, slope, _ = ends.evaluate(ends.unconstrain(values))
    except StanadaptError:
        return False
    return not (np.isfinite(value) and (not gradient or np.isfinite(slope).all()))
