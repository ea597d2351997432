"""Declarations of a Stan program's data block, and the values of their sizes and bounds."""

import contextlib
import math
import operator
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

# The number of sizes that belong to a type itself. For all other types (tuples, complex numbers,
# types of later releases) only the names are read, and Stan checks the rest.
_VECTORS = ["vector", "row_vector", "simplex", "unit_vector", "sum_to_zero_vector"]
_ORDERED = ["ordered", "positive_ordered"]
_SQUARE = ["cov_matrix", "corr_matrix", "cholesky_factor_corr", "cholesky_factor_cov"]
_MATRICES = ["matrix", "sum_to_zero_matrix", "row_stochastic_matrix", "column_stochastic_matrix"]
_RANKS = dict.fromkeys(["int", "real"], 0) | dict.fromkeys(_VECTORS + _ORDERED, 1)
_RANKS |= dict.fromkeys(_MATRICES + _SQUARE, 2)

_TOKEN = re.compile(
    r"[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9_]+(?:[eE][+-]?[0-9]+)?|[A-Za-z]\w*"
    r"|%/%|\.\*|\./|\.\^|&&|\|\||[=!<>]=|\S"
)
_NAME = re.compile(r"[A-Za-z]\w*")
_CLOSING = {"(": ")", "[": "]", "{": "}"}

# Binary operators from loosest to tightest, as in stanc's grammar: %/% binds tighter than *.
_LOOSENESS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), "*/%", ("%/%",))
_PRECEDENCE = {sign: level for level, signs in enumerate(_LOOSENESS, 1) for sign in signs}


class _NotSupported(Exception):
    """The expression is outside the part of Stan that is parsed here, so Stan must check it."""


class Expression(NamedTuple):
    """A size or a bound: its source, and its tree (None if it could not be parsed)."""

    source: str
    tree: tuple | None


class Declaration(NamedTuple):
    """One variable of the data block.

    `array_sizes` are the sizes of the array, `sizes` those of its elements' type as written (one
    for `cov_matrix[K]`). `checked` is False if only the name is variables: tuples, complex numbers.
    """

    name: str
    base: str
    array_sizes: tuple[Expression, ...]
    sizes: tuple[Expression, ...]
    lower: Expression | None
    upper: Expression | None
    checked: bool

    @property
    def is_int(self) -> bool:
        """Whether its elements are integers."""
        return self.base == "int"

    @property
    def dims(self) -> tuple[Expression, ...]:
        """Expression of each dimension, the array's first; square types count twice."""
        square = self.base in _SQUARE and len(self.sizes) == 1
        return self.array_sizes + self.sizes * (2 if square else 1)

    def to_stan(self, sizes: tuple[int | None, ...] = ()) -> str:
        """Return the declaration in Stan's current syntax, with known sizes filled in.

        `sizes` has one entry per dimension, None for an unknown size; () fills in nothing.
        """
        filled = zip(self.dims, sizes or (None,) * len(self.dims), strict=True)
        dims = [dim.source if size is None else str(size) for dim, size in filled]
        rank = len(self.array_sizes)
        array = f"array[{', '.join(dims[:rank])}] " if rank else ""
        bounds = (("lower", self.lower), ("upper", self.upper))
        limits = ", ".join(f"{word}={bound.source}" for word, bound in bounds if bound)
        inner = ", ".join(dims[rank : rank + len(self.sizes)])
        constraint, size = f"<{limits}>" if limits else "", f"[{inner}]" if inner else ""
        return f"{array}{self.base}{constraint}{size} {self.name}"


class DataVariable(NamedTuple):
    """A declared variable with its value, an int64 or float64 array of the declared shape."""

    declaration: Declaration
    value: np.ndarray


def parse(body: str) -> list[Declaration]:
    """Parse the stripped body of a data block into declarations, in order.

    Statements that cannot be parsed are skipped: Stan's compiler gives better messages for errors.
    """
    declarations = []
    for statement in _split(list(_TOKEN.finditer(body)), ";"):
        with contextlib.suppress(_NotSupported):
            declarations.extend(_statement(body, statement))
    return declarations


def evaluate(
    expression: Expression, variables: Mapping[str, DataVariable]
) -> int | float | np.ndarray | None:
    """Evaluate a size or bound, given the variables before it; None if that is impossible.

    Integer division rounds toward zero, as in Stan. The tree is walked; no code is executed.
    """
    if expression.tree is None:
        return None
    try:
        with np.errstate(all="ignore"):
            value = _value(expression.tree, variables)
    except (_NotSupported, ArithmeticError, ValueError):
        return None
    return None if isinstance(value, complex) else value


