"""Estimate the size of a program with unrolled loops, under its data, without running it.

The size is the number of words (names and numbers) of the blocks that define density and quantities
after every loop has been written out. Bounds of loops are computed as far as data, literals, loop
variables and arguments of functions determine them; any other loop counts as one over the largest
size among the data. The estimate takes milliseconds and is meant to err upward.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stanadapt.targets.stan import syntax
from stanadapt.targets.stan.checked_data import CheckedData
from stanadapt.targets.stan.expressions import Tree, Values, evaluate, names, parse
from stanadapt.targets.stan.program import Program
from stanadapt.targets.stan.syntax import Token, at, block, closing, split

UNROLLED = ("transformed parameters", "model", "generated quantities")
# iterations of loops with bodies counted one by one; others are all as large as the first
MOST_COUNTED = 3000
# functions that call functions; a recursion is cut there
DEEPEST_CALL = 12
_LOOP = re.compile(r"\b(?:for|while)\b")
_WORD = re.compile(r"\w|\.\d")


class Size(NamedTuple):
    """The size of an unrolled program."""

    words: int  # names and numbers, after every loop has been written out
    iterations: int  # the largest number of times that a statement is repeated


NO_LOOPS = Size(0, 1)


# --- the tree of loops ----------------------------------------------------------------------------


class Call(NamedTuple):
    """A call of one of the program's functions; arguments that cannot be computed are None."""

    name: str
    arguments: tuple[Tree | None, ...]


class Plain(NamedTuple):
    """A statement without loops, or the head of one."""

    words: int
    calls: tuple[Call, ...]


class Loop(NamedTuple):
    """A loop over low:high, over elements of `over`, or, with neither, while a condition holds."""

    variable: str
    low: Tree | None
    high: Tree | None
    over: Tree | None
    body: tuple[Any, ...]
    varying: frozenset[str]  # names that decide how large the body is


class Function(NamedTuple):
    """A function of the program: names of its arguments, and its body."""

    arguments: tuple[str, ...]
    body: tuple[Any, ...]


class _Reader:
    """Reads statements; the program has been accepted by a compiler."""

    def __init__(self, text: str, functions: Sequence[str] = ()) -> None:
        self.tokens, self.place = syntax.tokens(text), 0
        self.functions = frozenset(functions)

    def statements(self) -> tuple[Any, ...]:
        """Read statements up to a closing brace or the end."""
        found: list[Any] = []
        while self._next() not in ("}", ""):
            found += self._statement()
        self.place += 1
        return tuple(found)

    def _statement(self) -> tuple[Any, ...]:
        start, first = self.place, self._take()
        if first == "{":
            return self.statements()
        if first == "for":
            return self._for(self._parentheses())
        if first == "while":
            condition = self._plain(self._parentheses())
            return (_loop("", None, None, None, (condition, *self._one())),)
        if first in ("if", "profile"):
            parts = (self._plain(self._parentheses()), *self._one())
            if self._next() == "else":
                self.place += 1
                parts += self._one()
            return parts
        self.place = start
        while self._next() not in (";", "}", ""):
            self.place = closing(self.tokens, self.place) + 1
        plain = self._plain(self.tokens[start : self.place])
        self.place += self._next() == ";"
        return (plain,)

    def _one(self) -> tuple[Any, ...]:
        return self._statement() if self._next() else ()

    def _for(self, head: Sequence[Token]) -> tuple[Any, ...]:
        body, (variable, _, *rest) = self._one(), head
        low, *high = split(rest, ":")
        if not high:
            return (_loop(variable, None, None, parse(low), body),)
        return (_loop(variable, parse(low), parse(rest[len(low) + 1 :]), None, body),)

    def _plain(self, part: Sequence[Token]) -> Plain:
        calls = []
        for i, token in enumerate(part[:-1]):
            if token in self.functions and part[i + 1] == "(":
                arguments = split(part[i + 2 : closing(part, i + 1)], ",", "|")
                calls.append(Call(token, tuple(map(parse, arguments))))
        return Plain(sum(bool(_WORD.match(token)) for token in part), tuple(calls))

    def functions_of_block(self) -> dict[str, Function]:
        found: dict[str, Function] = {}
        while "(" in self.tokens[self.place :]:
            opening = self.tokens.index(Token("("), self.place)
            name, self.place = self.tokens[opening - 1], opening
            head = split(self._parentheses(), ",")
            arguments = tuple(one[-1] for one in head if one)
            if self._take() == "{":
                found[name] = Function(arguments, self.statements())
        return found

    def _next(self) -> str:
        return at(self.tokens, self.place)

    def _take(self) -> str:
        self.place += 1
        return at(self.tokens, self.place - 1)

    def _parentheses(self) -> Sequence[Token]:
        """Read tokens in parentheses, and return those between."""
        start, self.place = self.place, closing(self.tokens, self.place) + 1
        return self.tokens[start + 1 : self.place - 1]


