"""Estimate the size of a program whose loops are unrolled, under its data, without running it.

The size is the number of words (names and numbers) of the blocks that define density and quantities
after every loop has been written out. Bounds of loops are computed as far as data, literals, loop
variables and arguments of functions determine them; any other loop counts as one over the largest
size among the data. The estimate takes milliseconds and is meant to err upward.
"""

import ast
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stanadapt.targets.stan.program import Program, block

UNROLLED = ("transformed parameters", "model", "generated quantities")
# iterations of loops whose bodies are counted one by one; others are all as large as the first
MOST_COUNTED = 3000
# functions that call functions; a recursion is cut there
DEEPEST_CALL = 12
_LOOP = re.compile(r"\b(?:for|while)\b")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\S")
_WORD = re.compile(r"\w")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Size(NamedTuple):
    """The size of an unrolled program.

    words
        Names and numbers, after every loop has been written out.
    iterations
        The largest number of times that a statement is repeated.

    """

    words: int
    iterations: int


NO_LOOPS = Size(0, 1)


# --- the tree of loops ----------------------------------------------------------------------------


class Call(NamedTuple):
    """A call of one of the program's functions; arguments that cannot be computed are None."""

    name: str
    arguments: tuple[ast.expr | None, ...]


class Plain(NamedTuple):
    """A statement without loops, or the head of one."""

    words: int
    calls: tuple[Call, ...]


class Loop(NamedTuple):
    """A loop over low:high, over the elements of `over`, or, with neither, while a condition holds.

    varying
        Names that decide how large the body is.

    """

    variable: str
    low: ast.expr | None
    high: ast.expr | None
    over: ast.expr | None
    body: tuple[Any, ...]
    varying: frozenset[str]


class Function(NamedTuple):
    """A function of the program: names of its arguments, and its body."""

    arguments: tuple[str, ...]
    body: tuple[Any, ...]


class _Reader:
    """Reads statements; the program has been accepted by a compiler."""

    def __init__(self, text: str, functions: Sequence[str] = ()) -> None:
        self.tokens, self.at = _TOKEN.findall(text), 0
        self.functions = frozenset(functions)

    def statements(self) -> tuple[Any, ...]:
        """Read statements up to a closing brace or the end."""
        found: list[Any] = []
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            found += self._statement()
        self.at += 1
        return tuple(found)

    def _statement(self) -> tuple[Any, ...]:
        first = self._take()
        if first == "{":
            return self.statements()
        if first == "for":
            return self._for(self._parentheses())
        if first == "while":
            condition = self._plain(self._parentheses())
            return (self._loop("", None, None, None, (condition, *self._one())),)
        if first in ("if", "profile"):
            parts = (self._plain(self._parentheses()), *self._one())
            if self.at < len(self.tokens) and self.tokens[self.at] == "else":
                self.at += 1
                parts += self._one()
            return parts
        start, self.at = self.at - 1, self.at - 1
        while self.at < len(self.tokens) and self.tokens[self.at] not in (";", "}"):
            self._skip()
        plain = self._plain(self.tokens[start : self.at])
        if self.at < len(self.tokens) and self.tokens[self.at] == ";":
            self.at += 1
        return (plain,)

    def _one(self) -> tuple[Any, ...]:
        return self._statement() if self.at < len(self.tokens) else ()

    def _for(self, head: list[str]) -> tuple[Any, ...]:
        body, (variable, _, *rest) = self._one(), head
        colon = _top_level(rest, ":")
        if not colon:
            return (self._loop(variable, None, None, _parsed(rest), body),)
        low, high = rest[: colon[0]], rest[colon[0] + 1 :]
        return (self._loop(variable, _parsed(low), _parsed(high), None, body),)

    @staticmethod
    def _loop(
        variable: str,
        low: ast.expr | None,
        high: ast.expr | None,
        over: ast.expr | None,
        body: tuple[Any, ...],
    ) -> Loop:
        deciding: set[str] = set()
        for part in body:
            if isinstance(part, Loop):
                deciding |= part.varying
                deciding |= _names(part.low) | _names(part.high) | _names(part.over)
            else:
                deciding |= {n for call in part.calls for a in call.arguments for n in _names(a)}
        return Loop(variable, low, high, over, body, frozenset(deciding))

    def _plain(self, tokens: list[str]) -> Plain:
        calls = []
        for i, token in enumerate(tokens[:-1]):
            if token in self.functions and tokens[i + 1] == "(":
                inside = tokens[i + 2 : _end(tokens, i + 1) - 1]
                bars = [i for sign in (",", "|") for i in _top_level(inside, sign)]
                edges = [-1, *sorted(bars), len(inside)]
                pairs = itertools.pairwise(edges)
                calls.append(Call(token, tuple(_parsed(inside[a + 1 : b]) for a, b in pairs)))
        return Plain(sum(bool(_WORD.match(token)) for token in tokens), tuple(calls))

    def functions_of_block(self) -> dict[str, Function]:
        """Read the block `functions`."""
        found: dict[str, Function] = {}
        while "(" in self.tokens[self.at :]:
            opening = self.tokens.index("(", self.at)
            name, self.at = self.tokens[opening - 1], opening
            head = self._parentheses()
            names = tuple(
                before
                for before, after in zip(head, [*head[1:], ","], strict=True)
                if after == "," and _WORD.match(before)
            )
            if self._take() == "{":
                found[name] = Function(names, self.statements())
        return found

    def _take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def _skip(self) -> None:
        self.at = _end(self.tokens, self.at)

    def _parentheses(self) -> list[str]:
        """Read tokens in parentheses, and return those between."""
        start = self.at
        self._skip()
        return self.tokens[start + 1 : self.at - 1]


