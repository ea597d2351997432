"""Branches of a Stan program whose conditions may depend on parameters.

A condition does not if all its names are clean: data, and integers. An integer depends on
parameters only if a comparison, a function like `is_nan` or a random number made it from them, or a
branch that depends on parameters, which is listed itself. In doubt, a name is not clean.
"""

import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stanadapt.targets.stan import syntax
from stanadapt.targets.stan.declarations import TYPES, typed_names
from stanadapt.targets.stan.syntax import NAME, Token, at, closing

_DATA = ("data", "transformed data")
_SIZES = frozenset(["size", "num_elements", "rows", "cols", "dims"])
_LOGICAL = frozenset(["==", "!=", "<", ">", "<=", ">=", "&&", "||", "!"])
_INTEGER_OF_REAL = re.compile(r"is_nan|is_inf|int_step|rank|sort_indices_\w+|to_int|\w+_rng")
_UNKNOWN = re.compile(r"target|\w+_(?:rng|lp)")  # calls that depend on more than their arguments
JUMPS = frozenset(["break", "continue"])
_EDGES = frozenset(["=", ",", ";", "~", "|", ":", "?", "return", "else", *JUMPS])
_SUFFIX = re.compile(r"_(?:l?u?p[dm]f|l?c?cdf)$")


class _Scope(NamedTuple):
    """The tokens of a block or of a function, the names that are clean in it, and its integers."""

    tokens: Sequence[Token]
    clean: set[str]
    integers: set[str]


def branches(code: str) -> list[tuple[int, str]]:
    """List lines on which control flow may depend on parameters: `(line number from 1, line)`.

    These contain an `if`, a `while` or a `? :` with such a condition; or, if there are any, `break`
    or `continue`. Each line is listed once, without indentation. The blocks `data` and `transformed
    data`, and functions that only these call, have no access to parameters.
    """
    stripped = syntax.strip(code)
    blocks = {name: syntax.tokens(stripped, *span) for name, span in syntax.spans(stripped).items()}
    data = {name for block in _DATA for name, *_ in typed_names(blocks.get(block, []))}
    main = [block for name, block in blocks.items() if name not in (*_DATA, "functions")]
    called = _called(syntax.definitions(blocks.get("functions", [])), main)
    scopes = [_scope(block, data) for block in main]
    functions = [_scope(function, set()) for function in called]
    made = [_makes_integers(scope) for scope in scopes]
    passed = any(map(_passes_integers, itertools.compress(scopes, made)))
    if not passed and not any(map(_makes_integers, functions)):
        for scope in (*itertools.compress(scopes, map(operator.not_, made)), *functions):
            scope.clean.update(scope.integers)
    every = [*scopes, *functions]
    found = {token.start for scope in every for token in _dependent(scope)}
    if found:
        found |= {token.start for scope in every for token in scope.tokens if token in JUMPS}
    numbers = sorted({stripped.count("\n", 0, start) for start in found})
    lines = code.split("\n")
    return [(number + 1, lines[number].strip()) for number in numbers]


def _called(
    functions: list[Sequence[Token]], main: Iterable[Sequence[Token]]
) -> list[Sequence[Token]]:
    """Return the functions that blocks with access to parameters call, directly or not."""
    seen, rest = {_SUFFIX.sub("", token) for block in main for token in block}, functions
    while True:
        now = [function for function in rest if function_name(function) in seen]
        if not now:
            return [function for function in functions if function not in rest]
        rest = [function for function in rest if function not in now]
        seen |= {_SUFFIX.sub("", token) for function in now for token in function}


def function_name(function: Sequence[Token]) -> str:
    """Return the name of a function, without the suffix of a density."""
    # a type, or declarations before the function, may have parentheses too
    body = next(i for i, token in enumerate(function) if token == "{")
    place = next((i for i in range(body) if closing(function, i) == body - 1), 0)
    return _SUFFIX.sub("", function[place - 1])