def _statement(body: str, tokens: list[re.Match]) -> list[Declaration]:
    """Parse `[array[...]] type[<...>][[...]] name[[...]], ...`, in old or new array syntax."""
    array_sizes: tuple[Expression, ...] = ()
    if _text(tokens, 0) == "array":
        end = _closing(tokens, 1)
        array_sizes = _expressions(body, tokens[2:end])
        tokens = tokens[end + 1 :]
    base, tokens = _text(tokens, 0), tokens[1:]
    if _text(tokens, 0) == "(":  # tuple(...)
        tokens = tokens[_closing(tokens, 0) + 1 :]
    limits: dict[str, Expression] = {}
    if _text(tokens, 0) == "<":
        end = _closing(tokens, 0, ">")
        parts = [part for part in _split(tokens[1:end], ",") if _text(part, 1) == "="]
        limits = {part[0][0]: _expression(body, part[2:]) for part in parts}
        tokens = tokens[end + 1 :]
    sizes: tuple[Expression, ...] = ()
    if _text(tokens, 0) == "[":
        end = _closing(tokens, 0)
        sizes = _expressions(body, tokens[1:end])
        tokens = tokens[end + 1 :]
    rank = _RANKS.get(base)
    checked = rank == len(sizes) or (base in _SQUARE and len(sizes) == 1)
    declarations = []
    for declarator in _split(tokens, ","):
        name = _text(declarator, 0)
        if not _NAME.fullmatch(name):
            raise _NotSupported
        old_sizes: tuple[Expression, ...] = ()
        if _text(declarator, 1) == "[":
            old_sizes = _expressions(body, declarator[2 : _closing(declarator, 1)])
        bounds = limits.get("lower"), limits.get("upper")
        sizes_before = array_sizes + old_sizes
        declarations.append(Declaration(name, base, sizes_before, sizes, *bounds, checked))
    return declarations


def _text(tokens: list[re.Match], i: int) -> str:
    return tokens[i][0] if i < len(tokens) else ""


def _split(tokens: list[re.Match], separator: str) -> list[list[re.Match]]:
    """Split tokens at the separators outside all brackets."""
    parts: list[list[re.Match]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token[0] in _CLOSING) - (token[0] in _CLOSING.values())
        if depth == 0 and token[0] == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _closing(tokens: list[re.Match], start: int, closing: str = "") -> int:
    """Return the index of the bracket that closes the one at `start`, or of an outer `closing`.

    A constraint ends at its first outer ">": stanc requires parentheses around comparisons.
    """
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i][0] in _CLOSING) - (tokens[i][0] in _CLOSING.values())
        if depth == 0 and tokens[i][0] == (closing or tokens[i][0]):
            return i
    raise _NotSupported


def _expressions(body: str, tokens: list[re.Match]) -> tuple[Expression, ...]:
    return tuple(_expression(body, part) for part in _split(tokens, ","))


def _expression(body: str, tokens: list[re.Match]) -> Expression:
    if not tokens:
        raise _NotSupported
    source = " ".join(body[tokens[0].start() : tokens[-1].end()].split())
    try:
        return Expression(source, _Parser([token[0] for token in tokens]).parse())
    except _NotSupported:
        return Expression(source, None)


class _Parser:
    """Precedence climbing over a list of tokens.

    Trees are `("number", value)`, `("name", text)`, `("call", name, arguments)`,
    `("index", tree, indices)`, `("unary", sign, tree)`, `("binary", sign, left, right)` and
    `("choice", condition, then, otherwise)`.
    """

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = [*tokens, ""]
        self.position = 0

    def parse(self) -> tuple:
        tree = self._choice()
        if self.tokens[self.position]:
            raise _NotSupported
        return tree

    def _take(self, *accepted: str) -> str:
        """Consume and return the next token if it is one of `accepted`; otherwise return ""."""
        token = self.tokens[self.position]
        if token and token in accepted:
            self.position += 1
            return token
        return ""

    def _require(self, token: str) -> None:
        if not self._take(token):
            raise _NotSupported

    def _choice(self) -> tuple:
        condition = self._binary(1)
        if not self._take("?"):
            return condition
        then = self._choice()
        self._require(":")
        return "choice", condition, then, self._choice()

    def _binary(self, loosest: int) -> tuple:
        left = self._unary()
        while (level := _PRECEDENCE.get(self.tokens[self.position], 0)) >= loosest:
            sign = self._take(*_PRECEDENCE)
            left = "binary", sign, left, self._binary(level + 1)
        return left

    def _unary(self) -> tuple:
        if sign := self._take("-", "+", "!"):
            return "unary", sign, self._unary()
        base = self._postfix()
        if self._take("^"):  # binds tighter than a sign on its left, looser than one on its right
            return "binary", "^", base, self._unary()
        return base

    def _postfix(self) -> tuple:
        tree = self._atom()
        while self._take("["):
            tree = "index", tree, self._arguments("]")
        return tree

    def _atom(self) -> tuple:
        token = self.tokens[self.position]
        self.position += 1
        if token == "(":
            tree = self._choice()
            self._require(")")
            return tree
        if _NAME.fullmatch(token):
            return ("call", token, self._arguments(")")) if self._take("(") else ("name", token)
        digits = token.replace("_", "")
        if digits.isdecimal():
            return "number", int(digits)
        try:
            return "number", float(digits)
        except ValueError:
            raise _NotSupported from None

    def _arguments(self, closing: str) -> tuple[tuple, ...]:
        if self._take(closing):
            return ()
        trees = [self._choice()]
        while self._take(","):
            trees.append(self._choice())
        self._require(closing)
        return tuple(trees)