def _end(tokens: Sequence[str], at: int) -> int:
    """Return the position after a token, or after the bracket that it opens."""
    if tokens[at] not in _CLOSING:
        return at + 1
    depth, opening, closing = 0, tokens[at], _CLOSING[tokens[at]]
    for i in range(at, len(tokens)):
        depth += (tokens[i] == opening) - (tokens[i] == closing)
        if depth == 0:
            return i + 1
    return len(tokens)


def _top_level(tokens: Sequence[str], sign: str) -> list[int]:
    """Return the positions of a sign outside brackets."""
    found, i = [], 0
    while i < len(tokens):
        if tokens[i] == sign:
            found.append(i)
        i = _end(tokens, i)
    return found


# --- integers -------------------------------------------------------------------------------------


def _parsed(tokens: Sequence[str]) -> ast.expr | None:
    """Return an expression of integers as Python reads it; None if it is none."""
    try:
        return ast.parse(" ".join(tokens).replace("% / %", "//"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(node: ast.expr | None) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()


_OPERATORS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Any] = {
    "size": len,
    "rows": len,
    "num_elements": lambda x: _count(x),
    "cols": lambda x: len(x[0]),
    "max": max,
    "min": min,
    "sum": sum,
}


def _count(value: Any) -> int:
    return sum(map(_count, value)) if isinstance(value, list) else 1


def _value(node: ast.expr | None, scope: Mapping[str, Any]) -> Any:
    """Compute an expression of integers and arrays; None if it depends on anything else."""
    try:
        return _computed(node, scope)
    except (KeyError, TypeError, ValueError, IndexError, ArithmeticError, RecursionError):
        return None


def _computed(node: Any, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return scope[node.id]
    if isinstance(node, ast.BinOp):
        pair = _computed(node.left, scope), _computed(node.right, scope)
        return _OPERATORS[type(node.op)](*map(_integer, pair))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_integer(_computed(node.operand, scope))
    if isinstance(node, ast.Subscript):
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        value = _computed(node.value, scope)
        for index in indices:
            value = value[_integer(_computed(index, scope)) - 1]
        return value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*(_computed(a, scope) for a in node.args))
    raise TypeError(type(node).__name__)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no integer")
    return value


# --- the estimate ---------------------------------------------------------------------------------


class _Counter:
    """Adds up words; `iterations` is the most often repeated statement so far."""

    def __init__(self, functions: Mapping[str, Function], longest: int) -> None:
        self.functions, self.longest = functions, longest
        self.left, self.iterations = MOST_COUNTED, 1
        self._known: dict[tuple, Size] = {}

    def count(self, body: tuple[Any, ...], scope: Mapping[str, Any], depth: int = 0) -> Size:
        """Return the size of statements."""
        words, most = 0, 1
        for part in body:
            one = self._loop(part, scope, depth) if isinstance(part, Loop) else Size(part.words, 1)
            if isinstance(part, Plain):
                for call in part.calls:
                    called = self._call(call, scope, depth)
                    one = Size(one.words + called.words, max(one.iterations, called.iterations))
            words, most = words + one.words, max(most, one.iterations)
        return Size(words, most)

    def _loop(self, loop: Loop, scope: Mapping[str, Any], depth: int) -> Size:
        low, high, over = (_value(node, scope) for node in (loop.low, loop.high, loop.over))
        if isinstance(low, int) and isinstance(high, int):
            each: range | None = range(low, high + 1)
        else:
            each = range(1, len(over) + 1) if isinstance(over, list) else None
        trips = self.longest if each is None else len(each)
        if each is not None and loop.variable in loop.varying and trips <= self.left:
            self.left -= trips
            elements = each if over is None else over
            sizes = [self.count(loop.body, {**scope, loop.variable: i}, depth) for i in elements]
            return Size(sum(s.words for s in sizes), sum(s.iterations for s in sizes))
        inside = {name: value for name, value in scope.items() if name != loop.variable}
        words, iterations = self.count(loop.body, inside, depth)
        return Size(trips * words, trips * iterations)

    def _call(self, call: Call, scope: Mapping[str, Any], depth: int) -> Size:
        function = self.functions.get(call.name)
        if function is None or depth >= DEEPEST_CALL:
            return NO_LOOPS
        given = {
            name: value
            for name, node in zip(function.arguments, call.arguments, strict=False)
            if (value := _value(node, scope)) is not None
        }
        key = (
            call.name,
            depth,
            *((n, v if isinstance(v, int) else id(v)) for n, v in given.items()),
        )
        if key not in self._known:
            self._known[key] = self.count(function.body, given, depth + 1)
        return self._known[key]


def unrolled_size(program: Program, data: str) -> Size:
    """Return the size of a program whose loops are unrolled under data (JSON text)."""
    blocks = [block(program.code, name) for name in UNROLLED]
    text = block(program.code, "functions")
    if not any(map(_LOOP.search, [*blocks, text])):
        return NO_LOOPS
    values = json.loads(data)
    # a function may call one that is defined after it
    names = re.findall(r"(\w+)\s*\(", text)
    functions = _Reader(text, names).functions_of_block()
    counter = _Counter(functions, _longest(list(values.values())))
    scope = {**values, **_computed_before(block(program.code, "transformed data"), values)}
    sizes = [counter.count(_Reader(body, names).statements(), scope) for body in blocks]
    return Size(sum(s.words for s in sizes), max(s.iterations for s in sizes))


def _computed_before(text: str, values: Mapping[str, Any]) -> dict[str, int]:
    """Return integers that the transformed data define by an expression and never change."""
    found: dict[str, int] = {}
    for name, expression in re.findall(r"\bint\s*(?:<[^;=]*=[^;]*?>\s*)?(\w+)\s*=([^;]*);", text):
        changes = re.findall(rf"\b{name}\s*[-+*/]?=(?!=)", text)
        value = _value(_parsed(_TOKEN.findall(expression)), {**values, **found})
        if len(changes) == 1 and isinstance(value, int):
            found[name] = value
    return found


def _longest(values: Any) -> int:
    """Return the largest number of iterations that the data suggest for a loop."""
    longest = 1
    for value in values:
        if isinstance(value, list):
            longest = max(longest, len(value), _longest(value[:1]) if _nested(value) else 1)
        elif isinstance(value, int):
            longest = max(longest, value)
    return longest


def _nested(value: list) -> bool:
    return bool(value) and isinstance(value[0], list)