def _loop(
    variable: str, low: Tree | None, high: Tree | None, over: Tree | None, body: tuple[Any, ...]
) -> Loop:
    deciding: set[str] = set()
    for part in body:
        if isinstance(part, Loop):
            trees: Sequence[Tree | None] = (part.low, part.high, part.over)
            deciding |= part.varying
        else:
            trees = [argument for call in part.calls for argument in call.arguments]
        deciding = deciding.union(*map(names, trees))
    return Loop(variable, low, high, over, body, frozenset(deciding))


# --- the estimate ---------------------------------------------------------------------------------


class _Counter:
    """Adds up words; `iterations` is the most often repeated statement so far."""

    def __init__(self, functions: Mapping[str, Function], longest: int) -> None:
        self.functions, self.longest = functions, longest
        self.left, self.iterations = MOST_COUNTED, 1
        self._known: dict[tuple, tuple[Size, Any]] = {}

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
        each = _elements(loop, Values(scope))
        trips = self.longest if each is None else len(each)
        if each is not None and loop.variable in loop.varying and trips <= self.left:
            self.left -= trips
            sizes = [self.count(loop.body, {**scope, loop.variable: i}, depth) for i in each]
            return Size(sum(s.words for s in sizes), sum(s.iterations for s in sizes))
        inside = {name: value for name, value in scope.items() if name != loop.variable}
        words, iterations = self.count(loop.body, inside, depth)
        return Size(trips * words, trips * iterations)

    def _call(self, call: Call, scope: Mapping[str, Any], depth: int) -> Size:
        function = self.functions.get(call.name)
        if function is None or depth >= DEEPEST_CALL:
            return NO_LOOPS
        values = [evaluate(argument, Values(scope)) for argument in call.arguments]
        pairs = zip(function.arguments, values, strict=False)
        given = {name: value for name, value in pairs if value is not None}
        key = (
            call.name,
            depth,
            *((n, id(v) if isinstance(v, np.ndarray) else v) for n, v in given.items()),
        )
        if key not in self._known:
            # the values are kept, so that no other array gets the identity of one
            self._known[key] = self.count(function.body, given, depth + 1), given
        return self._known[key][0]


def _elements(loop: Loop, values: Values) -> Sequence[Any] | None:
    """Return the values that the variable of a loop takes; None if they are not known."""
    low, high, over = (evaluate(tree, values) for tree in (loop.low, loop.high, loop.over))
    if isinstance(low, int) and isinstance(high, int):
        return range(low, high + 1)
    if isinstance(over, np.ndarray):
        return over.tolist() if over.ndim == 1 else list(over)
    return None


def unrolled_size(program: Program, data: CheckedData) -> Size:
    """Return the size of a program with its loops unrolled under data."""
    blocks = [block(program.code, name) for name in UNROLLED]
    text = block(program.code, "functions")
    if not any(map(_LOOP.search, [*blocks, text])):
        return NO_LOOPS
    values = data.values
    # a function may call one that is defined after it
    called = re.findall(r"(\w+)\s*\(", text)
    functions = _Reader(text, called).functions_of_block()
    counter = _Counter(functions, _longest(list(values.values())))
    scope = _with_computed(block(program.code, "transformed data"), _arrays(values))
    sizes = [counter.count(_Reader(body, called).statements(), scope) for body in blocks]
    return Size(sum(s.words for s in sizes), max(s.iterations for s in sizes))


def _arrays(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return lists as arrays; a list of tuples may be ragged, and is left out."""
    arrays = dict(values)
    for name in [name for name, value in values.items() if isinstance(value, list)]:
        try:
            arrays[name] = np.asarray(values[name])
        except ValueError:
            del arrays[name]
    return arrays


def _with_computed(text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Add integers that the transformed data define by an expression and never change."""
    found = dict(values)
    for name, expression in re.findall(r"\bint\s*(?:<[^;=]*=[^;]*?>\s*)?(\w+)\s*=([^;]*);", text):
        changes = re.findall(rf"\b{name}\s*[-+*/]?=(?!=)", text)
        value = evaluate(parse(syntax.tokens(expression)), Values(found))
        if len(changes) == 1 and isinstance(value, int):
            found[name] = value
    return found


def _longest(values: Any) -> int:
    """Return the largest number of iterations that the data suggest for a loop."""
    longest = 1
    for value in values:
        if isinstance(value, list):
            inner = value[:1] if value and isinstance(value[0], list) else ()
            longest = max(longest, len(value), _longest(inner))
        elif isinstance(value, np.ndarray):
            longest = max(longest, *value.shape)
        elif isinstance(value, int):
            longest = max(longest, value)
    return longest