def _value(tree: tuple, variables: Mapping[str, DataVariable]) -> int | float | np.ndarray:
    match tree:
        case "number", value:
            return value
        case "name", name if name in variables:
            value = variables[name].value
            return value if value.ndim else value.item()
        case "call", name, arguments:
            return _call(variables, name, arguments)
        case "index", container, indices:
            return _index(
                _value(container, variables), [_value(index, variables) for index in indices]
            )
        case "unary", sign, operand:
            value = _value(operand, variables)
            return int(not _scalar(value)) if sign == "!" else -value if sign == "-" else value
        case "binary", sign, left, right:
            return _binary(variables, sign, left, right)
        case "choice", condition, then, otherwise:
            return _value(then if _scalar(_value(condition, variables)) else otherwise, variables)
    raise _NotSupported


def _index(value: int | float | np.ndarray, indices: list) -> int | float | np.ndarray:
    if not isinstance(value, np.ndarray) or len(indices) > value.ndim:
        raise _NotSupported
    pairs = zip(indices, value.shape, strict=False)
    if not all(isinstance(index, int) and 1 <= index <= size for index, size in pairs):
        raise _NotSupported
    entry = value[tuple(index - 1 for index in indices)]
    return entry if entry.ndim else entry.item()


def _scalar(value: int | float | np.ndarray) -> int | float:
    if isinstance(value, np.ndarray):
        raise _NotSupported
    return value


def _binary(variables: Mapping[str, DataVariable], sign: str, left: tuple, right: tuple):
    first: Any = _value(left, variables)
    if sign in ("&&", "||"):  # as in Stan, the right side is evaluated only if it decides
        decided = bool(_scalar(first)) == (sign == "||")
        return int(bool(_scalar(first) if decided else _scalar(_value(right, variables))))
    second: Any = _value(right, variables)
    arrays = [value for value in (first, second) if isinstance(value, np.ndarray)]
    both = len(arrays) == 2
    # Between two containers * is a matrix product; Stan reports different shapes as an error.
    if arrays and (sign not in "+-*" or (both and (sign == "*" or first.shape != second.shape))):
        raise _NotSupported
    return _OPERATORS[sign](first, second)


def _divide(a: int | float, b: int | float) -> int | float:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _call(
    variables: Mapping[str, DataVariable], name: str, arguments: tuple
) -> int | float | np.ndarray:
    match arguments:
        case (("name", variable),) if name in _OF_SHAPE and variable in variables:
            return _OF_SHAPE[name](variables[variable])
    values = [_value(argument, variables) for argument in arguments]
    function: Any = _OF_VALUES.get((name, len(values)))
    if function is None or (len(values) == 2 and any(np.ndim(value) for value in values)):
        raise _NotSupported
    value = function(*values)
    return value.item() if isinstance(value, np.generic) else value


def _size(variable: DataVariable) -> int:
    """Stan's `size`: outer dimension of an array, number of elements of a vector or matrix."""
    return variable.value.shape[0] if variable.declaration.array_sizes else variable.value.size


def _matrix_shape(variable: DataVariable) -> tuple[int, ...]:
    shape, declaration = variable.value.shape, variable.declaration
    if declaration.array_sizes or not shape:
        raise _NotSupported
    if len(shape) == 2:
        return shape
    return (1, *shape) if declaration.base == "row_vector" else (*shape, 1)


_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%/%": _divide,
    "%": lambda a, b: a - b * _divide(a, b),
    "^": lambda a, b: float(a) ** float(b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}
_OF_SHAPE = {
    "size": _size,
    "num_elements": lambda variable: variable.value.size,
    "rows": lambda variable: _matrix_shape(variable)[0],
    "cols": lambda variable: _matrix_shape(variable)[1],
}
_OF_VALUES = {
    ("sum", 1): np.sum,
    ("max", 1): np.max,
    ("min", 1): np.min,
    ("max", 2): max,
    ("min", 2): min,
    ("pi", 0): lambda: math.pi,
    ("positive_infinity", 0): lambda: math.inf,
    ("negative_infinity", 0): lambda: -math.inf,
}