def _scope(scope: Sequence[Token], data: set[str]) -> _Scope:
    declared = typed_names(scope)
    others = {name for name, kind, _ in declared if kind != "int"}
    integers = {name for name, kind, _ in declared if kind == "int"} - others
    clean, dirty = data - others - integers, others | integers
    for place, token in enumerate(scope):
        if token == "for" and at(scope, place + 3) == "in":
            range_ = scope[place + 4 : closing(scope, place + 1)]
            name, (first, *last) = str(scope[place + 2]), syntax.split(range_, ":")
            # a name may be an integer in one loop, and an element of a vector in another
            is_integer = bool(last) and "?" not in first
            (integers if is_integer else others).add(name)
            if not (is_integer and _is_clean(range_, clean)):
                dirty.add(name)
            clean = (clean | {name}) - dirty
    integers -= others
    return _Scope(scope, clean, integers)


def _is_clean(expression: Sequence[Token], clean: set[str]) -> bool:
    place = 0
    while place < len(expression):
        token = expression[place]
        if at(expression, place + 1) == "(" and NAME.fullmatch(token):
            if _UNKNOWN.fullmatch(token):
                return False
            if token in _SIZES:
                place = closing(expression, place + 1)
        elif NAME.fullmatch(token) and token not in clean:
            return False
        place += 1
    return True


def _around(scope: Sequence[Token], place: int) -> tuple[int, int]:
    """Return the bounds of the expression around a place, within its brackets."""
    edges, depth, low = [], 0, place
    for step in (-1, 1):
        depth, low = 0, place + step
        while 0 <= low < len(scope):
            token = scope[low]
            depth += step * ((token in "([{") - (token in ")]}"))
            if depth < 0 or token in "{}" or (depth == 0 and token in _EDGES):
                break
            low += step
        edges.append(low)
    return edges[0] + 1, edges[1]


def _conditions(scope: Sequence[Token]) -> list[tuple[Token, int, int]]:
    """Return each branch with the bounds of its condition."""
    found = []
    for place, token in enumerate(scope):
        if token in ("if", "while"):
            found.append((token, place + 2, closing(scope, place + 1)))
        elif token == "?":
            found.append((token, _around(scope, place)[0], place))
    return found


def _dependent(scope: _Scope) -> list[Token]:
    """Return the branches of which the condition may depend on parameters."""
    return [
        token
        for token, start, end in _conditions(scope.tokens)
        if not _is_clean(scope.tokens[start:end], scope.clean)
    ]


def _makes_integers(scope: _Scope) -> bool:
    """Return whether integers may depend on parameters for another reason than a branch."""
    inside = {i for _, start, end in _conditions(scope.tokens) for i in range(start, end)}
    clean, constraint = scope.clean | scope.integers, -1
    for place, token in enumerate(scope.tokens):
        if token == "<" and at(scope.tokens, place - 1) in TYPES:
            constraint = closing(scope.tokens, place, ">")
        if place in inside or place == constraint:
            continue
        if _INTEGER_OF_REAL.fullmatch(token) and at(scope.tokens, place + 1) == "(":
            return True
        if token in _LOGICAL and at(scope.tokens, place - 1) not in TYPES:
            start, end = _around(scope.tokens, place)
            if not _is_clean(scope.tokens[start:end], clean):
                return True
    return False


def _passes_integers(scope: _Scope) -> bool:
    """Return whether a call may have such an integer among its arguments."""
    for place, token in enumerate(scope.tokens):
        called = NAME.fullmatch(token) and token not in ("if", "while", "for")
        if called and at(scope.tokens, place + 1) == "(":
            arguments = scope.tokens[place + 2 : closing(scope.tokens, place + 1)]
            integers = scope.integers - scope.clean
            if any(
                a in integers or a in _LOGICAL or _INTEGER_OF_REAL.fullmatch(a) for a in arguments
            ):
                return True
    return False
